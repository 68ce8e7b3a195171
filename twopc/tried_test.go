package twopc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/pgserver"
	"weft/pgserver/pgtest"
	"weft/pool"
	"weft/schema"
	"weft/twopc"
)

// What the order of a commit rests on, tried on a real server. It is both shards.

type world struct {
	t    *testing.T
	pg   *pgserver.Temp
	pool *pool.Pool
	own  *schema.Own
	log  bytes.Buffer
	*twopc.Resolver
}

const cluster = "c0ffee"

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, pg: pgtest.Start(t, pgserver.Config{})}
	var err error
	if w.pool, err = pool.New(pool.Config{}); err != nil {
		t.Fatal(err)
	}
	w.Resolver = &twopc.Resolver{Cluster: cluster, Log: slog.New(slog.NewTextHandler(&w.log, nil)), Dial: func(ctx context.Context, shard, database string) (twopc.Conn, error) {
		return w.dial(ctx, shard, database, "postgres")
	}}
	if w.own, err = schema.Install(t.Context(), shards{w}, "test", "home", "postgres", "postgres"); err != nil {
		t.Fatal(err)
	}
	c := w.conn("postgres")
	c.must("CREATE TABLE t (x int)")
	c.must("CREATE ROLE clerk LOGIN")
	c.must("GRANT ALL ON t TO clerk")
	return w
}

func (w *world) dial(ctx context.Context, shard, database, user string) (*pool.Conn, error) {
	lane := w.pool.Shard(&directory.Shard{Name: shard, Hosts: []string{w.pg.Addr()}}).OpenLane(pool.Key{Database: database, User: user})
	defer lane.CloseLane()
	return lane.Dedicated(ctx)
}

// shards is schema.Shards.
type shards struct{ w *world }

func (s shards) Dial(ctx context.Context, shard, database, user string) (schema.Conn, error) {
	return s.w.dial(ctx, shard, database, user)
}

type conn struct {
	*pool.Conn
	t *testing.T
}

func (w *world) conn(user string) conn {
	w.t.Helper()
	c, err := w.dial(w.t.Context(), "home", "postgres", user)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Terminate)
	return conn{c, w.t}
}

func (c conn) must(sql string) [][]string {
	c.t.Helper()
	rows, err := c.Exec(sql)
	if err != nil {
		c.t.Fatalf("%s: %v", sql, err)
	}
	return rows
}

func (c conn) one(sql string) string {
	c.t.Helper()
	rows := c.must(sql)
	if len(rows) != 1 {
		c.t.Fatalf("%s: %d rows", sql, len(rows))
	}
	return rows[0][0]
}

func code(err error) string {
	e := (*pgerr.Error)(nil)
	if errors.As(err, &e) {
		return e.Code
	}
	return fmt.Sprint(err)
}

func name(n uint64) twopc.Name {
	return twopc.Name{Cluster: cluster, Incarnation: "b0b", Nonce: strconv.FormatUint(n, 16), Decider: "home", Participant: "other"}
}

// entered is twopc.DecideSQL with its parameters.
func entered(secret string, d *twopc.Decision) string {
	text := twopc.DecideSQL
	for i, p := range d.Parameters(secret) {
		text = strings.ReplaceAll(text, "$"+strconv.Itoa(i+1), "'"+p+"'")
	}
	return text
}

// decide is the text that enters the decision about a transaction.
func (w *world) decide(n twopc.Name, members ...twopc.Member) string {
	return entered(w.own.Key, &twopc.Decision{Key: n.Key(), Members: members})
}

