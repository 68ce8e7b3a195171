package pgserver_test

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// pair starts a primary and a standby of it.
func pair(t *testing.T) (primary, standby *pgserver.Server) {
	t.Helper()
	dir := pgtest.Dir(t)
	config := func(name string) pgserver.Config {
		port, err := pgserver.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		return pgserver.Config{
			Install: pgtest.Install(t), Dir: filepath.Join(dir, name), Port: port,
			Settings: pgserver.ReplicationSettings(),
		}
	}
	a, b := config("shard-0"), config("shard-0-1")
	if err := a.InitFromTemplate(t.Context()); err != nil {
		t.Fatal(err)
	}
	primary, err := a.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	end(t, primary)
	if standby, err = b.Standby(t.Context(), primary); err != nil {
		t.Fatal(err)
	}
	end(t, standby)
	return primary, standby
}

// end kills a server when the test is over.
func end(t *testing.T, s *pgserver.Server) {
	t.Helper()
	t.Cleanup(func() {
		if err := s.Config().End(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// await waits until a query has an answer.
func await(t *testing.T, s *pgserver.Server, sql, want string) {
	t.Helper()
	var got string
	var err error
	for end := time.Now().Add(pgtest.Patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if got, err = query(t, s.ConnString("postgres"), sql); err == nil && got == want {
			return
		}
	}
	t.Fatalf("%s: %q, %v, want %q", sql, got, err, want)
}

const timeline = "select timeline_id from pg_control_checkpoint()"

// A pair from the copy through a failover: commits wait for the standby, the promotion
// keeps what was acknowledged, and the old primary follows and has lost what was not.
func TestFailover(t *testing.T) {
	ctx := t.Context()
	a, b := pair(t)
	onA, onB := a.ConnString("postgres"), b.ConnString("postgres")
	mustQuery(t, onA, "create table t (id int)")
	await(t, a, "select application_name || ' ' || state from pg_stat_replication", "shard-0-1 streaming")
	if got := mustQuery(t, onA, "select slot_name || ' ' || active from pg_replication_slots"); got != "shard_0_1 true" {
		t.Errorf("slot: %s", got)
	}
	if err := a.SetSynchronous(b.Config().Name); err != nil {
		t.Fatal(err)
	}
	await(t, a, "select sync_state from pg_stat_replication", "sync")
	mustQuery(t, onA, "insert into t values (1)")

	// A commit hangs while the standby does, and goes on with it.
	b.Pause()
	conn, err := pgx.Connect(ctx, onA)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	committed := make(chan error, 1)
	go func() {
		_, err := conn.Exec(ctx, "insert into t values (2)")
		committed <- err
	}()
	await(t, a, "select count(*) from pg_stat_activity where wait_event = 'SyncRep'", "1")
	select {
	case err := <-committed:
		t.Fatalf("a commit did not wait for the standby: %v", err)
	default:
	}
	b.Resume()
	if err := <-committed; err != nil {
		t.Fatal(err)
	}

	// Without names no commit waits: this one is lost with the primary.
	if err := a.SetSynchronous(); err != nil {
		t.Fatal(err)
	}
	await(t, a, "show synchronous_standby_names", "")
	b.Kill()
	mustQuery(t, onA, "insert into t values (3)")
	a.Kill()
	if b, err = b.Config().Start(ctx); err != nil {
		t.Fatal(err)
	}
	received, err := b.Received(ctx)
	if err != nil || received == 0 {
		t.Errorf("received %d, %v", received, err)
	}
	if err := b.Promote(ctx); err != nil {
		t.Fatal(err)
	}
	if got := mustQuery(t, onB, "insert into t values (4) returning pg_is_in_recovery()"); got != "f" {
		t.Errorf("in recovery: %s", got)
	}
	before, err := a.Config().Control(ctx)
	if err != nil || before.Timeline != 1 || before.Standby || before.Clean {
		t.Errorf("old primary: %+v, %v", before, err)
	}

	copied, err := a.Config().Rewind(ctx, b)
	if err != nil || copied {
		t.Fatalf("rewind: copied %v, %v", copied, err)
	}
	if again, err := a.Config().Standby(ctx, b); err != nil {
		t.Fatal(err)
	} else {
		end(t, again)
		a = again
	}
	await(t, a, "select string_agg(id::text, ' ' order by id) from t", "1 2 4")
	await(t, a, "select received_tli from pg_stat_wal_receiver", "2")
	mustQuery(t, onB, "checkpoint")
	if got := mustQuery(t, onB, timeline); got != "2" {
		t.Errorf("timeline of the new primary: %s", got)
	}
	if err := a.DropSlots(ctx); err != nil {
		t.Error(err)
	}
	after, err := pgserver.Config{Install: a.Config().Install, Dir: a.Dir(), Port: 1}.Control(ctx)
	if err != nil || after.Timeline != 2 || !after.Standby || after.System != before.System {
		t.Errorf("rewound primary: %+v, %v", after, err)
	}
}

// A clean switchover loses nothing and needs no rewind. A third server follows the new
// primary.
func TestSwitchover(t *testing.T) {
	ctx := t.Context()
	a, b := pair(t)
	port, err := pgserver.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	third := b.Config()
	third.Name, third.Dir, third.Port = "", b.Dir()+"-third", port
	c, err := third.Standby(ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	end(t, c)
	mustQuery(t, a.ConnString("postgres"), "create table t as select 1 as id")
	if err := a.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	control, err := a.Config().Control(ctx)
	if err != nil || !control.Clean {
		t.Fatalf("%+v, %v", control, err)
	}
	for _, s := range []*pgserver.Server{b, c} {
		if got, err := s.Received(ctx); err != nil || got <= control.Checkpoint {
			t.Errorf("%s has %d, the last of the log begins at %d, %v", s.Addr(), got, control.Checkpoint, err)
		}
	}
	if err := b.Promote(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Follow(ctx, b); err != nil {
		t.Fatal(err)
	}
	if a, err = a.Config().Standby(ctx, b); err != nil {
		t.Fatal(err)
	}
	end(t, a)
	mustQuery(t, b.ConnString("postgres"), "insert into t values (2)")
	for _, s := range []*pgserver.Server{a, c} {
		await(t, s, "select count(*) from t", "2")
	}
	await(t, b, "select count(*) from pg_stat_replication where state = 'streaming'", "2")
}

// A directory that cannot be rewound is replaced by a copy; with no server to copy it stays.
func TestRewindCopies(t *testing.T) {
	ctx := t.Context()
	a, b := pair(t)
	a.Kill()
	if _, err := a.Config().Rewind(ctx, a); err == nil || !a.Config().Exists() {
		t.Errorf("rewind to a dead server: %v, exists %v", err, a.Config().Exists())
	}
	if err := b.Promote(ctx); err != nil {
		t.Fatal(err)
	}
	wrong := a.Config()
	wrong.Install.Bin = filepath.Dir(wrong.Dir) // where no pg_rewind is
	if copied, err := wrong.Rewind(ctx, b); copied != true || err == nil || !strings.Contains(err.Error(), "pg_basebackup") {
		t.Errorf("without programs: copied %v, %v", copied, err)
	}
	s, err := a.Config().Standby(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	end(t, s)
	await(t, s, "select pg_is_in_recovery()", "t")
}

// A promotion is done at once where the log that is left to replay has a vacuum, which
// any open snapshot of the standby holds up, also a snapshot of the promotion itself.
func TestPromoteBehindVacuum(t *testing.T) {
	a, b := pair(t)
	onA, onB := a.ConnString("postgres"), b.ConnString("postgres")
	mustQuery(t, onB, "alter system set max_standby_streaming_delay = -1")
	mustQuery(t, onB, "alter system set max_standby_archive_delay = -1")
	mustQuery(t, onB, "select pg_reload_conf()")
	await(t, b, "show max_standby_streaming_delay", "-1")
	mustQuery(t, onA, "create table t as select generate_series(1, 100) as id")
	await(t, b, "select count(*) from t", "100")
	mustQuery(t, onB, "select pg_wal_replay_pause()")
	await(t, b, "select pg_get_wal_replay_pause_state()", "paused")
	mustQuery(t, onA, "delete from t where id < 100")
	mustQuery(t, onA, "vacuum t")
	written := mustQuery(t, onA, "select pg_switch_wal()")
	await(t, b, "select pg_last_wal_receive_lsn() >= '"+written+"'", "t")
	a.Kill()

	ctx, cancel := context.WithTimeout(t.Context(), pgtest.Patience)
	defer cancel()
	if err := b.Promote(ctx); err != nil {
		t.Fatal(err)
	}
	if got := mustQuery(t, onB, "select count(*) from t"); got != "1" {
		t.Errorf("%s rows, want 1", got)
	}
}

func TestBaseBackupNeedsRoom(t *testing.T) {
	a, b := pair(t)
	if err := b.Config().BaseBackup(t.Context(), a); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("over")
	cancel(reason)
	other := b.Config()
	other.Dir += "-2"
	if err := other.BaseBackup(ctx, a); err == nil || other.Exists() {
		t.Errorf("with a context that is over: %v, exists %v", err, other.Exists())
	}
}

func TestSynchronousNames(t *testing.T) {
	for _, tc := range []struct {
		names []string
		want  string
	}{
		{nil, ""},
		{[]string{"b"}, `FIRST 1 ("b")`},
		{[]string{"shard-0-2", "shard-0"}, `FIRST 2 ("shard-0", "shard-0-2")`},
	} {
		if got := pgserver.SynchronousNames(tc.names); got != tc.want {
			t.Errorf("%s: %s", strconv.Quote(strings.Join(tc.names, ",")), got)
		}
	}
}
