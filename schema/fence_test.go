package schema

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/pool"
	"weft/quote"
	"weft/twopc"
)

// backend is a connection of its own to a database.
type backend struct {
	*testing.T
	Conn
	own *Own
	pid int32
}

func newBackend(t *testing.T, server, database string, own *Own) *backend {
	t.Helper()
	l := shared.Shard(spec(server)).OpenLane(pool.NewKey(database, "postgres", nil))
	defer l.CloseLane()
	c, err := l.Dedicated(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Terminate)
	return &backend{t, c, own, c.PID()}
}

// other is a second connection to the same database.
func (sh *shard) other() *backend { return newBackend(sh.T, sh.server, sh.database, sh.own) }

// is compares the answer to a query, as that of shard.
func (b *backend) is(sql, want string) {
	b.Helper()
	rows, err := b.Exec(sql)
	if err != nil && pgerr.From(err).Code != pgerr.AdminShutdown && !errors.Is(err, pool.ErrLost) {
		_, _ = b.Exec("ROLLBACK")
	}
	if got := answer(rows, err); got != want {
		b.Errorf("%s\n got %s\nwant %s", sql, got, want)
	}
}

// answer is the rows of a query, or the error it ends with: SQLSTATE and message.
func answer(rows [][]string, err error) string {
	if err != nil {
		e := pgerr.From(err)
		return e.Code + " " + e.Message
	}
	var lines []string
	for _, r := range rows {
		lines = append(lines, strings.Join(r, "|"))
	}
	return strings.Join(lines, "; ")
}

// register is the call that registers the backend.
func (b *backend) register(proxy string, epoch int64) string {
	return b.own.RegisterSQL(b.pid, proxy, epoch)
}

