package proxy

import (
	"weft/heat"
	"weft/tally"
)

// soakTime is after how many nanoseconds of work a COPY tells what its rows have cost: a COPY may last for hours.
const soakTime = 20e6

// soak is what the rows of a COPY have cost that has not been told yet. The time in which weft waits for the client is no cost.
type soak struct {
	keys   heat.Handful
	shards []string
	since  int64 // when the work under way has begun
	busy   int64
	rows   int64
}

// begin notes that rows are being sent to the shards, and pause that weft waits for the client again.
func (k *soak) begin() { k.since = tally.Now() }
func (k *soak) pause() { k.busy += tally.Now() - k.since }

// placed counts a row, after the placer has found its shard if the table is sharded.
func (x *load) placed() {
	x.soak.rows++
	if x.rows.placer == nil || !x.soak.keys.Holds() {
		return
	}
	k, ok := x.rows.placer.Used(x.s.db.Name, x.s.srv.counts.heat.watch.Load())
	if !ok {
		k.Bucket = -1 // a row that a shard is to refuse
	}
	x.soak.keys.Hold(k)
}

// tellHeat tells package heat what the rows have cost, if that is much or if last is set.
func (x *load) tellHeat(last bool) {
	k := &x.soak
	if k.rows == 0 || k.busy < soakTime && !last {
		return
	}
	k.shards = k.shards[:0]
	for _, in := range x.inlets {
		if in != nil && in.writes {
			k.shards = append(k.shards, in.conn.Shard())
		}
	}
	x.s.account.soaked(k)
	*k = soak{shards: k.shards}
}

// soaked samples a part of a COPY, if its turn has come. The time until now is not told again when the COPY is over.
func (a *account) soaked(k *soak) {
	a.run.told = tally.Now() - a.run.began
	cost, rate := heat.Cost(k.busy, 0), a.s.srv.counts.heat.sampler.Rate()
	if !a.warm.meter.Spend(cost, rate) {
		return
	}
	r := run{facts: a.run.facts, rows: k.rows, kind: tally.Copy}
	a.noteUsed(k.keys.Keys(), true)
	r.usage = a.warm.usage
	a.shards = append(a.shards[:0], k.shards...)
	a.sample(&r, nil, k.busy, a.warm.meter.Weigh(cost, rate))
	a.warm.usage, a.shards = usage{write: true}, a.shards[:0]
}
