package finish_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"weft/finish"
	"weft/pool"
	"weft/wire"
)

// several is a gathering of pieces that differ in everything, some with a
// parameter of the client's.
func several(t *testing.T, c *pool.Conn, types []uint32, pieces ...string) *gathering {
	t.Helper()
	g := &gathering{conn: c}
	for _, p := range pieces {
		_, cols, err := finish.Describe(c, p, types)
		if err != nil {
			t.Fatal(err)
		}
		g.pieces = append(g.pieces, p)
		g.shapes = append(g.shapes, finish.Shape{Columns: cols})
	}
	return g
}

const several0 = `SELECT i AS a, i::text AS a, NULL::numeric(10,2) AS "n" FROM generate_series(1, 5) i WHERE i <> $1 ORDER BY i DESC LIMIT 3 -- with a comment`

var severalPieces = []string{
	several0,
	`SELECT ARRAY[i, NULL] AS list, ARRAY[]::text[] AS none FROM generate_series(1, 2) i WHERE i::text <> $2`,
	`SELECT 'unknown' AS u, 1.5::numeric(4,1) AS n WHERE false`,
	`WITH w AS (SELECT 7 AS seven) SELECT * FROM w UNION ALL SELECT $1 + 1`,
}

// A client's parameters in all the ways that a Bind may give their formats: 4 and
// '3', NULL.
var clientBinds = map[string][]byte{
	"text":         {0, 0, 0, 2, 0, 0, 0, 1, '4', 0, 0, 0, 1, '3'},
	"text for all": {0, 1, 0, 0, 0, 2, 0, 0, 0, 1, '4', 0, 0, 0, 1, '3', 0, 1, 0, 1},
	"each":         {0, 2, 0, 1, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 1, '3'},
	"binary":       {0, 1, 0, 1, 0, 2, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 1, '3'},
	"null":         {0, 1, 0, 1, 0, 2, 0, 0, 0, 4, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff},
}

func TestSeveralPieces(t *testing.T) {
	c, to := backend(t), backend(t)
	types := []uint32{23, 25}
	g := several(t, c, types, severalPieces...)
	g.shapes[0].Columns[1].Name = "b"
	const q = `SELECT 0 AS t, a, b, n, NULL::int[] AS list, NULL::text[] AS none, NULL AS u, NULL::int AS seven, $1 AS p1, $2 AS p2 FROM %[1]s x
UNION ALL SELECT 1, NULL, NULL, NULL, list, none, NULL, NULL, NULL, NULL FROM %[2]s x
UNION ALL SELECT 2, NULL, NULL, n, NULL, NULL, u, NULL, NULL, NULL FROM %[3]s x
UNION ALL SELECT 3, NULL, NULL, NULL, NULL, NULL, NULL, seven, NULL, NULL FROM %[4]s x
ORDER BY 1, 2, 5, 8`
	for name, bind := range clientBinds {
		end := len(bind)
		if name == "text for all" {
			end -= 4 // without the result formats
		}
		want := fetch(t, c, fmt.Sprintf(q, "("+strings.Replace(several0, "AS a, i::text AS a", "AS a, i::text AS b", 1)+"\n)",
			"("+severalPieces[1]+")", "("+severalPieces[2]+")", "("+severalPieces[3]+")"), types, bind[:end])
		if len(want.rows) != 5 && len(want.rows) != 7 {
			t.Fatalf("%d rows", len(want.rows))
		}
		compare(t, name+" inline", g.inline(t, q, types, bind[:end]), want)
		compare(t, name+" staged", g.staged(t, to, q, types, bind[:end]), want)
	}
	// On a shard that some pieces do not visit rows look the same.
	for i := range g.pieces {
		one := *g
		one.pieces = make([]string, len(g.pieces))
		one.pieces[i] = g.pieces[i]
		a := fetch(t, c, one.tagged(), types, clientBinds["text"])
		all := fetch(t, c, g.tagged(), types, clientBinds["text"])
		for j := range all.cols {
			if a.cols[j].Type != all.cols[j].Type {
				t.Errorf("piece %d alone: column %d has type %d, want %d", i, j, a.cols[j].Type, all.cols[j].Type)
			}
		}
	}
}

