package finish

import (
	"encoding/binary"
	"slices"

	"weft/pgerr"
	"weft/plan"
	"weft/wire"
)

// Shape describes a piece's rows to the remainder.
type Shape struct {
	Columns []plan.Column
	// Types and Collations hold a column's type and collation as SQL if Columns does not tell
	// them, such as a domain; else they are empty or too short.
	Types, Collations []string
	// Index are the columns by whose values the remainder looks up rows again and again.
	Index []int
}

// at returns element i of a list, "" if the list is too short.
func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return ""
}

// Limits bound what is gathered, in bytes of rows.
type Limits struct {
	// Inline is how many bytes may stay in memory.
	Inline int64
	// Max is how many bytes may be gathered in all: weft.max_gather_bytes; 0 for no limit.
	Max int64
}

// maxParams is PostgreSQL's limit on the parameters of a statement.
const maxParams = 65535

// bytesPerValue is the least that a value with its own parameter counts as: PostgreSQL takes some
// microseconds for each parameter, however small.
const bytesPerValue = 128

// Inputs are the rows of pieces, kept in memory to become parameters of the remainder.
//
// The rows of most pieces become one array for each column, and the text of the remainder does
// not depend on the number of rows. If a piece has an array among its columns, each of its values
// is a parameter instead.
type Inputs struct {
	inputs []input
	tagged bool
	params int // number of the client's parameters
	limits Limits
	used   int64
	values int
}

// input is the rows of one piece.
type input struct {
	shape  Shape
	first  int  // index in a row of the piece's first column
	byRow  bool // whether each value is a parameter
	rows   int
	arrays []array
	values []byte // the rows in the form of a Bind, if byRow
}

// array holds the elements of an array in their binary form.
type array struct {
	elements []byte
	nulls    bool
}

// NewInputs returns inputs for the pieces of a statement. params is the number of the client's
// parameters.
func NewInputs(shapes []Shape, params int, limits Limits) *Inputs {
	in := &Inputs{inputs: make([]input, len(shapes)), tagged: len(shapes) > 1, params: params, limits: limits}
	first := 0
	if in.tagged {
		first = 1
	}
	for i, s := range shapes {
		p := input{shape: s, first: first}
		first += len(s.Columns)
		for j := range s.Columns {
			p.byRow = p.byRow || Carry(&s.Columns[j]) == Whole
		}
		if !p.byRow {
			p.arrays = make([]array, len(s.Columns))
		}
		in.inputs[i] = p
	}
	return in
}

// Add takes in the body of a DataRow of a statement made by Tagged, in the formats that Formats
// returns. The row is copied. full says that no more rows should be kept in memory: this row has
// been taken in, later ones are for a Stage.
func (in *Inputs) Add(row []byte) (full bool, err error) {
	if err := in.charge(len(row)); err != nil {
		return false, err
	}
	if len(row) < 2 {
		return false, wire.ErrMalformed
	}
	fields := row[2:]
	piece := 0
	if in.tagged {
		if piece, err = tag(fields, len(in.inputs)); err != nil {
			return false, err
		}
	}
	p := &in.inputs[piece]
	if int(binary.BigEndian.Uint16(row)) < p.first+len(p.shape.Columns) {
		return false, wire.ErrMalformed
	}
	for range p.first {
		if fields, err = skip(fields); err != nil {
			return false, err
		}
	}
	if p.byRow {
		err = p.addValues(fields)
		in.values += len(p.shape.Columns)
	} else {
		err = p.addElements(fields)
	}
	return in.used > in.limits.Inline || int64(in.values) > min(in.limits.Inline/bytesPerValue, int64(maxParams-in.params)), err
}

// Extend adds inputs whose rows are taken in by AddTo.
func (in *Inputs) Extend(shapes ...Shape) {
	for _, s := range shapes {
		p := input{shape: s}
		for j := range s.Columns {
			p.byRow = p.byRow || Carry(&s.Columns[j]) == Whole
		}
		if !p.byRow {
			p.arrays = make([]array, len(s.Columns))
		}
		in.inputs = append(in.inputs, p)
	}
}

