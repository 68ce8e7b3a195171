package vigil

import (
	"sync"
	"time"

	"weft/directory"
	"weft/pool"
	"weft/proxy/peer"
)

// lives is what is known of the other proxies.
type lives struct {
	mu    sync.Mutex
	peers map[string]*life
}

// life is what is known of one other proxy.
type life struct {
	backends []pool.Process // as the proxy last said
	known    uint64         // how many backends the proxy has ever opened
	heard    time.Time      // when the proxy last answered
	missed   int            // answers missing since heard
	hangs    bool           // the proxy stands still, as far as can be known
	asking   bool           // a goroutine asks the proxy
}

// hung reports whether a proxy stands still, as far as can be known.
func (s *lives) hung(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peers[id]
	return p != nil && p.hangs
}

// follow returns the proxies to be asked: those that the directory knows, and those that it
// no longer knows but that hang.
func (s *lives) follow(before, now []directory.Proxy) []directory.Proxy {
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
func (s *lives) begin(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peers == nil {
		s.peers = map[string]*life{}
	}
	p := s.peers[id]
	if p == nil {
		p = &life{heard: time.Now()}
		s.peers[id] = p
	}
	if p.asking {
		return false
	}
	p.asking = true
	return true
}

// end notes that a proxy is no longer being asked.
func (s *lives) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers[id].asking = false
}

// known is how many backends a proxy has ever opened, as it last said.
func (s *lives) known(id string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peers[id].known
}

// heard notes an answer.
func (s *lives) heard(id string, answer peer.Backends) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.peers[id] = life{backends: answer.List, known: answer.Opened, heard: time.Now(), asking: true}
}

// missed notes that an answer is missing, and returns how many are.
func (s *lives) missed(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers[id].missed++
	return s.peers[id].missed
}

// left returns the backends of a proxy by shard.
func (s *lives) left(id string) map[string][]pool.Process {
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

// setHangs notes that a proxy stands still, and reports whether that is news. A proxy that has
// answered meanwhile does not hang.
func (s *lives) setHangs(id string) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peers[id]
	if p == nil || p.missed == 0 {
		return false
	}
	was := p.hangs
	p.hangs = true
	return !was
}
