package move

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/integration/harness"
)

// names are the shards of the cluster.
func names(t *testing.T) (out []string) {
	for _, s := range harness.Snapshot(t).Shards {
		out = append(out, s.Name)
	}
	return out
}

// on returns the buckets of the database that are on a shard.
func (w *world) on(c *pgx.Conn, shard string) []int {
	w.Helper()
	rows, _ := c.Query(context.Background(), "select bucket from weft.buckets where shard = $1 order by bucket", shard)
	list, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		w.Fatal(err)
	}
	return list
}

// refused fails unless a statement is refused with an error that matches.
func (w *world) refused(c *pgx.Conn, sql, code, match string) {
	w.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	_, err := c.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	var e *pgconn.PgError
	if !errors.As(err, &e) || !regexp.MustCompile("^"+code+"$").MatchString(e.Code) || !regexp.MustCompile(match).MatchString(e.Message) {
		w.Errorf("%s: %v, want %s %s", sql, err, code, match)
	}
}

// operators makes the role of operators, which stays for other tests.
func (w *world) operators(c *pgx.Conn) {
	w.Helper()
	w.must(c, "do $$ begin if not exists (select from pg_roles where rolname = 'weft_operator') then create role weft_operator; end if; end $$")
}

// until waits until a query answers true.
func (w *world) until(c *pgx.Conn, sql string, args ...any) {
	w.Helper()
	for began := time.Now(); time.Since(began) < patience; time.Sleep(20 * time.Millisecond) {
		if value[bool](w, c, sql, args...) {
			return
		}
	}
	w.Fatalf("never: %s\n%v", sql, w.dump(c, "select * from weft.moves"))
}

func (w *world) dump(c *pgx.Conn, sql string) string {
	rows, _ := c.Query(context.Background(), sql)
	list, err := pgx.CollectRows(rows, pgx.RowToMap)
	return fmt.Sprint(list, err)
}

// TestJobs: jobs are paused, resumed, changed, cancelled and undone, and remembered.
func TestJobs(t *testing.T) {
	w := newWorld(t, "move_jobs", 2)
	c, other := w.conn(0), w.conn(1)
	names := names(t)
	w.must(c, "insert into line select i % 400 + 1, i, 'x' from generate_series(1, 1000) i")
	before := w.on(c, names[0])
	if len(before) < 8 {
		t.Fatalf("%s has buckets %v", names[0], before)
	}
	text := strings.Trim(strings.ReplaceAll(fmt.Sprint(before), " ", ","), "[]")

	// It comes to a half by itself, and goes on when it is told to.
	job := value[string](w, c, "select weft.move_buckets($1, $2, until => 50, verify => 'rows', duty => 90, pause_target => '20ms')", text, names[1])
	w.until(other, "select state = 'paused' from weft.moves where job = $1", job)
	w.until(c, "select state = 'paused' from weft.moves where job = $1", job)
	if ok := value[bool](w, c, "select buckets_done between buckets / 2 and buckets - 1 and reason like '50 %' and $2 = any (from_shards) and $3 = any (to_shards) and rows > 0 and bytes > rows and rounds > 0 and ended is null from weft.moves where job = $1", job, names[0], names[1]); !ok {
		t.Error(w.dump(c, "select * from weft.moves"))
	}
	if n := value[int](w, c, "select count(*) from weft.buckets where moving_to = $1", names[1]); n == 0 || n > len(before)/2 {
		t.Errorf("%d buckets of %d are on their way", n, len(before))
	}
	w.refused(c, "select weft.move_buckets('0', '"+names[1]+"')", "55000", "job "+job+" moves rows of this database already")
	w.refused(c, "select weft.wait_move('"+job+"')", "55000", "is paused")
	w.refused(c, "select weft.set_move('"+job+"', rate => 'fast')", "22023", "rate")
	if got := w.dump(c, "select * from citus_rebalance_status()"); !strings.Contains(got, "state:paused") {
		t.Error(got)
	}
	if got := w.dump(c, "select * from get_rebalance_progress()"); !strings.Contains(got, "sourcename:"+names[0]) {
		t.Error(got)
	}
	w.must(c, "select weft.set_move($1, rate => '100MB', max_pause => '1s')", job)
	if got := value[string](w, c, "select weft.resume_moves($1)", job); got != job {
		t.Errorf("%q goes on", got)
	}
	w.must(c, "select weft.wait_move($1)", job)
	if got := w.on(other, names[0]); len(got) != 0 {
		t.Errorf("%s still has %v", names[0], got)
	}
	if ok := value[bool](w, other, "select state = 'done' and buckets_done = buckets and ended >= started and blocked_by is null and pause_max_ms > 0 from weft.moves m where job = $1 and exists (select from weft.move_rounds r where r.job = m.job and outcome = 'carried' and rows >= 0)", job); !ok {
		t.Error(w.dump(c, "select * from weft.moves"))
	}
	if got, want := value[int64](w, c, "select sum(rows)::bigint from weft.move_rounds where job = $1", job), value[int64](w, c, "select rows from weft.moves where job = $1", job); got != want || want == 0 {
		t.Errorf("the rounds have carried %d rows, the job %d", got, want)
	}
	if n := value[int](w, c, "select sum(rows)::int from weft.buckets"); n != accounts+1000 {
		t.Errorf("the buckets hold %d rows", n)
	}
	w.settled(c)

	if got := w.dump(c, "select * from citus_rebalance_status()"); !strings.Contains(got, "state:finished") {
		t.Error(got)
	}
	w.must(c, "select citus_rebalance_wait()")
	w.refused(c, "select citus_rebalance_stop()", "55000", "no job moves rows")

	// Back again.
	w.refused(c, "select weft.resume_moves('"+job+"')", "55000", "is over: done")
	undo := value[string](w, c, "select weft.undo_move($1)", job)
	w.must(c, "select weft.wait_move($1)", undo)
	if got := w.on(other, names[0]); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("%s has %v, had %v", names[0], got, before)
	}
	w.refused(c, "select weft.undo_move('"+job+"')", "55000", "where they were before")

	// A job that is undone on its way.
	job = value[string](w, c, "select weft.move_buckets($1, $2, until => '10%', pause_target => '20ms')", text, names[2])
	w.until(c, "select state = 'paused' from weft.moves where job = $1", job)
	undo = value[string](w, c, "select weft.undo_move($1)", job)
	w.must(c, "select weft.wait_move($1)", undo)
	if got := w.on(c, names[0]); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("%s has %v, had %v", names[0], got, before)
	}
	if state := value[string](w, c, "select state from weft.moves where job = $1", job); state != "cancelled" {
		t.Errorf("the job that was undone is %s", state)
	}
	if n := value[int](w, c, "select count(*) from acct join line on acct = id"); n != 1000 {
		t.Errorf("%d joined lines", n)
	}
	w.settled(c)
}

