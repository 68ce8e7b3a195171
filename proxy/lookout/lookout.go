package lookout

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"weft/deadlock"
	"weft/directory"
	"weft/pgerr"
)

const (
	// lookInterval is how often the sessions are looked at, and also the shards while a session
	// waits.
	lookInterval = 250 * time.Millisecond
	// lookAfter is how long a wait must last to be suspicious.
	lookAfter = 400 * time.Millisecond
	// collectTimeout bounds one look at a database.
	collectTimeout = 2 * time.Second
	// partyAge is how old the parties reported by another proxy may be.
	partyAge = 2 * time.Second
)

// Sessions are the sessions of this proxy.
type Sessions interface {
	// Parties returns the sessions that are busy on several shards, by database.
	Parties() map[string][]deadlock.Party
	// GiveWay makes a session stop waiting with an error, if the session still waits in that
	// turn. It reports whether the session did.
	GiveWay(session int32, turn int64, e *pgerr.Error) bool
}

// Conn is a connection to a shard, such as *pool.Conn.
type Conn interface {
	// Exec runs a simple query and returns its rows as text, NULL as "".
	Exec(sql string) ([][]string, error)
	// Interrupt ends a running Exec, from another goroutine.
	Interrupt()
	// Terminate closes the connection, Discard closes one that may be in the middle of an answer.
	Terminate()
	Discard()
}

// Config is what a Lookout needs. All fields must be set.
type Config struct {
	Proxy    string // the ID of this proxy
	Log      *slog.Logger
	Sessions Sessions
	Snapshot func() *directory.Snapshot
	// Dial opens a connection to a database of a shard as the service user, outside the limits of
	// the pool: the transactions in a deadlock may hold all connections of the pool.
	Dial func(ctx context.Context, shard *directory.Shard, database string) (Conn, error)
	// Install makes sure that a shard has weft's own tables in a database.
	Install func(ctx context.Context, shard, database string) error
}

// Lookout looks for deadlocks. All its fields belong to the goroutine of Run.
type Lookout struct {
	cfg   Config
	round int64
	since map[int32]sighting // by session
	// scenes has the databases that are looked at, by name.
	scenes map[string]*scene
	warned bool
	// complained is when the log was last told of a look that failed, and unsaid how many have failed since.
	complained time.Time
	unsaid     int
}

// complaintInterval is between two lines of the log about looks that fail: an outage has many.
const complaintInterval = 10 * time.Minute

// sighting is the message that a session is busy with, and since when.
type sighting struct {
	turn int64
	at   time.Time
}

// scene is a database in which a session waits.
type scene struct {
	last  deadlock.Facts
	conns map[string]Conn // by shard
}

// New returns a Lookout that has seen nothing yet.
func New(cfg Config) *Lookout {
	return &Lookout{cfg: cfg, since: map[int32]sighting{}, scenes: map[string]*scene{}}
}

// Run looks for deadlocks until ctx ends.
func (l *Lookout) Run(ctx context.Context) {
	defer l.leave(nil)
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		l.look(ctx, time.Now())
	}
}

// look looks at the sessions, and at the shards of a database if a session has been busy there
// for long.
func (l *Lookout) look(ctx context.Context, now time.Time) {
	found := l.cfg.Sessions.Parties()
	slow := l.slow(found, now)
	for db := range slow {
		if err := l.lookAt(ctx, db, found[db]); err != nil && ctx.Err() == nil {
			l.complain(db, err, now)
			l.leaveOne(db)
		}
	}
	l.leave(slow)
}

// complain has the log tell of a look that failed, unless it was told of another one not long ago.
func (l *Lookout) complain(db string, err error, now time.Time) {
	if !l.complained.IsZero() && now.Sub(l.complained) < complaintInterval {
		l.unsaid++
		return
	}
	l.cfg.Log.Warn("looking for deadlocks failed", "database", db, "err", err, "unsaid", l.unsaid)
	l.complained, l.unsaid = now, 0
}

// slow returns the databases in which a session has been busy with one message for lookAfter or
// longer.
func (l *Lookout) slow(found map[string][]deadlock.Party, now time.Time) map[string]bool {
	slow := map[string]bool{}
	seen := map[int32]sighting{}
	for db, list := range found {
		for i := range list {
			p := &list[i]
			was := l.since[p.Session]
			if was.turn != p.Turn || was.at.IsZero() {
				was = sighting{p.Turn, now}
			}
			seen[p.Session] = was
			if now.Sub(was.at) >= lookAfter {
				slow[db] = true
			}
		}
	}
	l.since = seen
	return slow
}

// lookAt collects the facts of a database and breaks the deadlocks that two looks have found.
func (l *Lookout) lookAt(ctx context.Context, db string, list []deadlock.Party) error {
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	sc := l.scenes[db]
	if sc == nil {
		sc = &scene{conns: map[string]Conn{}}
		l.scenes[db] = sc
	}
	snap := l.cfg.Snapshot()
	l.round++
	var facts deadlock.Facts
	for _, p := range list {
		p.Round = l.round
		facts.Parties = append(facts.Parties, p)
	}
	// The parties must be collected before the waits: see deadlock.Persisting.
	others, err := l.exchangeParties(ctx, sc, snap, db, facts.Parties)
	if err != nil {
		// The facts of this proxy alone are still true.
		if !l.warned {
			l.cfg.Log.Warn("deadlocks with transactions of other proxies cannot be found", "database", db, "err", err)
		}
		l.warned = true
	}
	facts.Parties = append(facts.Parties, others...)
	if facts.Waits, err = l.waits(ctx, sc, snap, db); err != nil {
		return err
	}
	before := sc.last
	sc.last = facts
	for _, k := range deadlock.Find(deadlock.Persisting(before, facts)) {
		v := k.Victim
		if !slices.ContainsFunc(list, func(p deadlock.Party) bool { return p.Proxy == v.Proxy && p.Session == v.Session }) {
			continue // the victim's own proxy finds the deadlock, too
		}
		e := pgerr.New(pgerr.DeadlockDetected, "deadlock detected").WithDetail("%s", k.Detail()).WithHint("See server log for query details.")
		e.File, e.Routine = "deadlock.c", "DeadLockReport"
		if l.cfg.Sessions.GiveWay(v.Session, v.Turn, e) {
			l.cfg.Log.Info("deadlock over several shards broken", "database", db, "session", v.Session, "detail", k.Detail())
		}
	}
	return nil
}

// conn returns the lookout's connection to a shard.
func (l *Lookout) conn(ctx context.Context, sc *scene, spec *directory.Shard, db string) (Conn, error) {
	if c := sc.conns[spec.Name]; c != nil {
		return c, nil
	}
	c, err := l.cfg.Dial(ctx, spec, db)
	if err != nil {
		return nil, err
	}
	sc.conns[spec.Name] = c
	return c, nil
}

// forget gives up the connection to a shard.
func (l *Lookout) forget(sc *scene, shard string) {
	if c := sc.conns[shard]; c != nil {
		delete(sc.conns, shard)
		c.Discard()
	}
}

// leave ends the look at all databases except the busy ones.
func (l *Lookout) leave(busy map[string]bool) {
	for db := range l.scenes {
		if !busy[db] {
			l.leaveOne(db)
		}
	}
}

// leaveOne ends the look at a database.
func (l *Lookout) leaveOne(db string) {
	for _, c := range l.scenes[db].conns {
		c.Terminate()
	}
	delete(l.scenes, db)
}
