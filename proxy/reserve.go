package proxy

import (
	"slices"

	"weft/pool"
)

// A statement over several shards waits for its backends before it holds any of them, or it would keep
// those of healthy shards from others while it waits for a hot one. The session reserves all of them
// together, and then borrows each as if it were the next that is free.

var _ pool.Asker = (*held)(nil)

// reserve reserves backends of these shards, if the statement needs several and the session holds none.
// A session that holds some waits for each, and comes before newcomers. The caller calls unreserve when
// it has borrowed what it needs. far says that they may be those of standbys.
func (h *held) reserve(shards []int, far bool) error {
	if _, underway := h.underway(); underway || len(shards) < 2 {
		return nil
	}
	lanes := make([]*pool.Lane, len(shards))
	var conns []*pool.Conn
	for again := true; again; {
		var err error
		for i, shard := range shards {
			if lanes[i], err = h.away.laneTo(shard, far); err != nil {
				return err
			}
		}
		conns, err = h.s.reach.queueForAll(lanes, h.want(), h.reserved)
		again = err != nil && far && h.away.insteadOf(lanes, err)
		if err != nil && !again {
			return survivable(err)
		}
	}
	for _, c := range conns {
		c.Lent()
	}
	h.reserved = conns
	return nil
}

// unreserve gives back what was reserved and not borrowed.
func (h *held) unreserve() {
	for _, c := range h.reserved {
		c.Release()
	}
	clear(h.reserved)
	h.reserved = h.reserved[:0]
}

// takeReserved returns the backend of a lane that is reserved, nil if none is.
func (h *held) takeReserved(l *pool.Lane) *pool.Conn {
	i := slices.IndexFunc(h.reserved, func(c *pool.Conn) bool { return c.Lane() == l })
	if i < 0 {
		return nil
	}
	c := h.reserved[i]
	h.reserved = slices.Delete(h.reserved, i, i+1)
	return c
}

// Ask tells the queue of a shard the key of the statement that waits, and how urgent the client says
// the statement is.
func (h *held) Ask() (key uint64, priority pool.Priority) {
	if u := &h.s.account.warm.usage; u.keys > 0 {
		key = u.first.ID*31 + uint64(u.first.Bucket)<<32 + uint64(u.first.Group) + 1
	}
	return key, h.s.record.priority()
}

// priority is the value of weft.priority, as far as the session knows it without asking a backend.
func (rc *record) priority() pool.Priority {
	v, _ := rc.settings.Get(priorityOption)
	if v == "" {
		v = rc.s.lane.Key().Param(priorityOption)
	}
	if v == "" && rc.optionsKnown {
		return rc.inEffect.priority.of()
	}
	return priorityNamed(v).of()
}

// priorityOption is the parameter by which clients say how urgent their statements are.
const priorityOption = "weft.priority"

// priorities are the values of weft.priority. The first one is the default: as urgent as the user's
// statements may be.
var priorities = []string{"user", "low", "normal", "high"}

// namedPriority is an index of priorities.
type namedPriority int

// priorityNamed returns a priority by its name, and the default if there is none of the name.
func priorityNamed(name string) namedPriority {
	return namedPriority(max(0, slices.Index(priorities, name)))
}

func (p namedPriority) of() pool.Priority {
	return []pool.Priority{pool.PriorityHigh, pool.PriorityLow, pool.PriorityNormal, pool.PriorityHigh}[p]
}
