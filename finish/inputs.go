package finish

import (
	"encoding/binary"
	"slices"

	"weft/pgerr"
	"weft/plan"
	"weft/wire"
)

// Shape is what the remainder is to see of a piece's rows.
type Shape struct {
	Columns []plan.Column
	// Types and Collations, where there is one that is not empty, are a
	// column's as SQL: what a description does not tell, such as a domain.
	Types, Collations []string
	// Index are the columns whose values rows are looked for by, again and
	// again.
	Index []int
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return ""
}

// Limits bound what is gathered, in bytes of rows.
type Limits struct {
	// Inline is how much may stay in memory.
	Inline int64
	// Max is how much there may be at all: weft.max_gather_bytes; 0 is without
	// limit.
	Max int64
}

// maxParams is PostgreSQL's limit on the parameters of a statement.
const maxParams = 65535

// bytesPerValue is what a value that is a parameter of its own counts as at
// least: PostgreSQL takes some microseconds for each, however small.
const bytesPerValue = 128

// Inputs are the rows of pieces, kept in memory to become parameters of the
// remainder.
//
// The rows of most pieces become one array for each column, and the text of the
// remainder is the same whatever their number. A piece with an array among its
// columns has each value as a parameter of its own instead.
type Inputs struct {
	inputs []input
	tagged bool
	params int // the client's own
	limits Limits
	used   int64
	values int
}

// input is the rows of one piece.
type input struct {
	shape  Shape
	first  int  // the first of its columns in a row
	byRow  bool // values are parameters of their own
	rows   int
	arrays []array
	values []byte // rows as a Bind has them
}

// array is the elements of an array as its binary form has them.
type array struct {
	elements []byte
	nulls    bool
}

// NewInputs returns inputs for the pieces of a statement that has that many
// parameters of the client's.
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

// Add takes in the body of a DataRow that a statement made by Tagged gave, in the
// formats that Formats gave. The row is copied. full says that no more should
// be kept in memory: this row is still in, the next ones are for a Stage.
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

// Extend adds inputs whose rows come by AddTo.
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

// AddTo takes in the body of a DataRow that has the columns of one input, in the
// formats that Formats gives for them. full is as Add's.
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

// With returns inputs that are these, but for one: it has that shape, and no rows
// yet. Rows are added to that one only.
func (in *Inputs) With(piece int, shape Shape) *Inputs {
	out := *in
	out.inputs = slices.Clone(in.inputs[:piece])
	out.Extend(shape)
	out.inputs = append(out.inputs, in.inputs[piece+1:]...)
	return &out
}

// Hold lets more rows stay in memory: there is nowhere else for them.
func (in *Inputs) Hold(inline int64) { in.limits.Inline = inline }

// charge counts bytes that have been gathered.
func (in *Inputs) charge(n int) error {
	in.used += int64(n)
	if in.limits.Max > 0 && in.used > in.limits.Max {
		return pgerr.GatherTooLarge()
	}
	return nil
}

// Bytes returns how much has been gathered, by a Stage too.
func (in *Inputs) Bytes() int64 { return in.used }

// LooksUp reports whether rows in memory would be looked through so often that a
// table with an index is worth its making.
func (in *Inputs) LooksUp() bool {
	for i := range in.inputs {
		if p := &in.inputs[i]; len(p.shape.Index) > 0 && p.rows >= indexFrom {
			return true
		}
	}
	return false
}

// indexFrom is the number of rows from which on an index pays.
const indexFrom = 300

// Rows returns how many rows of a piece are in memory.
func (in *Inputs) Rows(piece int) int { return in.inputs[piece].rows }

// tag reads the number of a row's piece.
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

// skip returns what follows the first field.
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
