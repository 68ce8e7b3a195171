package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"weft/deadlock"
	"weft/directory"
	"weft/pgerr"
	"weft/pool"
	"weft/quote"
)

// Transactions may wait for each other across several shards, which no single shard can see.
// Package deadlock finds such circles from facts; this file collects the facts. As long as no
// transaction of several shards has waited for a while, nothing is asked. Otherwise the shards
// are asked who waits for whom, and the proxies tell each other, through a table on the home
// shard, which backends belong to one transaction: in a deadlock all transactions wait, so the
// proxies of all of them are looking.

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

// lookout looks for deadlocks. All its fields belong to one goroutine.
type lookout struct {
	srv   *Server
	round int64
	since map[int32]sighting
	// scenes has the databases that are looked at, by name.
	scenes map[string]*scene
	warned bool
}

// sighting is the message that a session is busy with, and since when.
type sighting struct {
	turn int64
	at   time.Time
}

// scene is a database in which a session waits.
type scene struct {
	user  string
	last  deadlock.Facts
	conns map[string]*pool.Conn // by shard
}

// watchDeadlocks looks for deadlocks until ctx ends.
func (k *keeper) watchDeadlocks(ctx context.Context) {
	l := &lookout{srv: k.s, since: map[int32]sighting{}, scenes: map[string]*scene{}}
	defer l.leave(nil)
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		l.look(ctx)
	}
}

// suspect is a session that is busy on several shards.
type suspect struct {
	sess  *Session
	party deadlock.Party
	queue *pool.Lane
	slow  bool // the session has been busy for lookAfter or longer
}

// look looks at the sessions, and at the shards of a database if a session has been busy there
// for long.
func (l *lookout) look(ctx context.Context) {
	found := l.suspects()
	busy := map[string]bool{}
	for db, list := range found {
		if !slices.ContainsFunc(list, func(s suspect) bool { return s.slow }) {
			continue
		}
		busy[db] = true
		if err := l.lookAt(ctx, db, list); err != nil && ctx.Err() == nil {
			l.srv.log.Warn("looking for deadlocks failed", "database", db, "err", err)
			l.leaveOne(db)
		}
	}
	l.leave(busy)
}

// suspects returns the sessions that are busy on several shards, by database.
func (l *lookout) suspects() map[string][]suspect {
	var found map[string][]suspect
	now := time.Now()
	seen := map[int32]sighting{}
	l.srv.register.mu.Lock()
	defer l.srv.register.mu.Unlock()
	for id, sess := range l.srv.register.sessions {
		if sess.db == nil {
			continue
		}
		p, queue, ok := sess.reach.asParty()
		if !ok {
			continue
		}
		was := l.since[id]
		if was.turn != p.Turn || was.at.IsZero() {
			was = sighting{p.Turn, now}
		}
		seen[id] = was
		if found == nil {
			found = map[string][]suspect{}
		}
		found[sess.db.Name] = append(found[sess.db.Name], suspect{sess, p, queue, now.Sub(was.at) >= lookAfter})
	}
	l.since = seen
	l.holders(found)
	return found
}

// holders finds out which backends hold the connections that suspects wait for in a queue. The
// register's mu is held.
func (l *lookout) holders(found map[string][]suspect) {
	for _, list := range found {
		for i := range list {
			s := &list[i]
			if s.queue == nil {
				continue
			}
			var all []deadlock.Backend
			for _, sess := range l.srv.register.sessions {
				sess.reach.eachHeld(func(c *pool.Conn) {
					if c.Lane().Shard() == s.queue.Shard() {
						all = append(all, deadlock.Backend{Shard: c.Shard(), PID: c.PID()})
					}
				})
			}
			// If some connections have no known holder, one of them may become free.
			if len(all) > 0 && len(all) >= s.queue.Shard().Open() {
				s.party.Queue, s.party.Holders = s.queue.Shard().Name, all
			}
		}
	}
}

