package stream

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// row makes a row of texts. "NULL" is NULL.
func row(values ...string) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(values)))
	for _, v := range values {
		if v == "NULL" {
			b = appendField(b, nil)
		} else {
			b = appendField(b, []byte(v))
		}
	}
	return b
}

// text is the opposite of row.
func text(tb testing.TB, row []byte) string {
	tb.Helper()
	n, err := count(row)
	if err != nil {
		tb.Fatal(err)
	}
	at, parts := 2, []string{}
	for range n {
		var v []byte
		if v, at = field(row, at); at < 0 {
			tb.Fatalf("malformed: %q", row)
		}
		if v == nil {
			v = []byte("NULL")
		}
		parts = append(parts, string(v))
	}
	if at != len(row) {
		tb.Fatalf("%d bytes after the last column", len(row)-at)
	}
	return strings.Join(parts, ",")
}

// source is Rows that yield in the same memory again and again, as a
// connection's buffer does, and count how often they were asked.
type source struct {
	rows  [][]byte
	err   error // instead of io.EOF
	asked int
	buf   []byte
}

func (s *source) Next() ([]byte, error) {
	s.asked++
	for i := range s.buf {
		s.buf[i] = 0xee
	}
	if len(s.rows) == 0 {
		if s.err != nil {
			return nil, s.err
		}
		return nil, io.EOF
	}
	s.buf = append(s.buf[:0], s.rows[0]...)
	s.rows = s.rows[1:]
	return s.buf, nil
}

// lines makes a source of lines like "1,x".
func lines(rows ...string) *source {
	s := &source{}
	for _, r := range rows {
		s.rows = append(s.rows, row(strings.Split(r, ",")...))
	}
	return s
}

// collect reads all rows.
func collect(tb testing.TB, r Rows) ([]string, error) {
	tb.Helper()
	var out []string
	for {
		row, err := r.Next()
		if err != nil {
			if again, err2 := r.Next(); again != nil || err2 != err {
				tb.Errorf("after %v: %q, %v", err, again, err2)
			}
			if err == io.EOF {
				err = nil
			}
			return out, err
		}
		out = append(out, text(tb, row))
	}
}

func expect(tb testing.TB, r Rows, want ...string) {
	tb.Helper()
	got, err := collect(tb, r)
	if err != nil {
		tb.Error(err)
	}
	if !slices.Equal(got, want) {
		tb.Errorf("got %q, want %q", got, want)
	}
}

func TestAppend(t *testing.T) {
	expect(t, Append())
	expect(t, Append(lines("1", "2")), "1", "2")
	second := lines("3")
	a := Append(lines("1", "2"), lines(), second, lines())
	if _, err := a.Next(); err != nil || second.asked > 0 {
		t.Errorf("%v, asked %d times", err, second.asked)
	}
	expect(t, a, "2", "3")

	broken, after := lines("1"), lines("2")
	broken.err = errors.New("gone")
	got, err := collect(t, Append(broken, after))
	if len(got) != 1 || err != broken.err || after.asked != 0 {
		t.Errorf("%q, %v, asked %d times", got, err, after.asked)
	}
}

func TestLimit(t *testing.T) {
	for _, c := range []struct {
		offset, limit int64
		want          []string
		asked         int
	}{
		{0, -1, []string{"1", "2", "3"}, 5},
		{0, 0, nil, 0},
		{0, 2, []string{"1", "2"}, 2},
		{1, 1, []string{"2"}, 2},
		{1, -1, []string{"2", "3"}, 4},
		{3, 1, nil, 4},
		{7, -1, nil, 4},
		{1, 7, []string{"2", "3"}, 4},
		{7, 0, nil, 0},
	} {
		s := lines("1", "2", "3")
		expect(t, Limit(s, c.offset, c.limit), c.want...)
		if s.asked != c.asked {
			t.Errorf("%d, %d: asked %d times", c.offset, c.limit, s.asked)
		}
	}
	s := lines("1")
	s.err = errors.New("gone")
	if got, err := collect(t, Limit(s, 0, 5)); len(got) != 1 || err != s.err {
		t.Errorf("%q, %v", got, err)
	}
	s.rows = nil
	if got, err := collect(t, Limit(s, 2, 5)); len(got) != 0 || err != s.err {
		t.Errorf("%q, %v", got, err)
	}
}

func TestCut(t *testing.T) {
	expect(t, Cut(lines("a,b,c", "NULL,,x", "1,NULL,NULL"), 2), "a,b", "NULL,", "1,NULL")
	expect(t, Cut(lines("a,b"), 0), "")
	expect(t, Cut(lines("a,b"), 2), "a,b")
	for _, bad := range []string{"", "\x00", "\x00\x01", "\x00\x02\x00\x00\x00\x01a", "\x00\x01\xff\xff\xff\xfe"} {
		s := &source{rows: [][]byte{[]byte(bad)}}
		if _, err := Cut(s, 1).Next(); bad != "\x00\x02\x00\x00\x00\x01a" && err == nil {
			t.Errorf("%q is cut", bad)
		}
		s = &source{rows: [][]byte{[]byte(bad)}}
		if _, err := Cut(s, 2).Next(); err == nil {
			t.Errorf("%q is cut", bad)
		}
	}
}

