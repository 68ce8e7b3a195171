package proxy

import (
	"encoding/binary"
	"testing"

	"weft/executor"
	"weft/parser"
	"weft/plan"
)

// requestOf is the request of a simple query, with its literals.
func requestOf(t *testing.T, text string) request {
	t.Helper()
	var scan parser.Scanner
	if !scan.Scan([]byte(text), parser.Options{}) {
		t.Fatalf("%s cannot be scanned", text)
	}
	return queryRequest([]byte(text), scan.Literals, nil)
}

// bindOf is the parameters of a Bind: one format for all, and the values; a nil value is NULL.
func bindOf(format int16, values ...[]byte) []byte {
	out := binary.BigEndian.AppendUint16([]byte{0, 1}, uint16(format))
	out = binary.BigEndian.AppendUint16(out, uint16(len(values)))
	for _, v := range values {
		if v == nil {
			out = append(out, 0xff, 0xff, 0xff, 0xff)
			continue
		}
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(v))), v...)
	}
	return out
}

// TestRequestOwnsItsBytes: the client's buffer is overwritten by its next message.
func TestRequestOwnsItsBytes(t *testing.T) {
	text, values, formats := []byte("select 7"), bindOf(0, []byte("x")), []byte{0, 1, 0, 1}
	literals := []parser.Literal{{Start: 7, End: 8}}
	simple := queryRequest(text, literals, nil)
	pl := &planned{text: text, literals: literals, oids: []byte{0, 1, 0, 0, 0, 23}}
	bound := boundRequest(pl, nil, values, formats)
	for _, b := range [][]byte{text, values, formats, pl.oids} {
		clear(b)
	}
	clear(literals)
	if got := string(simple.literal(0)); got != "7" {
		t.Errorf("the literal of a query has become %q", got)
	}
	if got := string(bound.literal(0)); got != "7" {
		t.Errorf("the literal of a bound statement has become %q", got)
	}
	if got := oidList(bound.oids); len(got) != 1 || got[0] != 23 {
		t.Errorf("the declared types have become %v", got)
	}
	if bound.formatOf(0) != 1 || string(bound.values) != string(bindOf(0, []byte("x"))) {
		t.Errorf("the Bind has become %v %v", bound.values, bound.formats)
	}
}

// TestRequestBind: a plan is bound to the text and to the values, or to nothing at all.
func TestRequestBind(t *testing.T) {
	q := requestOf(t, "select 7")
	q.values = bindOf(0, []byte("a"), nil)
	options := parser.Options{NonStandardStrings: true}
	var a executor.Args
	if !q.bindInto(&a, options) || string(a.Text) != "select 7" || len(a.Literals) != 1 || a.Options != options {
		t.Fatalf("bound to %+v", a)
	}
	if v, _, ok := a.Params.At(0); !ok || string(v) != "a" {
		t.Errorf("the first parameter is %q", v)
	}
	if v, _, ok := a.Params.At(1); !ok || v != nil {
		t.Errorf("the second parameter is %q", v)
	}
	broken := requestOf(t, "select 8")
	broken.values = []byte{0, 2, 0, 1} // the second format is missing
	if broken.bindInto(&a, parser.Options{}) {
		t.Error("malformed values are accepted")
	}
	if string(a.Text) != "select 7" || a.Options != options {
		t.Errorf("malformed values change the arguments to %+v", a)
	}
}

// TestRequestBlank: positions are counted in characters, places in bytes. Both stay right when
// the beginning of a text is blanked out.
func TestRequestBlank(t *testing.T) {
	for _, c := range []struct{ head, rest, want string }{
		{"explain ", "select 'a', 5", "        select 'a', 5"},
		{"explain /* é€ */ ", "select 'ü', 5", "                 select 'ü', 5"},
		{"", "select 'a', 5", "select 'a', 5"},
	} {
		whole := requestOf(t, c.head+c.rest)
		var q request
		q.blank(whole.text, whole.literals, len(c.head))
		if string(q.text) != c.want {
			t.Errorf("%q becomes %q", c.head+c.rest, q.text)
		}
		for i := range q.literals {
			if string(q.literal(i)) != string(whole.literal(i)) {
				t.Errorf("literal %d of %q becomes %q", i, c.head+c.rest, q.literal(i))
			}
		}
		if len(q.literals) != 2 || string(whole.text) != c.head+c.rest {
			t.Errorf("%q has %d literals, and its text is now %q", c.head+c.rest, len(q.literals), whole.text)
		}
	}
	// A literal of EXPLAIN's options stays where it is.
	whole := requestOf(t, "explain (costs 'off', format 'text') select 'é'")
	var q request
	q.blank(whole.text, whole.literals, 37)
	if q.literals[0] != whole.literals[0] || string(q.literal(len(q.literals)-1)) != "'é'" {
		t.Errorf("the literals become %v in %q", q.literals, q.text)
	}
}

