package proxy

import (
	"weft/directory"
	"weft/proxy/hold"
	"weft/proxy/peer"
	"weft/reshard"
)

// newHolds returns the server's part in rounds of jobs.
func newHolds(s *Server) *hold.Holds {
	return hold.New(hold.Config{
		Proxy: s.cfg.Proxy, Snapshot: s.cfg.Snapshot, Current: s.cfg.Current,
		Each: func(look func(hold.Session) bool) {
			s.register.each(func(sess *Session) bool { return look(blocking{sess}) })
		},
		Complete: s.moving.fences.Complete,
		Cleared:  func(snap *directory.Snapshot) bool { return s.keeper.seeker.Cleared(snap) },
	})
}

// blocking is a session as rounds see it.
type blocking struct{ s *Session }

// Database implements hold.Session.
func (b blocking) Database() string {
	if b.s.db == nil {
		return ""
	}
	return b.s.db.Name
}

// Awaited implements hold.Session.
func (b blocking) Awaited(at *reshard.Barrier) (yes bool, bucket int) {
	return b.s.route.touch.awaited(at)
}

// Blocker implements hold.Session.
func (b blocking) Blocker() (peer.Blocker, bool) {
	if b.s.route.touch.idle() || !b.s.srv.register.has(b.s.id) {
		return peer.Blocker{}, false
	}
	c := b.s.describe()
	return peer.Blocker{Session: c.ID, User: c.User, Application: c.Application, State: c.State, Since: c.Since}, true
}
