package crash

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"weft/config"
	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// gone are the SQLSTATEs by which a client may hear of a shard that is not
// there.
var gone = []string{"08000", "08001", "08003", "08006", "08007", "57P01", "57P02", "57P03"}

// revive brings back a shard that a failed test has left dead.
func revive(t *testing.T, s *pgserver.Temp) {
	select {
	case <-s.Done():
		if err := s.Restart(context.Background()); err != nil {
			t.Error(err)
		}
	default:
		s.Resume()
	}
}

// shop makes a sharded table with 100 rows and a reference table.
func (w *world) shop() {
	w.t.Helper()
	c := w.conn(0)
	must(w.t, c, "create table s (id bigint primary key, v bigint not null default 0); create table r (id bigint primary key, v bigint)")
	must(w.t, c, "insert into s select i from generate_series(1, 100) i")
	declare(w.t, c, "select weft.shard_table('s', 'id')")
	declare(w.t, c, "select weft.reference_table('r')")
}

// TestShardDies: those who need a shard that is dead, or stands still, are told
// or wait; all others go on; and it comes back by itself.
func TestShardDies(t *testing.T) {
	w := newWorld(t, "c_shard", func(c *config.Config) {
		c.Pool.MaxPerShard, c.Pool.QueueTimeout, c.Pool.ConnectTimeout = 5, 3*time.Second, 2*time.Second
	})
	w.shop()
	victim := w.any.Shards()[2]
	t.Cleanup(func() { revive(t, victim) })
	bad, good, held := w.keyOn(2, 0), w.keyOn(1, 0), w.keyOn(2, 1)
	for _, how := range []struct {
		name     string
		down, up func()
	}{
		{"killed", victim.Kill, func() {
			if err := victim.Restart(context.Background()); err != nil {
				t.Fatal(err)
			}
		}},
		{"stopped", victim.Pause, victim.Resume},
	} {
		idle, busy := w.conn(0), w.conn(0)
		must(t, idle, "update s set v = v where id = $1", bad)
		must(t, busy, "begin")
		must(t, busy, "update s set v = v + 1 where id = $1", held)
		how.down()
		// Twenty want it; the pool has five connections.
		told := make(chan string, 20)
		for range 20 {
			c := w.conn(0)
			go func() {
				got, _ := exec(c, patience, "update s set v = v + 1 where id = $1", bad)
				told <- got
			}()
		}
		var slowest time.Duration
		c := w.conn(0)
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
			began := time.Now()
			must(t, c, "update s set v = v + 1 where id = $1", good)
			slowest = max(slowest, time.Since(began))
		}
		if pgtest.Late(t, slowest, time.Second) {
			t.Errorf("%s: a statement for another shard took %s", how.name, slowest)
		}
		if how.name == "killed" {
			if got, err := exec(idle, patience, "select v from s where id = $1", bad); !slices.Contains(gone, got) {
				t.Errorf("%s: a read of it got %q %v", how.name, got, err)
			}
			must(t, idle, "select v from s where id = $1", good)
			got, err := exec(busy, patience, "select 1")
			if !slices.Contains(gone, got) {
				t.Errorf("%s: the open transaction got %q %v", how.name, got, err)
			}
			t.Log(err)
			if !busy.IsClosed() { // a server that had the time to say it is going down ends the session
				if got, err := exec(busy, patience, "select 1"); got != "25P02" {
					t.Errorf("%s: and then %q %v", how.name, got, err)
				}
				must(t, busy, "rollback")
				must(t, busy, "select v from s where id = $1", good)
			}
		}
		how.up()
		for range 20 {
			switch got := <-told; {
			case got == "" && how.name == "stopped", got == "53300" && how.name == "stopped":
			case slices.Contains(gone, got):
			default:
				t.Errorf("%s: a write to it got %q", how.name, got)
			}
		}
		within(t, 10*time.Second, how.name+": it serves again", func() bool {
			got, _ := exec(c, patience, "update s set v = v + 1 where id = $1", bad)
			return got == ""
		})
		if how.name == "stopped" {
			must(t, busy, "commit")
		}
	}
	w.clean("s")
}