// TestJobMistakes: what cannot be meant is refused, and says why.
func TestJobMistakes(t *testing.T) {
	w := newWorld(t, "move_mistakes", 1)
	c := w.conn(0)
	to := names(t)[1]
	for sql, want := range map[string][2]string{
		"select weft.move_buckets('0', 'nowhere')":                     {"42704", `shard "nowhere" does not exist`},
		"select weft.move_buckets('0-99999', '" + to + "')":            {"22023", "no bucket and no range"},
		"select weft.move_buckets('', '" + to + "')":                   {"22023", "no bucket and no range"},
		"select weft.move_buckets(null, '" + to + "')":                 {"22004", "buckets must not be null"},
		"select weft.move_buckets('0', '" + to + "', duty => 101)":     {"22023", "duty"},
		"select weft.move_buckets('0', '" + to + "', max_pause => 1)":  {"22023", "max_pause"},
		"select weft.move_buckets('0', '" + to + "', verify => 'x')":   {"22023", "verify"},
		"select weft.move_buckets('0', '" + to + "', until => 'soon')": {"22023", "until"},
		"select weft.move_buckets('0', '" + to + "', speed => 1)":      {"42883", "does not exist"},
		"select weft.wait_move('none')":                                {"42704", `there is no job "none"`},
		"select weft.cancel_move('none')":                              {"42704", `there is no job "none"`},
		"select weft.pause_moves('none')":                              {"42704", `there is no job "none"`},
		"select weft.resume_moves('none')":                             {"42704", `there is no job "none"`},
		"select weft.undo_move('none')":                                {"42704", `there is no job "none"`},
		"select weft.set_move('none', rate => 1)":                      {"42704", `there is no job "none"`},
	} {
		w.refused(c, sql, want[0], want[1])
	}
	w.operators(c)
	w.must(c, "create role plain login; create role operating login; grant weft_operator to operating")
	t.Cleanup(func() { w.must(w.conn(0), "drop role plain; drop role operating") })
	plain := w.proxies[0].Connect(t, "plain", "dbname="+w.db)
	for _, call := range []string{"move_buckets('0', '" + to + "')", "pause_moves()", "resume_moves()", "cancel_move('none')", "undo_move('none')", "set_move('none')"} {
		w.refused(plain, "select weft."+call, "42501", "must be superuser or a member of role weft_operator")
	}
	operator := w.proxies[0].Connect(t, "operating", "dbname="+w.db)
	job := value[string](w, operator, "select weft.move_buckets('0', $1)", to)
	w.must(operator, "select weft.wait_move($1)", job)
	if n := value[int](w, plain, "select count(*) from weft.moves where job = $1 and state = 'done' and username = 'operating'", job); n != 1 {
		t.Error(w.dump(plain, "select * from weft.moves"))
	}
}

