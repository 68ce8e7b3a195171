package proxy

import (
	"context"
	"crypto/subtle"
	"io"
	"sync"
	"time"

	"weft/directory"
	"weft/wire"
)

// A cancel request comes through a connection of its own. Behind one address of several
// proxies it may come to another than the one that has the session: that one
// passes it on to all others. They do not pass it on again, and nobody is told whether
// the key was right, as in PostgreSQL.

const (
	// maxRelays bounds how many are passed on at once: whoever sends them need not have
	// logged in.
	maxRelays = 16
	// relayTimeout bounds how long the client waits for it.
	relayTimeout = 2 * time.Second
)

// onCancel does what a cancel request asks for.
func (s *Server) onCancel(p *wire.Packet) {
	if s.cancel(p.PID, p.Secret) {
		return
	}
	if !p.Relayed && s.cfg.Directory != nil {
		select {
		case s.relays <- struct{}{}:
			s.relayCancel(p)
			<-s.relays
			return
		default:
		}
	}
	s.log.Info("cancel request with a wrong key", "session", p.PID)
}

// cancel cancels what a session is doing, if it is here and the key is right.
func (s *Server) cancel(id int32, secret []byte) bool {
	s.mu.Lock()
	sess := s.sessions[id]
	s.mu.Unlock()
	if sess == nil || subtle.ConstantTimeCompare(sess.login.secret, secret) != 1 {
		return false
	}
	sess.reach.cancel()
	return true
}

// relayCancel passes a request on to the other proxies and waits until they have done
// with it: a client that has been answered relies on that.
func (s *Server) relayCancel(p *wire.Packet) {
	ctx, stop := context.WithTimeout(s.ctx, relayTimeout)
	defer stop()
	live, err := s.cfg.Directory.Proxies(ctx)
	if err != nil {
		s.log.Warn("a cancel request is not passed on: the directory does not say which proxies there are", "err", err)
		return
	}
	var wg sync.WaitGroup
	for _, other := range live {
		if other.ID == s.cfg.Proxy {
			continue
		}
		wg.Go(s.guarded("cancel request", func() {
			if err := sendCancel(ctx, other, p); err != nil {
				s.log.Warn("a cancel request cannot be passed on", "proxy", other.ID, "address", other.Address, "err", err)
			}
		}))
	}
	wg.Wait()
}

// sendCancel sends a request to another proxy and waits for it to hang up. Who is at
// the other end does not matter, as the key opens nothing but this.
func sendCancel(ctx context.Context, other directory.Proxy, p *wire.Packet) error {
	conn, err := dialPeer(ctx, other)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write(wire.AppendRelayedCancel(nil, p.PID, p.Secret)); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(conn, 1<<10))
	return err
}
