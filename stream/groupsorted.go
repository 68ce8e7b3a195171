package stream

import (
	"bytes"
	"errors"
	"io"

	"weft/plan"
)

// GroupSorted is Group for rows in which the rows of a group follow each other, as in a Merge by
// the grouping columns. GroupSorted keeps one group, and yields it when the next one begins. It
// is an error if the aggregate has no groups. See CanGroup.
func GroupSorted(r Rows, a *plan.Aggregate, types []Type, maxBytes int64) (Rows, error) {
	if !CanGroup(a, types) || !a.Grouped {
		return nil, errors.New("group: PostgreSQL has to do it")
	}
	m := &memory{limit: maxBytes}
	g := &groupedSorted{rows: r, input: newInput(a, types, m), memory: m}
	for _, o := range g.input.outputs {
		o.grow()
	}
	return g, nil
}

type groupedSorted struct {
	rows   Rows
	input  input
	memory *memory

	open bool   // whether a group has begun
	key  []byte // key of the current group
	out  []byte
	err  error
}

func (g *groupedSorted) Next() ([]byte, error) {
	for g.err == nil {
		ready, err := g.step()
		if err != nil {
			g.err = err
		}
		if ready {
			return g.out, nil
		}
	}
	return nil, g.err
}

// step reads a row. It reports whether a group has ended and its result is in out, which may
// happen together with io.EOF.
func (g *groupedSorted) step() (ready bool, err error) {
	row, err := g.rows.Next()
	if err == nil {
		err = g.input.take(row)
	}
	if err != nil && err != io.EOF {
		return false, err
	}
	end := err
	if g.open && (end == io.EOF || !bytes.Equal(g.key, g.input.key)) {
		if g.out, err = g.input.emit(g.out[:0], 0, g.key); err != nil {
			return false, err
		}
		for _, o := range g.input.outputs {
			o.reset()
		}
		g.open, ready = false, true
	}
	if end != nil {
		return ready, end
	}
	if !g.open {
		g.open = true
		before := cap(g.key)
		g.key = append(g.key[:0], g.input.key...)
		g.memory.used += int64(cap(g.key) - before)
	}
	if err = g.input.add(0); err == nil {
		err = g.memory.check()
	}
	return ready, err
}
