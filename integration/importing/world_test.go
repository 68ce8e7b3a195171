package importing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
	"weft/integration/harness"
	"weft/pgserver"
)

const patience = 3 * time.Minute

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m))
}

// schema has a table for each way in which rows are held and found, and one with every type.
const schema = `
create type mood as enum ('good', 'bad');
create type place as (street text, number int);
create domain positive as int check (value > 0);
create sequence loose start 1000;
create function touch() returns trigger language plpgsql as $$ begin new.name := upper(new.name); return new; end $$;
create table customers (id bigserial primary key, email text not null unique, body text);
alter table customers alter body set storage external;
create table orders (id bigserial primary key, customer_id bigint not null references customers on delete cascade, body text, double bigint generated always as (id * 2) stored);
create index on orders (customer_id);
create table items (customer_id bigint not null, n int not null, product int not null, body text, primary key (customer_id, n));
alter table items alter body set storage external;
create table products (id int primary key, name text);
create trigger touch before insert or update on products for each row execute function touch();
alter table items add foreign key (product) references products;
create table keyless (k int not null, t text, j json);
alter table keyless replica identity full;
create table notes (id int generated always as identity primary key, body text);
create table wiped (id int not null, body text, primary key (id));
create table events (k int not null, day date not null, body text, primary key (k, day)) partition by range (day);
create table events_2025 partition of events for values from ('2025-01-01') to ('2026-01-01');
create table events_rest partition of events default;
create schema "Odd one";
create table "Odd one"."Odd table" ("A key" text primary key, "select" text, "co""lon;" int);
create table samples (id uuid primary key default gen_random_uuid(), b boolean, i2 smallint, i4 int, i8 bigint, f4 real, f8 float8, num numeric, money money, t text, vc varchar(20), c char(5), n name, raw bytea,
	d date, tm time, tmz timetz, ts timestamp, tstz timestamptz, iv interval, j json, jb jsonb, i4s int[], ts_ text[][], uuids uuid[], st mood, sts mood[], addr place, addrs place[], pos positive,
	ip inet, net cidr, mac macaddr, r int4range, mr nummultirange, bits bit(5), vbits varbit, pt point, box box, poly polygon, tsv tsvector, tsq tsquery, lsn pg_lsn, path jsonpath, x xml);
create view busy as select customer_id, count(*) from orders group by 1;
create materialized view totals as select customer_id, count(*) as n from orders group by 1;
create materialized view grand as select sum(n) as n from totals;`

// declared says how weft holds the tables; those that are not named are at home.
var declared = []string{
	"--shard", "customers.id", "--shard", "orders.customer_id", "--shard", "items.customer_id", "--reference", "products", "--shard", "keyless.k", "--shard", "wiped.id", "--shard", "events.k",
	"--shard", `"Odd one"."Odd table"."A key"`, "--shard", "samples.id",
}

var allTables = []string{"customers", "orders", "items", "products", "keyless", "notes", "wiped", "events", `"Odd one"."Odd table"`, "samples"}

