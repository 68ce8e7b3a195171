package proxy

import (
	"weft/pool"
)

// notifier is a backend through which a session notifies.
type notifier struct {
	shard string
	pid   int32
}

// notifies notes that the session is about to notify through a backend, so that listening
// clients are told the session's ID.
func (rc *record) notifies(c *pool.Conn) {
	key := notifier{c.Shard(), c.PID()}
	before, ok := rc.s.srv.register.notifiers.Load(key)
	if ok && before != rc.s.id || rc.notified != "" && rc.notified != key.shard {
		// First the notifications that another session sent through this backend must be
		// delivered as that session's, and those that this session sent through another shard
		// must be heard.
		rc.s.hub().Sync()
	}
	rc.notified = key.shard
	rc.s.srv.register.notifiers.Store(key, rc.s.id)
}

// sessionOf returns the ID that clients know for the session that notified through a backend.
func (r *register) sessionOf(shard string, pid int32) int32 {
	if id, ok := r.notifiers.Load(notifier{shard, pid}); ok {
		return id.(int32)
	}
	id := pid
	r.holders(func(sess *Session, c *pool.Conn) {
		if c.PID() == pid && c.Shard() == shard {
			id = sess.id
		}
	})
	return id
}
