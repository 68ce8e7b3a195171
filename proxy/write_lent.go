package proxy

import (
	"weft/finish"
	"weft/pgerr"
	"weft/plan"
)

// checkLent makes sure that the text that the shards run over lent rows returns what
// the client's does. That it does not is a mistake of weft's, and must not become
// a wrong row.
func (s *Session) checkLent(x *gathering, d *plan.Description) error {
	w := x.write
	if w.Read == nil || w.Then != nil || w.Rows != nil || len(w.Read.Remainder) > 0 {
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
	fill := x.timelessFill()
	fill.Input = in.AppendInput
	sql := string(w.Text.Append(nil, fill))
	_, cols, err := finish.Describe(s.conn, sql, in.AppendTypes(d.Params[:len(d.Params):len(d.Params)]))
	if err != nil && !blames(err) {
		return err
	}
	if err != nil {
		s.log.Error("what the shards are to run cannot be described", "sql", sql, "err", err)
		return pgerr.New(pgerr.InternalError, "the statement cannot be put together: %s", pgerr.From(err).Message)
	}
	return s.checkColumns(cols, d.Columns, sql)
}
