package failover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// TestBadDays: a primary is lost at a bad moment. Whatever was under way is done, or can be done again, and nothing is lost.
func TestBadDays(t *testing.T) {
	c := newCluster(t)
	c.openBank()
	for _, day := range []struct {
		name string
		do   func(d *day)
	}{
		{"declaration", (*day).declare},
		{"schema", (*day).alter},
		{"copy", (*day).copy},
		{"move", (*day).move},
		{"etcd", (*day).withoutEtcd},
		{"all servers", (*day).allAway},
	} {
		t.Run(day.name, func(t *testing.T) { day.do(newDay(t, c)) })
	}
}

// day is a test with a session.
type day struct {
	*testing.T
	c    *cluster
	conn *pgx.Conn
}

func newDay(t *testing.T, c *cluster) *day {
	d := &day{T: t, c: c}
	for shard := range shards {
		c.awaitStandby(shard)
	}
	var err error
	if d.conn, err = pgx.Connect(t.Context(), "postgres://postgres@"+c.listen+"/app?sslmode=disable"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.conn.Close(context.Background()) })
	return d
}

// must runs a statement that waits for a primary, if it has to.
func (d *day) must(sql string, args ...any) {
	d.Helper()
	if _, err := d.conn.Exec(d.Context(), sql, args...); err != nil {
		d.Errorf("%s: %v", sql, err)
	}
}

// eventually runs a statement until it is done. A statement that was under way when a primary was lost may fail, or have been done. done is the code of the error
// which says that it was.
func (d *day) eventually(sql, done string) {
	d.Helper()
	await(d, sql, func() bool {
		_, err := d.conn.Exec(d.Context(), sql)
		e := (*pgconn.PgError)(nil)
		switch {
		case err == nil || errors.As(err, &e) && e.Code == done:
			return true
		case e == nil || !strings.HasPrefix(e.Code, "08") && e.Code != "57P03":
			d.Fatalf("%s: %v", sql, err)
		}
		d.Logf("%s: %v", sql, err)
		return false
	})
}

// answer returns the first value of a query.
func (d *day) answer(sql string, args ...any) (text string) {
	d.Helper()
	if err := d.conn.QueryRow(d.Context(), sql, args...).Scan(&text); err != nil {
		d.Errorf("%s: %v", sql, err)
	}
	return text
}

// strike kills the primary of a shard with all its processes, and does not wait for another one.
func (d *day) strike(shard int) {
	d.Helper()
	d.end(d.c.primary(shard))
}

