package proxy

import (
	"crypto/subtle"

	"weft/wire"
)

// onCancel does what a cancel request asks for. The request comes through its own connection.
// Where several proxies share one address, it may come to a proxy that does not have the
// session: this proxy passes it on to all others, at first to those that share its own address.
// As in PostgreSQL the client is not told whether the key was right.
func (s *Server) onCancel(p *wire.Packet) {
	if s.Cancel(p.PID, p.Secret) || s.register.cancelBeside(p) || s.circle.Cancel(s.ctx, p) {
		return
	}
	s.log.Info("cancel request with a wrong key", "session", p.PID)
}

// cancel cancels what a session is doing, if this proxy has the session and the key is right.
func (r *register) cancel(id int32, secret []byte) bool {
	r.mu.Lock()
	sess := r.sessions[id]
	r.mu.Unlock()
	if sess == nil || subtle.ConstantTimeCompare(sess.login.secret, secret) != 1 {
		return false
	}
	sess.reach.cancel()
	return true
}

// cancelBeside passes a cancel request on to processes that share this one's address, and reports whether one has the session.
func (r *register) cancelBeside(p *wire.Packet) bool {
	b := r.s.cfg.Peers.Beside
	return b != nil && b.Cancel(r.s.ctx, p.PID, p.Secret)
}

// Cancel cancels what a session is doing, if this proxy has the session and the key is right.
func (s *Server) Cancel(id int32, key []byte) bool { return s.register.cancel(id, key) }
