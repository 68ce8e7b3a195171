package proxy

import (
	"context"
	"time"
)

// Yield accepts no more clients, because another process does so at the same address. It returns when all clients that
// were accepted have got a session or gone away, or ctx is done. Sessions go on; Drain ends them.
func (s *Server) Yield(ctx context.Context) {
	s.register.mu.Lock()
	for l := range s.register.listeners {
		l.Close()
	}
	s.register.mu.Unlock()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		s.register.mu.Lock()
		n := len(s.register.starting)
		s.register.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