// sample inserts a row with random values of every type, edges among them.
const sample = `insert into samples select gen_random_uuid(), p > 0.5, (p * 30000)::smallint, (p * 2e9)::int, (p * 9e18)::bigint, (array[p::real, 'NaN', '-Infinity', 1e-30, '-0'])[1 + (q * 5)::int % 5], (array[p, 'NaN', 'Infinity', 1.7976931348623157e308, 5e-324])[1 + (q * 5)::int % 5],
	(array[p::numeric * 1e30, 'NaN', 'Infinity', 1.500, 0.00])[1 + (q * 5)::int % 5], (p * 1000)::numeric::money, (array['plain', '', E'tab\tnew\nline\\', '\N', 'ünï ☃ 𝄞', repeat('z', 9000), null])[1 + (q * 7)::int % 7], left(md5(p::text), 20), 'ab', 'name', (array['\x', '\x0001ff5c', null]::bytea[])[1 + (q * 3)::int % 3],
	(array['2025-02-28', '0044-03-15 BC', 'infinity', '5874897-12-31']::date[])[1 + (q * 4)::int % 4], '23:59:59.999999', '12:00:00+05:30', '2025-01-01 00:00:00.000001', (array['2025-06-01 12:00+02', '-infinity', null]::timestamptz[])[1 + (q * 3)::int % 3],
	(array['1 year -2 mons 3 days -04:05:06.7', '-1 day']::interval[])[1 + (q * 2)::int % 2], '{"a":  1, "a": 2}', '{"b": [1, null, "x\u00e9"], "a": 1.50}', '{1,NULL,3}', '{{a,"b,c"},{"\"",NULL}}', array[gen_random_uuid()], 'bad', '{good,bad}', row('long "street"', 5)::place, array[row('a,b', null)::place], 7,
	'10.0.0.1/8', '10.0.0.0/8', '08:00:2b:01:02:03', '[1,5)', '{[1.5,2),[3,)}', B'10101', B'1', '(1.5,-2)', '(1,1),(0,0)', '((0,0),(1,1),(1,0))', 'fat:2A cat', 'fat & !cat', '16/B374D848', '$.a[*]', '<a>&amp;</a>'
	from (select random() as p, random() as q) one`

// world is a source that is written to, and a weft that is to take it over.
type world struct {
	*testing.T
	source *pgserver.Temp
	weft   *harness.Program
	db     string
	tables []string
	stop   string // the file that says where the importer stops
	serial atomic.Int64
	ran    []*process
}

func newWorld(t *testing.T, db string, more map[string]string) *world {
	t.Helper()
	settings := map[string]string{"wal_level": "logical"}
	for k, v := range more {
		settings[k] = v
	}
	w := &world{T: t, db: db, source: harness.EmptyServer(t, settings), weft: harness.StartProgram(t, func(*config.Config) {}), stop: filepath.Join(t.TempDir(), "stop")}
	w.weft.CreateDatabase(t, db)
	c := w.dial(w.source.ConnString("postgres"))
	w.must(c, "create database "+db)
	_ = c.Close(context.Background())
	return w
}

func (w *world) dial(url string) *pgx.Conn {
	w.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func (w *world) fromURL() string { return w.source.ConnString(w.db) }

func (w *world) intoURL() string { return w.weft.ConnString("postgres", "dbname="+w.db) }

func (w *world) must(c *pgx.Conn, sql string) {
	w.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if _, err := c.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
}

func value[T any](w *world, c *pgx.Conn, sql string, args ...any) (v T) {
	w.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if err := c.QueryRow(ctx, sql, args...).Scan(&v); err != nil {
		w.Errorf("%s: %v", sql, err)
	}
	return v
}

// fill makes the schema on the source, and first rows.
func (w *world) fill(rows int) {
	w.Helper()
	w.tables = allTables
	c := w.dial(w.fromURL())
	w.must(c, schema)
	w.must(c, fmt.Sprintf(`insert into customers (email, body) select 'first' || i, repeat(md5(i::text), i %% 200) from generate_series(1, %[1]d) i;
		insert into orders (customer_id, body) select i %% %[1]d + 1, 'o' || i from generate_series(1, 3 * %[1]d) i;
		insert into products select i, 'p' || i from generate_series(1, 20) i;
		insert into items select i, 1, i %% 20 + 1, repeat(md5(i::text), 100) from generate_series(1, %[1]d) i;
		insert into keyless select i %% 5, 'same', '{"a": 1}' from generate_series(1, 40) i;
		insert into notes (body) select 'n' || i from generate_series(1, 20) i;
		insert into wiped select i, 'w' from generate_series(1, 50) i;
		insert into events select i %% 30, '2025-06-01'::date + i, 'e' from generate_series(1, 300) i;
		insert into "Odd one"."Odd table" select 'k ' || i, 'x', i from generate_series(1, 30) i;
		select setval('loose', 4321)`, rows))
	for range 20 {
		w.must(c, sample)
	}
	_ = c.Close(context.Background())
}

// load writes to the source until the returned function is called, which tells how many transactions were committed. Sessions that are
// ended come again; once the source is read only nothing more happens.
func (w *world) load(workers int, pace time.Duration) (stop func() int64) {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	var committed atomic.Int64
	for n := range workers {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 7))
			var c *pgx.Conn
			for ctx.Err() == nil {
				if c == nil || c.IsClosed() {
					var err error
					if c, err = pgx.Connect(ctx, w.fromURL()); err != nil {
						time.Sleep(20 * time.Millisecond)
						continue
					}
				}
				_, err := c.PgConn().Exec(ctx, w.transaction(r)).ReadAll()
				var e *pgconn.PgError
				switch {
				case err == nil:
					committed.Add(1)
				case errors.As(err, &e) && slices.Contains([]string{"25006", "57P01", "40P01", "40001", "23505", "23503"}, e.Code):
					_, _ = c.Exec(ctx, "rollback")
				case ctx.Err() == nil && !c.IsClosed():
					w.Errorf("load: %v", err)
					return
				}
				time.Sleep(pace)
			}
			if c != nil {
				_ = c.Close(context.Background())
			}
		})
	}
	return func() int64 {
		cancel()
		group.Wait()
		return committed.Load()
	}
}

