package integration

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weft/integration/harness"
	"weft/pgserver/pgtest"
)

// sampleSchema has one of everything that psql's \d family and pg_dump show.
const sampleSchema = `
create schema shop;
create type shop.mood as enum ('sad', 'ok', 'happy');
create type shop.pair as (x int, y text);
create domain shop.email as text check (value like '%@%');
create sequence shop.numbers increment 5;
create table shop.customer (
	id bigint generated always as identity primary key,
	name text not null, mail shop.email unique, mood shop.mood default 'ok',
	born date check (born > '1900-01-01'), tags text[], doc jsonb, pic bytea,
	twice int generated always as (length(name) * 2) stored);
create table shop.item (id int primary key default nextval('shop.numbers'), customer bigint references shop.customer on delete cascade, price numeric(10,2));
create index item_price on shop.item (price desc) where price > 10;
create table shop.event (at timestamptz not null, what text) partition by range (at);
create table shop.event_2024 partition of shop.event for values from ('2024-01-01') to ('2025-01-01');
create table shop.event_rest partition of shop.event default;
create view shop.dear as select name, price from shop.customer c join shop.item i on i.customer = c.id where price > 100;
create materialized view shop.counts as select mood, count(*) from shop.customer group by mood with no data;
create function shop.double(i int) returns int language sql immutable as $$ select i * 2 $$;
create function shop.stamp() returns trigger language plpgsql as $$ begin new.name := upper(new.name); return new; end $$;
create trigger stamp before update on shop.customer for each row execute function shop.stamp();
create procedure shop.nothing() language sql begin atomic; select 1; end;
create rule quiet as on delete to shop.dear do instead nothing;
alter table shop.customer enable row level security;
create policy own on shop.customer for select to alice using (name = current_user);
grant select on shop.customer to alice;
grant insert, update (price) on shop.item to bob;
comment on table shop.customer is 'who buys';
comment on column shop.customer.mail is 'has an @';
create statistics shop.st on customer, price from shop.item;
create publication pub for table shop.item where (id > 0);
create operator shop.=== (leftarg = int, rightarg = int, function = int4eq);
create aggregate shop.total (int) (sfunc = int4pl, stype = int, initcond = '0');
create collation shop.german (locale = 'C');
insert into shop.customer (name, mail, born, tags, doc, pic)
	select 'name ' || i, i || '@x', date '2000-01-01' + i, array['a', null, i::text], jsonb_build_object('i', i), decode(md5(i::text), 'hex') from generate_series(1, 200) i;
insert into shop.item (customer, price) select i, i * 3.5 from generate_series(1, 200) i;
insert into shop.event select timestamptz '2023-12-30 00:00:00+00' + i * interval '1 day', E'tab\there\nline ' || i from generate_series(1, 30) i;
insert into shop.customer (name) values ('back\slash "quote" '' end'), ('ünïcödé 日本');
select lo_from_bytea(4711, 'large object');
`

// TestPsqlDescribe compares what psql's \d commands print.
func TestPsqlDescribe(t *testing.T) {
	const commands = `
\set ECHO queries
\conninfo_is_left_out_because_of_the_port
\dt shop.*
\dtS pg_catalog.*
\d
\d+ shop.*
\d shop.customer
\d+ shop.item
\d+ shop.event
\d+ shop.dear
\d+ shop.counts
\di+ shop.*
\dv+ shop.*
\dm shop.*
\ds shop.*
\df+ shop.*
\da shop.*
\do shop.*
\dT+ shop.*
\dD+ shop.*
\dn+
\dp shop.*
\ddp
\du+
\drds
\dg
\dO shop.*
\dc
\dx
\dX
\dy
\dRp+
\dRs
\des
\det
\dl
\dP+
\db
\dA
\dconfig work_mem
\dd shop.*
\sf shop.stamp
\sv shop.dear
\z shop.*
\encoding
\x
select * from shop.customer order by id limit 3;
\x
\pset format csv
select * from shop.item order by id limit 5;
\pset format aligned
select 1 as one \gset
\echo :one
select 'create table shop.made_' || i || ' (a int)' from generate_series(1,3) i \gexec
\dt shop.made*
select 1 as a, 'x'::varchar(7) as b, now() as c, null::numeric(5,2) as d \gdesc
select * from (values (1, 'x', 10), (1, 'y', 20), (2, 'x', 30)) v(r, c, n) \crosstabview
\errverbose
select 1/0;
\errverbose
begin;
\echo :SQLSTATE :ERROR :LAST_ERROR_MESSAGE
select nosuch;
\echo :SQLSTATE :ERROR :LAST_ERROR_MESSAGE :ROW_COUNT
rollback;
\prompt_is_unknown
\watch_is_tested_elsewhere
`
	compareTargets(t, sampleSchema, func(t *testing.T, target *harness.Target) string {
		out := program(t, target, commands, "psql", "-X", "-q", "-f", "-")
		if out.err != nil {
			t.Errorf("psql on %s: %v", target.Name, out.err)
		}
		// The line of the source that raised an error is PostgreSQL's own affair,
		// but the same on both; object identifiers in names are not.
		return out.stdout + "\nstderr:\n" + out.stderr
	})
}

