package standby

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestLag: a standby that is too far behind is not read, and one that is within the limit is, though it is behind.
func TestLag(t *testing.T) {
	w := newWorld(t)
	near, far := w.connect(), w.connect("options='-c weft.target=any -c weft.max_lag=0'")
	w.follows(far)
	row := fmt.Sprintf("select v from t where k = %d", w.key[1])
	sum := "select sum(v) from t"
	before, total := w.value(near, row), w.value(near, sum)
	w.tell(w.standby[1], "select pg_wal_replay_pause()")
	w.must(near, fmt.Sprintf("update t set v = v + 1000 where k = %d", w.key[1]))
	if got := w.value(far, row); got != before {
		t.Errorf("without a limit the standby is read, which has %s, not %s", before, got)
	}
	if got := w.value(far, sum); got != total {
		t.Errorf("without a limit all standbys are read, which have %s, not %s", total, got)
	}
	auto := w.connect("options='-c weft.target=auto -c weft.max_lag=0'")
	if got := w.value(auto, row); got != before {
		t.Errorf("a session that has written nothing reads the standby, which has %s, not %s", before, got)
	}
	w.must(far, "set weft.max_lag = '300ms'")
	after := w.value(near, row)
	w.await("the limit", func() bool { return w.value(far, row) == after })
	if got, want := w.value(far, sum), w.value(near, sum); got != want {
		t.Errorf("a standby beyond the limit is read: %s instead of %s", got, want)
	}
	w.await("the other shard's standby", func() bool { return w.value(far, where(w.key[0])) == "true" })
	strict := w.connect("options='-c weft.target=standby -c weft.max_lag=300ms -c weft.causal_wait=0'")
	w.refused(strict, row, "57P03")
	w.await("the other shard's standby", func() bool {
		got, err := value(w.within(), strict, where(w.key[0])) // under load probes may be further apart than the limit
		return err == nil && got == "true"
	})
	// A changed schema must have been replayed, whatever the limit.
	w.must(far, "set weft.max_lag = 0")
	w.must(near, "alter table t add column w int default 7")
	if got := w.value(far, fmt.Sprintf("select w from t where k = %d", w.key[1])); got != "7" {
		t.Errorf("a new column: %s", got)
	}
	w.tell(w.standby[1], "select pg_wal_replay_resume()")
	w.follows(far)
	w.must(strict, "reset weft.max_lag")
	w.await("the standby", func() bool {
		got, err := value(w.within(), strict, row)
		return err == nil && got == after
	})
}

// TestOwnWrites: a session reads what it has written, and standbys are read all the same.
func TestOwnWrites(t *testing.T) {
	w := newWorld(t)
	var wrong, reads atomic.Int64
	var wg sync.WaitGroup
	for i := range 4 {
		c := w.connect("options='-c weft.target=auto'")
		wg.Go(func() {
			for n := range 60 {
				k := 1 + i*10 + n%10 // no other client writes it
				if n%3 == 0 {
					if _, err := c.Exec(w.within(), fmt.Sprintf("update t set v = %d where k = %d", n, k)); err != nil {
						t.Error(err)
						return
					}
					if got, err := value(w.within(), c, fmt.Sprintf("select v from t where k = %d", k)); err != nil || got != fmt.Sprint(n) {
						wrong.Add(1)
					}
				}
				// Reads until a standby answers: then it has what was written.
				for try := 0; try < 2000; try++ {
					var far bool
					var v int
					if err := c.QueryRow(w.within(), fmt.Sprintf("select pg_is_in_recovery(), v from t where k = %d", 1+i*10+(n-n%3)%10)).Scan(&far, &v); err != nil {
						t.Error(err)
						return
					}
					if v != n-n%3 {
						wrong.Add(1)
					}
					if far {
						reads.Add(1)
						break
					}
				}
			}
		})
	}
	wg.Wait()
	if wrong.Load() > 0 || reads.Load() == 0 {
		t.Errorf("%d reads did not see what was written; %d were answered by standbys", wrong.Load(), reads.Load())
	}
	if text := w.metrics(); !strings.Contains(text, `weft_reads_total{target="standby"} `) || strings.Contains(text, `weft_reads_total{target="standby"} 0`) {
		t.Error("no read of a standby is counted")
	}
}

// TestToken: a session that has another one's token sees what that one has written.
func TestToken(t *testing.T) {
	w := newWorld(t)
	near, far := w.connect(), w.connect("options='-c weft.target=any -c weft.max_lag=0'")
	w.follows(far)
	row := fmt.Sprintf("select v from t where k = %d", w.key[1])
	w.tell(w.standby[1], "select pg_wal_replay_pause()")
	w.must(near, fmt.Sprintf("update t set v = 77 where k = %d", w.key[1]))
	token := w.value(near, "select weft.token()")
	if got := w.value(far, row); got == "77" {
		t.Error("the standby that stands still is not read")
	}
	w.must(far, "set weft.token = '"+token+"'")
	if got := w.value(far, row); got != "77" {
		t.Errorf("with the token %s: %s", token, got)
	}
	w.tell(w.standby[1], "select pg_wal_replay_resume()")
	w.await("the standby", func() bool { return w.value(far, where(w.key[1])) == "true" })
	if got := w.value(far, row); got != "77" {
		t.Errorf("on the standby: %s", got)
	}
	w.must(far, "reset weft.token")
}

// metrics returns what the proxy tells Prometheus.
func (w *world) metrics() string {
	w.t.Helper()
	resp, err := http.Get("http://" + w.proxy.Server.HTTPAddr().String() + "/metrics")
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return string(b)
}

