package proxy

import (
	"weft/pool"
)

// notifier is a backend that notifies.
type notifier struct {
	shard string
	pid   int32
}

// notifies notes that the session is about to notify through a backend, so that
// those who listen are told its ID.
func (rc *record) notifies(c *pool.Conn) {
	key := notifier{c.Shard(), c.PID}
	before, ok := rc.s.srv.register.notifiers.Load(key)
	if ok && before != rc.s.id || rc.notified != "" && rc.notified != key.shard {
		// What another session sent through this backend must be told as
		// its own first, and what this one sent elsewhere is heard first.
		rc.s.hub().Sync()
	}
	rc.notified = key.shard
	rc.s.srv.register.notifiers.Store(key, rc.s.id)
}

// sessionOf returns the ID clients know for whoever notified from a backend.
func (r *register) sessionOf(shard string, pid int32) int32 {
	if id, ok := r.notifiers.Load(notifier{shard, pid}); ok {
		return id.(int32)
	}
	id := pid
	r.holders(func(sess *Session, c *pool.Conn) {
		if c.PID == pid && c.Shard() == shard {
			id = sess.id
		}
	})
	return id
}
