package supervisor_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/dev/supervisor"
	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// shard is a supervised shard of a test.
type shard struct {
	t *testing.T
	*supervisor.Supervisor
	cfg  supervisor.Config
	stop func()
}

func newShard(t *testing.T, servers int) *shard {
	t.Helper()
	dir := pgtest.Dir(t)
	sh := &shard{t: t, cfg: supervisor.Config{Name: "shard-0"}}
	for i := range servers {
		name := "shard-0"
		if i > 0 {
			name = fmt.Sprintf("shard-0-%d", i)
		}
		port, err := pgserver.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		sh.cfg.Servers = append(sh.cfg.Servers, pgserver.Config{Install: pgtest.Install(t), Dir: filepath.Join(dir, name), Port: port})
	}
	return sh
}

// start opens the shard and lets it run until stop, or the end of the test.
func (sh *shard) start() (made bool) {
	sh.t.Helper()
	sh.Supervisor = supervisor.New(sh.cfg)
	made, err := sh.Open(sh.t.Context())
	if err != nil {
		sh.t.Fatal(err, sh.Stop(context.Background()))
	}
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { sh.Run(ctx) })
	sh.stop = sync.OnceFunc(func() {
		cancel()
		run.Wait()
		if err := sh.Stop(context.Background()); err != nil {
			sh.t.Error(err)
		}
	})
	sh.t.Cleanup(sh.stop)
	return made
}

// primary is the server that is the primary now.
func (sh *shard) primary() supervisor.Status {
	sh.t.Helper()
	all := sh.Servers()
	i := slices.IndexFunc(all, func(s supervisor.Status) bool { return s.Role == supervisor.Primary })
	return all[i]
}

// ask runs a statement on the primary, which may have to be waited for.
func (sh *shard) ask(sql string) string {
	sh.t.Helper()
	var last error
	for end := time.Now().Add(pgtest.Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		got, err := query(sh.t.Context(), sh.primary().Address, sql)
		if err == nil {
			return got
		}
		last = err
	}
	sh.t.Fatalf("%s: %v", sql, last)
	return ""
}

// query runs a statement on a server that must be a primary.
func query(ctx context.Context, addr, sql string) (string, error) {
	return queryAny(ctx, addr, sql, "target_session_attrs=read-write")
}

// queryAny runs a statement on a server, whichever it is.
func queryAny(ctx context.Context, addr, sql string, options ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := pgconn.Connect(ctx, "postgres://postgres@"+addr+"/postgres?sslmode=disable&"+strings.Join(options, "&"))
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil || len(results) == 0 || len(results[0].Rows) == 0 {
		return "", err
	}
	return string(results[0].Rows[0][0]), nil
}

// whole waits until every standby may be promoted.
func (sh *shard) whole() {
	sh.t.Helper()
	sh.await("all standbys follow", func() bool {
		all := sh.Servers()
		return !slices.ContainsFunc(all, func(s supervisor.Status) bool { return s.PID == 0 || s.Role == supervisor.Standby && !s.Replaces })
	})
}

func (sh *shard) await(what string, ok func() bool) {
	sh.t.Helper()
	for end := time.Now().Add(pgtest.Patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			sh.t.Fatalf("%s: not within %v; %+v", what, pgtest.Patience, sh.Servers())
		}
	}
}

func (sh *shard) do(what string) string {
	sh.t.Helper()
	ctx, cancel := context.WithTimeout(sh.t.Context(), pgtest.Patience)
	defer cancel()
	text, err := sh.Do(ctx, what)
	if err != nil {
		sh.t.Fatalf("%s: %v", what, err)
	}
	return text
}

