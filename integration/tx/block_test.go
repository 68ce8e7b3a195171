package tx

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/pgserver/pgtest"
)

// begin opens a block that has written on two shards.
func (w *world) begin(c *pgx.Conn) {
	w.t.Helper()
	must(w.t, c, "begin")
	must(w.t, c, take, w.keys[0][0])
	must(w.t, c, take, w.keys[1][0])
}

// TestOneWriter: a transaction that writes on one shard is committed by that shard,
// however many it has read.
func TestOneWriter(t *testing.T) {
	w := newWorld(t, "onewriter", 1)
	// Nobody can enter a decision under this lock, so nobody prepares.
	c := w.conn(0)
	w.begin(c)
	must(t, c, take, w.keys[2][0])
	must(t, c, "commit") // and weft's own tables are there
	var locks []*pgx.Conn
	for i := range shards {
		d := w.direct(i)
		must(t, d, "begin")
		must(t, d, "lock table weft.decision in access exclusive mode")
		locks = append(locks, d)
	}
	must(t, c, "begin")
	must(t, c, "select sum(balance) from acct")
	must(t, c, take, w.keys[1][1])
	must(t, c, "select v from home where id = 1")
	must(t, c, take, w.keys[1][2])
	must(t, c, "commit")
	must(t, c, take, w.keys[2][2])
	for _, d := range locks {
		must(t, d, "rollback")
	}
	w.quiet()
}

// TestTimeouts: the client's timeouts hold in a block of several shards, and leave
// nothing behind.
func TestTimeouts(t *testing.T) {
	w := newWorld(t, "timeouts", 1)
	other := w.conn(0)
	must(t, other, "begin")
	must(t, other, take, w.keys[2][0])
	for set, want := range map[string]string{
		"set local lock_timeout = '200ms'":      "55P03",
		"set local statement_timeout = '200ms'": "57014",
	} {
		for _, sql := range []string{fmt.Sprintf("update acct set balance = 0 where id = %d", w.keys[2][0]), "update acct set balance = 0"} {
			c := w.conn(0)
			w.begin(c)
			must(t, c, set)
			began := time.Now()
			fails(t, exec(c, sql), want)
			if took := time.Since(began); pgtest.Late(t, took, 5*time.Second) {
				t.Errorf("%s, %s: after %s", set, sql, took)
			}
			fails(t, exec(c, "select 1"), "25P02")
			// What it held is free, though its client has not said ROLLBACK.
			must(t, other, "set local lock_timeout = '5s'")
			must(t, other, take, w.keys[0][0])
			must(t, other, take, w.keys[1][0])
			must(t, other, "rollback")
			must(t, c, "rollback")
			must(t, other, "begin")
			must(t, other, take, w.keys[2][0])
		}
	}
	must(t, other, "rollback")
	w.quiet()
	if got := w.total(); got != accounts*1000 {
		t.Errorf("%d in all", got)
	}
}

// TestCancel: a request to cancel reaches the shard that is waited for.
func TestCancel(t *testing.T) {
	w := newWorld(t, "txcancel", 1)
	other, c, watch := w.conn(0), w.conn(0), w.direct(2)
	must(t, other, "begin")
	must(t, other, take, w.keys[2][0])
	for _, sql := range []string{fmt.Sprintf("update acct set balance = 0 where id = %d", w.keys[2][0]), "update acct set balance = 0"} {
		w.begin(c)
		waits := later(c, sql)
		within(t, "it waits", func() bool { return value[int](t, watch, "select count(*) from pg_locks where not granted") > 0 })
		if err := c.PgConn().CancelRequest(context.Background()); err != nil {
			t.Fatal(err)
		}
		fails(t, <-waits, "57014")
		must(t, c, "rollback")
	}
	must(t, other, "rollback")
	w.quiet()
	if got := w.total(); got != accounts*1000 {
		t.Errorf("%d in all", got)
	}
}

