package proxy

import (
	"crypto/subtle"

	"weft/wire"
)

// onCancel does what a cancel request asks for. The request comes through its own connection.
// Where several proxies share one address, it may come to a proxy that does not have the
// session: this proxy passes it on to all others. As in PostgreSQL the client is not told
// whether the key was right.
func (s *Server) onCancel(p *wire.Packet) {
	if s.register.cancel(p.PID, p.Secret) || s.circle.Cancel(s.ctx, p) {
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
