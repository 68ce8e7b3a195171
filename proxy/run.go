package proxy

import (
	"weft/parser"
	"weft/pool"
	"weft/tally"
	"weft/wire"
)

// What statements cost is counted where the client's messages begin and end: a
// simple query as a whole, an execution of the extended protocol from its Bind to
// its CommandComplete. Everybody between notes what only he knows: how many
// shards, how many rows. It costs two readings of the clock and a handful of
// atomic additions.

// run is a statement under way, as it will be counted.
type run struct {
	facts  *parser.Facts // nil: not known
	began  int64         // as tally.Now tells it; 0: nothing is under way
	rows   int64
	shards int32
	limit  int32 // of rows, in an Execute
	kind   tally.Kind
	knots  int8 // deadlocks that it has made way in, see again.go
	simple bool
	failed bool
}

// beginRun says that a simple query begins.
func (s *Session) beginRun() {
	t := tally.Now()
	s.run, s.runShards = run{began: t, simple: true}, s.runShards[:0]
	s.shownAt.Store(t)
}

// runs says which text it is.
func (s *Session) runs(f *parser.Facts) {
	if s.run.simple && s.run.facts == nil {
		s.run.facts = f
		s.shown.Store(f)
	}
}

// noteBound remembers what a portal was made of.
func (s *Session) noteBound(portal []byte, f *parser.Facts) {
	s.patience.saw(f)
	s.shown.Store(f)
	s.shownAt.Store(s.bound1.at)
	if len(portal) == 0 {
		s.bound1.facts = f
		return
	}
	if s.portalFacts == nil {
		s.portalFacts = map[string]*parser.Facts{}
	}
	s.portalFacts[string(portal)] = f
}

// bound1 is what was bound, or parsed, last.
type bound1 struct {
	facts *parser.Facts
	at    int64 // when the Bind came; 0 once it has been executed
}

// beginExecute says that an Execute begins.
func (s *Session) beginExecute(body []byte) {
	name, rest, _ := wire.CString(body)
	f := s.bound1.facts
	if len(name) > 0 {
		f = s.portalFacts[string(name)]
	}
	t := s.bound1.at
	if s.bound1.at = 0; t == 0 { // not for the first time
		t = tally.Now()
		s.shown.Store(f)
		s.shownAt.Store(t)
	}
	s.run, s.runShards = run{facts: f, began: t}, s.runShards[:0]
	if len(rest) == 4 {
		s.run.limit = int32(rest[0])<<24 | int32(rest[1])<<16 | int32(rest[2])<<8 | int32(rest[3])
	}
}

// showIdle shows that nothing runs, where an end was not counted.
func (s *Session) showIdle() {
	if s.shownAt.Load() > 0 {
		s.shownAt.Store(-tally.Now())
	}
}

// deferRun hands what is under way to an op, which is through when the backend
// answers.
func (s *Session) deferRun() run {
	r := s.run
	if r.simple { // it is through when all of it is
		return run{}
	}
	s.run = run{}
	if r.kind == tally.Local {
		r.kind, r.shards = tally.Shard, 1
	}
	return r
}

// atBackend notes that one shard works on what is under way.
func (s *Session) atBackend() {
	if s.run.kind == tally.Local && s.run.simple {
		s.run.kind, s.run.shards = tally.Shard, 1
		s.runShard = s.conn.Lane().Shard()
	}
}

// runsAs notes how what is under way is carried out.
func (s *Session) runsAs(k tally.Kind) {
	if s.run.kind <= tally.Shard {
		s.run.kind = k
	}
}

// visits notes that what is under way concerns so many shards.
func (s *Session) visits(n int) { s.run.shards = max(s.run.shards, int32(n)) }

// endRun counts what was under way, unless an op has it now.
func (s *Session) endRun() {
	r := s.run
	if r.began == 0 {
		return
	}
	now := tally.Now()
	s.run = run{}
	sh := s.runShard
	s.runShard = nil
	s.record(&r, sh, now, now-r.began, false)
}

// executed counts an execution that a backend has answered. It may have waited
// for those before it.
func (s *Session) executed(c *pool.Conn, o *op, rows int64, goesOn bool) {
	r := &o.run
	now := tally.Now()
	r.rows += rows
	s.record(r, c.Lane().Shard(), now, now-max(r.began, s.lastAnswer), goesOn)
	s.lastAnswer = now
	r.began = 0
}

// record counts one execution.
func (s *Session) record(r *run, sh *pool.Shard, now, took int64, goesOn bool) {
	s.shownAt.Store(-now)
	if r.kind == tally.Shard && r.facts != nil && endsTx(r.facts) {
		r.kind = tally.Commit
	}
	if slow := s.srv.conf().SlowStatement; slow > 0 && took >= int64(slow) {
		s.logSlow(r, sh, took)
	}
	if s.isTraced() {
		s.trace(r, sh, now, took)
	}
	m := s.srv.metrics
	m.kinds[r.kind].Add(s.id, took)
	if sh != nil && (r.kind == tally.Shard || r.kind == tally.Commit) {
		sh.Times.Add(s.id, took)
	}
	if r.facts == nil || r.facts.Norm == "" {
		return
	}
	st := s.srv.statements.Find(&r.facts.Tally, s.owner, r.facts.Norm)
	if st == nil {
		return
	}
	st.Add(tally.Call{At: now, Time: took, Rows: r.rows, Shards: r.shards, Kind: r.kind, Failed: r.failed, GoesOn: goesOn})
}

// failedWith counts an error that the client is told.
func (s *Session) failedWith(code string) {
	s.srv.metrics.codes.Add(code)
	if s.run.began != 0 {
		s.run.failed = true
		return
	}
	if b := &s.bound1; b.at != 0 || s.hasPending {
		// It was refused before it was executed.
		now := tally.Now()
		r := run{facts: b.facts, failed: true}
		s.record(&r, nil, now, now-max(b.at, s.lastAnswer), false)
		b.at = 0
	}
}

// failedAt counts an error of the backend's, by which these ops are skipped.
func (s *Session) failedAt(c *pool.Conn, ops []op, code string) {
	s.srv.metrics.codes.Add(code)
	if s.run.simple {
		s.run.failed = true
		return
	}
	for i := range ops {
		if o := &ops[i]; o.run.began != 0 {
			o.run.failed = true
			s.executed(c, o, 0, false)
			return
		}
	}
	s.run.failed = s.run.began != 0
}

// runsEverywhere notes that every shard runs what is under way.
func (s *Session) runsEverywhere() {
	s.runsAs(tally.Every)
	s.visits(len(s.snap.Shards))
}