// TestFenceSQL: what the functions of own/15_fence.sql do.
func TestFenceSQL(t *testing.T) {
	sh := installed(t)
	a, b := sh.other(), sh.other()
	a.is(a.register("a", 5), "")
	b.is(b.register("b", 7), "")
	b.is(b.register("b", 7), "")
	sh.is("SELECT proxy, epoch FROM weft_gate.backend ORDER BY pid = "+fmt.Sprint(b.pid), "a|5; b|7")

	// Proofs are for one backend, proxy and epoch.
	b.is(a.register("a", 5), notProved)
	b.is(strings.Replace(b.register("b", 7), "7", "8", 1), notProved)
	b.is(strings.Replace(b.register("b", 7), "'b'", "'a'", 1), notProved)

	// Nobody but the service user sets the fence, or sees what it is about.
	sh.is("DROP ROLE IF EXISTS fence_mallory; CREATE ROLE fence_mallory", "")
	for _, sql := range []string{
		"SELECT weft.fence('{}', 9, 0)", "SELECT * FROM weft.expel('{}', 0)", "SELECT * FROM weft.outside('{}')", "SELECT * FROM weft.strangers('{}')",
		"SELECT weft.enroll('a', 5, '{}', '{}')",
	} {
		name := sql[strings.Index(sql, "weft.")+len("weft.") : strings.Index(sql, "(")]
		sh.is("SET ROLE fence_mallory; "+sql, "42501 permission denied for function "+name)
		sh.is("RESET ROLE", "")
	}
	sh.is("SET ROLE fence_mallory; LOCK TABLE weft_gate.fence IN ACCESS SHARE MODE", "42501 permission denied for schema weft_gate")
	sh.is("RESET ROLE; SET ROLE fence_mallory; SELECT weft.register('a', 5, 'x')", notProved)
	// The role of a client registers, whatever its search_path and its rights are.
	sh.is("SET search_path = pg_temp, public; BEGIN; "+sh.own.RegisterSQL(sh.pid, "c", 6)+"; ROLLBACK; RESET search_path; RESET ROLE; DROP ROLE fence_mallory", "")

	// Of the epochs up to 8, a's 5 alone is alive.
	sh.is("SELECT weft.fence('{a/5}', 8, 0)", "")
	sh.is("SELECT weft.fence('{a/5,b/7}', 8, 0)", "40001 the fence was set by another proxy meanwhile")
	sh.is("SELECT pid = "+fmt.Sprint(b.pid)+", proxy FROM weft.outside('{a/5}')", "t|b")
	sh.is("SELECT count(*) FROM weft.expel('{a/5}', 5000)", "0")
	sh.is("SELECT proxy FROM weft_gate.backend", "a")
	if _, err := b.Exec("SELECT 1"); err == nil {
		t.Error("a backend outside of the fence goes on")
	}
	a.is("SELECT 1", "1")
	b = sh.other()
	const out = "57P03 proxy b is fenced off: it has lost its place in the directory, and rows have moved since"
	b.is(b.register("b", 7), out)
	b.is(b.register("b", 8), out) // a proxy that has never been here, and is gone
	b.is(b.register("b", 9), "")
	a.is(a.register("a", 5), "")
	a.is(a.register("a", 4), strings.Replace(out, "proxy b", "proxy a", 1))

	// A directory that was restored counts anew: who is in the list is let in, and nobody else.
	sh.is("SELECT weft.fence('{b/3}', 4, 1); SELECT changes, revision, live FROM weft_gate.fence", "; 2|8|{b/3}")
	b.is(b.register("b", 3), "")
	b.is(b.register("b", 7), out)

	// Backends that have not registered themselves.
	c := sh.other()
	began := sh.get(t, "SELECT (1000000 * date_part('epoch', backend_start))::bigint FROM pg_stat_activity WHERE pid = "+fmt.Sprint(c.pid))
	sh.is(EnrollSQL("c", 12, []int32{c.pid, c.pid + 1}, []int64{1, 2}), "")
	sh.is("SELECT count(*) FROM weft_gate.backend WHERE proxy = 'c'", "0")
	sh.is(fmt.Sprintf("SELECT weft.enroll('c', 12, '{%d}', '{%s}')", c.pid, began), "")
	sh.is("SELECT count(*) FROM weft_gate.backend WHERE proxy = 'c'", "1")

	// A proxy that is back under a new epoch takes its backends along, except those under an epoch that was kept out.
	sh.is(ReadmitSQL("c", 14)+"; SELECT epoch FROM weft_gate.backend WHERE proxy = 'c'", "0; 14")
	sh.is("INSERT INTO weft_gate.backend VALUES (-1, NULL, 'c', 8)", "")
	sh.is(ReadmitSQL("c", 15)+"; SELECT epoch FROM weft_gate.backend WHERE proxy = 'c' ORDER BY 1", "1; 8; 15")
	sh.is("DELETE FROM weft_gate.backend WHERE pid = -1", "")
	sh.is(ReadmitSQL("c", 7)+"; SELECT epoch FROM weft_gate.backend WHERE proxy = 'c'", "1; 15") // the new epoch is kept out
	sh.is(ReadmitSQL("c", 12), "0")

	// Rows of backends that have ended go.
	for range 3 {
		gone := sh.other()
		gone.is(gone.register("b", 9), "")
		gone.is("SELECT pg_terminate_backend(pg_backend_pid())", `08006 shard "home" closed the connection unexpectedly`)
	}
	sh.is("SELECT count(*) FROM weft.expel('{a/5,b/9,b/3,c/12}', 1000); SELECT count(*) FROM weft_gate.backend", "0; 3")
}

// TestFenceWaits: a proxy that comes back while Mover.Fence looks at the shards keeps its backends.
func TestFenceWaits(t *testing.T) {
	c := newCluster(t)
	c.home("CREATE TABLE t (k bigint PRIMARY KEY)")
	c.shard("t", "k")
	live := directory.Live{Proxies: []directory.Proxy{{ID: "p1", Epoch: 13}}, Revision: 13, Newest: 13}
	fence := func(list func(context.Context) (directory.Live, error)) error {
		_, err := c.mover.Fence(c.context(), c.db, []string{"home", "east"}, list)
		return err
	}
	c.must(fence(func(context.Context) (directory.Live, error) { return directory.Live{Revision: 1}, nil }))
	own := &Own{Key: on(t, "home", c.db).get(t, "SELECT key FROM weft.own")}
	open := newBackend(t, "home", c.db, own)
	open.is(open.register("p2", 11), "")
	open.is("BEGIN; INSERT INTO t VALUES (1)", "")
	asked := 0
	c.must(fence(func(context.Context) (directory.Live, error) {
		asked++
		switch asked {
		case 3: // p2 has a lease again
			live.Proxies = append(live.Proxies, directory.Proxy{ID: "p2", Epoch: 15})
			live.Revision, live.Newest = 15, 15
		case 4: // p2 has noticed
			on(t, "home", c.db).run(t, ReadmitSQL("p2", 15))
		}
		return live, nil
	}))
	if asked < 4 {
		t.Errorf("the list was asked for %d times", asked)
	}
	open.is("COMMIT", "")
}

