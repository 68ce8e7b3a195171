package proxy

import (
	"weft/parser"
	"weft/pool"
	"weft/span"
	"weft/tally"
)

// seeParent looks for the trace of the caller in a text of the client.
func (a *account) seeParent(text []byte) {
	if a.s.srv.cfg.Tracer != nil {
		a.parent = span.Parent(text)
	}
}

// isTraced reports whether the statement under way is traced.
func (a *account) isTraced() bool { return a.traced != nil || a.parent != "" }

// tracePart notes the part of a shard in the statement under way.
func (a *account) tracePart(sh *pool.Shard, began, ended int64) {
	a.parts = append(a.parts, span.Part{Shard: sh.Name, Began: tally.Time(began), Ended: tally.Time(ended)})
}

// trace makes the spans of a statement that is over.
func (a *account) trace(r *run, sh *pool.Shard, now, took int64) {
	if sh != nil && len(a.parts) == 0 {
		a.tracePart(sh, now-took, now)
	}
	st := span.Statement{
		Kind: r.kind.String(), User: a.owner.User, Database: a.owner.Database, Began: tally.Time(now - took), Ended: tally.Time(now),
		Rows: r.rows, Failed: r.failed, Parts: a.parts, Parent: a.parent,
	}
	if r.facts != nil {
		st.Text = parser.Statement(r.facts.Norm)
	}
	a.s.srv.cfg.Tracer.Statement(a.traced, st)
	a.parts = a.parts[:0]
}
