package security_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/auth"
	"weft/config"
	"weft/integration/harness"
)

// dweller is a session among many on few backends. All that it leaves behind bears
// its tag, and it knows what it must find.
type dweller struct {
	t    *testing.T
	tag  string
	conn *pgconn.PgConn
	rnd  *rand.Rand

	mem      string // its work_mem
	custom   string // its my.v; "" for none
	role     string
	prepared bool     // EXECUTE p gives the tag
	temp     bool     // there is a temporary table tt with the tag
	heard    string   // what a notice said that was not its own
	past     []string // what it has run
}

// TestManySessions lets many clients of two users leave every kind of state on a
// few backends, at the same time, and find their own and nobody else's.
func TestManySessions(t *testing.T) {
	shards(t)
	// A tag is a secret of its session: it must be nowhere else.
	w := start(t, []auth.User{{Name: "mallory", Password: world.mallory}, {Name: "victim", Password: world.victim}}, func(c *config.Config) {
		c.Pool.MaxPerShard = 8
	})
	admin := connect(t, w, "postgres", "", "dbname="+vault)
	admin.must("GRANT SELECT, INSERT, DELETE ON mine TO victim, helper")
	defer admin.must("DELETE FROM mine WHERE id > 100000; REVOKE ALL ON mine FROM victim, helper")
	for_ := 3 * time.Second
	if *long {
		for_ = time.Minute
	}
	until := time.Now().Add(for_)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for time.Now().Before(until) && !t.Failed() {
				dwell(t, w, i, until)
			}
		})
	}
	wg.Wait()
}

// dwell is the life of one session.
func dwell(t *testing.T, w *harness.Target, i int, until time.Time) {
	d := &dweller{t: t, tag: fmt.Sprintf("tag%dx%d", i, time.Now().UnixNano()), rnd: rand.New(rand.NewPCG(uint64(i), uint64(time.Now().UnixNano()))), mem: "4MB"}
	user, password := "mallory", malloryPassword
	if i%2 == 1 {
		user, password = "victim", victimPassword
	}
	d.role = user
	cfg, err := pgconn.ParseConfig(w.ConnString(user, "password="+password, "dbname="+vault))
	if err != nil {
		t.Error(err)
		return
	}
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if strings.HasPrefix(n.Message, "tag") && n.Message != d.tag {
			d.heard = n.Message
		}
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	if d.conn, err = pgconn.ConnectConfig(ctx, cfg); err != nil {
		t.Error(err)
		return
	}
	defer d.conn.Close(ctx)
	for range 1 + d.rnd.IntN(30) {
		if time.Now().After(until) || t.Failed() {
			return
		}
		d.change(i)
		d.look()
	}
}

// run sends a text, simple or extended, and returns its last value.
func (d *dweller) run(sql string) string {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	d.past = append(d.past, sql)
	last := ""
	keep := func(rows [][][]byte) {
		for _, r := range rows {
			last = string(r[0])
		}
	}
	if !strings.Contains(sql, ";") && d.rnd.IntN(2) == 0 {
		res := d.conn.ExecParams(ctx, sql, nil, nil, nil, nil).Read()
		if res.Err != nil {
			return code(res.Err)
		}
		keep(res.Rows)
		return last
	}
	results, err := d.conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return code(err)
	}
	for _, r := range results {
		keep(r.Rows)
	}
	return last
}