// transaction makes up one or more statements. Some of them change keys, some leave large values alone.
func (w *world) transaction(r *rand.Rand) string {
	id := func() int { return 1 + r.IntN(300) }
	var b strings.Builder
	b.WriteString("begin;")
	for range 1 + r.IntN(4) {
		unique := w.serial.Add(1)
		b.WriteString([]func() string{
			func() string {
				return fmt.Sprintf("insert into customers (email, body) values ('l%d', repeat(md5('%d'), %d))", unique, unique, r.IntN(300))
			},
			func() string { return fmt.Sprintf("update customers set email = 'u%d' where id = %d", unique, id()) }, // body stays
			func() string {
				return fmt.Sprintf("insert into orders (customer_id, body) values (%d, 'o%d')", id(), unique)
			},
			func() string {
				return fmt.Sprintf("update orders set customer_id = %d, body = 'm%d' where id = %d", id(), unique, id())
			},
			func() string { return fmt.Sprintf("delete from orders where id = %d", id()+r.IntN(900)) },
			func() string { return fmt.Sprintf("delete from customers where id = %d", id()) }, // and their orders
			func() string {
				return fmt.Sprintf("insert into items values (%d, %d, %d, repeat(md5('%d'), 100))", id(), unique+10, 1+r.IntN(20), unique)
			},
			func() string {
				return fmt.Sprintf("update items set customer_id = %d, n = %d where (customer_id, n) = (select customer_id, n from items where customer_id >= %d limit 1)", id(), unique+1000000, id())
			}, // the row moves, with a large value that is not told
			func() string {
				return fmt.Sprintf("update items set product = %d where customer_id = %d", 1+r.IntN(20), id())
			},
			func() string {
				return fmt.Sprintf("update products set name = 'x%d' where id = %d", unique, 1+r.IntN(20))
			},
			func() string {
				return fmt.Sprintf("insert into keyless values (%d, 'same', '{\"a\": 1}'), (%d, null, null)", r.IntN(5), r.IntN(5))
			},
			func() string {
				return fmt.Sprintf("update keyless set k = %d where ctid = (select ctid from keyless offset %d limit 1)", r.IntN(5), r.IntN(30))
			},
			func() string {
				return fmt.Sprintf("delete from keyless where ctid = (select ctid from keyless offset %d limit 1)", r.IntN(30))
			},
			func() string { return "insert into notes (body) values ('l')" },
			func() string {
				return fmt.Sprintf("update notes set id = default where id = (select id from notes offset %d limit 1)", r.IntN(10))
			},
			func() string {
				if r.IntN(4) > 0 {
					return fmt.Sprintf("insert into wiped values (%d, 'l')", unique+1000)
				}
				return fmt.Sprintf("truncate wiped; insert into wiped values (%d, 'l')", unique+1000) // never empty: all tables are compared
			},
			func() string {
				return fmt.Sprintf("insert into events values (%d, '2024-01-01'::date + %d, 'l') on conflict do nothing", r.IntN(30), r.IntN(2000))
			},
			func() string {
				return fmt.Sprintf("update events set day = day + 365, k = %d where (k, day) = (select k, day from events where k = %d limit 1)", 100+unique, r.IntN(30))
			},
			func() string {
				return fmt.Sprintf(`update "Odd one"."Odd table" set "A key" = 'k %d', "co""lon;" = %d where "A key" = 'k %d'`, unique+100, unique, id()%30)
			},
			func() string { return sample },
			func() string {
				return "update samples set b = not b, t = t || 'x' where id = (select id from samples limit 1)"
			},
		}[r.IntN(21)]())
		b.WriteByte(';')
	}
	if r.IntN(10) == 0 {
		return b.String() + "rollback"
	}
	return b.String() + "commit"
}