// AddTo takes in the body of a DataRow that has the columns of one input, in the formats that
// Formats returns for these columns. full is as in Add.
func (in *Inputs) AddTo(piece int, row []byte) (full bool, err error) {
	if err := in.charge(len(row)); err != nil {
		return false, err
	}
	p := &in.inputs[piece]
	if len(row) < 2 || int(binary.BigEndian.Uint16(row)) != len(p.shape.Columns) {
		return false, wire.ErrMalformed
	}
	if p.byRow {
		err = p.addValues(row[2:])
		in.values += len(p.shape.Columns)
	} else {
		err = p.addElements(row[2:])
	}
	return in.used > in.limits.Inline || int64(in.values) > min(in.limits.Inline/bytesPerValue, int64(maxParams-in.params)), err
}

// With returns a copy of the inputs in which one input has another shape, and no rows yet. Rows
// may be added only to that input.
func (in *Inputs) With(piece int, shape Shape) *Inputs {
	out := *in
	out.inputs = slices.Clone(in.inputs[:piece])
	out.Extend(shape)
	out.inputs = append(out.inputs, in.inputs[piece+1:]...)
	return &out
}

// Hold raises the limit on rows in memory: there is no Stage for them.
func (in *Inputs) Hold(inline int64) { in.limits.Inline = inline }

// charge counts bytes that have been gathered. It fails beyond Limits.Max.
func (in *Inputs) charge(n int) error {
	in.used += int64(n)
	if in.limits.Max > 0 && in.used > in.limits.Max {
		return pgerr.GatherTooLarge()
	}
	return nil
}

// Bytes returns how many bytes have been gathered, including those that went to a Stage.
func (in *Inputs) Bytes() int64 { return in.used }

// LooksUp reports whether the remainder would search rows in memory so often that a table with an
// index is worth its cost.
func (in *Inputs) LooksUp() bool {
	for i := range in.inputs {
		if p := &in.inputs[i]; len(p.shape.Index) > 0 && p.rows >= indexFrom {
			return true
		}
	}
	return false
}

// indexFrom is the number of rows from which an index pays.
const indexFrom = 300

// Rows returns how many rows of a piece are in memory.
func (in *Inputs) Rows(piece int) int { return in.inputs[piece].rows }

// tag reads the number of a row's piece from its first field.
func tag(fields []byte, pieces int) (int, error) {
	if len(fields) < 8 || binary.BigEndian.Uint32(fields) != 4 {
		return 0, wire.ErrMalformed
	}
	n := binary.BigEndian.Uint32(fields[4:])
	if n >= uint32(pieces) {
		return 0, wire.ErrMalformed
	}
	return int(n), nil
}

// skip returns the fields after the first one.
func skip(fields []byte) ([]byte, error) {
	if len(fields) < 4 {
		return nil, wire.ErrMalformed
	}
	size := max(int(int32(binary.BigEndian.Uint32(fields))), 0)
	if len(fields) < 4+size {
		return nil, wire.ErrMalformed
	}
	return fields[4+size:], nil
}

// A field of a DataRow, an element of an array and a parameter of a Bind all
// have the same form: a length, -1 for NULL, and the value.

// addElements appends the fields of a row to the arrays of their columns.
func (p *input) addElements(fields []byte) error {
	for i := range p.arrays {
		rest, err := skip(fields)
		if err != nil {
			return err
		}
		a := &p.arrays[i]
		a.elements = append(a.elements, fields[:len(fields)-len(rest)]...)
		a.nulls = a.nulls || fields[0] == 0xff
		fields = rest
	}
	p.rows++
	return nil
}

// addValues appends the fields of a row to values.
func (p *input) addValues(fields []byte) error {
	rest := fields
	for range p.shape.Columns {
		var err error
		if rest, err = skip(rest); err != nil {
			return err
		}
	}
	p.values = append(p.values, fields[:len(fields)-len(rest)]...)
	p.rows++
	return nil
}