// TestCommitTold: a transaction that read on one shard and wrote on another is
// committed if its client was told so, and not if it was told that it is not,
// whichever of the two dies around COMMIT. The one that only read does not keep it from
// being committed, unless it was found to be gone before COMMIT came: the transaction has failed then.
func TestCommitTold(t *testing.T) {
	w := newWorld(t, "c_commit", nil)
	w.shop()
	reads, writes := w.keyOn(1, 0), w.keyOn(3, 0)
	r := newRand(3)
	for i := range 4 * *rounds {
		victim := w.any.Shards()[[]int{1, 3}[i%2]]
		t.Cleanup(func() { revive(t, victim) })
		c := w.conn(0)
		before := value[int64](t, c, "select v from s where id = $1", writes)
		must(t, c, "begin")
		must(t, c, "select v from s where id = $1", reads)
		must(t, c, "update s set v = v + 1 where id = $1", writes)
		if i%4 >= 2 { // the one that read is at hand
			must(t, c, "select v from s where id = $1", reads)
		}
		var ended atomic.Bool
		done := make(chan error, 1)
		commit := func() {
			tag, err := c.Exec(context.Background(), "commit")
			if err == nil && tag.String() != "COMMIT" {
				t.Errorf("%d: COMMIT is answered with %s, and nobody has told of an error", i, tag)
			}
			ended.Store(true)
			done <- err
		}
		if r.IntN(2) == 0 {
			victim.Kill()
			commit()
		} else {
			go commit()
			time.Sleep(time.Duration(r.IntN(3000)) * time.Microsecond)
			victim.Kill()
		}
		err := <-done
		if rerr := victim.Restart(context.Background()); rerr != nil {
			t.Fatal(rerr)
		}
		after := value[int64](t, w.eye(3), "select v from s where id = $1", writes)
		what := fmt.Sprintf("%d: shard %d died, answer %s, value %d → %d", i, []int{1, 3}[i%2], brief(err), before, after)
		switch {
		case err == nil && after != before+1:
			t.Errorf("%s: acknowledged, and not there", what)
		case err != nil && i%2 == 0 && (!slices.Contains([]string{"57P01", "08006"}, code(err)) || after != before):
			t.Errorf("%s: the shard that only read decided", what)
		case err != nil && after != before && code(err) != "08007":
			t.Errorf("%s: there, but the client was told otherwise", what)
		}
		t.Log(what, string(c.PgConn().TxStatus()))
		c = w.conn(0)
		within(t, 10*time.Second, "all shards serve", func() bool {
			for _, k := range []int64{reads, writes} {
				if got, _ := exec(c, patience, "select v from s where id = $1", k); got != "" {
					return false
				}
			}
			return true
		})
	}
	w.clean("s")
}

// TestDDL: when a shard is dead, stands still, or is lost at COMMIT, a command
// for all shards fails as a whole, or its client hears that it did not.
func TestDDL(t *testing.T) {
	w := newWorld(t, "c_ddl", func(c *config.Config) { c.Pool.ConnectTimeout = pgtest.Stretch(2 * time.Second) })
	w.shop()
	victim := w.any.Shards()[2]
	t.Cleanup(func() { revive(t, victim) })
	c := w.conn(0)
	columns := func() (list []int) {
		for shard := range w.any.Shards() {
			list = append(list, value[int](t, w.eye(shard), "select count(*) from pg_attribute where attrelid = 's'::regclass and attnum > 0 and not attisdropped"))
		}
		return list
	}
	alike := func(what string, want int) {
		t.Helper()
		for _, n := range columns() {
			if n != want {
				t.Fatalf("%s: the shards have %v columns, want %d", what, columns(), want)
			}
		}
	}
	restart := func() {
		t.Helper()
		if err := victim.Restart(context.Background()); err != nil {
			t.Fatal(err)
		}
		key := w.keyOn(2, 0)
		fresh := w.conn(0)
		within(t, 10*time.Second, "it serves again", func() bool {
			got, _ := exec(fresh, patience, "select v from s where id = $1", key)
			return got == ""
		})
	}
	victim.Kill()
	if got, err := exec(c, patience, "alter table s add column a int"); !slices.Contains(gone, got) {
		t.Errorf("dead before: %q %v", got, err)
	}
	restart()
	alike("dead before", 2)

	// It dies inside a block, between the command and COMMIT.
	must(t, c, "begin")
	must(t, c, "alter table s add column b int")
	victim.Kill()
	got, err := exec(c, patience, "commit")
	restart()
	t.Logf("dead before COMMIT: %q %v, columns %v, status %c", got, err, columns(), c.PgConn().TxStatus())
	if l := columns(); got == "" && slices.Min(l) != slices.Max(l) {
		t.Errorf("COMMIT was acknowledged without a word and the shards have %v columns", l)
	}
	if c = w.conn(0); got == "" {
		alike("committed", 3)
	}
	// Whatever it has become, it can be put right from here.
	must(t, c, "alter table s add column if not exists b int")
	alike("put right", 3)

	// It stands still: a cancel ends it, and nobody else is held up for ever.
	other := w.conn(0)
	victim.Pause()
	done := later(t, c, "alter table s add column d int")
	time.Sleep(500 * time.Millisecond)
	_ = c.PgConn().CancelRequest(context.Background())
	select {
	case err := <-done:
		t.Logf("cancelled while a shard stands still: %v", err)
	case <-time.After(8 * time.Second):
		t.Error("a cancel does not end a command that waits for a shard that stands still")
	}
	_, _ = exec(other, 2*time.Second, "select v from s where id = $1", w.keyOn(1, 0))
	victim.Resume()
	must(t, w.conn(0), "alter table s add column if not exists d int")
	alike("after a pause", 4)
	w.clean("s")
}