// process is a command of weft that runs.
type process struct {
	cmd  *exec.Cmd
	out  bytes.Buffer
	done chan struct{}
	err  error
}

// run starts weft import. At the point, if there is one, it kills itself.
func (w *world) run(point string, args ...string) *process {
	w.Helper()
	_ = os.Remove(w.stop + ".reached")
	if err := os.Remove(w.stop); err != nil && !os.IsNotExist(err) {
		w.Fatal(err)
	}
	if point != "" {
		if err := os.WriteFile(w.stop, []byte(point+" die"), 0o600); err != nil {
			w.Fatal(err)
		}
	}
	p := &process{done: make(chan struct{})}
	p.cmd = exec.Command(harness.ProgramPath(w.T), append([]string{"import", args[0], "--from", w.fromURL(), "--into", w.intoURL()}, args[1:]...)...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.Env = append(os.Environ(), "WEFT_STOP="+w.stop)
	if err := p.cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.ran = append(w.ran, p)
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	w.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

// wait waits until a process has ended, and reports whether it was killed.
func (w *world) wait(p *process) (killed bool) {
	w.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		w.explain()
		_ = p.cmd.Process.Kill()
		<-p.done
		w.Fatalf("weft import does not end:\n%s", p.out.String())
	}
	return p.cmd.ProcessState.ExitCode() < 0
}

// explain tells what everybody waits for.
func (w *world) explain() {
	urls := []string{w.fromURL()}
	for _, s := range w.weft.Shards() {
		urls = append(urls, s.ConnString(w.db))
	}
	for _, url := range urls {
		rows, _ := w.dial(url).Query(context.Background(), "select format('%s %s %s %s %s %s', pid, application_name, state, wait_event, pg_blocking_pids(pid), left(query, 150)) from pg_stat_activity where datname = current_database() or backend_type = 'walsender'")
		list, err := pgx.CollectRows(rows, pgx.RowTo[string])
		w.Logf("%s: %v\n%s", url, err, strings.Join(list, "\n"))
	}
	for _, p := range w.ran {
		select {
		case <-p.done:
		default:
			_ = p.cmd.Process.Signal(syscall.SIGQUIT) // its goroutines
			<-p.done
		}
	}
	w.Logf("the last two commands:\n%s\n%s", tail(w.ran[max(0, len(w.ran)-2)]), tail(w.ran[len(w.ran)-1]))
}

func tail(p *process) string {
	text := p.out.String()
	return fmt.Sprintf("%v: %s", p.cmd.Args[2], text[:min(len(text), 6000)])
}

// importing runs a command to its end, which must have the exit status.
func (w *world) importing(status int, args ...string) string {
	w.Helper()
	p := w.run("", args...)
	w.wait(p)
	if got := p.cmd.ProcessState.ExitCode(); got != status {
		w.Fatalf("weft import %v: exit status %d, want %d:\n%s", args, got, status, p.out.String())
	}
	return p.out.String()
}

// start is the arguments of weft import start.
func start(more ...string) []string {
	return append(append([]string{"start"}, declared...), more...)
}

// killed runs a command that must come to a point, and die there.
func (w *world) killed(point string, args ...string) {
	w.Helper()
	p := w.run(point, args...)
	if !w.wait(p) {
		w.Fatalf("weft import %s ended before %s: %v\n%s", args[0], point, p.err, p.out.String())
	}
}

// follows waits until the import follows.
func (w *world) follows(p *process) {
	w.Helper()
	c := w.dial(w.intoURL())
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		var state string
		if err := c.QueryRow(context.Background(), "select state from weft_import.job").Scan(&state); err == nil && state == "following" {
			return
		}
		select {
		case <-p.done:
			w.Fatalf("weft import start ended: %v\n%s", p.err, p.out.String())
		default:
		}
		if time.Now().After(deadline) {
			w.Fatalf("it does not follow:\n%s", state)
		}
	}
}

