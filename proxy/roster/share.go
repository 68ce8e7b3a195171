package roster

import (
	"context"
	"sync"

	"weft/directory"
)

// shares is what this proxy knows of other proxies that want connections to the shards.
type shares struct {
	mu sync.Mutex
	// wants is how many connections each other proxy may open.
	wants []int
	// warned is the share of each shard that the log has called less than wanted.
	warned map[string]int
}

// share returns how many of the room connections of a server a proxy may take that wants
// own of them, while the other proxies want others. An eighth stays free: for what proxies
// do by themselves, for sessions with the right of way, and for people.
func share(room, own int, others []int) int {
	sum := own
	for _, n := range others {
		sum += n
	}
	return max(1, min(own, (room-room/8)*own/sum))
}

// TakeShares learns which other proxies there are, and takes the share that they leave of each shard's
// connections.
func (r *Roster) TakeShares(ctx context.Context) {
	live, err := r.cfg.Directory.Proxies(ctx)
	if err != nil {
		return // the last shares still hold
	}
	r.shares.learn(live, r.cfg.Proxy, r.cfg.MaxPerShard())
	snap := r.cfg.Snapshot()
	for i := range snap.Shards {
		r.setShare(snap.Shards[i].Name)
	}
}

// setShare holds this proxy to its share of a shard's connections, and warns if that is less
// than the configuration says.
func (r *Roster) setShare(shard string) {
	room := r.servers.room(shard)
	if room == 0 {
		return
	}
	own := r.cfg.MaxPerShard()
	n, news := r.shares.of(shard, room, own)
	r.cfg.SetShare(shard, n)
	if news {
		r.cfg.Log.Warn("proxies may open more connections than a shard has: this one takes its share", "shard", shard,
			"connections", room, "max_per_shard", own, "share", n)
	}
}

// learn keeps what the other proxies want. A proxy that does not say wants as many as this
// one.
func (h *shares) learn(live []directory.Proxy, self string, own int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wants = h.wants[:0]
	for _, p := range live {
		switch {
		case p.ID == self:
		case p.Connections > 0:
			h.wants = append(h.wants, p.Connections)
		default:
			h.wants = append(h.wants, own)
		}
	}
}

// of returns the share of a shard, and whether it is news that the share is less than
// wanted.
func (h *shares) of(shard string, room, own int) (n int, news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n = share(room, own, h.wants)
	if n >= own {
		delete(h.warned, shard)
		return n, false
	}
	if h.warned == nil {
		h.warned = map[string]int{}
	}
	news = h.warned[shard] != n
	h.warned[shard] = n
	return n, news
}