// TestRequestFormats: no format is text, one format is for all columns.
func TestRequestFormats(t *testing.T) {
	for _, c := range []struct {
		formats []byte
		want    [3]int16
		fits    bool // three columns
	}{
		{[]byte{0, 0}, [3]int16{0, 0, 0}, true},
		{[]byte{0, 1, 0, 0}, [3]int16{0, 0, 0}, true},
		{[]byte{0, 1, 0, 1}, [3]int16{1, 1, 1}, true},
		{[]byte{0, 3, 0, 1, 0, 0, 0, 1}, [3]int16{1, 0, 1}, true},
		{[]byte{0, 2, 0, 1, 0, 1}, [3]int16{1, 1, 0}, false},
		{[]byte{0, 4, 0, 1, 0, 0, 0, 1, 0, 1}, [3]int16{1, 0, 1}, false},
	} {
		q := request{formats: c.formats}
		for i, want := range c.want {
			if got := q.formatOf(i); got != want {
				t.Errorf("formats %v: column %d has format %d", c.formats, i, got)
			}
		}
		if err := q.misformatted(make([]plan.Column, 3)); (err == nil) != c.fits {
			t.Errorf("formats %v of three columns: %v", c.formats, err)
		}
		if err := q.misformatted(nil); err != nil {
			t.Errorf("formats %v of a statement without rows: %v", c.formats, err)
		}
	}
	carried := request{formats: formatsToCarry([]plan.Column{
		{Type: 20, Array: 1016, Binary: true, SQL: "bigint"},
		{Type: 2249, Array: 2287, SQL: "x"}, // travels as text
	})}
	if got := carried.formats; len(got) != 6 || carried.formatOf(0) != 1 || carried.formatOf(1) != 0 {
		t.Errorf("rows are carried in formats %v", got)
	}
}

// TestRequestCount: weft reads a LIMIT or leaves it to PostgreSQL. It never guesses.
func TestRequestCount(t *testing.T) {
	const left = -99 // PostgreSQL judges
	int8s := []uint32{int8OID, int8OID}
	q := requestOf(t, "select 5, -6, 99999999999999999999, 'x'")
	q.values = bindOf(0, []byte("12"), nil)
	binaryQ := q
	binaryQ.values = bindOf(1, binary.BigEndian.AppendUint64(nil, 13), []byte{0, 0, 0, 1})
	negative := q
	negative.values = bindOf(1, binary.BigEndian.AppendUint64(nil, 1<<63), nil)
	for _, c := range []struct {
		name  string
		q     *request
		src   plan.Source
		types []uint32
		want  int64
	}{
		{"a literal", &q, plan.Source{Kind: plan.Literal}, nil, 5},
		{"a negative literal", &q, plan.Source{Kind: plan.Literal, Index: 1, Negative: true}, nil, left},
		{"a literal beyond int8", &q, plan.Source{Kind: plan.Literal, Index: 2}, nil, left},
		{"a string", &q, plan.Source{Kind: plan.Literal, Index: 3}, nil, left},
		{"NULL", &q, plan.Source{Kind: plan.Null}, nil, -1},
		{"a constant", &q, plan.Source{Kind: plan.Constant, Text: "8"}, nil, 8},
		{"a negative constant", &q, plan.Source{Kind: plan.Constant, Text: "-8"}, nil, left},
		{"a parameter in text", &q, plan.Source{Kind: plan.Param}, int8s, 12},
		{"a NULL parameter", &q, plan.Source{Kind: plan.Param, Index: 1}, int8s, -1},
		{"a parameter of another type", &q, plan.Source{Kind: plan.Param}, []uint32{23, 23}, left},
		{"a parameter without a type", &q, plan.Source{Kind: plan.Param}, nil, left},
		{"a missing parameter", &q, plan.Source{Kind: plan.Param, Index: 2}, append(int8s, int8OID), left},
		{"a binary parameter", &binaryQ, plan.Source{Kind: plan.Param}, int8s, 13},
		{"a binary parameter of four bytes", &binaryQ, plan.Source{Kind: plan.Param, Index: 1}, int8s, left},
		{"a negative binary parameter", &negative, plan.Source{Kind: plan.Param}, int8s, left},
		{"arithmetic", &q, plan.Source{Kind: plan.Computed}, nil, left},
	} {
		got, ok := c.q.count(&plan.Count{Source: c.src}, c.types, -1)
		if !ok {
			got = left
		}
		if got != c.want {
			t.Errorf("%s gives %d, not %d", c.name, got, c.want)
		}
	}
}
