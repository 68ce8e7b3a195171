package durable

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
	"weft/integration/harness"
	"weft/pgserver"
	"weft/twopc"
)

const (
	shards   = 2
	db       = "durable"
	patience = 3 * time.Minute
	// still is how long something that must not happen is waited for.
	still = 1500 * time.Millisecond
)

func TestMain(m *testing.M) {
	harness.ShardCount = shards
	os.Exit(harness.Main(m))
}

// world is a cluster whose shards have a synchronous standby each.
type world struct {
	*testing.T
	p        *harness.Program
	standbys [shards]*pgserver.Server
	direct   [shards]*pgx.Conn
	keys     [shards]int // a row of each shard
	decider  int         // the shard that decides what transfer commits
	other    int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, p: harness.StartProgram(t, func(*config.Config) {})}
	w.p.CreateDatabase(t, db)
	c := w.conn()
	w.must(c, "create table acct (id int primary key, v int not null)")
	w.must(c, "select weft.shard_table('acct', 'id')")
	w.must(c, "insert into acct select i, 0 from generate_series(1, 40) i")
	for i, s := range w.p.Shards() {
		d, err := pgx.Connect(t.Context(), s.ConnString(db))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close(context.Background()) })
		w.direct[i] = d
		w.keys[i] = value[int](w, d, "select min(id) from acct")
		w.standbys[i] = w.standby(s)
	}
	// Which shard decides is found out once: the same statements have the same one.
	w.p.StopAt(t, string(twopc.AfterCommit), false)
	ended := w.transfer(w.conn())
	w.await("a commit has come to its point", w.p.Stopped)
	w.decider, w.other = 0, 1
	if value[int](w, w.direct[1], "select count(*) from weft.decision") > 0 {
		w.decider, w.other = 1, 0
	}
	w.p.GoOn()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	w.await("all is forgotten", func() bool { return w.decisions() == 0 })
	return w
}

// standby gives a shard a synchronous standby.
func (w *world) standby(s *pgserver.Temp) *pgserver.Server {
	w.Helper()
	dir, err := pgserver.TempDir()
	if err != nil {
		w.Fatal(err)
	}
	port, err := pgserver.FreePort()
	if err != nil {
		w.Fatal(err)
	}
	cfg := s.Config()
	cfg.Dir, cfg.Port, cfg.Name = filepath.Join(dir, "standby"), port, "twin"
	b, err := cfg.Standby(w.Context(), s.Server)
	if err != nil {
		w.Fatal(err)
	}
	if err := s.SetSynchronous("twin"); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		b.Resume()
		if err := s.SetSynchronous(); err != nil {
			w.Error(err)
		}
		_ = b.Stop(context.Background())
		_ = s.DropSlots(context.Background())
		_ = os.RemoveAll(dir)
	})
	d, err := pgx.Connect(w.Context(), s.ConnString("postgres"))
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = d.Close(context.Background()) }()
	w.await("the standby is synchronous", func() bool {
		return value[int](w, d, "select count(*) from pg_stat_replication where sync_state = 'sync'") == 1
	})
	return b
}

func (w *world) conn(more ...string) *pgx.Conn {
	w.Helper()
	return w.p.Connect(w.T, "postgres", append([]string{"dbname=" + db}, more...)...)
}

func (w *world) must(c *pgx.Conn, sql string) {
	w.Helper()
	if _, err := c.Exec(context.Background(), sql); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
}

// transfer adds one to a row of each shard, in one transaction, and returns what COMMIT returns.
func (w *world) transfer(c *pgx.Conn) <-chan error {
	w.Helper()
	w.must(c, "begin")
	for _, k := range w.keys {
		w.must(c, fmt.Sprintf("update acct set v = v + 1 where id = %d", k))
	}
	ended := make(chan error, 1)
	go func() {
		_, err := c.Exec(context.Background(), "commit")
		ended <- err
	}()
	return ended
}

// v is the row of a shard.
func (w *world) v(shard int) int {
	w.Helper()
	return value[int](w, w.direct[shard], fmt.Sprintf("select v from acct where id = %d", w.keys[shard]))
}

// waiting is the backend of a shard that waits for the standby with such a command; 0 if there is none. Backends of weft
// itself may wait, too.
func (w *world) waiting(shard int, command string) int {
	w.Helper()
	return value[int](w, w.direct[shard], "select coalesce(min(pid), 0) from pg_stat_activity where wait_event = 'SyncRep' and datname = current_database() and query ilike '"+command+"%'")
}

func (w *world) prepared(shard int) int {
	w.Helper()
	return value[int](w, w.direct[shard], "select count(*) from pg_prepared_xacts where database = current_database()")
}

func (w *world) decisions() int {
	w.Helper()
	return value[int](w, w.direct[w.decider], "select count(*) from weft.decision")
}