// end kills all processes of servers, and returns when they have ended: no statement is under way there any more.
func (d *day) end(servers ...server) {
	d.Helper()
	var all []int
	for _, s := range servers {
		all = append(all, d.c.processes(s)...)
	}
	for _, pid := range all {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	await(d, "processes have ended", func() bool {
		return !slices.ContainsFunc(all, func(pid int) bool {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return err == nil && !bytes.Contains(stat, []byte(") Z "))
		})
	})
}

// struck kills the primary of a shard after a while, beside other work. The caller waits until it is done.
func (d *day) struck(shard int, after time.Duration) (done <-chan struct{}) {
	ended := make(chan struct{})
	pid := d.c.primary(shard).PID
	go func() {
		defer close(ended)
		time.Sleep(after)
		_ = syscall.Kill(pid, syscall.SIGKILL) // it is the primary still, unless the machine is very slow
	}()
	return ended
}

// same fails if shards differ in their schemas.
func (d *day) same() {
	d.Helper()
	rows, err := d.conn.Query(d.Context(), "select * from weft.schema_diff()")
	if err != nil {
		d.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		values, err := rows.Values()
		d.Errorf("shards differ: %v, %v", values, err)
	}
	if rows.Err() != nil {
		d.Error(rows.Err())
	}
}

// A table is declared while a shard has no primary: the declaration waits, for longer than a login may take.
func (d *day) declare() {
	for shard, lose := range []func(shard int) (back <-chan struct{}){
		func(shard int) <-chan struct{} {
			d.strike(shard)
			back := make(chan struct{})
			close(back)
			return back
		},
		func(shard int) <-chan struct{} {
			d.c.order("freeze", shard)
			back := make(chan struct{})
			go func() {
				defer close(back)
				time.Sleep(loginLimit + time.Second)
				d.c.order("thaw", shard)
			}()
			return back
		},
	} {
		table := fmt.Sprintf("declared_%d", shard)
		d.must("create table " + table + " (id bigint primary key)")
		d.must("insert into " + table + " select generate_series(1, 1000)")
		d.c.awaitStandby(shard)
		back := lose(shard)
		d.must("select weft.shard_table('" + table + "', 'id')")
		<-back
		if got := d.answer("select count(*)::text from " + table); got != "1000" {
			d.Errorf("%s has %s rows", table, got)
		}
	}
	d.same()
}

// loginLimit is pool.connect_timeout.
const loginLimit = 5 * time.Second

// Tables are changed while primaries are lost.
func (d *day) alter() {
	for shard := range shards {
		d.c.awaitStandby(shard)
		d.strike(shard)
		d.must(fmt.Sprintf("alter table t add column waits_%d int", shard))
		d.c.awaitStandby(shard)
		struck := d.struck(shard, 100*time.Millisecond)
		for i := 0; ; i++ {
			d.eventually(fmt.Sprintf("alter table t add column c_%d_%d int", shard, i), "42701")
			select {
			case <-struck:
			default:
				continue
			}
			break
		}
	}
	d.same()
	if got := d.answer("select count(*)::text from t where waits_0 is not null"); got != "0" {
		d.Errorf("%s rows", got)
	}
}

// copySource gives COPY rows until it is told to end.
type copySource struct {
	next, rows int
	pause      func(i int)
	text       strings.Reader
}

func (s *copySource) Read(p []byte) (int, error) {
	if s.text.Len() == 0 && s.next < s.rows {
		s.pause(s.next)
		s.text.Reset(fmt.Sprintf("%d\t%s\n", s.next, strings.Repeat("x", 200)))
		s.next++
	}
	return s.text.Read(p)
}

// Rows are copied in while a primary is lost: all are there, or none.
func (d *day) copy() {
	d.must("create table copied (id bigint primary key, text text)")
	d.must("select weft.shard_table('copied', 'id')")
	const rows = 5000
	for shard := range shards {
		d.c.awaitStandby(shard)
		load := func(pause func(int)) error {
			_, err := d.conn.PgConn().CopyFrom(d.Context(), &copySource{rows: rows, pause: pause}, "copy copied from stdin")
			return err
		}
		err := load(func(i int) {
			if i == rows/2 {
				d.strike(shard)
			}
		})
		e := (*pgconn.PgError)(nil)
		if err != nil && (!errors.As(err, &e) || !strings.HasPrefix(e.Code, "08") && e.Code != "57P03") {
			d.Errorf("copy: %v", err)
		}
		got := d.answer("select count(*)::text from copied")
		d.Logf("%s rows are there after %v", got, err)
		if got != "0" && got != fmt.Sprint(rows) || err == nil && got == "0" {
			d.Errorf("%s of %d rows are there", got, rows)
		}
		d.must("delete from copied")
		if err := load(func(int) {}); err != nil {
			d.Errorf("copy again: %v", err)
		}
		if got := d.answer("select count(*)::text from copied"); got != fmt.Sprint(rows) {
			d.Errorf("%s of %d rows are there", got, rows)
		}
		d.must("delete from copied")
	}
}

// Buckets move while the primary that they leave, or come to, is lost. One of them is the home shard's.
func (d *day) move() {
	d.must("create table moved (id bigint primary key, n bigint)")
	d.must("select weft.shard_table('moved', 'id')")
	d.must("insert into moved select i, i from generate_series(1, 5000) i")
	sums := "select count(*) || ' ' || sum(n) from moved"
	want := d.answer(sums)
	for round := range 2 * shards {
		for shard := range shards {
			d.c.awaitStandby(shard)
		}
		to := fmt.Sprintf("shard-%d", round/shards)
		struck := d.struck(round%shards, time.Duration(round)*50*time.Millisecond)
		var job string
		await(d, "a move", func() bool {
			err := d.conn.QueryRow(d.Context(), "select weft.move_buckets('0-15', $1)", to).Scan(&job)
			if err != nil {
				d.Logf("move to %s: %v", to, err)
			}
			return err == nil
		})
		await(d, "the move has ended", func() bool {
			state := d.answer("select state from weft.moves where job = $1", job)
			if state == "failed" {
				d.must("select weft.resume_move($1)", job)
			}
			return state == "done" || state == "cancelled"
		})
		<-struck
		if got := d.answer(sums); got != want {
			d.Errorf("%s: %s, was %s", to, got, want)
		}
	}
	d.same()
}

// A proxy does not hear from etcd while a primary is lost: its clients wait and go on.
func (d *day) withoutEtcd() {
	text, err := os.ReadFile(filepath.Join(d.c.dir, "weft.yaml"))
	if err != nil {
		d.Fatal(err)
	}
	endpoint := regexp.MustCompile(`http://(127\.0\.0\.1:\d+)`).FindSubmatch(text)
	if endpoint == nil {
		d.Fatalf("no etcd in %s", text)
	}
	r := newRelay(d, string(endpoint[1]))
	file := filepath.Join(d.c.dir, "relayed.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), string(endpoint[1]), r.addr())), 0o644); err != nil {
		d.Fatal(err)
	}
	proxy := d.c.anotherProxy(file)
	conn, err := pgx.Connect(d.Context(), "postgres://postgres@"+proxy+"/app?sslmode=disable")
	if err != nil {
		d.Fatal(err)
	}
	defer conn.Close(context.Background())
	for shard := range shards {
		d.c.awaitStandby(shard)
		r.freeze(true)
		d.strike(shard)
		for i := range 20 {
			if _, err := conn.Exec(d.Context(), "insert into t (id) values ($1)", 1_000_000_000+1000*shard+i); err != nil {
				d.Errorf("without etcd: %v", err)
			}
		}
		var n int
		if err := conn.QueryRow(d.Context(), "select count(*) from account").Scan(&n); err != nil || n != accounts {
			d.Errorf("without etcd: %d accounts, %v", n, err)
		}
		r.freeze(false)
	}
	if got := d.answer("select count(*)::text from t where id >= 1000000000"); got != fmt.Sprint(20*shards) {
		d.Errorf("%s rows", got)
	}
}

// All servers of a shard are lost at once and come back.
func (d *day) allAway() {
	for shard := range shards {
		d.c.awaitStandby(shard)
		d.end(d.c.servers(shard)...)
		d.must("insert into t (id) values ($1)", 2_000_000_000+shard)
		if got := d.answer("select sum(balance)::text from account"); got != fmt.Sprint(accounts*funds) {
			d.Errorf("the accounts hold %s", got)
		}
	}
	if got := d.answer("select count(*)::text from t where id >= 2000000000"); got != fmt.Sprint(shards) {
		d.Errorf("%s rows", got)
	}
}
