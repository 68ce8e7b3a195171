package proxy

import (
	"slices"

	"weft/parser"
	"weft/pool"
	"weft/tally"
	"weft/wire"
)

// The cost of statements is counted where the client's messages begin and end: of a simple
// query as a whole, of an execution in the extended protocol from its Bind to its
// CommandComplete. The code in between notes what only it knows: how many shards, how many
// rows. Counting costs two readings of the clock and a handful of atomic additions.

// run is a statement under way, with what will be counted.
type run struct {
	facts  *parser.Facts // nil: the text is not known
	began  int64         // as tally.Now tells it; 0: no statement is under way
	rows   int64
	bytes  int64 // that went to the client
	queued int64 // how long it has waited for backends
	held   int64 // how long it has waited at the outset
	told   int64 // how long it has taken until parts of it were sampled
	usage  usage
	shards int32
	limit  int32 // the row limit of an Execute
	kind   tally.Kind
	knots  int8 // deadlocks in which the statement has given way, see again.go
	dry    int8 // how often a lot was used up under the statement, see lots.go
	gone   int8 // how often a row in the way of the statement has gone, see lookup_gone.go
	simple bool // the statement is a simple query
	failed bool // the statement has failed
}

// beginRun notes that a simple query begins.
func (a *account) beginRun() {
	t := tally.Now()
	a.run, a.shards = run{began: t, simple: true}, a.shards[:0]
	a.warm.begin()
	a.shownAt.Store(t)
}

// nameRun notes which text the simple query has.
func (a *account) nameRun(f *parser.Facts, text []byte) {
	if a.records() && a.run.facts == nil {
		a.tapeQuery(f, text)
	}
	if a.run.simple && a.run.facts == nil {
		a.run.facts = f
		a.shown.Store(f)
		a.s.lost.retry.saw(f)
	}
}

// noteBound remembers which text a portal was made from.
func (a *account) noteBound(portal []byte, f *parser.Facts) {
	a.s.reach.patience.saw(f)
	a.shown.Store(f)
	a.shownAt.Store(a.bound.at)
	if len(portal) == 0 {
		a.bound.facts, a.unnamed = f, f
		return
	}
	if a.portals == nil {
		a.portals = map[string]*namedPortal{}
	}
	a.warm.portal = &namedPortal{f, a.warm.usage}
	a.portals[string(portal)] = a.warm.portal
}

// forgetUnnamed notes that the unnamed portal is gone, forgetPortals that all portals are.
func (a *account) forgetUnnamed() { a.unnamed = nil }

func (a *account) forgetPortals() { a.unnamed = nil; clear(a.portals) }

// beginBind notes that a Bind begins.
func (a *account) beginBind() {
	a.bound.at = tally.Now()
	a.warm.begin()
}

// bound1 is the text that was bound or parsed last.
type bound1 struct {
	facts *parser.Facts
	at    int64 // when the Bind came; 0 once the portal has been executed
}

// beginExecute notes that an Execute begins.
func (a *account) beginExecute(body []byte) {
	name, rest, _ := wire.CString(body)
	f, at := a.unnamed, a.warm.usage
	if len(name) > 0 {
		f, at = nil, usage{}
		if p := a.portals[string(name)]; p != nil {
			f, at = p.facts, p.usage
		}
	}
	a.s.lost.retry.saw(f)
	t := a.bound.at
	if a.bound.at = 0; t == 0 { // the portal has been executed before
		t = tally.Now()
		a.shown.Store(f)
		a.shownAt.Store(t)
	}
	a.run, a.shards = run{facts: f, began: t, usage: at, queued: a.warm.queued, held: a.warm.held}, a.shards[:0]
	a.warm.queued, a.warm.held = 0, 0
	if len(rest) == 4 {
		a.run.limit = int32(rest[0])<<24 | int32(rest[1])<<16 | int32(rest[2])<<8 | int32(rest[3])
	}
}

// showWaiting shows a statement that waits before a backend is asked for. A Parse waits with the Bind behind it, which has not been noted then.
func (a *account) showWaiting(f *parser.Facts) {
	if a.shown.Load() != f || a.shownAt.Load() <= 0 {
		a.shown.Store(f)
		a.shownAt.Store(tally.Now())
	}
}

// showIdle shows the session as idle if the end of its last statement was not counted.
func (a *account) showIdle() {
	if a.shownAt.Load() > 0 {
		a.shownAt.Store(-tally.Now())
	}
}

