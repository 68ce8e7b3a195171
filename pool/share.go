package pool

// A server has connections for all proxies together. So each proxy may have less of them than
// its configuration says: its share, which those who know the other proxies set.

// SetShare bounds the connections to a shard further than the configuration does. Those above
// it are closed as they are given back, and idle ones soon.
func (p *Pool) SetShare(shard string, n int) {
	p.mu.Lock()
	sh := p.shards[shard]
	p.mu.Unlock()
	if sh == nil || sh.share.Swap(int64(n)) == int64(n) {
		return
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for sh.total > sh.Most() && sh.evict(func(*Lane) bool { return true }) {
	}
	sh.serveQueue() // there may be more room
}

// Most is how many connections the shard's sessions may have.
func (sh *Shard) Most() int {
	most := sh.pool.conf().MaxPerShard
	if share := int(sh.share.Load()); share > 0 {
		most = min(most, share)
	}
	return most
}

// UserMost is how many of them one user may have, 0 for all. Where the shard has fewer than the
// configuration says, a user that may not have all of those may not have all of these either.
func (sh *Shard) UserMost(user string) int {
	conf := sh.pool.conf()
	limit, most := conf.UserLimit(user), sh.Most()
	if limit <= 0 || limit >= conf.MaxPerShard || most == conf.MaxPerShard {
		return limit
	}
	return min(limit, max(1, most-most/4))
}