func (w *world) await(what string, met func() bool) {
	w.Helper()
	for end := time.Now().Add(patience); !met(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// never fails if something happens within a while.
func (w *world) never(what string, happens func() bool) {
	w.Helper()
	for end := time.Now().Add(still); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if happens() {
			w.Fatalf("%s", what)
		}
	}
}

func value[T any](w *world, c *pgx.Conn, sql string) (v T) {
	w.Helper()
	if err := c.QueryRow(context.Background(), sql).Scan(&v); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
	return v
}

// TestCancelledCommit: a cancel request does not end the wait of a COMMIT that decides for other shards. The client may
// hear that the outcome is not known yet.
func TestCancelledCommit(t *testing.T) {
	w := newWorld(t)
	before := w.v(w.other)
	w.standbys[w.decider].Pause()
	c := w.conn()
	ended := w.transfer(c)
	w.await("COMMIT waits for the standby", func() bool { return w.waiting(w.decider, "commit") != 0 })
	if err := c.PgConn().CancelRequest(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.undecided(before)
	w.standbys[w.decider].Resume()
	w.whole(before+1, ended)
}

// undecided fails if a shard follows a decision that the standby does not have.
func (w *world) undecided(before int) {
	w.Helper()
	for end := time.Now().Add(still); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if w.v(w.other) != before {
			w.Fatal("a shard has followed a decision that the standby does not have")
		}
	}
}

// whole fails unless both shards commit, and COMMIT says so, or that it does not know.
func (w *world) whole(want int, ended <-chan error) {
	w.Helper()
	var e *pgconn.PgError
	if err := <-ended; err != nil && (!errors.As(err, &e) || e.Code != "08007") {
		w.Errorf("COMMIT: %v", err)
	}
	w.await("both shards have committed", func() bool { return w.v(w.other) == want && w.v(w.decider) == want })
	w.await("all is forgotten", func() bool { return w.decisions() == 0 && w.prepared(w.other) == 0 })
}

// TestCutCommit: a COMMIT whose wait for the standby is cut short on the server decides nothing before the standby is
// back.
func TestCutCommit(t *testing.T) {
	w := newWorld(t)
	before := w.v(w.other)
	w.standbys[w.decider].Pause()
	ended := w.transfer(w.conn())
	w.await("COMMIT waits for the standby", func() bool { return w.waiting(w.decider, "commit") != 0 })
	w.must(w.direct[w.decider], fmt.Sprintf("select pg_cancel_backend(%d)", w.waiting(w.decider, "commit")))
	w.undecided(before)
	w.standbys[w.decider].Resume()
	w.whole(before+1, ended)
}

// TestCutPrepare: a PREPARE TRANSACTION whose wait for the standby is cut short is no promise.
func TestCutPrepare(t *testing.T) {
	w := newWorld(t)
	before := w.v(w.decider)
	w.standbys[w.other].Pause()
	ended := w.transfer(w.conn())
	w.await("PREPARE waits for the standby", func() bool { return w.waiting(w.other, "prepare transaction") != 0 })
	w.must(w.direct[w.other], fmt.Sprintf("select pg_cancel_backend(%d)", w.waiting(w.other, "prepare transaction")))
	var e *pgconn.PgError
	if err := <-ended; !errors.As(err, &e) || e.Code != "57014" {
		t.Errorf("COMMIT: %v, want 57014", err)
	}
	w.standbys[w.other].Resume()
	w.await("nothing is prepared", func() bool { return w.prepared(w.other) == 0 })
	if w.v(w.other) != before || w.v(w.decider) != before {
		t.Errorf("the shards have %d and %d, want %d", w.v(w.other), w.v(w.decider), before)
	}
}

// TestHastyDefault: where the database's default is not to wait for standbys, a promise and what follows a decision wait
// all the same.
func TestHastyDefault(t *testing.T) {
	w := newWorld(t)
	for _, d := range w.direct {
		w.must(d, "alter database "+db+" set synchronous_commit = local")
	}
	w.p = harness.StartProgram(t, func(*config.Config) {}) // backends have the default from their login on
	before := w.v(w.decider)
	w.standbys[w.other].Pause()
	ended := w.transfer(w.conn())
	w.await("PREPARE waits for the standby", func() bool { return w.waiting(w.other, "prepare transaction") != 0 })
	w.never("COMMIT was answered, or sent, without a promise", func() bool { return len(ended) > 0 || w.v(w.decider) != before })
	w.standbys[w.other].Resume()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	// The same backend again, at the next step.
	w.p.StopAt(t, string(twopc.AfterCommit), false)
	c := w.conn()
	ended = w.transfer(c)
	w.await("a commit has come to its point", w.p.Stopped)
	w.standbys[w.other].Pause()
	w.p.GoOn()
	w.await("COMMIT PREPARED waits for the standby", func() bool { return w.waiting(w.other, "commit prepared") != 0 })
	w.standbys[w.other].Resume()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	// Commits of one shard are as hasty as the default says.
	w.standbys[w.other].Pause()
	w.must(c, fmt.Sprintf("update acct set v = v where id = %d", w.keys[w.other]))
	w.standbys[w.other].Resume()
	if got := value[string](w, c, "show synchronous_commit"); got != "local" {
		t.Errorf("synchronous_commit is %s afterwards", got)
	}
}

// TestCutFollower: a decision is not forgotten while a shard that has followed it could lose that in a failover.
func TestCutFollower(t *testing.T) {
	w := newWorld(t)
	before := w.v(w.decider)
	c := w.conn()
	w.p.StopAt(t, string(twopc.AfterCommit), false)
	ended := w.transfer(c)
	w.await("a commit has come to its point", w.p.Stopped)
	w.standbys[w.other].Pause()
	w.p.GoOn()
	w.await("COMMIT PREPARED waits for the standby", func() bool { return w.waiting(w.other, "commit prepared") != 0 })
	w.must(w.direct[w.other], fmt.Sprintf("select pg_cancel_backend(%d)", w.waiting(w.other, "commit prepared")))
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if w.decisions() != 1 {
			t.Fatal("the decision was forgotten, and the standby is still prepared")
		}
	}
	w.standbys[w.other].Resume()
	w.whole(before+1, ended)
}
