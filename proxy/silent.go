package proxy

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"weft/directory"
	"weft/pool"
	"weft/proxy/peer"
)

// A proxy that stands still leaves open transactions on the shards: its connections are
// there, so the shards wait, and the rows stay locked. Its lease in the directory runs out
// much later. So proxies ask each other which backends they have; the answer comes when
// there is a new backend, or after half a second. When a proxy has failed to answer twice,
// and none of its backends has begun anything for a while on any shard, the other proxies
// end those of its backends that wait for it in the middle of a transaction. A proxy that
// works, but that the others cannot reach, is let be: it talks to every shard each second
// (see package leftover). A proxy that has not got the processor itself judges no other proxy: the
// others may share its machine. A proxy that wakes up finds its connections closed, and goes on with
// new ones.

const (
	// listenEvery is how long an answer is kept back while there is nothing new,
	// listenTimeout how long an answer may take.
	listenEvery   = 500 * time.Millisecond
	listenTimeout = time.Second
	// silentAfter is how many missing answers make a proxy silent.
	silentAfter = 2
	// lifeless is how long no backend of a silent proxy may have begun a statement before the
	// proxy counts as hung.
	lifeless = 1500 * time.Millisecond
	// rememberFor is how long the backends of a proxy that the directory no longer knows
	// are looked after.
	rememberFor = time.Minute
	// endTimeout bounds one attempt to end what a hung proxy has left.
	endTimeout = 15 * time.Second
)

// silent is what is known of the other proxies.
type silent struct {
	mu    sync.Mutex
	peers map[string]*peerLife
}

// peerLife is what is known of one other proxy.
type peerLife struct {
	backends []pool.Process // as the proxy last said
	known    uint64         // how many backends the proxy has ever opened
	heard    time.Time      // when the proxy last answered
	missed   int            // answers missing since heard
	hangs    bool           // the proxy stands still, as far as can be known
	asking   bool           // a goroutine asks the proxy
}

// hung reports whether a proxy stands still, as far as can be known.
func (s *silent) hung(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peers[id]
	return p != nil && p.hangs
}

// listenToPeers keeps asking the other proxies for their backends.
func (k *keeper) listenToPeers(ctx context.Context) {
	if k.s.cfg.Directory == nil || k.s.cfg.Proxy == "" {
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(listenEvery)
	defer tick.Stop()
	var others []directory.Proxy
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asking, stop := context.WithTimeout(ctx, listenTimeout)
		if list, err := k.s.cfg.Directory.Proxies(asking); err == nil {
			others = k.silent.follow(others, list)
		}
		stop()
		for _, other := range others {
			if other.ID == k.s.cfg.Proxy || !k.silent.begin(other.ID) {
				continue
			}
			wg.Go(k.s.guarded("other proxies", func() {
				defer k.silent.end(other.ID)
				for k.silent.hear(other.ID, func(known uint64) (peer.Backends, error) { return backendsOf(ctx, other, known) }) {
				}
				if k.silent.missed(other.ID) >= silentAfter && k.pulse.steady(time.Now()) && ctx.Err() == nil {
					k.endLeftBy(ctx, other.ID)
				}
			}))
		}
	}
}

// backendsOf asks a proxy for its backends.
func backendsOf(ctx context.Context, other directory.Proxy, known uint64) (a peer.Backends, err error) {
	ctx, stop := context.WithTimeout(ctx, listenTimeout)
	defer stop()
	rows, err := peer.Ask(ctx, other, peer.Question{Backends: true, Known: known})
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(rows, &a)
}

// follow returns the proxies to be asked: those that the directory knows, and those that it
// no longer knows but that hang.
func (s *silent) follow(before, now []directory.Proxy) []directory.Proxy {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := map[string]bool{}
	for _, p := range now {
		is[p.ID] = true
	}
	for _, p := range before {
		if is[p.ID] {
			continue
		}
		if l := s.peers[p.ID]; l != nil && (l.asking || l.hangs && time.Since(l.heard) < rememberFor) {
			now = append(now, p)
			continue
		}
		delete(s.peers, p.ID)
	}
	return now
}

