package stream

import (
	"encoding/binary"
	"errors"
	"io"

	"weft/plan"
)

// CanGroup reports whether Group gives PostgreSQL's answer for a piece with columns of these
// types.
func CanGroup(a *plan.Aggregate, types []Type) bool {
	for _, c := range a.Groups {
		if c < 0 || c >= len(types) || !types[c].equalBytes() {
			return false
		}
	}
	for _, o := range a.Outputs {
		if newCombiner(a, o, types, nil) == nil {
			return false
		}
	}
	return true
}

// Group combines partial aggregates. types are the types of the incoming columns; a column keeps
// its format, and an average has the format of its sum. Groups come out in the order in which
// their first rows came.
//
// The first Next reads all input. It is an error if what is gathered takes more than maxBytes; 0
// or less is no limit. See CanGroup.
func Group(r Rows, a *plan.Aggregate, types []Type, maxBytes int64) (Rows, error) {
	if !CanGroup(a, types) {
		return nil, errors.New("group: PostgreSQL has to do it")
	}
	m := &memory{limit: maxBytes}
	return &grouped{rows: r, input: newInput(a, types, m), always: !a.Grouped, table: newTable(m), memory: m}, nil
}

// input splits rows into values for combiners.
type input struct {
	picker  picker
	values  [][]byte // values of the current row: grouping columns, then two for each output
	keys    int      // how many of values are grouping columns
	key     []byte   // values of the grouping columns, with their lengths
	outputs []combiner
}

func newInput(a *plan.Aggregate, types []Type, m *memory) input {
	in := input{keys: len(a.Groups)}
	columns := append([]int{}, a.Groups...)
	for _, o := range a.Outputs {
		in.outputs = append(in.outputs, newCombiner(a, o, types, m))
		columns = append(columns, o.Column)
		if o.Kind == plan.CombineAvg {
			columns = append(columns, o.Count)
		} else {
			columns = append(columns, o.Column) // the combiner does not use it
		}
	}
	in.picker, in.values = newPicker(columns), make([][]byte, len(columns))
	return in
}

// take reads a row and leaves the key of its group in in.key.
func (in *input) take(row []byte) error {
	if err := in.picker.pick(row, in.values); err != nil {
		return err
	}
	in.key = in.key[:0]
	for _, v := range in.values[:in.keys] {
		in.key = appendField(in.key, v)
	}
	return nil
}

// add adds the row that was taken to a group.
func (in *input) add(group int) error {
	for i, o := range in.outputs {
		at := in.keys + 2*i
		if err := o.add(group, in.values[at], in.values[at+1]); err != nil {
			return err
		}
	}
	return nil
}

// emit appends the result row of a group to dst.
func (in *input) emit(dst []byte, group int, key []byte) (_ []byte, err error) {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(in.outputs)))
	for _, o := range in.outputs {
		if dst, err = o.emit(dst, group, key); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// combiner makes one column of the result. It keeps a state for each group.
type combiner interface {
	// grow begins another group.
	grow()
	// reset empties the only group there is.
	reset()
	// add adds a partial result, nil for NULL, to a group. For an average, count is the number of
	// values behind the partial result.
	add(group int, value, count []byte) error
	// emit appends the group's result with its length. key is the group's key.
	emit(dst []byte, group int, key []byte) ([]byte, error)
}

type grouped struct {
	rows   Rows
	input  input
	always bool // whether there is a group even without rows
	table  *table
	memory *memory

	read bool // whether all input has been read
	next int  // number of the group that Next returns next
	out  []byte
	err  error
}

func (g *grouped) Next() ([]byte, error) {
	if g.err != nil {
		return nil, g.err
	}
	if !g.read {
		g.read = true
		g.err = g.gather()
	}
	if g.err == nil {
		g.err = g.emit()
	}
	if g.err != nil {
		g.table, g.input = nil, input{} // frees what may be much memory
		return nil, g.err
	}
	return g.out, nil
}

// gather reads all rows and adds them to their groups.
func (g *grouped) gather() error {
	for {
		row, err := g.rows.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if err := g.add(row); err != nil {
			return err
		}
	}
	if g.always {
		_, err := g.group(nil)
		return err
	}
	return nil
}

func (g *grouped) add(row []byte) error {
	if err := g.input.take(row); err != nil {
		return err
	}
	n, err := g.group(g.input.key)
	if err != nil {
		return err
	}
	if err := g.input.add(n); err != nil {
		return err
	}
	return g.memory.check()
}

// group returns the number of the group with a key, making the group if it is new.
func (g *grouped) group(key []byte) (int, error) {
	n, added, err := g.table.add(key)
	if added {
		for _, o := range g.input.outputs {
			o.grow()
		}
	}
	return n, err
}

// emit writes the result row of the next group to out.
func (g *grouped) emit() (err error) {
	if g.next == len(g.table.entries) {
		return io.EOF
	}
	g.out, err = g.input.emit(g.out[:0], g.next, g.table.entries[g.next].key)
	g.next++
	return err
}