// compareTargets fills both targets, does the same with each and compares.
func compareTargets(t *testing.T, schema string, f func(t *testing.T, target *harness.Target) string) {
	t.Helper()
	said := map[string]string{}
	both(t, func(t *testing.T, target *harness.Target) {
		ctx := within(t, 20*time.Second)
		if err := target.Admin(ctx, schema); err != nil {
			t.Fatalf("schema on %s: %v", target.Name, err)
		}
		said[target.Name] = f(t, target)
		if len(said) == 2 {
			sameText(t, "answer", said["postgres"], said["weft"])
		}
	})
}

// TestPsqlPrograms runs -c and -f with several statements and with errors.
func TestPsqlPrograms(t *testing.T) {
	file := filepath.Join(t.TempDir(), "script.sql")
	script := `\set ON_ERROR_STOP 1
create table f (a int);
begin;
insert into f values (1), (2);
\copy f from stdin
3
4
\.
commit;
copy f to stdout;
select sum(a) from f;
select 1/0;
select 'not reached';
`
	if err := os.WriteFile(file, []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	calls := [][]string{
		{"-c", "select 1; select 2"},
		{"-c", "select 1; select 1/0; select 2"},
		{"-c", "create table one (a int); insert into one values (1); select 1/0", "-c", "select * from one"},
		{"-c", "begin; select 1; commit"},
		{"-1", "-c", "create table two (a int)", "-c", "select count(*) from two"},
		{"-At", "-F", ",", "-c", "select 1, 2, null", "-c", "\\echo x", "-c", "values (1),(2)"},
		{"-v", "ON_ERROR_STOP=1", "-c", "select nosuch", "-c", "select 'not reached'"},
		{"-f", file},
		{"-1", "-f", file},
		{"-c", "\\l app"},
		{"-c", "\\c app alice", "-c", "select current_user"},
		{"-c", "copy (values (1,'a'),(2,'b')) to stdout csv header"},
		{"-c", "explain (costs off) select 1"},
		{"-c", "set work_mem='3MB'", "-c", "show work_mem"},
		{"-c", "vacuum", "-c", "checkpoint"},
		{"-d", "nosuchdatabase", "-c", "select 1"},
		{"-U", "nosuchuser", "-c", "select 1"},
	}
	compareTargets(t, "", func(t *testing.T, target *harness.Target) string {
		var said strings.Builder
		for _, args := range calls {
			out := program(t, target, "", "psql", append([]string{"-X"}, args...)...)
			_, port, _ := strings.Cut(target.Addr, ":")
			fmt.Fprintf(&said, "psql %q: %v\n%s%s\n", args, out.err, out.stdout, strings.ReplaceAll(out.stderr, port, "<port>"))
		}
		return said.String()
	})
}

// TestPsqlCopy takes a table out to a file and back in, in three formats.
func TestPsqlCopy(t *testing.T) {
	both(t, func(t *testing.T, target *harness.Target) {
		dir := t.TempDir()
		for _, format := range []string{"text", "csv", "binary"} {
			file := filepath.Join(dir, format)
			must(t, target, "", "psql", "-X", "-v", "ON_ERROR_STOP=1", "-c",
				"create table src_"+format+" as select i, md5(i::text) as h, null::int as n, repeat('x', i % 50) as r from generate_series(1, 3000) i",
				"-c", fmt.Sprintf(`\copy src_%s to '%s' (format %s)`, format, file, format),
				"-c", fmt.Sprintf("create table dst_%s (like src_%s)", format, format),
				"-c", fmt.Sprintf(`\copy dst_%s from '%s' (format %s)`, format, file, format))
			got := must(t, target, "", "psql", "-X", "-At", "-c",
				fmt.Sprintf("select count(*), count(*) filter (where s is not distinct from d) from src_%s s join dst_%s d using (i)", format, format))
			if got != "3000|3000\n" {
				t.Errorf("%s: %s", format, got)
			}
		}
	})
}

// TestPsqlWatch repeats a query until it is interrupted.
func TestPsqlWatch(t *testing.T) {
	both(t, func(t *testing.T, target *harness.Target) {
		cmd := exec.Command(target.Home.Config().Install.Program("psql"), "-X", "-At", "-f", "-")
		cmd.Env = target.Env()
		cmd.Stdin = strings.NewReader("select 'again' \\watch 0.05\n")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(pgtest.Patience, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		seen := 0
		scan := bufio.NewScanner(out)
		for scan.Scan() {
			if scan.Text() == "again" {
				if seen++; seen == 4 {
					_ = cmd.Process.Signal(syscall.SIGINT)
				}
			}
		}
		_ = cmd.Wait() // psql's exit code after an interrupt differs by version
		if seen < 4 {
			t.Errorf("\\watch printed %d results before it ended", seen)
		}
	})
}

// TestPsqlBind uses \bind, which psql has since version 16.
func TestPsqlBind(t *testing.T) {
	if major := harness.Postgres(t).Home.Config().Install.Major; major < 16 {
		t.Skipf("psql %d has no \\bind", major)
	}
	both(t, func(t *testing.T, target *harness.Target) {
		got := must(t, target, "select $1::int + $2::int \\bind 40 2 \\g\n", "psql", "-X", "-At", "-f", "-")
		if got != "42\n" {
			t.Errorf("\\bind: %q", got)
		}
	})
}
