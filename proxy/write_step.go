package proxy

import (
	"errors"
	"slices"

	"weft/finish"
	"weft/pgerr"
	"weft/plan"
)

// Steps come before a write: their rows become inputs of later steps and of the write. They
// run in the same transaction, one after the other, each on all its shards at once.

// runSteps carries out the steps before a write. Rows that must be read first have been
// read.
func (wr *writer) runSteps(r *router, x *gathering) error {
	steps := x.write.Steps()
	if len(steps) == 0 {
		return nil
	}
	if x.intake.inputs == nil {
		x.intake.inputs = finish.NewInputs(nil, len(x.d.Params), finish.Limits{Inline: inlineAtHome, Max: wr.s.record.maxGatherBytes()})
	}
	x.progress.beginSteps(len(steps))
	for i, step := range steps {
		if err := wr.runStep(r, x, i, step); err != nil {
			return err
		}
		x.progress.endStep(step.Verb)
	}
	return nil
}

func (wr *writer) runStep(r *router, x *gathering, i int, step *plan.Write) error {
	if _, locks := step.Shape.(*plan.Locking); locks {
		return wr.runLocking(r, x, i, step)
	}
	if _, copies := step.Shape.(*plan.Copies); copies {
		return wr.runCopyStep(x, i, step)
	}
	y := *x
	y.write, y.legs, y.progress.shares = step, nil, nil
	cols := x.d.Steps[i]
	y.req.formats = formatsToCarry(cols)
	if err := wr.visitWrite(r, &y); err != nil {
		return err
	}
	if err := wr.openWriteLegs(&y); err != nil {
		return err
	}
	x.intake.inputs.Extend(finish.Shape{Columns: cols})
	wr.s.gather.sendLegs(y.legs)
	err := wr.keepStep(x, &y, i)
	if ended := wr.s.legs.endLegs(y.legs, err != nil); ended != nil && !errors.Is(err, errEnd) {
		err = ended // the error of the shard itself
	}
	return err
}

// keepStep keeps the rows that a step returns.
func (wr *writer) keepStep(x, y *gathering, i int) error {
	keep := x.keeper(i)
	for _, l := range y.legs {
		if err := eachRow(l, keep); err != nil {
			return err
		}
	}
	return nil
}

// keeper returns a function that keeps a row that step i returns.
func (x *gathering) keeper(i int) func(row []byte) error {
	input := len(x.g.Pieces) + i
	split := x.splits(input)
	return func(row []byte) error {
		if split {
			x.progress.returned[i] = append(x.progress.returned[i], slices.Clone(row))
		}
		full, err := x.intake.inputs.AddTo(input, row)
		if err == nil && full {
			err = tooMuchLent()
		}
		return err
	}
}

// runLocking carries out a step that locks rows, over all shards.
func (wr *writer) runLocking(r *router, x *gathering, i int, step *plan.Write) error {
	q := step.Query()
	y := wr.queryOf(x, q)
	x.intake.inputs.Extend(finish.Shape{Columns: x.d.Steps[i]})
	if _, err := wr.readGathered(r, y, q, x.keeper(i)); err != nil {
		return err
	}
	x.progress.gave[i] = y.shardsOf(len(wr.s.route.snap.Shards))
	return nil
}

// shardsOf tells which shards have contributed rows to the result.
func (x *gathering) shardsOf(shards int) []bool {
	out := make([]bool, shards)
	for i, l := range x.legs {
		out[l.shard] = l.rows > 0
		if x.locked != nil {
			out[l.shard] = x.locked[i] > 0
		}
	}
	return out
}

func tooMuchLent() error {
	return pgerr.New(pgerr.ConfigurationLimitExceeded, "the rows that this statement carries between shards are too many").
		WithHint("Write it so that tables are joined by their shard keys, or do it in portions.")
}

// splits reports whether each row of an input goes to the shard where it belongs.
func (x *gathering) splits(input int) bool {
	return slices.ContainsFunc(append(slices.Clone(x.write.Steps()), x.write), func(w *plan.Write) bool {
		s, ok := w.Shape.(*plan.Share)
		return ok && s.Split.Input == input
	})
}

// share gives each shard those rows of the split input that belong there.
func (wr *writer) share(r *router, x *gathering, s *plan.Share) error {
	split := s.Split
	i := split.Input - len(x.g.Pieces)
	params := r.args.Params
	defer func() { r.args.Params = params }()
	in := &splitting{x: x, s: wr.s, r: r, split: split, kept: &spool{}, begun: true}
	if err := in.prepare(x.d.Steps[i]); err != nil {
		return err
	}
	if split.Exact && len(in.casts) > 0 {
		return pgerr.New(pgerr.FeatureNotSupported, "the shard key of %q is joined with a value of another type", split.Table.Name).
			WithHint("Cast it to the type of the column, in the source.")
	}
	if err := crosses(s.Moves, x.progress.returned[i]); err != nil {
		return err
	}
	in.batch = slices.Clone(x.progress.returned[i])
	if len(in.batch) == 0 {
		return nil
	}
	if err := in.place(); err != nil {
		return err
	}
	x.progress.shares = make([]*finish.Inputs, len(wr.s.route.snap.Shards))
	for j, row := range in.batch {
		shard := in.places[j]
		if x.progress.shares[shard] == nil {
			x.progress.shares[shard] = x.intake.inputs.With(split.Input, finish.Shape{Columns: in.columns})
			x.rounds.visit(shard, 0)
		}
		if _, err := x.progress.shares[shard].AddTo(split.Input, row); err != nil {
			return err
		}
	}
	return nil
}

// stillTrueAfter is stillTrue, except that a statement that has written by declarations
// that no longer hold cannot be planned again.
func (wr *writer) stillTrueAfter(x *gathering) error {
	if !x.progress.begun {
		return wr.s.route.stillTrue()
	}
	if wr.s.route.isOvertaken() {
		return pgerr.New(pgerr.SerializationFailure, "a table of this statement was declared anew meanwhile").WithHint("Try again.")
	}
	return nil
}
