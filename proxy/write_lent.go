package proxy

import (
	"weft/finish"
	"weft/pgerr"
	"weft/plan"
)

// describeSteps finds out which columns the steps before a write return, and makes sure
// that the text that the shards run over lent rows returns the columns of the client's
// text. A difference is a bug in weft, and must not become a wrong row.
func (wr *writer) describeSteps(x *gathering, d *plan.Description) error {
	w := x.write
	switch w.Shape.(type) {
	case *plan.Local, *plan.AtHome, *plan.Share:
		if w.Lent() == nil && len(w.Steps()) == 0 {
			return nil
		}
	case *plan.Copies:
	case *plan.Rows, *plan.Stream, *plan.Own, *plan.Whole, *plan.Locking:
		return nil
	}
	total := 1
	for _, cols := range d.Pieces {
		if err := finish.Carriable(cols); err != nil {
			return err
		}
		total += len(cols)
	}
	if len(d.Pieces) > 1 && total > maxTargets {
		return pgerr.New(pgerr.FeatureNotSupported, "%d columns of several tables are too many to be read together on several shards", total-1).
			WithHint("Name the columns that are needed, instead of *.")
	}
	in := finish.NewInputs(x.shapes(d), len(d.Params), finish.Limits{})
	for _, b := range w.Steps() {
		cols, err := wr.describeStep(x, d, in, b)
		if err != nil {
			return err
		}
		if err := finish.Carriable(cols); err != nil {
			return err
		}
		var carried []plan.Column
		if c, ok := b.Shape.(*plan.Copies); ok {
			cols, carried = parted(cols, c)
		}
		d.Steps, d.StepsCarried = append(d.Steps, cols), append(d.StepsCarried, carried)
		in.Extend(finish.Shape{Columns: cols})
	}
	cols, sql, err := wr.describeLent(x, d, in, w)
	if err != nil {
		return err
	}
	if c, ok := w.Shape.(*plan.Copies); ok {
		cols, d.Carried = parted(cols, c)
		if err := finish.Carriable(d.Carried); err != nil {
			return err
		}
	}
	return wr.s.gather.checkColumns(cols, d.Columns, sql)
}

// parted parts the columns that the home shard returns into those of the statement and those that
// are carried to the other copies.
func parted(cols []plan.Column, c *plan.Copies) (own, carried []plan.Column) {
	at := max(len(cols)-c.Carried, 0)
	return cols[:at:at], cols[at:]
}

// describeStep finds out which columns a step before a write returns.
func (wr *writer) describeStep(x *gathering, d *plan.Description, in *finish.Inputs, b *plan.Write) ([]plan.Column, error) {
	if _, locks := b.Shape.(*plan.Locking); !locks {
		cols, _, err := wr.describeLent(x, d, in, b)
		return cols, err
	}
	y := wr.queryOf(x, b.Query())
	err := wr.s.gather.describeGather(y)
	if err != nil {
		return nil, err
	}
	return y.d.Columns, nil
}

// describeLent finds out which columns a text over lent rows returns.
func (wr *writer) describeLent(x *gathering, d *plan.Description, in *finish.Inputs, w *plan.Write) ([]plan.Column, string, error) {
	if s, ok := w.Shape.(*plan.Share); ok && len(s.Split.Draws) > 0 {
		at := s.Split.Input
		in = in.With(at, finish.Shape{Columns: withDrawn(d.Steps[at-len(d.Pieces)], s.Split)})
	}
	fill := x.timelessFill()
	fill.Input = in.AppendInput
	sql := string(w.Text().Append(nil, fill))
	_, cols, err := finish.Describe(wr.s.held.conn, sql, in.AppendTypes(d.Params[:len(d.Params):len(d.Params)]))
	if err != nil && blames(err) {
		wr.s.log.Error("what the shards are to run cannot be described", "sql", logged(sql), "err", err)
		err = pgerr.New(pgerr.InternalError, "the statement cannot be put together: %s", pgerr.From(err).Message)
	}
	return cols, sql, err
}
