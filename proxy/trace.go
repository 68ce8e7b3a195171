package proxy

import (
	"weft/parser"
	"weft/pool"
	"weft/span"
	"weft/tally"
)

// seeParent looks for the trace of the caller in a text that has come.
func (s *Session) seeParent(text []byte) {
	if s.srv.cfg.Tracer != nil {
		s.parent = span.Parent(text)
	}
}

// isTraced reports whether what is under way is traced.
func (s *Session) isTraced() bool { return s.traced != nil || s.parent != "" }

// tracePart notes what a shard did for what is under way.
func (s *Session) tracePart(sh *pool.Shard, began, ended int64) {
	s.runParts = append(s.runParts, span.Part{Shard: sh.Name, Began: tally.Time(began), Ended: tally.Time(ended)})
}

// trace makes the spans of a statement that is over.
func (s *Session) trace(r *run, sh *pool.Shard, now, took int64) {
	if sh != nil && len(s.runParts) == 0 {
		s.tracePart(sh, now-took, now)
	}
	st := span.Statement{
		Kind: r.kind.String(), User: s.owner.User, Database: s.owner.Database, Began: tally.Time(now - took), Ended: tally.Time(now),
		Rows: r.rows, Failed: r.failed, Parts: s.runParts, Parent: s.parent,
	}
	if r.facts != nil {
		st.Text = parser.Statement(r.facts.Norm)
	}
	s.srv.cfg.Tracer.Statement(s.traced, st)
	s.runParts = s.runParts[:0]
}