// same compares every row of every table.
func (w *world) same() {
	w.Helper()
	from, into := w.dial(w.fromURL()), w.dial(w.intoURL())
	for _, c := range []*pgx.Conn{from, into} {
		w.must(c, "set extra_float_digits = 3; set intervalstyle = postgres; set lc_monetary = 'C'")
	}
	for _, table := range w.tables {
		var both [2][]string
		for i, c := range []*pgx.Conn{from, into} {
			rows, err := c.Query(context.Background(), "select row(t.*)::text from "+table+" t", pgx.QueryExecModeSimpleProtocol)
			if err == nil {
				both[i], err = pgx.CollectRows(rows, pgx.RowTo[string])
			}
			if err != nil {
				w.Fatalf("%s: %v", table, err)
			}
			slices.Sort(both[i])
		}
		if len(both[0]) == 0 {
			w.Errorf("%s is empty: nothing was tried", table)
		}
		if !slices.Equal(both[0], both[1]) {
			w.Errorf("%s: %d rows in the source, %d in weft", table, len(both[0]), len(both[1]))
			shown := 0
			for _, r := range both[0] {
				if _, ok := slices.BinarySearch(both[1], r); !ok && shown < 3 {
					w.Logf("  weft lacks %.200s", r)
					shown++
				}
			}
			for _, r := range both[1] {
				if _, ok := slices.BinarySearch(both[0], r); !ok && shown < 6 {
					w.Logf("  weft has   %.200s", r)
					shown++
				}
			}
		}
	}
	for call, fine := range map[string]func(map[string]any) bool{
		"weft.verify_placement()": func(r map[string]any) bool { return r["misplaced"] == "0" },
		"weft.verify_lookup()": func(r map[string]any) bool {
			return fmt.Sprintf("%v %v %v", r["missing"], r["stale"], r["duplicates"]) == "0 0 0"
		},
		"weft.verify_reference()": func(r map[string]any) bool { return strings.Contains(fmt.Sprint(r["finding"]), "are the same") },
		"weft.schema_diff()":      func(map[string]any) bool { return false },
	} {
		rows, _ := into.Query(context.Background(), "select * from "+call)
		found, err := pgx.CollectRows(rows, pgx.RowToMap)
		if err != nil {
			w.Errorf("%s: %v", call, err)
		}
		for _, f := range found {
			if !fine(f) {
				w.Errorf("%s: %v", call, f)
			}
		}
	}
}

// gone fails if anything of the import is left on the source.
func (w *world) gone() {
	w.Helper()
	c := w.dial(w.fromURL())
	if n := value[int](w, c, "select (select count(*) from pg_replication_slots) + (select count(*) from pg_publication)"); n != 0 {
		w.Errorf("%d slots and publications are left", n)
	}
}
