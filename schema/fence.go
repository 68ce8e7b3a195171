package schema

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/quote"
	"weft/twopc"
)

// A proxy that stood still, or was cut off, does not know that rows have moved, and nobody waits
// for it any more. So the databases keep it out: see sql/own/15_fence.sql.

// expelPatience is how long a backend may take to end.
const expelPatience = 5 * time.Second

// RegisterSQL is the statement with which a backend of a proxy registers with its database.
func (o *Own) RegisterSQL(pid int32, proxy string, epoch int64) string {
	proof := o.Prove(pid, "register", proxy, strconv.FormatInt(epoch, 10))
	return fmt.Sprintf("SELECT weft.register(%s, %d, %s)", quote.Literal(proxy), epoch, quote.Literal(proof))
}

// EnrollSQL is the statement with which weft's own connection registers other backends of a proxy.
func EnrollSQL(proxy string, epoch int64, pids []int32, began []int64) string {
	return fmt.Sprintf("SELECT weft.enroll(%s, %d, '{%s}', '{%s}')", quote.Literal(proxy), epoch, joined(pids), joined(began))
}

// ReadmitSQL is the text with which weft's own connection registers the backends of a proxy under a new epoch, except those whose
// epoch the fence keeps out. Its last answer is how many it has left as they were. The lock makes weft.fence wait, as in weft.register.
func ReadmitSQL(proxy string, epoch int64) string {
	id := quote.Literal(proxy)
	return fmt.Sprintf("LOCK TABLE ONLY weft_gate.fence IN ROW SHARE MODE; "+
		"UPDATE weft_gate.backend b SET epoch = %[2]d WHERE b.proxy = %[1]s AND b.epoch <> %[2]d AND NOT EXISTS (SELECT FROM weft_gate.fence f "+
		"WHERE b.epoch <= f.revision AND pg_catalog.concat(%[1]s::text, '/', b.epoch) <> ALL (f.live) "+
		"OR %[2]d <= f.revision AND pg_catalog.concat(%[1]s::text, '/', %[2]d) <> ALL (f.live)); "+
		"SELECT pg_catalog.count(*) FROM weft_gate.backend b WHERE b.proxy = %[1]s AND b.epoch <> %[2]d", id, epoch)
}

func joined[T int32 | int64](list []T) string {
	texts := make([]string, len(list))
	for i, n := range list {
		texts[i] = strconv.FormatInt(int64(n), 10)
	}
	return strings.Join(texts, ",")
}

// defaultReturning is Config.Returning unless it is set: the lease of a proxy by default.
const defaultReturning = 10 * time.Second

// Fence keeps all proxies out of a database of some shards that are not in the list, and ends the
// backends that they have there. The list is asked for after the shards, so that of two callers
// the one with the newer list is the last. A proxy that is not in the list and has backends there gets
// Config.Returning to come back: all proxies lose their leases when etcd has been away. Fence fails if a
// backend does not end, or if a transaction is still prepared that a proxy has left behind.
func (m *Mover) Fence(ctx context.Context, database string, shards []string, list func(context.Context) (directory.Live, error)) (directory.Live, error) {
	sessions := make([]*session, len(shards))
	for i, shard := range shards {
		s, err := open(ctx, m.cfg.Shards, shard, database, m.cfg.Service, "weft fence")
		if err != nil {
			return directory.Live{}, err
		}
		defer s.close()
		sessions[i] = s
		if _, err := install(s, database, m.cfg.Service); err != nil {
			return directory.Live{}, err
		}
		// A backend that registers holds the fence for a moment.
		if err := s.run(fmt.Sprintf("SET lock_timeout = %d", expelPatience.Milliseconds())); err != nil {
			return directory.Live{}, err
		}
	}
	live, seen, err := m.present(ctx, sessions, list)
	if err != nil {
		return live, err
	}
	names := namesSQL(live)
	for i, s := range sessions {
		if err := s.run(fmt.Sprintf("SELECT weft.fence(%s, %d, %s)", names, live.Revision, seen[i])); err != nil {
			return live, err
		}
	}
	for _, s := range sessions {
		rows, err := s.Exec(fmt.Sprintf("SELECT pid, proxy FROM weft.expel(%s, %d)", names, expelPatience.Milliseconds()))
		if err != nil {
			return live, err
		}
		if len(rows) > 0 {
			return live, outsideError(s.shard, rows[0])
		}
		if err := s.abandoned(live); err != nil {
			return live, err
		}
	}
	return live, nil
}

