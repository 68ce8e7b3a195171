package integration

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/config"
	"weft/integration/harness"
	"weft/pgserver/pgtest"
)

// leaks is what one session may leave lying about, and how another would trip
// over it. Each must give the same with two sessions of a plain PostgreSQL.
var leaks = []struct {
	name  string
	dirty string // by the first session
	look  string // by the second
	want  string // rows, or the SQLSTATE of look
	pins  bool   // one of them may keep its server connection, so a pool of one is too small
}{
	{name: "setting", dirty: "set work_mem = '77MB'", look: "show work_mem", want: "4MB\n"},
	{name: "custom setting", dirty: "set my.secret = 'x'", look: "select current_setting('my.secret', true)", want: "NULL\n"},
	{name: "set_config", dirty: "select set_config('work_mem', '78MB', false)", look: "show work_mem", want: "4MB\n"},
	{name: "set_config of a custom setting", dirty: "select set_config('my.other', 'x', false)", look: "select current_setting('my.other', true)", want: "NULL\n"},
	{name: "setting in a block", dirty: "begin; set work_mem = '79MB'; commit", look: "show work_mem", want: "4MB\n"},
	{name: "setting in a DO block", dirty: "do $$ begin perform set_config('work_mem', '80MB', false); end $$", look: "show work_mem", want: "4MB\n"},
	{name: "update of pg_settings", dirty: "update pg_settings set setting = '81920' where name = 'work_mem'", look: "show work_mem", want: "4MB\n"},
	{name: "setting before an error", dirty: "set work_mem = '82MB'; set statement_timeout = '1h'", look: "show statement_timeout", want: "0\n"},
	{name: "search_path", dirty: "create schema hidden; create table hidden.t (a int); set search_path = hidden", look: "select * from t", want: "42P01"},
	{name: "time zone", dirty: "set time zone 'Asia/Tokyo'", look: "show timezone", want: "UTC\n"},
	{name: "date style", dirty: "set datestyle = 'German'", look: "select date '2024-02-01'", want: "2024-02-01\n"},
	{name: "client encoding", dirty: "set client_encoding = 'LATIN1'", look: "select 'ä'", want: "ä\n"},
	{name: "role", dirty: "set role alice", look: "select current_user", want: "postgres\n"},
	{name: "session authorization", dirty: "set session authorization alice", look: "select session_user", want: "postgres\n"},
	{name: "transaction characteristics", dirty: "set session characteristics as transaction read only", look: "show transaction_read_only", want: "off\n"},
	{name: "session replication role", dirty: "set session_replication_role = replica", look: "show session_replication_role", want: "origin\n"},
	{name: "application name", dirty: "set application_name = 'impostor'", look: "show application_name", want: "\n"},
	{name: "temporary table", dirty: "create temp table tt (a int)", look: "select * from tt", want: "42P01", pins: true},
	{name: "temporary table shadowing", dirty: "create table r (a int); insert into r values (1); create temp table r (a int)", look: "select * from r", want: "1\n", pins: true},
	{name: "temporary table in a function", dirty: "do $$ begin create temp table ft (a int); end $$", look: "select * from ft", want: "42P01", pins: true},
	{name: "select into temp", dirty: "select 1 as a into temp it", look: "select * from it", want: "42P01", pins: true},
	{name: "SQL prepared statement", dirty: "prepare p as select 1", look: "execute p", want: "26000"},
	{name: "advisory lock", dirty: "select pg_advisory_lock(99)", look: "select pg_try_advisory_xact_lock(99)", want: "f\n", pins: true},
	{name: "cursor with hold", dirty: "declare c cursor with hold for select 1", look: "fetch c", want: "34000", pins: true},
	{name: "listen", dirty: "listen gossip", look: "select * from pg_listening_channels()", want: ""},
	{name: "currval", dirty: "create sequence q; select nextval('q')", look: "select currval('q')", want: "55000", pins: true},
	{name: "lastval", dirty: "create sequence q2; select nextval('q2')", look: "select lastval()", want: "55000", pins: true},
	{name: "open transaction", dirty: "begin; create table ot (a int)", look: "select * from ot", want: "42P01", pins: true},
	{name: "failed transaction", dirty: "begin; select 1/0", look: "select 1", want: "1\n", pins: true},
}

