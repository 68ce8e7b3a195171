package pool

// A server's connections are for all proxies together. So each proxy may have fewer of them than
// its configuration says: its share, which the proxy computes from what the other proxies want.

// SetShare bounds the connections to a shard further than the configuration does. Connections
// above the share are closed: idle ones now, lent ones when they are given back.
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

// Most is how many connections to the shard the sessions together may have.
func (sh *Shard) Most() int {
	most, of := sh.pool.conf().MaxPerShard, sh
	if sh.standby != nil {
		if n := sh.pool.conf().MaxPerStandby; n > 0 {
			most = n
		}
		of = sh.standby.of // PostgreSQL wants a standby's max_connections to be no less than the primary's
	}
	if share := int(of.share.Load()); share > 0 {
		most = min(most, share)
	}
	return most
}

// UserMost is how many connections to the shard one user may have, 0 for all. A user whose limit
// is below MaxPerShard does not get the whole of a smaller share either.
func (sh *Shard) UserMost(user string) int {
	conf := sh.pool.conf()
	limit, most := conf.UserLimit(user), sh.Most()
	if limit <= 0 || limit >= conf.MaxPerShard || most == conf.MaxPerShard {
		return limit
	}
	return min(limit, max(1, most-most/4))
}
