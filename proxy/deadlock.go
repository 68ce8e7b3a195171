package proxy

import (
	"context"

	"weft/deadlock"
	"weft/directory"
	"weft/pgerr"
	"weft/pool"
	"weft/proxy/lookout"
)

// newLookout returns what looks for deadlocks among the sessions of a server.
func newLookout(s *Server) *lookout.Lookout {
	return lookout.New(lookout.Config{
		Proxy: s.cfg.Proxy, Log: s.log, Sessions: s.register, Snapshot: s.cfg.Snapshot,
		Dial: func(ctx context.Context, shard *directory.Shard, database string) (lookout.Conn, error) {
			lane := s.pool.Shard(shard).OpenLane(pool.ServiceKey(database, s.cfg.ServiceUser))
			defer lane.CloseLane()
			c, err := lane.Dedicated(ctx)
			if err != nil {
				return nil, err
			}
			return c, nil
		},
		Install: s.keeper.owns.Install,
	})
}

// Parties implements lookout.Sessions.
func (r *register) Parties() map[string][]deadlock.Party {
	var found map[string][]deadlock.Party
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, sess := range r.sessions {
		if sess.db == nil {
			continue
		}
		p, queue, ok := sess.reach.asParty()
		if !ok {
			continue
		}
		if queue != nil {
			r.noteHolders(&p, queue.Shard())
		}
		if found == nil {
			found = map[string][]deadlock.Party{}
		}
		found[sess.db.Name] = append(found[sess.db.Name], p)
	}
	return found
}

// noteHolders enters in p, which waits in the queue of a shard, the backends that hold the
// connections of that shard. mu is held.
func (r *register) noteHolders(p *deadlock.Party, shard *pool.Shard) {
	var all []deadlock.Backend
	for _, sess := range r.sessions {
		sess.reach.eachHeld(func(c *pool.Conn) {
			if c.Lane().Shard() == shard {
				all = append(all, deadlock.Backend{Shard: c.Shard(), PID: c.PID()})
			}
		})
	}
	// If some connections have no known holder, one of them may become free.
	if len(all) > 0 && len(all) >= shard.Open() {
		p.Queue, p.Holders = shard.Name, all
	}
}

// GiveWay implements lookout.Sessions.
func (r *register) GiveWay(session int32, turn int64, e *pgerr.Error) bool {
	r.mu.Lock()
	sess := r.sessions[session]
	r.mu.Unlock()
	return sess != nil && sess.reach.giveWay(turn, e)
}