// TestLeaks has a session dirty its server connection and another one look,
// first beside it and then after it is gone, over the smallest possible pool.
func TestLeaks(t *testing.T) {
	t.Run("postgres", func(t *testing.T) { checkLeaks(t, harness.Postgres, harness.Postgres) })
	t.Run("weft", func(t *testing.T) {
		size := func(n int) func(testing.TB) *harness.Target {
			return func(tb testing.TB) *harness.Target {
				return harness.StartWeft(tb, func(c *config.Config) {
					c.Pool.MaxPerShard = n
					c.Pool.QueueTimeout = pgtest.Patience
				})
			}
		}
		checkLeaks(t, size(1), size(3))
	})
}

func checkLeaks(t *testing.T, one, two func(testing.TB) *harness.Target) {
	for _, leak := range leaks {
		t.Run(leak.name, func(t *testing.T) {
			get := one
			if leak.pins {
				get = two
			}
			target := get(t)
			target.Reset(t)
			a, b := target.Connect(t, "postgres"), target.Connect(t, "postgres")
			want := leak.want
			look := func(when string, conn *pgx.Conn) {
				t.Helper()
				got := try(conn, leak.look)
				if got == "" {
					got = rows(t, conn, leak.look)
				}
				if got != want {
					t.Errorf("%s: %s gives %q, want %q", when, leak.look, got, want)
				}
			}
			_ = try(a, leak.dirty) // some of them are meant to fail
			look("beside it", b)
			if err := a.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if leak.name == "advisory lock" {
				want = "t\n" // freed with its session
				target.Await(t, "select count(*) = 0 from pg_locks where locktype = 'advisory'")
			}
			for range 3 {
				fresh := target.Connect(t, "postgres")
				look("after it", fresh)
				if err := fresh.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			look("after it, in the old session", b)
		})
	}
}

// TestStateFollows is the other half: what a session sets up is still there
// when another server connection serves it, with others using them in between.
func TestStateFollows(t *testing.T) {
	follow := func(t *testing.T, target *harness.Target) {
		target.Reset(t)
		const n = 6
		conns := make([]*pgx.Conn, n)
		for i := range conns {
			conns[i] = target.Connect(t, "postgres")
			mustExec(t, conns[i], fmt.Sprintf("create schema s%d; create table s%d.who as select %d as i", i, i, i))
			mustExec(t, conns[i], fmt.Sprintf("set search_path = s%d; set my.id = '%d'; set work_mem = '%dMB'", i, i, i+5))
			mustExec(t, conns[i], fmt.Sprintf("prepare who as select i, %d as p, current_setting('my.id') from who", i))
			if i%2 == 1 {
				mustExec(t, conns[i], "set role alice; reset role; set datestyle = 'German'")
			}
		}
		for round := range 20 {
			for i, conn := range conns {
				date := "2024-02-01"
				if i%2 == 1 {
					date = "01.02.2024"
				}
				want := fmt.Sprintf("%d|%d|%d\n", i, i, i)
				if got := rows(t, conn, "execute who"); got != want {
					t.Fatalf("round %d, session %d: execute who gives %q, want %q", round, i, got, want)
				}
				want = fmt.Sprintf("%d|%dMB|s%d|%s\n", i, i+5, i, date)
				if got := rows(t, conn, "select i, current_setting('work_mem'), current_schema(), date '2024-02-01' from who"); got != want {
					t.Fatalf("round %d, session %d: state is %q, want %q", round, i, got, want)
				}
			}
		}
	}
	t.Run("postgres", func(t *testing.T) { follow(t, harness.Postgres(t)) })
	for _, size := range []int{1, 2, 3} {
		t.Run(fmt.Sprintf("weft with %d server connections", size), func(t *testing.T) {
			follow(t, harness.StartWeft(t, func(c *config.Config) { c.Pool.MaxPerShard = size }))
		})
	}
}
