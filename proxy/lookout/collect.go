package lookout

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"time"

	"weft/deadlock"
	"weft/directory"
	"weft/pgerr"
	"weft/quote"
)

// exchangeParties tells other proxies of this proxy's transactions and returns theirs.
func (l *Lookout) exchangeParties(ctx context.Context, sc *scene, snap *directory.Snapshot, db string, own []deadlock.Party) ([]deadlock.Party, error) {
	if err := l.cfg.Install(ctx, snap.Home, db); err != nil {
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
	me := quote.Literal(l.cfg.Proxy)
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
func (l *Lookout) waits(ctx context.Context, sc *scene, snap *directory.Snapshot, db string) ([]deadlock.Wait, error) {
	answers, errs := make([][][]string, len(snap.Shards)), make([]error, len(snap.Shards))
	conns := make([]Conn, len(snap.Shards))
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

// execIn is Exec bounded by ctx. When ctx ends first, it returns an error, and the connection
// must be given up.
func execIn(ctx context.Context, c Conn, sql string) ([][]string, error) {
	stop := context.AfterFunc(ctx, c.Interrupt)
	rows, err := c.Exec(sql)
	if !stop() { // a cancel request may still be under way
		err = errors.Join(context.Cause(ctx), err)
	}
	return rows, err
}