// TestClientGone: what a client leaves in the middle is rolled back on all shards.
func TestClientGone(t *testing.T) {
	w := newWorld(t, "gone", 1)
	for _, how := range []string{"idle", "waiting", "failed"} {
		c := w.conn(0)
		w.begin(c)
		switch how {
		case "waiting":
			d := w.direct(2)
			must(t, d, "begin")
			must(t, d, take, w.keys[2][0])
			later(c, take, w.keys[2][0])
			time.Sleep(200 * time.Millisecond)
			_ = c.PgConn().Conn().Close()
			must(t, d, "rollback")
		case "failed":
			fails(t, exec(c, "select 1/0"), "22012")
		}
		_ = c.PgConn().Conn().Close()
		w.quiet()
		if got := w.total(); got != accounts*1000 {
			t.Errorf("%s: %d in all", how, got)
		}
	}
}

// TestIdleInTransaction: the timeout counts how long the client is idle, not how
// long a shard is.
func TestIdleInTransaction(t *testing.T) {
	w := newWorld(t, "idletx", 1)
	c := w.conn(0)
	must(t, c, "set idle_in_transaction_session_timeout = '3s'")
	w.begin(c)
	for range 4 { // on one shard, while the other has nothing to do
		time.Sleep(time.Second)
		must(t, c, take, w.keys[1][1])
	}
	must(t, c, take, w.keys[0][1])
	must(t, c, "commit")
	w.begin(c)
	time.Sleep(5 * time.Second)
	if err := exec(c, "select 1"); code(err) != "25P03" && !c.IsClosed() {
		t.Errorf("%v", err)
	}
	w.quiet()
	if got := w.total(); got != accounts*1000-2-4-1 {
		t.Errorf("%d in all", got)
	}
}

// TestNotify: a transaction of several shards may notify; its message comes when
// it is committed.
func TestNotify(t *testing.T) {
	w := newWorld(t, "txnotify", 1)
	listener, c := w.conn(0), w.conn(0)
	must(t, listener, "listen news")
	heard := func(patience time.Duration) string {
		ctx, stop := context.WithTimeout(context.Background(), patience)
		defer stop()
		n, err := listener.WaitForNotification(ctx)
		if err != nil {
			return ""
		}
		return n.Payload
	}
	w.begin(c)
	must(t, c, "notify news, 'rolled back'")
	must(t, c, "rollback")
	w.begin(c)
	must(t, c, "notify news, 'committed'")
	if got := heard(300 * time.Millisecond); got != "" {
		t.Errorf("heard %q before COMMIT", got)
	}
	must(t, c, "commit")
	if got := heard(10 * time.Second); got != "committed" {
		t.Errorf("heard %q", got)
	}
	w.quiet()
}

// TestPipeline: extended messages without a Sync between are one transaction, all
// or nothing.
func TestPipeline(t *testing.T) {
	w := newWorld(t, "pipeline", 1)
	c := w.conn(0)
	send := func(also ...string) error {
		var b pgx.Batch // pgx wants a new one each time
		for i := range shards {
			b.Queue(take, w.keys[i][0])
		}
		for _, sql := range also {
			b.Queue(sql)
		}
		return c.SendBatch(context.Background(), &b).Close()
	}
	want := int64(accounts * 1000)
	check := func() {
		t.Helper()
		if got := w.total(); got != want {
			t.Errorf("%d in all, want %d", got, want)
		}
	}
	if err := send(); err != nil {
		t.Error(err)
	}
	want -= shards
	check()
	fails(t, send("select 1 / (select 0)"), "22012")
	check()
	must(t, c, "set weft.commit = 'single'")
	fails(t, send(), "0A000")
	must(t, c, "set weft.commit = 'atomic'")
	check()
	must(t, c, "begin")
	if err := send(); err != nil {
		t.Errorf("in a block: %v", err)
	}
	must(t, c, "commit")
	want -= shards
	check()
	w.quiet()
}