// TestRowBeforePrepare: as the row is there before anybody prepares, an insert in its
// place waits as long as the deciding transaction lives, and its success means that
// that is dead. In the other order a late owner commits half.
func TestRowBeforePrepare(t *testing.T) {
	w := newWorld(t)
	owner, part, watch := w.conn("clerk"), w.conn("clerk"), w.conn("postgres")
	n := name(1)
	owner.must("BEGIN; INSERT INTO t VALUES (1)")
	owner.must(w.decide(n))
	part.must("BEGIN; INSERT INTO t VALUES (2); PREPARE TRANSACTION '" + n.String() + "'")
	if o, err := w.Decide(t.Context(), "postgres", n, twopc.Ask); !errors.Is(err, twopc.ErrUndecided) {
		t.Fatalf("the owner is at it, and the answer is %v, %v", o, err)
	}
	if o, err := w.Decide(t.Context(), "postgres", n, twopc.Force); err != nil || o != twopc.Aborted {
		t.Fatalf("forced: %v, %v", o, err)
	}
	if _, err := owner.Exec("COMMIT"); !errors.Is(err, pool.ErrLost) && code(err) != pgerr.AdminShutdown {
		t.Fatalf("the late owner commits: %v", err)
	}
	found := twopc.ReadFound("home", watch.must(twopc.FindSQL(cluster)))
	if len(found) != 1 || found[0].Name != n || found[0].Owner != "clerk" || found[0].Database != "postgres" {
		t.Fatalf("found %+v", found)
	}
	for range 2 { // the second finds it done
		if err := w.Finish(t.Context(), found[0], twopc.Aborted); err != nil {
			t.Fatal(err)
		}
	}
	if got := watch.one("SELECT (SELECT count(*) FROM t) + (SELECT count(*) FROM weft.decision) + (SELECT count(*) FROM pg_prepared_xacts)"); got != "0" {
		t.Fatalf("%s rows are left", got)
	}

	// The other order.
	n = name(2)
	late := w.conn("clerk")
	late.must("BEGIN; INSERT INTO t VALUES (1)")
	part.must("BEGIN; INSERT INTO t VALUES (2); PREPARE TRANSACTION '" + n.String() + "'")
	if o, err := w.Decide(t.Context(), "postgres", n, twopc.Ask); err != nil || o != twopc.Aborted {
		t.Fatalf("%v, %v", o, err)
	}
	part.must("ROLLBACK PREPARED '" + n.String() + "'")
	late.must(w.decide(n))
	late.must("COMMIT")
	if got := watch.one("SELECT string_agg(x::text, ' ') FROM t"); got != "1" {
		t.Errorf("the wrong order does no harm any more (%s): the right one may be dropped", got)
	}
}