// lookAgain is how often Fence looks whether a proxy has come back.
const lookAgain = 100 * time.Millisecond

// present returns who is alive, and what each shard's fence had in changes before that was asked. It waits up to Config.Returning
// for proxies with backends on the shards that are not alive.
func (m *Mover) present(ctx context.Context, sessions []*session, list func(context.Context) (directory.Live, error)) (live directory.Live, seen []string, err error) {
	seen = make([]string, len(sessions))
	for end := time.Now().Add(m.cfg.Returning); ; {
		for i, s := range sessions {
			if seen[i], err = s.one("SELECT changes FROM weft_gate.fence"); err != nil {
				return live, seen, err
			}
		}
		if live, err = list(ctx); err != nil {
			return live, seen, err
		}
		all := true
		for _, s := range sessions {
			rows, err := s.Exec("SELECT pid FROM weft.outside(" + namesSQL(live) + ")")
			if err != nil {
				return live, seen, err
			}
			all = all && len(rows) == 0
		}
		if all || time.Now().After(end) {
			return live, seen, nil
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return live, seen, context.Cause(ctx)
		}
	}
}

// namesSQL is the list of live proxies as an array.
func namesSQL(live directory.Live) string {
	names := live.Names()
	for i := range names {
		names[i] = quote.Literal(names[i])
	}
	return "ARRAY[" + strings.Join(names, ", ") + "]::text[]"
}

// outsideError says that a backend of a proxy that is gone is still there.
func outsideError(shard string, row []string) error {
	return pgerr.New(pgerr.ObjectInUse, "process %s of proxy %s, which is no longer listed in the directory, has not ended on shard %s", row[0], row[1], shard)
}

// abandoned returns an error if a transaction of a proxy that is gone is prepared: it may have
// written rows that are about to move, and somebody resolves it soon.
func (s *session) abandoned(live directory.Live) error {
	rows, err := s.Exec("SELECT gid FROM pg_catalog.pg_prepared_xacts WHERE database = pg_catalog.current_database()")
	if err != nil {
		return err
	}
	for _, r := range rows {
		name, ok := twopc.ParseName(r[0])
		if _, pledged := name.Pledge(); pledged {
			continue // nobody but its client ends it, and a round waits for it: see Carriage.AwaitPrepared
		}
		if ok && !slices.ContainsFunc(live.Proxies, func(p directory.Proxy) bool { return p.ID == name.Incarnation }) {
			return pgerr.New(pgerr.ObjectInUse, "transaction %s is prepared on shard %s, and its proxy is gone", quote.Literal(r[0]), s.shard)
		}
	}
	return nil
}

// Guard fails if somebody may write to the giving shards who does not know of the round: a backend
// of a proxy that is not in the list, or one that no proxy has registered and that is writing to a
// table of the round.
func (c *Carriage) Guard(live directory.Live) error {
	tables := make([]string, len(c.tables))
	for i, t := range c.tables {
		tables[i] = quote.Literal(t.name.SQL())
	}
	ask := "SELECT pid, proxy FROM weft.outside(" + namesSQL(live) + "); " +
		"SELECT pid, role, application FROM weft.strangers(ARRAY[" + strings.Join(tables, ", ") + "]::regclass[])"
	for _, shard := range c.shards() {
		rows, err := c.ends[shard].Exec(ask)
		if err != nil {
			return err
		}
		gives := slices.ContainsFunc(c.pairs, func(p directory.Pair) bool { return p.From == shard })
		for _, r := range rows {
			switch {
			case len(r) == 2:
				return outsideError(shard, r)
			case gives:
				return pgerr.New(pgerr.ObjectInUse, "process %s (role %s, application %s) writes on shard %s, past weft", r[0], r[1], quote.Literal(r[2]), shard).
					WithHint("End its transaction, and write through weft.")
			}
		}
	}
	return nil
}
