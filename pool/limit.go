package pool

import "weft/heat"

// Most bounds the connections that are open. While a shard has more work than it can do, it may be better to let fewer of
// them work at a time: the limit bounds the connections that are lent to transactions. Three kinds of loans are not held up by
// the limit, because others would wait for the session that waits:
//
//   - A session that holds connections already gets the next one.
//   - A session that keeps its connection between transactions does not count from then on: see Conn.Keep.
//   - Dedicated connections and those of Spares are outside of all limits.

// SetLimit lets so many connections to a shard be lent at a time; 0: as many as may be open.
func (p *Pool) SetLimit(shard string, n int) {
	p.mu.Lock()
	sh := p.shards[shard]
	p.mu.Unlock()
	if sh == nil || sh.limit.Swap(int64(n)) == int64(n) {
		return
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.serveQueue() // there may be more room
}

// full reports whether as many connections are lent as the limit allows. mu is held.
func (sh *Shard) full() bool {
	limit := int(sh.limit.Load())
	return limit > 0 && sh.lent() >= limit
}

// lent counts the connections that are lent to transactions, and those being dialled for them. mu is held.
func (sh *Shard) lent() int { return sh.total - sh.idle - sh.kept }

// Keep says that the session keeps the connection after its transaction. The connection counts no longer as lent to a
// transaction until it is released.
func (c *Conn) Keep() {
	if c.kept || c.dedicated {
		return
	}
	sh := c.lane.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	c.kept = true
	sh.kept++
	sh.serveQueue()
}

// Rooms says how the connections to each shard are used at this moment.
func (p *Pool) Rooms() map[string]heat.Room {
	out := map[string]heat.Room{}
	for _, sh := range p.primaries() {
		sh.mu.Lock()
		out[sh.Name] = heat.Room{Lent: sh.lent(), Waiting: sh.queue.waiting, Most: sh.Most()}
		sh.mu.Unlock()
	}
	return out
}