// TestReadingBackIsAGuess: while COMMIT is on its way nothing is to be seen, and then
// it is there. The insert waits for it, for a while; who asks again hears it later.
func TestReadingBackIsAGuess(t *testing.T) {
	w := newWorld(t)
	owner, watch := w.conn("clerk"), w.conn("postgres")
	n := name(3)
	owner.must("BEGIN")
	owner.must(w.decide(n))
	if got := watch.one("SELECT count(*) FROM weft.decision"); got != "0" {
		t.Fatalf("%s rows are seen before COMMIT", got)
	}
	done := make(chan error, 1)
	time.AfterFunc(100*time.Millisecond, func() { _, err := owner.Exec("COMMIT"); done <- err })
	o, err := w.Decide(t.Context(), "postgres", n, twopc.Ask)
	for began := time.Now(); errors.Is(err, twopc.ErrUndecided) && time.Since(began) < pgtest.Patience; { // the machine is busy
		o, err = w.Decide(t.Context(), "postgres", n, twopc.Ask)
	}
	if err != nil || o != twopc.Committed {
		t.Errorf("asked while COMMIT is on its way: %v, %v", o, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestArbitrationIsReadCommitted: under REPEATABLE READ the insert fails where it should
// answer, and an UPDATE would match nothing; so the level is said, whatever the
// service user's default is.
func TestArbitrationIsReadCommitted(t *testing.T) {
	w := newWorld(t)
	owner, strict := w.conn("clerk"), w.conn("postgres")
	n := name(4)
	strict.must("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM t")
	owner.must("BEGIN")
	owner.must(w.decide(n))
	owner.must("COMMIT")
	if rows := strict.must("UPDATE weft.decision SET participants = 'abort' WHERE gid = '" + n.Key() + "' RETURNING 1"); len(rows) != 0 {
		t.Error("an UPDATE under REPEATABLE READ sees the row")
	}
	_, err := strict.Exec("INSERT INTO weft.decision (gid, participants, proof) SELECT '" + n.Key() + "', 'abort', weft.proof(key, '" + n.Key() + "') FROM weft.own ON CONFLICT DO NOTHING RETURNING 1")
	if code(err) != pgerr.SerializationFailure {
		t.Errorf("INSERT under REPEATABLE READ: %v", err)
	}
	strict.must("ROLLBACK")
	strict.must("ALTER ROLE postgres SET default_transaction_isolation = 'serializable'")
	strict.must("ALTER ROLE postgres SET default_transaction_read_only = on")
	if o, err := w.Decide(t.Context(), "postgres", n, twopc.Ask); err != nil || o != twopc.Committed {
		t.Errorf("with other defaults: %v, %v", o, err)
	}
	if o, err := w.Decide(t.Context(), "postgres", name(5), twopc.Ask); err != nil || o != twopc.Aborted {
		t.Errorf("of one that never was: %v, %v", o, err)
	}
}

// TestDecisionIsDurable: with synchronous_commit off a crash can lose an acknowledged
// decision. It is raised, for this transaction alone, also from inside savepoints.
func TestDecisionIsDurable(t *testing.T) {
	w := newWorld(t)
	c := w.conn("clerk")
	for i, level := range []string{"off", "local", "remote_write", "on", "remote_apply"} {
		want := level
		if i < 3 {
			want = "on"
		}
		c.must("SET synchronous_commit = " + level)
		c.must("BEGIN; SAVEPOINT a; INSERT INTO t VALUES (1); SAVEPOINT b")
		c.must(w.decide(name(uint64(10 + i))))
		if got := c.one("SHOW synchronous_commit"); got != want {
			t.Errorf("%s becomes %s", level, got)
		}
		c.must("COMMIT")
		if got := c.one("SHOW synchronous_commit"); got != level {
			t.Errorf("%s is %s after COMMIT", level, got)
		}
	}
	c.must("SET synchronous_commit = off")
	c.must("BEGIN")
	c.must(w.decide(name(20)))
	c.must("COMMIT")
	w.pg.Kill()
	if err := w.pg.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.conn("postgres").one("SELECT count(*) FROM weft.decision WHERE gid = '" + name(20).Key() + "'"); got != "1" {
		t.Error("a crash has lost the decision")
	}
}

// TestSweep: a decision goes when no participant has it prepared, unless one is not the
// server any more that had: then what it had promised may be lost.
func TestSweep(t *testing.T) {
	w := newWorld(t)
	c := w.conn("clerk")
	server := c.one("SELECT weft.server()")
	enter := func(n uint64, server string) {
		c.must("BEGIN")
		server, replicated := strings.CutSuffix(server, "+")
		c.must(w.decide(name(n), twopc.Member{Shard: "other", Server: server, Replicated: replicated}))
		c.must("COMMIT")
	}
	enter(30, server)
	enter(31, server)
	enter(32, "1234/00000002")
	enter(33, server)
	system, _, _ := strings.Cut(server, "/")
	enter(34, system+"/00000000+") // a standby that had all of it has taken over
	enter(35, system+"/00000000")  // one that may lack some of it has
	enter(36, "1234/00000000+")    // another system
	c.must("BEGIN; INSERT INTO t VALUES (2); PREPARE TRANSACTION '" + name(31).String() + "'")
	admin := w.conn("postgres")
	sweep := func() string {
		admin.must("UPDATE weft.decision SET decided = decided - interval '1 minute'")
		if err := w.Sweep(t.Context(), "home", "postgres", func(d twopc.Decision) bool { return d.Key == name(33).Key() }); err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, row := range admin.must("SELECT split_part(gid, ':', 4) FROM weft.decision ORDER BY gid") {
			left = append(left, row[0])
		}
		return strings.Join(left, " ")
	}
	if got := sweep(); got != "1f 20 21 23 24" {
		t.Errorf("left: %s", got)
	}
	if log := w.log.String(); !strings.Contains(log, "level=ERROR") || !strings.Contains(log, name(32).String()) {
		t.Errorf("no alarm: %s", log)
	}
	c.must("COMMIT PREPARED '" + name(31).String() + "'")
	if got := sweep(); got != "20 21 23 24" {
		t.Errorf("left after the end: %s", got)
	}
	list, err := w.List(t.Context(), []string{"home"}, []string{"postgres"})
	if err != nil || len(list) != 4 || list[0].State != twopc.StateCommitted || fmt.Sprint(list[0].Participants) != "[other]" {
		t.Errorf("listed: %+v, %v", list, err)
	}
}

// TestForgedDecision: a row of somebody else's would commit what was not committed. Whoever may
// write may enter one, but not with weft's proof, and so it is as good as an abort.
func TestForgedDecision(t *testing.T) {
	w := newWorld(t)
	c, admin := w.conn("clerk"), w.conn("postgres")
	for _, sql := range []string{
		"SELECT key FROM weft.own",
		"SELECT * FROM weft.decision",
		"DELETE FROM weft.decision",
		"UPDATE weft.decision SET proof = NULL",
		"INSERT INTO weft.decision (gid, participants, durable) VALUES ('" + name(40).Key() + "', '', 'off')",
	} {
		if _, err := c.Exec(sql); code(err) != pgerr.InsufficientPrivilege {
			t.Errorf("%s: %v", sql, err)
		}
	}
	// What a proxy would enter that takes another database for this one.
	other := entered("guessed", &twopc.Decision{Key: name(40).Key()})
	if _, err := c.Exec(other); code(err) != "23514" {
		t.Errorf("a proof for another database: %v", err)
	}
	if _, err := c.Exec("INSERT INTO weft.decision (gid, participants) VALUES ('" + name(40).Key() + "', '')"); code(err) != "23502" {
		t.Errorf("no proof: %v", err)
	}
	forgeries := []string{
		strings.Replace(w.decide(name(1)), name(1).Key(), name(41).Key(), 1), // a proof of another
		strings.Replace(w.decide(name(1)), name(1).Key(), name(42).Key(), 1), // a proof of another
	}
	for i, sql := range forgeries {
		n := name(41 + uint64(i))
		c.must("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION '" + n.String() + "'")
		c.must(sql)
		// The owner comes later, and finds its place free.
		c.must("BEGIN;" + w.decide(n) + ";ROLLBACK")
		if o, err := w.Decide(t.Context(), "postgres", n, twopc.Ask); o != twopc.Aborted || err != nil {
			t.Errorf("%s: %v, %v", sql, o, err)
		}
		c.must("ROLLBACK PREPARED '" + n.String() + "'")
	}
	if list, err := w.List(t.Context(), []string{"home"}, []string{"postgres"}); err != nil || len(list) != 0 {
		t.Errorf("listed: %+v, %v", list, err)
	}
	// One that its owner has not committed keeps nobody waiting.
	late := w.conn("clerk")
	late.must("BEGIN;" + strings.Replace(w.decide(name(1)), name(1).Key(), name(44).Key(), 1))
	if o, err := w.Decide(t.Context(), "postgres", name(44), twopc.Ask); o != twopc.Aborted || err != nil {
		t.Errorf("beside an open transaction that took its name: %v, %v", o, err)
	}
	late.must("ROLLBACK")
	// Many, of any name, are gone at once.
	c.must("INSERT INTO weft.decision (gid, participants, proof) SELECT 'x' || g, '', (SELECT substring(pg_get_constraintdef(oid) from '''([0-9a-f]{16})''') FROM pg_constraint WHERE conname = 'decision_database') FROM generate_series(1, 5000) g")
	if err := w.Sweep(t.Context(), "home", "postgres", func(twopc.Decision) bool { return true }); err != nil {
		t.Error(err)
	}
	if got := admin.one("SELECT count(*) FROM weft.decision"); got != "0" {
		t.Errorf("%s forged rows are left", got)
	}
	if log := w.log.String(); !strings.Contains(log, "weft has not made") {
		t.Errorf("nobody is told: %s", log)
	}

	// weft's own rows are entered as the client: nothing of the caller's may be taken for PostgreSQL's own.
	admin.must("CREATE SCHEMA evil AUTHORIZATION clerk")
	for _, sql := range []string{
		"SET search_path = evil",
		"CREATE DOMAIN evil.text AS pg_catalog.text CHECK (false)",
		"CREATE FUNCTION evil.starts_with(pg_catalog.text, pg_catalog.text) RETURNS bool LANGUAGE sql AS 'SELECT false'",
		"CREATE FUNCTION evil.set_config(pg_catalog.text, pg_catalog.text, bool) RETURNS pg_catalog.text LANGUAGE sql AS $$ SELECT 'off' $$",
		"CREATE FUNCTION evil.current_setting(pg_catalog.text) RETURNS pg_catalog.text LANGUAGE sql AS $$ SELECT 'on' $$",
		"SET search_path = evil, pg_catalog",
	} {
		c.must(sql)
	}
	for set, want := range map[string]string{"off": "on", "local": "on", "remote_write": "on", "on": "on", "remote_apply": "remote_apply"} {
		c.must("SET synchronous_commit = " + set)
		c.must("BEGIN;" + w.decide(name(43)))
		if got := c.one("SHOW synchronous_commit"); got != want {
			t.Errorf("the decision of a client with synchronous_commit = %s is committed with %s", set, got)
		}
		c.must("ROLLBACK")
	}
	c.must("RESET ALL")
	c.must(w.decide(name(43)))
	if o, err := w.Decide(t.Context(), "postgres", name(43), twopc.Ask); o != twopc.Committed || err != nil {
		t.Errorf("weft's own: %v, %v", o, err)
	}
	if _, err := c.Exec(w.decide(name(43))); code(err) != "23505" {
		t.Errorf("twice: %v", err)
	}
}
