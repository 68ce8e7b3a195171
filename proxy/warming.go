package proxy

import (
	"slices"
	"time"

	"weft/heat"
	"weft/parser"
	"weft/pool"
	"weft/tally"
)

// warming notes what the session's statements use, and samples them when they are over. Noting
// costs a few stores and deciding a multiplication: neither locks nor allocates.
type warming struct {
	meter heat.Meter
	// usage is what the statement uses that was routed last, and queued how long it has waited for
	// a backend, and held how long at the outset.
	usage        usage
	queued, held int64
	// portal is the named portal that is being bound, nil for the unnamed one.
	portal *namedPortal
	others *otherKeys
}

// usage is what one statement uses.
type usage struct {
	first heat.Key
	turn  uint32 // of otherKeys, if there is more than one key
	keys  uint8
	write bool // rows may be changed
}

// namedPortal is the text of a named portal, and what it uses.
type namedPortal struct {
	facts *parser.Facts
	usage usage
}

// otherKeys are the keys but for the first of the last statements with several keys. What was noted
// many such statements ago, in a long pipeline, is lost.
type otherKeys struct {
	turn  uint32
	slots [8][heat.MaxKeys - 1]heat.Key
}

// begin forgets what the statement before has used.
func (w *warming) begin() { w.usage, w.queued, w.held, w.portal = usage{}, 0, 0, nil }

// noteUsed notes the keys that the statement which is being routed uses.
func (a *account) noteUsed(keys []heat.Key, write bool) {
	w := &a.warm
	w.usage = usage{write: write, keys: uint8(len(keys))}
	if len(keys) > 0 {
		w.usage.first = keys[0]
	}
	if len(keys) > 1 {
		if w.others == nil {
			w.others = &otherKeys{}
		}
		w.others.turn++
		w.usage.turn = w.others.turn
		copy(w.others.slots[w.usage.turn%uint32(len(w.others.slots))][:], keys[1:])
	}
	if w.portal != nil {
		w.portal.usage = w.usage
	}
}

// noteEnding notes that the statement ends a transaction, which may have written.
func (a *account) noteEnding(wrote bool) { a.warm.usage = usage{write: wrote} }

// notePassed notes bytes that went to the client, of the answer that is due first.
func (a *account) notePassed(o *op, n int) {
	if o.run.began != 0 {
		o.run.bytes += int64(n)
	} else {
		a.run.bytes += int64(n)
	}
}

// keysOf copies the keys that a statement uses, and returns how many there are.
func (w *warming) keysOf(p *usage, to *[heat.MaxKeys]heat.Key) uint8 {
	if p.keys == 0 {
		return 0
	}
	to[0] = p.first
	if p.keys > 1 {
		if w.others.turn-p.turn >= uint32(len(w.others.slots)) {
			return 1
		}
		copy(to[1:p.keys], w.others.slots[p.turn%uint32(len(w.others.slots))][:])
	}
	return p.keys
}

// waysOf says what the kinds of statements are to package heat.
var waysOf = [tally.Kinds]heat.Way{
	tally.Shard: heat.One, tally.Gather: heat.Scatter, tally.Write: heat.Several, tally.Every: heat.Several, tally.Copy: heat.Several,
	tally.Commit: heat.Commit, tally.TwoPhase: heat.TwoPhase,
}

// warmed samples a statement that is over, if its turn has come.
func (a *account) warmed(r *run, sh *pool.Shard, took int64) {
	if r.kind == tally.Local {
		return
	}
	w := &a.warm
	busy := max(took-r.queued-r.held-r.told, 0)
	if o := &a.s.route.outset; len(o.spends) > 0 {
		o.spent(sh, time.Duration(busy))
	}
	cost, rate := heat.Cost(busy, r.bytes), a.s.srv.counts.heat.sampler.Rate()
	if w.meter.Spend(cost, rate) {
		a.sample(r, sh, busy, w.meter.Weigh(cost, rate))
	}
}

// noteRefused counts a statement that was refused at the outset as work that clients ask for: otherwise a
// throttle would hide the heat that it is there for. Such statements keep a backend busy for so long.
func (a *account) noteRefused(d *departure, busy time.Duration) {
	w := &a.warm
	cost, rate := heat.Cost(int64(busy), 0), a.s.srv.counts.heat.sampler.Rate()
	if !w.meter.Spend(cost, rate) {
		return
	}
	r, sh := run{facts: d.facts, usage: w.usage, kind: tally.Shard, failed: true}, (*pool.Shard)(nil)
	if r.usage.write = r.usage.write || d.writes; d.lane != nil {
		sh = d.lane.Shard()
	}
	a.sample(&r, sh, int64(busy), w.meter.Weigh(cost, rate))
}

// noteHeld notes that the statement under way has waited at the outset for so long. It has not waited for the
// shard, which may have much room.
func (a *account) noteHeld(d time.Duration) { a.warm.held += int64(d) }

// sample keeps a statement as a sample.
func (a *account) sample(r *run, sh *pool.Shard, busy int64, weight float64) {
	s := heat.Sample{
		Weight: weight, Busy: busy, Waited: r.queued, Bytes: r.bytes, Rows: max(r.rows, 0), Database: a.owner.Database, User: a.owner.User, Way: waysOf[r.kind], Failed: r.failed,
		Write: r.usage.write || r.kind == tally.Write || r.kind == tally.TwoPhase || r.facts != nil && r.facts.Effects&parser.Writes != 0,
	}
	if r.facts != nil {
		s.Text = r.facts.Norm
	}
	s.KeyCount = a.warm.keysOf(&r.usage, &s.Keys)
	switch {
	case r.kind != tally.Shard && r.kind != tally.Commit:
		s.Shards = slices.Clone(a.shards)
	case sh != nil:
		s.Shard = sh.Name
	}
	a.s.srv.counts.heat.sampler.Put(a.s.id, &s)
}