func TestBindErrors(t *testing.T) {
	in := finish.NewInputs(nil, 2, finish.Limits{})
	for name, tc := range map[string]struct {
		bind []byte
		want string
	}{
		"none":          {nil, "08P01"},
		"too few":       {[]byte{0, 0, 0, 1, 0, 0, 0, 0}, "08P01"},
		"formats":       {[]byte{0, 3, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0}, "08P01"},
		"short":         {[]byte{0}, wire.ErrMalformed.Error()},
		"short formats": {[]byte{0, 1, 0}, wire.ErrMalformed.Error()},
		"short value":   {[]byte{0, 0, 0, 2, 0, 0, 0, 9, 1}, wire.ErrMalformed.Error()},
	} {
		if _, err := in.AppendBind(nil, tc.bind); code(err) != tc.want {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
}

func TestLimits(t *testing.T) {
	c := backend(t)
	g := several(t, c, nil, "SELECT 1")
	list := several(t, c, nil, "SELECT ARRAY[1], 2")
	row := []byte{0, 1, 0, 0, 0, 4, 0, 0, 0, 1}
	add := func(in *finish.Inputs, row []byte, n int) (full int, err error) {
		for i := range n {
			f, err := in.Add(row)
			if f || err != nil {
				return i, err
			}
		}
		return n, nil
	}
	if full, err := add(finish.NewInputs(g.shapes, 0, finish.Limits{Inline: 1000}), row, 1000); full != 100 || err != nil {
		t.Errorf("full after %d rows, %v", full, err)
	}
	if full, err := add(finish.NewInputs(g.shapes, 0, finish.Limits{Inline: 1000, Max: 500}), row, 1000); full != 50 || code(err) != "53400" ||
		!strings.Contains(err.Error(), "more than weft.max_gather_bytes") {
		t.Errorf("stopped after %d rows, %v", full, err)
	}
	// Values that are parameters of their own are bounded in number.
	wide := binary.BigEndian.AppendUint16(nil, 2)
	wide = append(wide, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 4, 0, 0, 0, 1)
	if full, err := add(finish.NewInputs(list.shapes, 0, finish.Limits{Inline: 1 << 20}), wide, 1e6); full != 4096 || err != nil {
		t.Errorf("full after %d rows, %v", full, err)
	}
	if full, err := add(finish.NewInputs(list.shapes, 65533, finish.Limits{Inline: 1 << 30}), wide, 1e6); full != 1 || err != nil {
		t.Errorf("full after %d rows, %v", full, err)
	}
}

// A row that is not formed as it should be is an error, not a panic.
func TestMalformedRows(t *testing.T) {
	c := backend(t)
	g := several(t, c, nil, "SELECT 1, 2", "SELECT ARRAY[1]")
	whole := []byte{0, 4, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 1, 'x', 0, 0, 0, 1, 'y', 0xff, 0xff, 0xff, 0xff}
	other := []byte{0, 4, 0, 0, 0, 4, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 'x'}
	tag := append([]byte(nil), whole...)
	tag[9] = 2
	in := func() *finish.Inputs { return finish.NewInputs(g.shapes, 0, finish.Limits{Inline: 1 << 20}) }
	for _, row := range [][]byte{whole, other} {
		if _, err := in().Add(row); err != nil {
			t.Error(err)
		}
	}
	if _, err := in().Add(tag); err == nil {
		t.Error("a piece that is not there")
	}
	for n := range 20 { // up to the end of the first piece's fields
		if _, err := in().Add(whole[:n]); err == nil {
			t.Errorf("%d bytes of a row are taken for one", n)
		}
	}
	for n := range other {
		if _, err := in().Add(other[:n]); err == nil {
			t.Errorf("%d bytes of a row are taken for one", n)
		}
	}
}