// TestStrangers: who writes to a table, or to a part of it, without having registered.
func TestStrangers(t *testing.T) {
	sh := installed(t)
	sh.is("CREATE TABLE t (a int) PARTITION BY RANGE (a); CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10); CREATE TABLE u (a int)", "")
	ask := "SELECT pid, application FROM weft.strangers(ARRAY['t']::regclass[])"
	a := sh.other()
	a.is("SET application_name = 'psql'; BEGIN; SELECT * FROM t; INSERT INTO u VALUES (1)", "")
	sh.is(ask, "")
	a.is("INSERT INTO t1 VALUES (1)", "")
	sh.is(ask, fmt.Sprintf("%d|psql", a.pid))
	a.is("COMMIT", "")
	sh.is(ask, "")
	a.is(a.register("a", 5), "")
	a.is("BEGIN; INSERT INTO t VALUES (1)", "")
	sh.is(ask, "")
	a.is("COMMIT", "")
	b := sh.other()
	b.is("SET application_name = 'weft move 1'; BEGIN; LOCK TABLE t IN ROW EXCLUSIVE MODE", "")
	sh.is(ask, "")
	b.is("COMMIT", "")
}

// TestFence: Mover.Fence ends what proxies have left that are gone, gives way to what they have
// prepared, and Carriage.Guard finds who could write past a round.
func TestFence(t *testing.T) {
	c := newCluster(t)
	c.home("CREATE TABLE t (k bigint PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 100)")
	c.shard("t", "k")
	snap, move := c.moveTo("home", "east")
	live := directory.Live{Proxies: []directory.Proxy{{ID: "p1", Epoch: 3}}, Revision: 10, Newest: 9}
	list := func(context.Context) (directory.Live, error) { return live, nil }
	fence := func() error {
		_, err := c.mover.Fence(c.context(), c.db, []string{"home", "east"}, list)
		return err
	}
	c.must(fence())

	own := &Own{Key: on(t, "home", c.db).get(t, "SELECT key FROM weft.own")}
	stale := newBackend(t, "home", c.db, own)
	stale.is(stale.register("p2", 11), "")
	stale.is("BEGIN; INSERT INTO t VALUES (1000)", "")
	open := func() *Carriage {
		t.Helper()
		round, err := c.mover.OpenCarriage(c.context(), snap, move, pairOf(snap, move, "home", "east", func(int) bool { return true }))
		c.must(err)
		return round
	}
	round := open()
	if err := round.Guard(live); err == nil || !strings.Contains(err.Error(), "of proxy p2") {
		t.Errorf("a proxy that came and went: %v", err)
	}
	round.Rollback()
	live.Revision = 12
	c.mover.cfg.Returning = 200 * time.Millisecond
	c.must(fence())
	if _, err := stale.Exec("COMMIT"); err == nil {
		t.Error("the transaction of a proxy that is gone goes on")
	}

	psql := newBackend(t, "home", c.db, own)
	psql.is("SET application_name = 'psql'; BEGIN; INSERT INTO t VALUES (2000)", "")
	round = open()
	if err := round.Guard(live); err == nil || !strings.Contains(err.Error(), "application 'psql') writes on shard home, past weft") {
		t.Errorf("somebody writes past weft: %v", err)
	}
	psql.is("ROLLBACK", "")
	c.must(round.Guard(live))
	round.Rollback()

	// What a proxy has prepared is resolved first.
	left := twopc.Name{Cluster: snap.Cluster, Incarnation: "p2", Nonce: twopc.NewNonce(), Decider: "east"}
	psql.is("BEGIN; INSERT INTO t VALUES (3000); PREPARE TRANSACTION "+quote.Literal(string(left.Append(nil, "home"))), "")
	if err := fence(); err == nil || !strings.Contains(err.Error(), "and its proxy is gone") {
		t.Errorf("something is prepared: %v", err)
	}
	psql.is("ROLLBACK PREPARED "+quote.Literal(string(left.Append(nil, "home"))), "")
	c.must(fence())
}