func TestMerge(t *testing.T) {
	up := []Key{{Column: 0, Compare: bytes.Compare}}
	expect(t, Merge(up))
	expect(t, Merge(up, lines("1", "3")), "1", "3")
	expect(t, Merge(up, lines(), lines()))
	expect(t, Merge(up, lines("2,a", "3,a"), lines("1,b", "2,b", "4,b"), lines("2,c", "NULL,c")),
		"1,b", "2,a", "2,b", "2,c", "3,a", "4,b", "NULL,c")
	expect(t, Merge([]Key{{Column: 0, Desc: true, NullsFirst: true, Compare: bytes.Compare}},
		lines("NULL,a", "3,a"), lines("NULL,b", "4,b", "3,b"), lines()), "NULL,a", "NULL,b", "4,b", "3,a", "3,b")

	broken := lines("1")
	broken.err = errors.New("gone")
	got, err := collect(t, Merge(up, lines("1", "2"), broken))
	if !slices.Equal(got, []string{"1", "1"}) || err != broken.err {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := Merge(up, lines("1"), &source{rows: [][]byte{{0, 1}}}).Next(); err != errRow {
		t.Error(err)
	}
	if _, err := Merge([]Key{{Column: 1, Compare: bytes.Compare}}, lines("1"), lines("1")).Next(); err != errRow {
		t.Error(err)
	}
}

// A part is asked only when its row is gone, so a limit above leaves the rest
// where it is.
func TestMergeAsks(t *testing.T) {
	a, b := lines("1", "2", "3", "4"), lines("5", "6")
	expect(t, Limit(Merge([]Key{{Compare: bytes.Compare}}, a, b), 1, 2), "2", "3")
	if a.asked != 3 || b.asked != 1 {
		t.Errorf("asked %d and %d times", a.asked, b.asked)
	}
}

// TestMergeRandom merges what was sorted in parts and compares with all of it
// sorted stably.
func TestMergeRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		keys := []Key{
			{Column: 2, Compare: bytes.Compare, Desc: rng.IntN(2) == 0, NullsFirst: rng.IntN(2) == 0},
			{Column: 0, Compare: bytes.Compare, Desc: rng.IntN(2) == 0, NullsFirst: rng.IntN(2) == 0},
		}
		value := func() string {
			if rng.IntN(5) == 0 {
				return "NULL"
			}
			return strings.Repeat("x", rng.IntN(3)) + fmt.Sprint(rng.IntN(4))
		}
		order := func(a, b string) int {
			x, y := strings.Split(a, ","), strings.Split(b, ",")
			for _, k := range keys {
				v, w := x[k.Column], y[k.Column]
				c := cmp.Compare(v, w)
				switch {
				case v == w:
					continue
				case v == "NULL" || w == "NULL":
					c = 1
					if (v == "NULL") == k.NullsFirst {
						c = -1
					}
				case k.Desc:
					c = -c
				}
				return c
			}
			return 0
		}
		var all []string
		var parts []Rows
		for p := range rng.IntN(9) {
			var part []string
			for i := range rng.IntN(20) {
				part = append(part, value()+fmt.Sprintf(",%d-%d,", p, i)+value())
			}
			slices.SortStableFunc(part, order)
			all = append(all, part...)
			parts = append(parts, lines(part...))
		}
		slices.SortStableFunc(all, order)
		expect(t, Merge(keys, parts...), all...)
	}
}

// endless yields the same row again and again.
type endless struct {
	row  []byte
	left int
}

func (e *endless) Next() ([]byte, error) {
	if e.left--; e.left < 0 {
		return nil, io.EOF
	}
	return e.row, nil
}

func TestNoAllocations(t *testing.T) {
	part := func() Rows { return &endless{row("1", "2", "3"), 1 << 40} }
	keys := []Key{{Column: 2, Compare: bytes.Compare}}
	for name, r := range map[string]Rows{
		"append": Append(part(), part()),
		"merge":  Merge(keys, part(), part(), part()),
		"limit":  Limit(part(), 10, 1<<40),
	} {
		r.Next()
		if n := testing.AllocsPerRun(1000, func() { r.Next() }); n > 0 {
			t.Errorf("%s: %v allocations per row", name, n)
		}
	}
	r := Cut(Merge(keys, lines("1,2,3"), lines("4,5,6")), 1)
	r.Next()
	s := &endless{row("1", "2", "3"), 1 << 40}
	c := Cut(s, 1)
	if n := testing.AllocsPerRun(1000, func() {
		binary.BigEndian.PutUint16(s.row, 3) // Cut has changed it
		c.Next()
	}); n > 0 {
		t.Errorf("cut: %v allocations per row", n)
	}
}

func BenchmarkMerge(b *testing.B) {
	for _, parts := range []int{4, 64} {
		b.Run(fmt.Sprint(parts), func(b *testing.B) {
			compare, _ := CompareBinary(oidInt8, false)
			var all []Rows
			for i := range parts {
				all = append(all, &endless{row("some text", "more", string(binary.BigEndian.AppendUint64(nil, uint64(i)))), b.N})
			}
			r := Merge([]Key{{Column: 2, Compare: compare}}, all...)
			b.ReportAllocs()
			for b.Loop() {
				r.Next()
			}
		})
	}
}