// TestBlocked: a transaction that has written a bucket keeps it where it is, the table of jobs says
// who that is, and statements that wait say for what.
func TestBlocked(t *testing.T) {
	w := newWorld(t, "move_blocked", 2)
	c := w.conn(0)
	names := names(t)
	idle := w.conn(1)
	all := fmt.Sprintf("0-%d", value[int](w, c, "select max(bucket) from weft.buckets"))
	job := value[string](w, c, "select weft.move_buckets($1, $2, until => 1, pause_target => '20ms')", all, names[2])
	w.until(c, "select state = 'paused' from weft.moves where job = $1", job)
	tx, err := idle.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "update acct set touched = 1"); err != nil {
		t.Fatal(err)
	}
	w.must(c, "select weft.resume_moves($1)", job)
	w.until(c, "select coalesce(blocked_by, '') like '%session%of proxy%user postgres%idle in transaction since%' from weft.moves where job = $1", job)
	held := w.conn(1)
	end := time.Now().Add(patience)
	seen := make(chan bool)
	go func() { // writes all shards, which every round holds for a while
		for time.Now().Before(end) {
			select {
			case <-seen:
				return
			default:
				_, _ = held.Exec(context.Background(), "delete from line")
			}
		}
	}()
	w.until(c, "select exists (select from weft.sessions where state like 'waiting for %on % way to "+names[2]+"')")
	close(seen)
	if got := value[string](w, c, "select weft.pause_moves()"); got != job {
		t.Errorf("%q is paused", got)
	}
	_ = tx.Rollback(t.Context())
	w.must(c, "select weft.resume_moves()")
	w.must(c, "select weft.wait_move($1)", job)
	if blocked := value[*string](w, c, "select blocked_by from weft.moves where job = $1", job); blocked != nil {
		t.Errorf("a job that is over is blocked by %s", *blocked)
	}
	w.settled(c)
}

// TestVerifyWhileMoving: weft.verify_placement finds no row astray while buckets go back and forth.
func TestVerifyWhileMoving(t *testing.T) {
	w := newWorld(t, "move_verify", 2)
	c, other := w.conn(0), w.conn(1)
	names := names(t)
	job := ""
	checks := 0
	for i := range 4 {
		job = value[string](w, c, "select weft.move_buckets('0-63', $1, pause_target => '20ms', duty => 100)", names[i%shards])
		for done := false; !done; checks++ {
			done = value[bool](w, c, "select ended is not null from weft.moves where job = $1", job)
			w.verified(other)
		}
	}
	t.Logf("%d checks", checks)
}

// TestHeld: a statement that waits for a round ends by its timeouts and by a cancel request, as one
// that waits for a lock, and its session goes on.
func TestHeld(t *testing.T) {
	w := newWorld(t, "move_held", 2)
	c, owner := w.conn(0), w.conn(1)
	job := value[string](w, c, "select weft.move_buckets('0-63', $1, until => 1, pause_target => '20ms')", names(t)[2])
	w.until(c, "select state = 'paused' from weft.moves where job = $1", job)
	w.must(owner, "begin; update acct set touched = 1") // a round waits for this block
	w.must(c, "select weft.set_move($1, max_pause => '60s', until => 100)", job)
	w.must(c, "select weft.resume_moves($1)", job)
	for _, tc := range []struct{ set, code string }{
		{"set statement_timeout = '200ms'", "57014"},
		{"set lock_timeout = '200ms'", "55P03"},
		{"", "57014"},
	} {
		held := w.conn(0)
		if tc.set != "" {
			w.must(held, tc.set)
		}
		w.until(c, "select exists (select from weft.moves where job = $1 and blocked_by is not null)", job)
		done := make(chan error, 1)
		go func() {
			_, err := held.Exec(context.Background(), "update acct set note = 'y'")
			done <- err
		}()
		if tc.set == "" {
			w.until(c, "select exists (select from weft.sessions where state like 'waiting for %')")
			if err := held.PgConn().CancelRequest(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case err := <-done:
			if e := (*pgconn.PgError)(nil); !errors.As(err, &e) || e.Code != tc.code {
				t.Errorf("%s: got %v", tc.set, err)
			}
		case <-time.After(patience):
			t.Fatalf("%s: the statement is still held", tc.set)
		}
		w.must(held, "reset all")
		if n := value[int](w, held, "select count(*) from acct"); n != accounts {
			t.Errorf("afterwards %d accounts", n)
		}
	}
	w.must(owner, "commit")
	w.must(c, "select weft.wait_move($1)", job)
	w.settled(c)
}
