package planner

import (
	"weft/plan"
)

// inputOf is a table that has become an input.
type inputOf struct {
	x       *appearance
	piece   int
	columns []string // the columns of the piece, by their names in the table
}

// reduceInputs finds the pieces of which only few rows matter, because a column must
// equal that of a piece with conditions of its own.
//
// Why that may be used: let V be the values of column d in all rows of Y that are
// brought. That d is in V is then a fact of every scope that d's row is in. If
// from it and the facts that hold for a combination with a row x of X follows
// that x.c is in V, rows without that can be taken away: the claim of scope.go,
// with P a condition on any column instead of the key. c and d of one class under
// the facts usable for X is just that, and such facts are strict: d's row is there.
func (r *remainder) reduceInputs() {
	uses := map[int]int{}
	for _, in := range r.inputs {
		uses[in.piece]++
	}
	for _, in := range r.inputs {
		p := &r.gather.Pieces[in.piece]
		if in.x.instance == nil || in.x.sample != nil || uses[in.piece] > 1 || len(in.x.conditions) > 0 {
			continue
		}
		for _, from := range r.inputs {
			if from.x.instance == nil || len(from.x.conditions) == 0 || from.piece == in.piece {
				continue
			}
			if red := r.reduction(in, from); red != nil {
				p.Reduce = red
				break
			}
		}
	}
}

// reduction finds columns of two inputs that must be equal.
func (r *remainder) reduction(in, from inputOf) *plan.Reduction {
	classes := r.a.gatherer().classesOf(in.x.instance.scope)
	for i, name := range in.columns {
		c := in.x.instance.cols[name]
		if c == nil || c.class() == 0 {
			continue
		}
		for j, other := range from.columns {
			d := from.x.instance.cols[other]
			if d != nil && d.class() == c.class() && classes.find(c) == classes.find(d) {
				return &plan.Reduction{Column: i, From: from.piece, FromColumn: j}
			}
		}
	}
	return nil
}
