package proxy

import (
	"slices"

	"weft/explain"
	"weft/finish"
	"weft/plan"
	"weft/wire"
)

// explainWrite answers EXPLAIN of a write over several shards: what is read first, what each
// shard runs, and which shards these are. The shards are not asked for their plans: weft would
// have to lend them rows that EXPLAIN does not read.
func (en *explainer) explainWrite(r *router, x *gathering) (*explain.Report, error) {
	if err := en.s.write.mayWrite(onOneShard(x.write)); err != nil {
		return nil, err
	}
	if x.explain.Analyze {
		en.s.reach.limitGather(x.began)
		if err := en.s.tx.takeSnapshots(); err != nil {
			return nil, err
		}
	}
	if err := en.describeExplained(x); err != nil {
		return nil, err
	}
	if err := en.checkOptions(x); err != nil {
		return nil, err
	}
	w := x.write
	if x.g = w.Read(); x.g == nil {
		x.g = &plan.Gather{}
	}
	if err := en.s.gather.visit(r, x); err != nil {
		return nil, err
	}
	ex := &explain.Execution{
		Gather: x.g, Home: en.s.route.snap.Home, Visits: slices.Clone(x.rounds.first),
		Literal: func(i int) string { return string(x.req.literal(i)) },
	}
	for i := range en.s.route.snap.Shards {
		ex.Shards = append(ex.Shards, en.s.route.snap.Shards[i].Name)
	}
	var targets []string
	if shardsKnown(w) {
		if err := en.s.write.visitWrite(r, x); err != nil {
			return nil, err
		}
		for i, v := range x.rounds.first {
			if len(v) > 0 {
				targets = append(targets, ex.Shards[i])
			}
		}
	}
	return explain.NewChange(ex, w, targets), nil
}

// analyzeWrite carries out a write whose plan has been told, without passing rows on, and returns how
// many rows have changed.
func (wr *writer) analyzeWrite(r *router, x *gathering) (*int64, error) {
	x.d, x.legs, x.rounds.later, x.intake.inputs = nil, nil, nil, nil
	if !x.req.bindInto(&r.args, wr.s.record.scanOptions()) {
		return nil, wire.ErrMalformed
	}
	rows := wr.s.account.run.rows
	if err := wr.carryOut(r, x, false); err != nil {
		return nil, wr.s.route.refuseStray(err)
	}
	n := wr.s.account.run.rows - rows
	return &n, nil
}

// shardsKnown reports whether the shards of a write follow from its instances, before any row has
// been read.
func shardsKnown(w *plan.Write) bool {
	switch s := w.Shape.(type) {
	case *plan.Local:
		return true
	case *plan.Own:
		return len(s.Instances) > 0
	case *plan.Rows, *plan.Stream, *plan.Share, *plan.AtHome, *plan.Copies, *plan.Whole, *plan.Locking:
	}
	return false
}

// describeExplained finds errors in the client's statement.
func (en *explainer) describeExplained(x *gathering) error {
	if err := en.s.held.useLane(en.s.lane); err != nil {
		return err
	}
	if err := en.s.tx.quiesce(); err != nil {
		return err
	}
	en.s.held.conn.UnnamedGone()
	d := &plan.Description{}
	var err error
	d.Params, d.Columns, err = finish.Describe(en.s.held.conn, string(x.req.text), oidList(x.req.oids))
	x.d = d
	return err
}