// A shard of a primary and a standby from its first start through failovers, a switch, a
// freeze, and starts on the directories that they leave.
func TestPair(t *testing.T) {
	sh := newShard(t, 2)
	if !sh.start() {
		t.Error("a new shard was not made")
	}
	first := sh.primary()
	if first.Address != fmt.Sprintf("127.0.0.1:%d", sh.cfg.Servers[0].Port) || first.Dir != sh.cfg.Servers[0].Dir {
		t.Errorf("the first primary is %+v", first)
	}
	if got := sh.ask("select string_agg(application_name || ' ' || sync_state, ', ') from pg_stat_replication"); got != "shard-0-1 sync" {
		t.Errorf("standbys: %s", got)
	}
	sh.ask("create table t (id int)")
	sh.ask("insert into t values (1)")

	// Somebody kills the postmaster alone.
	if err := syscall.Kill(first.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	sh.await("another primary", func() bool { p := sh.primary(); return p.Dir != first.Dir && p.PID != 0 })
	if got := sh.ask("insert into t values (2) returning (select count(*) from t)"); got != "1" {
		t.Errorf("%s rows after a failover", got)
	}
	sh.whole()

	second := sh.primary()
	if text := sh.do(supervisor.Switch); !strings.Contains(text, "the primary is "+first.Address) {
		t.Errorf("switch: %s", text)
	}
	sh.ask("insert into t values (3)")
	// At once: the old primary has to follow first.
	if text := sh.do(supervisor.Switch); !strings.Contains(text, "the primary is "+second.Address) {
		t.Errorf("switch: %s", text)
	}
	if text := sh.do(supervisor.Switch); !strings.Contains(text, "the primary is "+first.Address) {
		t.Errorf("switch: %s", text)
	}
	sh.whole()

	if text := sh.do(supervisor.Freeze); !strings.Contains(text, first.Address) || !sh.primary().Frozen {
		t.Errorf("freeze: %s", text)
	}
	if _, err := sh.Do(t.Context(), supervisor.Switch); err == nil || !strings.Contains(err.Error(), "frozen") {
		t.Errorf("switch of a frozen primary: %v", err)
	}
	sh.do(supervisor.Thaw)
	if got := sh.ask("select count(*) from t"); got != "3" {
		t.Errorf("%s rows after a thaw", got)
	}
	if _, err := sh.Do(t.Context(), supervisor.Thaw); err == nil {
		t.Error("thawed twice")
	}
	sh.whole()

	if text := sh.do(supervisor.Kill); !strings.Contains(text, "the primary is "+second.Address) {
		t.Errorf("kill: %s", text)
	}
	// At once, so that the old primary may not be rewound yet.
	sh.stop()
	sh.cfg.Complete = true
	if sh.start() {
		t.Error("made again")
	}
	if p := sh.primary(); p.Dir != second.Dir {
		t.Errorf("the primary is in %s after a restart, want %s", p.Dir, second.Dir)
	}
	if got := sh.ask("select count(*) from t"); got != "3" {
		t.Errorf("%s rows after a restart", got)
	}
	if got := sh.ask("select count(*) from pg_stat_replication where sync_state = 'sync'"); got != "1" {
		t.Errorf("%s synchronous standbys after a restart", got)
	}
}

// Commits do not wait for ever for standbys that are gone, and a primary without a standby
// is started again.
func TestStandbysDie(t *testing.T) {
	sh := newShard(t, 3)
	sh.start()
	sh.ask("create table t (id int)")
	if got := sh.ask("show synchronous_standby_names"); got != `FIRST 2 ("shard-0-1", "shard-0-2")` {
		t.Errorf("synchronous_standby_names is %s", got)
	}
	before := sh.Servers()
	for _, s := range before[1:] {
		if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	sh.ask("insert into t values (1)")
	sh.whole()
	for i, s := range sh.Servers() {
		if (s.PID == before[i].PID) != (i == 0) || (s.Role == supervisor.Primary) != (i == 0) {
			t.Errorf("server %d: %+v, before %+v", i, s, before[i])
		}
	}
	// Each takes over in turn.
	for range 3 {
		sh.ask("insert into t values (1)")
		old := sh.primary()
		sh.do(supervisor.Kill)
		if sh.primary().Dir == old.Dir {
			t.Errorf("%s is the primary still", old.Dir)
		}
		sh.whole()
	}
	if got := sh.ask("select count(*) from t"); got != "4" {
		t.Errorf("%s rows", got)
	}
}

// A standby that runs and does not follow is copied anew. No commit waits for it meanwhile.
func TestStray(t *testing.T) {
	sh := newShard(t, 2)
	sh.cfg.StrayLimit = time.Second
	sh.start()
	sh.ask("create table t (id int)")
	before := sh.Servers()[1]
	for _, sql := range []string{"alter system set primary_conninfo = 'host=127.0.0.1 port=1'", "select pg_reload_conf()"} {
		if _, err := queryAny(t.Context(), before.Address, sql); err != nil {
			t.Fatal(err)
		}
	}
	sh.await("the standby is another process", func() bool { pid := sh.Servers()[1].PID; return pid != 0 && pid != before.PID })
	sh.ask("insert into t values (1)")
	sh.whole()
	if got, err := queryAny(t.Context(), before.Address, "select count(*) from t"); err != nil || got != "1" {
		t.Errorf("%s rows on the standby, %v", got, err)
	}
}

// A shard of one server starts it again.
func TestAlone(t *testing.T) {
	sh := newShard(t, 1)
	sh.start()
	sh.ask("create table t as select 1 as id")
	before := sh.primary()
	if text := sh.do(supervisor.Kill); !strings.Contains(text, "the primary is "+before.Address) {
		t.Errorf("kill: %s", text)
	}
	if got := sh.ask("select count(*) from t"); got != "1" || sh.primary().PID == before.PID {
		t.Errorf("%s rows, %+v", got, sh.primary())
	}
	if _, err := sh.Do(t.Context(), supervisor.Switch); err == nil || !strings.Contains(err.Error(), "no standby") {
		t.Errorf("switch: %v", err)
	}
	if got := sh.ask("show synchronous_standby_names"); got != "" {
		t.Errorf("synchronous_standby_names is %s", got)
	}
}

// The primary's directory is lost: a standby is promoted at the next start. Without any
// directory there is nothing to start.
func TestDirectoriesLost(t *testing.T) {
	sh := newShard(t, 2)
	sh.start()
	sh.ask("create table t as select 1 as id")
	sh.stop()
	sh.cfg.Complete = true
	remove(t, sh.cfg.Servers[0].Dir)
	sh.start()
	if got := sh.ask("select count(*) from t"); got != "1" || sh.primary().Dir != sh.cfg.Servers[1].Dir {
		t.Errorf("%s rows, %+v", got, sh.primary())
	}
	sh.stop()
	for _, c := range sh.cfg.Servers {
		remove(t, c.Dir)
	}
	s := supervisor.New(sh.cfg)
	if _, err := s.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("without directories: %v", err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func remove(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}