// begin reports whether a proxy can be asked, because it is not being asked already.
func (s *silent) begin(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peers == nil {
		s.peers = map[string]*peerLife{}
	}
	p := s.peers[id]
	if p == nil {
		p = &peerLife{heard: time.Now()}
		s.peers[id] = p
	}
	if p.asking {
		return false
	}
	p.asking = true
	return true
}

// hear asks a proxy once and notes the answer. It reports false if the proxy does not
// answer.
func (s *silent) hear(id string, ask func(known uint64) (peer.Backends, error)) bool {
	s.mu.Lock()
	known := s.peers[id].known
	s.mu.Unlock()
	answer, err := ask(known)
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peers[id]
	if err != nil {
		p.missed++
		return false
	}
	*p = peerLife{backends: answer.List, known: answer.Opened, heard: time.Now(), asking: true}
	return true
}

// end notes that a proxy is no longer being asked.
func (s *silent) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers[id].asking = false
}

// missed is how many answers of a proxy are missing.
func (s *silent) missed(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peers[id].missed
}

// left returns the backends of a proxy by shard.
func (s *silent) left(id string) map[string][]pool.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string][]pool.Process{}
	if p := s.peers[id]; p != nil {
		for _, b := range p.backends {
			out[b.Shard] = append(out[b.Shard], b)
		}
	}
	return out
}

// setHangs notes that a proxy stands still, and reports whether that is news.
func (s *silent) setHangs(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peers[id]
	if p == nil || p.missed == 0 {
		return false // the proxy has answered meanwhile
	}
	was := p.hangs
	p.hangs = true
	return !was
}

// endLeftBy ends the transactions of a proxy that has fallen silent, unless one of its
// backends shows that the proxy works.
func (k *keeper) endLeftBy(ctx context.Context, id string) {
	ctx, stop := context.WithTimeout(ctx, endTimeout)
	defer stop()
	left := k.silent.left(id)
	lives, answers := "SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity WHERE query_start > pg_catalog.clock_timestamp() - interval '"+lifeless.String()+"' AND ", 0
	for shard, rows := range k.onBackends(ctx, left, lives) {
		if len(rows) == 1 && rows[0][0] != "0" {
			k.s.log.Debug("a proxy does not answer, but works", "proxy", id, "shard", shard)
			return
		}
		answers += len(rows)
	}
	if answers == 0 {
		return // no shard answers, so nothing is known
	}
	if k.silent.setHangs(id) {
		k.s.log.Warn("a proxy stands still: its open transactions are ended", "proxy", id)
	}
	const end = "SELECT pid, pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE xact_start IS NOT NULL AND (state LIKE 'idle in transaction%' OR wait_event_type = 'Client') AND "
	for shard, rows := range k.onBackends(ctx, left, end) {
		for _, row := range rows {
			k.s.log.Warn("ended a transaction of a proxy that stands still", "proxy", id, "shard", shard, "pid", row[0])
		}
	}
}

// onBackends runs a query, with a condition that selects these backends, on all their
// shards at once, and returns the rows of the shards that answer.
func (k *keeper) onBackends(ctx context.Context, left map[string][]pool.Process, sql string) map[string][][]string {
	database := "postgres"
	if names := k.s.cfg.Snapshot().Databases(); len(names) > 0 {
		database = names[0]
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	out := map[string][][]string{}
	ctx, stop := context.WithTimeout(ctx, listenTimeout)
	defer stop()
	for shard, list := range left {
		wg.Go(k.s.guarded("other proxies", func() {
			c, err := k.s.dialService(ctx, shard, database)
			if err != nil {
				return
			}
			defer c.Terminate()
			defer context.AfterFunc(ctx, c.(*pool.Spare).Abandon)()
			rows, err := c.Exec(sql + pool.AmongSQL(list))
			if err != nil {
				k.s.log.Debug("the backends of a proxy could not be looked at", "shard", shard, "err", err)
				return
			}
			mu.Lock()
			out[shard] = rows
			mu.Unlock()
		}))
	}
	wg.Wait()
	return out
}
