package proxy

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"
	"unicode/utf8"

	"weft/executor"
	"weft/finish"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
)

// request is a statement as the client has sent it: a text, the values of its parameters, and
// the formats in which the result is wanted. It owns its bytes: the client's next message
// overwrites the buffer that they came in.
//
// literals are places in text. values and formats are well-formed parts of a Bind, with their
// counts; in the simple protocol they say that there are no parameters, and that the result is
// text.
type request struct {
	text     []byte
	literals []parser.Literal
	facts    *parser.Facts
	read     reading // how the text of a portal was read
	oids     []byte  // the parameter types that the client declared, as in its Parse
	values   []byte  // formats and values of the parameters
	formats  []byte  // formats of the result
}

var (
	noValues   = []byte{0, 0, 0, 0} // the values of a Bind without parameters
	allAreText = []byte{0, 0}       // the formats of a result that is text
)

// queryRequest is the request of a simple query.
func queryRequest(text []byte, literals []parser.Literal, f *parser.Facts) request {
	return request{text: slices.Clone(text), literals: slices.Clone(literals), facts: f, values: noValues, formats: allAreText}
}

// boundRequest is the request of a Bind: a prepared statement with values and formats.
func boundRequest(pl *planned, f *parser.Facts, values, formats []byte) request {
	return request{
		text: slices.Clone(pl.text), literals: slices.Clone(pl.literals), facts: f, read: pl.read, oids: slices.Clone(pl.oids),
		values: slices.Clone(values), formats: slices.Clone(formats),
	}
}

// readInto makes the text the one that a plan is bound to. The text was scanned with options o.
func (q *request) readInto(a *executor.Args, o parser.Options) {
	a.Text, a.Literals, a.Options = q.text, q.literals, o
}

// bindInto is readInto with the parameters. It reports false, and changes nothing, if the values
// are malformed.
func (q *request) bindInto(a *executor.Args, o parser.Options) bool {
	params, ok := executor.DecodeParams(q.values)
	if ok {
		q.readInto(a, o)
		a.Params = params
	}
	return ok
}

// literal is a literal of the text, as it stands there.
func (q *request) literal(i int) []byte { return q.text[q.literals[i].Start:q.literals[i].End] }

// blank makes the rest of another text, from byte at, the text of the request. One blank
// replaces each character before the rest, so that error positions in the request are positions
// in the other text. literals are those of the other text.
func (q *request) blank(text []byte, literals []parser.Literal, at int) {
	blanks := utf8.RuneCount(text[:at])
	q.text = append(bytes.Repeat([]byte{' '}, blanks), text[at:]...)
	q.literals = slices.Clone(literals)
	for i := range q.literals {
		if l := &q.literals[i]; int(l.Start) >= at {
			l.Start -= int32(at - blanks)
			l.End -= int32(at - blanks)
		}
	}
}

// formatOf returns the format in which the client wants a column of the result.
func (q *request) formatOf(column int) int16 {
	n := int(binary.BigEndian.Uint16(q.formats))
	switch {
	case n == 0:
		return 0
	case n == 1:
		column = 0
	case column >= n:
		return 0
	}
	return int16(binary.BigEndian.Uint16(q.formats[2+2*column:]))
}

// misformatted refuses formats for more or fewer columns than the result has.
func (q *request) misformatted(columns []plan.Column) error {
	n := int(binary.BigEndian.Uint16(q.formats))
	if columns == nil || n <= 1 || n == len(columns) {
		return nil
	}
	return pgerr.New(pgerr.ProtocolViolation, "bind message has %d result formats but query has %d columns", n, len(columns))
}

// formatsToCarry are the formats, as in a Bind, in which rows of these columns can be carried to
// another shard.
func formatsToCarry(columns []plan.Column) []byte {
	out := binary.BigEndian.AppendUint16(nil, uint16(len(columns)))
	for _, f := range finish.Formats([][]plan.Column{columns}) {
		out = binary.BigEndian.AppendUint16(out, uint16(f))
	}
	return out
}

// count returns the number of rows that LIMIT or OFFSET gives, or none for NULL. types are the
// types of the parameters. It reports false for a value that PostgreSQL must judge.
func (q *request) count(c *plan.Count, types []uint32, none int64) (int64, bool) {
	src := c.Source
	if src.Negative {
		return 0, false
	}
	switch src.Kind {
	case plan.Null:
		return none, true
	case plan.Literal:
		n, err := strconv.ParseInt(string(q.literal(src.Index)), 10, 64)
		return n, err == nil && n >= 0
	case plan.Constant:
		n, err := strconv.ParseInt(src.Text, 10, 64)
		return n, err == nil && n >= 0
	case plan.Param:
		if src.Index < len(types) && types[src.Index] == int8OID {
			return q.countParam(src.Index, none)
		}
	}
	return 0, false
}

// int8OID is the type that PostgreSQL gives the parameters of LIMIT and OFFSET.
const int8OID = 20

// countParam is count for a parameter of type int8.
func (q *request) countParam(i int, none int64) (int64, bool) {
	params, ok := executor.DecodeParams(q.values)
	if !ok {
		return 0, false
	}
	v, format, ok := params.At(i)
	switch {
	case !ok:
		return 0, false
	case v == nil:
		return none, true
	case format == 1 && len(v) == 8:
		n := int64(binary.BigEndian.Uint64(v))
		return n, n >= 0
	case format == 0:
		n, err := strconv.ParseInt(string(v), 10, 64)
		return n, err == nil && n >= 0
	}
	return 0, false
}