// change leaves some state behind.
func (d *dweller) change(i int) {
	t, want := d.t, func(sql, value string) {
		d.t.Helper()
		if got := d.run(sql); got != value {
			d.t.Errorf("%s: %s: %q, want %q, after\n%s", d.tag, sql, got, value, strings.Join(d.past, "\n"))
		}
	}
	t.Helper()
	switch d.rnd.IntN(14) {
	case 0:
		d.mem = fmt.Sprintf("%dMB", 5+d.rnd.IntN(20))
		want("SET work_mem = '"+d.mem+"'", "")
	case 1:
		d.mem = fmt.Sprintf("%dMB", 30+d.rnd.IntN(20))
		want("BEGIN; SELECT set_config('work_mem', '"+d.mem+"', false); COMMIT", d.mem)
	case 2:
		want("BEGIN; SET LOCAL work_mem = '99MB'; SHOW work_mem; COMMIT", "99MB")
	case 3:
		d.custom = d.tag
		want("SET my.v = '"+d.tag+"'", "")
	case 4:
		if d.role == "mallory" {
			d.role = "helper"
			want("SET ROLE helper", "")
		}
	case 5:
		if d.role == "helper" {
			d.role = "mallory"
			want("RESET ROLE", "")
		}
	case 6:
		if !d.prepared {
			d.prepared = true
			want("PREPARE p AS SELECT '"+d.tag+"'::text", "")
		}
	case 7:
		if d.prepared {
			d.prepared = false
			want("DEALLOCATE p", "")
		}
	case 8:
		want("DO $$ BEGIN RAISE NOTICE '"+d.tag+"'; END $$", "")
	case 9:
		if !d.temp && i < 4 { // a session with one keeps its backend
			d.temp = true
			want("CREATE TEMP TABLE tt AS SELECT '"+d.tag+"'::text AS s", "")
		}
	case 10:
		id := 100_000 + d.rnd.IntN(1_000_000_000)
		want("BEGIN", "")
		want(fmt.Sprintf("INSERT INTO mine VALUES (%d, '%s'), (%d, '%[2]s')", id, d.tag, id+1), "")
		want("SELECT count(*) FROM mine WHERE s = '"+d.tag+"'", "2")
		want("ROLLBACK", "")
	case 11:
		want("BEGIN; DECLARE c CURSOR FOR SELECT '"+d.tag+"'::text; FETCH c; COMMIT", d.tag)
	case 12:
		want("BEGIN; SET work_mem = '77MB'; SELECT 1/0", "22012")
		want("ROLLBACK", "")
	default:
		want("DISCARD ALL", "")
		d.mem, d.custom, d.prepared, d.temp = "4MB", "", false, false
		if d.role == "helper" {
			d.role = "mallory"
		}
	}
}

// look finds what is its own, and nothing else.
func (d *dweller) look() {
	d.t.Helper()
	prepared, temp, custom := "26000", "42P01", d.custom
	if d.prepared {
		prepared = d.tag
	}
	if d.temp {
		temp = d.tag
		if d.role == "helper" {
			temp = "42501" // made by another role
		}
	}
	for _, l := range []struct{ sql, want string }{
		{"SHOW work_mem", d.mem},
		{"SELECT coalesce(current_setting('my.v', true), '')", custom},
		{"SELECT current_user::text", d.role},
		{"EXECUTE p", prepared},
		{"SELECT s FROM tt", temp},
		{"SELECT count(*) FROM mine WHERE s LIKE 'tag%'", "0"},
		{"SELECT count(*) FROM pg_listening_channels()", "0"},
	} {
		if d.rnd.IntN(2) == 0 {
			continue
		}
		if got := d.run(l.sql); got != l.want && !(l.sql == "SELECT s FROM tt" && d.temp && got == d.tag) {
			d.t.Errorf("%s: %s: %q, want %q, after\n%s", d.tag, l.sql, got, l.want, strings.Join(d.past, "\n"))
		}
	}
	if d.heard != "" {
		d.t.Errorf("%s heard %s", d.tag, d.heard)
	}
}

// TestPinsStay: what ties a session to its backend on the home shard is not undone
// by a look at a backend of another shard.
func TestPinsStay(t *testing.T) {
	shards(t)
	w := start(t, []auth.User{{Name: "mallory", Password: world.mallory}})
	c, console := connect(t, w, "mallory", malloryPassword, "dbname="+vault), connect(t, w, "postgres", "", "dbname=weft")
	c.must("CREATE TEMP TABLE tt AS SELECT 'mine'::text AS s")
	for id := 1; id <= 8; id++ {
		// Whatever reads here is asked about: there is a view that runs any text.
		c.must(fmt.Sprintf("SELECT s FROM mine WHERE id = %d", id))
		results, err := console.conn.Exec(t.Context(), "SHOW CLIENTS").ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(fmt.Sprintf("%s", results[0].Rows), "temporary objects") {
			t.Fatalf("after row %d: %s", id, results[0].Rows)
		}
	}
}