// TestLost: with the target any clients do not notice that a standby dies, comes back and is promoted, but for those whose read it was busy with.
func TestLost(t *testing.T) {
	w := newWorld(t)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var wg sync.WaitGroup
	var reads atomic.Int64
	for i := range 3 {
		target := w.proxy.ConnString("postgres", "dbname=postgres", "default_query_exec_mode=simple_protocol", "options='-c weft.target=any'")
		wg.Go(func() {
			for ctx.Err() == nil {
				c, err := pgx.Connect(ctx, target)
				if err != nil {
					continue
				}
				for ctx.Err() == nil && !c.IsClosed() {
					sql := fmt.Sprintf("select v from t where k = %d", w.key[1])
					if i == 0 {
						sql = "select sum(v) from t"
					}
					_, err := c.Exec(ctx, sql)
					switch {
					case err == nil:
						reads.Add(1)
					case ctx.Err() != nil:
					default:
						t.Errorf("%s: %v", sql, err)
						stop()
					}
				}
				_ = c.Close(context.Background())
			}
		})
	}
	progress := func(what string) {
		t.Helper()
		n := reads.Load()
		w.await(what, func() bool { return reads.Load() > n+50 || ctx.Err() != nil })
	}
	progress("reads")
	w.standby[1].Kill()
	progress("reads without a standby")
	far := w.connect("options='-c weft.target=standby -c weft.causal_wait=0'")
	w.refused(far, where(w.key[1]), "57P03")
	b, err := w.standby[1].Config().Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.standby[1] = b
	w.await("the standby", func() bool {
		got, err := value(w.within(), far, where(w.key[1]))
		return err == nil && got == "true"
	})
	progress("reads with the standby")
	w.primary[1].Kill()
	if err := b.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	progress("reads of the new primary")
	w.must(w.connect(), fmt.Sprintf("update t set v = -5 where k = %d", w.key[1]))
	if got := w.value(w.connect("options='-c weft.target=any'"), fmt.Sprintf("select v from t where k = %d", w.key[1])); got != "-5" {
		t.Errorf("after the promotion: %s", got)
	}
	w.refused(far, where(w.key[1]), "57P03")
	stop()
	wg.Wait()
}

// TestConflict: a query that a standby cancels, because it is in the way of what is replayed, is carried out by the primary.
func TestConflict(t *testing.T) {
	w := newWorld(t)
	standby := w.standby[1]
	w.tell(standby, "alter system set max_standby_streaming_delay = 0")
	w.tell(standby, "select pg_reload_conf()")
	sql := fmt.Sprintf("select current_setting('port') from t, pg_sleep(case when current_setting('port') = '%d' then 60 else 0 end) where k = %d", standby.Port(), w.key[1])
	type result struct {
		what, port string
		err        error
	}
	results := make(chan result, 10)
	n := 0
	for _, to := range []string{"any", "auto", "standby"} {
		for _, mode := range []string{"simple_protocol", "exec", "cache_statement"} {
			c := w.proxy.Connect(t, "postgres", "dbname=postgres", "default_query_exec_mode="+mode, "options='-c weft.target="+to+"'")
			w.follows(c)
			n++
			go func() {
				port, err := value(w.within(), c, sql)
				results <- result{to, port, err}
			}()
		}
	}
	w.await("queries on the standby", func() bool {
		return w.ask(standby, "select count(*)::int from pg_stat_activity where wait_event = 'PgSleep'") == n || len(results) > 0
	})
	w.tell(w.primary[1].Server, "begin; lock table t; commit")
	for range n {
		r := <-results
		if r.what == "standby" && code(r.err) != "40001" {
			t.Errorf("a session that wants standbys only: %s, %v", r.port, r.err)
		}
		if r.what != "standby" && (r.err != nil || r.port != fmt.Sprint(w.primary[1].Port())) {
			t.Errorf("%s: %s, %v", r.what, r.port, r.err)
		}
	}
}

// TestHomeOnly: a database without declared tables is read on the home shard's standby.
func TestHomeOnly(t *testing.T) {
	w := newWorld(t)
	w.must(w.connect(), "create database plain")
	near := w.proxy.Connect(t, "postgres", "dbname=plain")
	w.must(near, "create table t (k int primary key, v int)")
	w.must(near, "insert into t values (1, 1)")
	far := w.proxy.Connect(t, "postgres", "dbname=plain", "options='-c weft.target=standby'")
	w.await("the standby", func() bool {
		got, err := value(w.within(), far, "select pg_is_in_recovery()::text || v from t where k = $1", 1)
		return err == nil && got == "true1"
	})
	w.refused(far, "update t set v = 2", "25006")
	w.must(far, "begin")
	if got := w.value(far, "select pg_is_in_recovery()"); got != "true" {
		t.Errorf("in a block: %s", got)
	}
	w.must(far, "commit")
	auto := w.proxy.Connect(t, "postgres", "dbname=plain", "options='-c weft.target=auto'")
	w.must(auto, "insert into t values (2, 2)")
	if got := w.value(auto, "select count(*) from t"); got != "2" {
		t.Errorf("a session does not read what it has written: %s", got)
	}
	w.must(auto, "begin; update t set v = 5; commit")
	if got := w.value(auto, "select min(v) from t"); got != "5" {
		t.Errorf("a session does not read what it has written: %s", got)
	}
	w.must(near, "create role reporting login superuser")
	w.must(near, "alter role reporting set weft.target = 'any'")
	report := w.proxy.Connect(t, "reporting", "dbname=plain")
	w.await("the standby", func() bool { return w.value(report, "select pg_is_in_recovery()") == "true" })
}