// lookAt collects the facts of a database and breaks the deadlocks that two looks have found.
func (l *lookout) lookAt(ctx context.Context, db string, list []suspect) error {
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	sc := l.scenes[db]
	if sc == nil {
		sc = &scene{user: l.srv.cfg.ServiceUser, conns: map[string]*pool.Conn{}}
		l.scenes[db] = sc
	}
	snap := l.srv.cfg.Snapshot()
	l.round++
	var facts deadlock.Facts
	for i := range list {
		list[i].party.Round = l.round
		facts.Parties = append(facts.Parties, list[i].party)
	}
	// The parties must be collected before the waits: see deadlock.Persisting.
	others, err := l.exchangeParties(ctx, sc, snap, db, facts.Parties)
	if err != nil {
		// The facts of this proxy alone are still true.
		if !l.warned {
			l.srv.log.Warn("deadlocks with transactions of other proxies cannot be found", "database", db, "err", err)
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
		i := slices.IndexFunc(list, func(s suspect) bool { return s.party.Proxy == v.Proxy && s.sess.id == v.Session })
		if i < 0 {
			continue // the victim's own proxy finds the deadlock, too
		}
		e := pgerr.New(pgerr.DeadlockDetected, "deadlock detected").WithDetail("%s", k.Detail()).WithHint("See server log for query details.")
		e.File, e.Routine = "deadlock.c", "DeadLockReport"
		if list[i].sess.reach.giveWay(v.Turn, e) {
			l.srv.log.Info("deadlock over several shards broken", "database", db, "session", v.Session, "detail", k.Detail())
		}
	}
	return nil
}

// exchangeParties tells other proxies of this proxy's transactions and returns theirs.
func (l *lookout) exchangeParties(ctx context.Context, sc *scene, snap *directory.Snapshot, db string, own []deadlock.Party) ([]deadlock.Party, error) {
	if _, err := l.srv.keeper.own(ctx, snap.Home, db); err != nil {
		return nil, err
	}
	c, err := l.conn(ctx, sc, snap.HomeShard(), db)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	me := quote.Literal(l.srv.cfg.Proxy)
	rows, err := execIn(ctx, c, "INSERT INTO weft.party (proxy, parties, seen) VALUES ("+me+", "+quote.Literal(string(body))+", pg_catalog.clock_timestamp()) "+
		"ON CONFLICT (proxy) DO UPDATE SET parties = excluded.parties, seen = excluded.seen; "+
		"SELECT parties FROM weft.party WHERE proxy <> "+me+" AND seen > pg_catalog.clock_timestamp() - interval '"+strconv.Itoa(int(partyAge/time.Millisecond))+" ms'")
	if err != nil {
		l.forget(sc, snap.Home)
		return nil, err
	}
	var out []deadlock.Party
	for _, r := range rows {
		var theirs []deadlock.Party
		if err := json.Unmarshal([]byte(r[0]), &theirs); err != nil {
			return nil, err
		}
		out = append(out, theirs...)
	}
	return out, nil
}

// waitsSQL asks a shard who waits for whom. A holder without a process is a prepared
// transaction: it is found by its locks, and its name by the lock on its own transaction id.
const waitsSQL = `WITH l AS MATERIALIZED (SELECT * FROM pg_catalog.pg_locks),
w AS (SELECT l.*, b.pid AS blocker FROM l, LATERAL pg_catalog.unnest(pg_catalog.pg_blocking_pids(l.pid)) b(pid) WHERE NOT l.granted)
SELECT w.pid, w.mode || ' on ' || CASE w.locktype
	WHEN 'relation' THEN 'relation ' || w.relation::text || ' of database ' || w.database::text
	WHEN 'transactionid' THEN 'transaction ' || w.transactionid::text
	WHEN 'tuple' THEN 'tuple (' || w.page::text || ',' || w.tuple::text || ') of relation ' || w.relation::text || ' of database ' || w.database::text
	WHEN 'virtualxid' THEN 'virtual transaction ' || w.virtualxid
	WHEN 'advisory' THEN 'advisory lock [' || w.database::text || ',' || w.classid::text || ',' || w.objid::text || ',' || w.objsubid::text || ']'
	WHEN 'object' THEN 'object ' || w.objid::text || ' of class ' || w.classid::text || ' of database ' || w.database::text
	ELSE w.locktype END, w.blocker, w.mode, h.mode, p.gid
FROM w LEFT JOIN l h ON w.blocker = 0 AND h.pid IS NULL AND h.granted
	AND (h.locktype, h.database, h.relation, h.page, h.tuple, h.virtualxid, h.transactionid, h.classid, h.objid, h.objsubid)
	IS NOT DISTINCT FROM (w.locktype, w.database, w.relation, w.page, w.tuple, w.virtualxid, w.transactionid, w.classid, w.objid, w.objsubid)
LEFT JOIN l x ON x.pid IS NULL AND x.virtualtransaction = h.virtualtransaction AND x.locktype = 'transactionid' AND x.granted
LEFT JOIN pg_catalog.pg_prepared_xacts p ON p.transaction = x.transactionid`

// waits asks all shards who waits for whom. A shard that does not answer is left out: the waits
// on the others are still true.
func (l *lookout) waits(ctx context.Context, sc *scene, snap *directory.Snapshot, db string) ([]deadlock.Wait, error) {
	answers, errs := make([][][]string, len(snap.Shards)), make([]error, len(snap.Shards))
	conns := make([]*pool.Conn, len(snap.Shards))
	for i := range snap.Shards {
		conns[i], errs[i] = l.conn(ctx, sc, &snap.Shards[i], db)
	}
	var wg sync.WaitGroup
	for i, c := range conns {
		if c != nil {
			wg.Go(func() {
				defer pgerr.Recovered(&errs[i])
				answers[i], errs[i] = execIn(ctx, c, waitsSQL)
			})
		}
	}
	wg.Wait()
	var out []deadlock.Wait
	failed := 0
	for i := range snap.Shards {
		pgerr.Raise(errs[i])
		if errs[i] != nil {
			failed++
			l.forget(sc, snap.Shards[i].Name)
			continue
		}
		for _, r := range answers[i] {
			if w, ok := readWait(snap.Shards[i].Name, r); ok {
				out = append(out, w)
			}
		}
	}
	if failed == len(snap.Shards) {
		return nil, errors.Join(errs...)
	}
	return out, nil
}

// readWait reads a row of waitsSQL.
func readWait(shard string, r []string) (deadlock.Wait, bool) {
	pid, err := strconv.ParseInt(r[0], 10, 32)
	by, err2 := strconv.ParseInt(r[2], 10, 32)
	if err != nil || err2 != nil || by == 0 && (r[5] == "" || !deadlock.Conflict(r[4], r[3])) {
		return deadlock.Wait{}, false
	}
	w := deadlock.Wait{Backend: deadlock.Backend{Shard: shard, PID: int32(pid)}, Lock: r[1], By: int32(by)}
	if by == 0 {
		w.GID = r[5]
	}
	return w, true
}

// conn returns the lookout's connection to a shard. It is outside the pool's limits, because the
// transactions in a deadlock may hold all connections of the pool.
func (l *lookout) conn(ctx context.Context, sc *scene, spec *directory.Shard, db string) (*pool.Conn, error) {
	if c := sc.conns[spec.Name]; c != nil {
		return c, nil
	}
	lane := l.srv.pool.Shard(spec).OpenLane(pool.ServiceKey(db, sc.user))
	defer lane.CloseLane()
	c, err := lane.Dedicated(ctx)
	if err != nil {
		return nil, err
	}
	sc.conns[spec.Name] = c
	return c, nil
}

// execIn is Exec bounded by ctx. When ctx ends first, it returns an error, and the connection
// must be given up.
func execIn(ctx context.Context, c *pool.Conn, sql string) ([][]string, error) {
	stop := context.AfterFunc(ctx, c.Interrupt)
	rows, err := c.Exec(sql)
	if !stop() { // a cancel request may still be under way
		err = errors.Join(context.Cause(ctx), err)
	}
	return rows, err
}

// forget gives up the connection to a shard.
func (l *lookout) forget(sc *scene, shard string) {
	if c := sc.conns[shard]; c != nil {
		delete(sc.conns, shard)
		c.Discard()
	}
}

// leave ends the look at all databases except the busy ones.
func (l *lookout) leave(busy map[string]bool) {
	for db := range l.scenes {
		if !busy[db] {
			l.leaveOne(db)
		}
	}
}

// leaveOne ends the look at a database.
func (l *lookout) leaveOne(db string) {
	for _, c := range l.scenes[db].conns {
		c.Terminate()
	}
	delete(l.scenes, db)
}