// deferRun hands the run under way to an op, which ends it when the backend answers.
func (a *account) deferRun() run {
	r := a.run
	if r.simple { // a simple query is counted as a whole
		return run{}
	}
	a.run = run{}
	if r.kind == tally.Local {
		r.kind, r.shards = tally.Shard, 1
	}
	return r
}

// atBackend notes that one shard works on the simple query under way.
func (a *account) atBackend() {
	if a.run.kind == tally.Local && a.run.simple {
		a.run.kind, a.run.shards = tally.Shard, 1
		a.shard = a.s.held.conn.Lane().Shard()
	}
}

// runsAs notes how the statement under way is carried out.
func (a *account) runsAs(k tally.Kind) {
	if a.run.kind <= tally.Shard {
		a.run.kind = k
	}
}

// addShards notes that the statement under way concerns n shards.
func (a *account) addShards(n int) { a.run.shards = max(a.run.shards, int32(n)) }

// addLegs notes the shards on which the run has had legs, and the bytes of the rows that came from
// them.
func (a *account) addLegs(legs []*leg, bytes int64) {
	a.addShards(len(legs))
	a.run.bytes += bytes
	for _, l := range legs {
		if name := l.conn.Shard(); !slices.Contains(a.shards, name) {
			a.shards = append(a.shards, name)
		}
	}
}

// endRun counts the run that was under way, unless an op has it now.
func (a *account) endRun() {
	r := a.run
	if r.began == 0 {
		return
	}
	now := tally.Now()
	a.run = run{}
	r.queued, r.held = r.queued+a.warm.queued, r.held+a.warm.held
	if r.simple {
		r.usage = a.warm.usage
	}
	sh := a.shard
	a.shard = nil
	a.charge(&r, sh, now, now-r.began, false)
}

// executed counts an execution that a backend has answered. Time spent waiting for earlier
// executions is left out.
func (a *account) executed(c *pool.Conn, o *op, rows int64, goesOn bool) {
	r := &o.run
	now := tally.Now()
	r.rows += rows
	a.charge(r, c.Lane().Shard(), now, now-max(r.began, a.answered), goesOn)
	a.answered = now
	r.began = 0
}

// charge counts one execution that took so many nanoseconds.
func (a *account) charge(r *run, sh *pool.Shard, now, took int64, goesOn bool) {
	a.shownAt.Store(-now)
	if r.kind == tally.Shard && r.facts != nil && endsTx(r.facts) {
		r.kind = tally.Commit
	}
	if slow := a.s.srv.conf().Statements.Slow; slow > 0 && took >= int64(slow) {
		a.logSlow(r, sh, took)
	}
	if a.isTraced() {
		a.trace(r, sh, now, took)
	}
	a.warmed(r, sh, took)
	m := a.s.srv.metrics
	m.kinds[r.kind].Add(a.s.id, took)
	if sh != nil && (r.kind == tally.Shard || r.kind == tally.Commit) {
		sh.Times.Add(a.s.id, took)
	}
	if r.facts == nil || r.facts.Norm == "" {
		return
	}
	st := a.s.srv.counts.statements.Find(&r.facts.Tally, a.owner, r.facts.Norm)
	if st == nil {
		return
	}
	st.Add(tally.Call{At: now, Time: took, Rows: r.rows, Shards: r.shards, Kind: r.kind, Failed: r.failed, GoesOn: goesOn})
}

// failedWith counts an error that the client is told.
func (a *account) failedWith(code string) {
	a.s.srv.metrics.codes.Add(code)
	if a.run.began != 0 {
		a.run.failed = true
		return
	}
	if b := &a.bound; b.at != 0 || a.s.pipe.kept.waits() {
		// The statement was refused before it was executed.
		now := tally.Now()
		r := run{facts: b.facts, failed: true}
		a.charge(&r, nil, now, now-max(b.at, a.answered), false)
		b.at = 0
	}
}

// failedAt counts an error of the backend, which makes it skip these ops.
func (a *account) failedAt(c *pool.Conn, ops []op, code string) {
	a.s.srv.metrics.codes.Add(code)
	if a.run.simple {
		a.run.failed = true
		return
	}
	for i := range ops {
		if o := &ops[i]; o.run.began != 0 {
			o.run.failed = true
			a.executed(c, o, 0, false)
			return
		}
	}
	a.run.failed = a.run.began != 0
}

// runsEverywhere notes that every shard runs the statement under way.
func (a *account) runsEverywhere() {
	a.runsAs(tally.Every)
	a.addShards(len(a.s.route.snap.Shards))
}
