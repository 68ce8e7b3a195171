package deadlock

import (
	"cmp"
	"strings"
	"time"
)

// Facts is what is known at one look.
type Facts struct {
	Waits   []Wait
	Parties []Party
}

// Backend is a server process of a shard.
type Backend struct {
	Shard string
	PID   int32
}

// Wait is a backend that waits for a lock which somebody is in the way of. One
// that waits for several is several.
type Wait struct {
	Backend
	// Lock is what it waits for, in PostgreSQL's words: "ShareLock on
	// transaction 745".
	Lock string
	// By is who is in its way on the same shard. If it is 0, that is the
	// prepared transaction of the name GID.
	By  int32
	GID string
}

// Party is a transaction, or a query over several shards, as its proxy tells of
// it.
type Party struct {
	Proxy   string
	Session int32
	// Round is how often its proxy has looked. Of another round it is news.
	Round int64
	// Turn is the message of its client that it is busy with. As long as it is
	// the same, nothing that the party holds has been let go of.
	Turn  int64
	Began time.Time
	// Backends are those that take part in it.
	Backends []Backend
	// Prepared is what the names of its prepared transactions have in common,
	// if it is being committed.
	Prepared string
	// Queue is the shard in whose pool it waits for a connection, Holders the
	// backends of all connections that could become free. Empty: it does not
	// wait there, or for more than is known.
	Queue   string
	Holders []Backend
}

// compare orders parties by age, and those of one age in some way that all
// proxies agree on: the youngest is the greatest.
func (p *Party) compare(o *Party) int {
	return cmp.Or(p.Began.Compare(o.Began), strings.Compare(p.Proxy, o.Proxy), cmp.Compare(p.Session, o.Session))
}

// Persisting returns what was so at the look before and still is.
func Persisting(before, now Facts) Facts {
	type turn struct {
		proxy   string
		session int32
		turn    int64
	}
	known := map[turn]*Party{}
	for i := range before.Parties {
		p := &before.Parties[i]
		known[turn{p.Proxy, p.Session, p.Turn}] = p
	}
	var out Facts
	for _, p := range now.Parties {
		was := known[turn{p.Proxy, p.Session, p.Turn}]
		if was == nil || was.Round == p.Round {
			continue // not known to have been so all the time
		}
		if was.Queue != p.Queue {
			p.Queue, p.Holders = "", nil
		}
		out.Parties = append(out.Parties, p)
	}
	waited := map[Wait]bool{}
	for _, w := range before.Waits {
		waited[w] = true
	}
	for _, w := range now.Waits {
		if waited[w] {
			out.Waits = append(out.Waits, w)
		}
	}
	return out
}

// lockModes are PostgreSQL's table-level lock modes, each with those that it
// excludes, by their place in this list.
var lockModes = []struct {
	name     string
	excludes []int
}{
	{"AccessShareLock", []int{7}},
	{"RowShareLock", []int{6, 7}},
	{"RowExclusiveLock", []int{4, 5, 6, 7}},
	{"ShareUpdateExclusiveLock", []int{3, 4, 5, 6, 7}},
	{"ShareLock", []int{2, 3, 5, 6, 7}},
	{"ShareRowExclusiveLock", []int{2, 3, 4, 5, 6, 7}},
	{"ExclusiveLock", []int{1, 2, 3, 4, 5, 6, 7}},
	{"AccessExclusiveLock", []int{0, 1, 2, 3, 4, 5, 6, 7}},
}

// Conflict reports whether one lock mode is in the way of another, as pg_locks
// names them. One that nobody knows is in nobody's way: a wait that is missed is
// ended by a timeout, one that is imagined would end an innocent transaction.
func Conflict(held, wanted string) bool {
	for _, m := range lockModes {
		if m.name != held {
			continue
		}
		for _, i := range m.excludes {
			if lockModes[i].name == wanted {
				return true
			}
		}
	}
	return false
}
