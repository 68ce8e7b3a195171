package routing

import (
	"strings"
	"testing"

	"weft/integration/harness"
	"weft/integration/pair"
)

// TestFill: a command that would have each shard make values of its own for rows that are
// there is refused, in a block and outside of it; without rows it is carried out.
func TestFill(t *testing.T) {
	p := pair.Connect(t, harness.Weft(t), database(t, "fill"), "postgres")
	p.Must(t, "create table numbered (id int primary key, v text); create table copied (id int primary key); create sequence source")
	p.Must(t, "select weft.shard_table('numbered', 'id')")
	p.Must(t, "select weft.reference_table('copied')")
	p.Must(t, "create table keyless (v int); insert into keyless values (1), (1)")
	p.Must(t, "select weft.reference_table('keyless')")
	says := func(code, sql string) {
		t.Helper()
		for _, m := range pair.Modes {
			if a := p.Ask(m, sql, nil, nil); a.Code != code {
				t.Errorf("%s (%s): %q, not %q", sql, m, a.Code, code)
			}
			if code == "" {
				return // once is enough
			}
		}
	}
	says("", "alter table numbered add column a serial, add column b int generated always as identity")
	says("", "alter table copied add column a serial, add column at timestamptz default now()")
	p.Must(t, "insert into numbered (id) select generate_series(1, 20)")
	p.Must(t, "insert into copied (id) select generate_series(1, 20)")
	for _, sql := range []string{
		"do $$ begin alter table numbered add column c bigserial; end $$",
		"alter table numbered add column c text default 'x' || nextval('source')",
		"alter table numbered alter column v type int using nextval('source')",
		"do $$ begin alter table copied add column c serial; end $$",
		"alter table copied alter column id type float using random()",
		"alter table keyless add column c uuid default gen_random_uuid()",
	} {
		says("0A000", sql)
		p.Must(t, "begin")
		if a := p.Ask(pair.Simple, sql, nil, nil); a.Code != "0A000" {
			t.Errorf("%s in a block: %q", sql, a.Code)
		}
		p.Must(t, "rollback")
	}
	says("", "alter table numbered add column if not exists a serial")
	says("", "alter table numbered add column d uuid default gen_random_uuid()")
	says("", "alter table copied add column d int default 1 + 1, alter column at type text using at::text")

	// The time is one for all rows, and a default for those to come.
	for _, table := range []string{"numbered", "copied"} {
		p.Must(t, "alter table "+table+" add column t1 timestamptz not null default now(), add column t2 timestamp default now() + interval '1 day' check (t2 > '2020-01-01'), add column t3 date default current_date")
		p.Must(t, "begin")
		p.Must(t, "alter table "+table+" add column t4 text default current_timestamp::text, add column \"Ü\" text default 'it''s ' || localtimestamp, alter column t3 type timestamptz using now()")
		p.Must(t, "commit")
		p.Must(t, "insert into "+table+" (id) values (101), (102)")
		const once = "select count(distinct t1), count(distinct t2), count(distinct t3), count(distinct t4), count(distinct \"Ü\"), bool_and(t4 = t3::text) from "
		if a := p.Ask(pair.Simple, once+table+" where id < 100", nil, nil); a.Code != "" || a.Results[0].Rows[0] != "1 | 1 | 1 | 1 | 1 | t | " {
			t.Errorf("%s has more than one time: %v %v", table, a.Code, a.Results)
		}
		if a := p.Ask(pair.Simple, "select count(*) from "+table+" where t1 > (select max(t1) from "+table+" where id < 100) and t4 is not null", nil, nil); a.Code != "" || a.Results[0].Rows[0] != "2 | " {
			t.Errorf("%s has lost the default: %v %v", table, a.Code, a.Results)
		}
		p.Must(t, "delete from "+table+" where id > 100")
	}

	// Copies get the home shard's values.
	p.Must(t, "create table pairs (a int, b text, primary key (a, b)); insert into pairs select g, 'it''s \"' || g from generate_series(1, 20) g; create table parted (id int primary key) partition by hash (id)")
	p.Must(t, "create table parted_0 partition of parted for values with (modulus 1, remainder 0); insert into parted select generate_series(1, 9)")
	p.Must(t, "select weft.reference_table('pairs')")
	p.Must(t, "select weft.reference_table('parted')")
	p.Must(t, "create function deny() returns trigger language plpgsql as $$ begin raise exception 'fired'; end $$")
	p.Must(t, "create trigger deny before update on pairs for each row execute function deny()")
	for _, table := range []string{"pairs", "parted", "copied"} {
		for _, m := range []pair.Mode{pair.Simple, pair.Prepared} {
			for _, column := range []string{"n serial unique", "n uuid not null default gen_random_uuid()", "n text default 'x' || random()", "n float default random()", "n int generated always as identity", "n timestamptz default clock_timestamp()", "n int[] default array[(random() * 100)::int, null]"} {
				if table == "parted" && (strings.Contains(column, "unique") || strings.Contains(column, "identity")) {
					continue // PostgreSQL has neither there
				}
				if a := p.Ask(m, "alter table "+table+" add column "+column, nil, nil); a.Code != "" {
					t.Fatalf("%s %s: %s %s", table, column, a.Code, a.Message)
				}
				if a := p.Ask(pair.Simple, "select weft.verify_reference('"+table+"')", nil, nil); a.Code != "" || len(a.Results[0].Rows) != 1 || !strings.Contains(a.Results[0].Rows[0], "are the same") {
					t.Errorf("%s %s: %s %v", table, column, a.Message, a.Results)
				}
				if a := p.Ask(pair.Simple, "select count(n) = count(*), count(distinct n) > 1 from "+table, nil, nil); a.Code != "" || a.Results[0].Rows[0] != "t | t | " {
					t.Errorf("%s %s: %s %v", table, column, a.Message, a.Results)
				}
				p.Must(t, "alter table "+table+" drop column n")
			}
		}
	}

	p.Must(t, "alter table pairs force row level security")
	says("0A000", "alter table pairs add column n uuid default gen_random_uuid()")
	p.Must(t, "alter table pairs no force row level security")
	p.Must(t, "set extra_float_digits = 0")
	says("0A000", "alter table pairs add column n float default random()")
	p.Must(t, "reset extra_float_digits")
	p.Must(t, "begin; alter table pairs add column n uuid default gen_random_uuid(), add column m serial; commit")
	if a := p.Ask(pair.Simple, "select weft.verify_reference('pairs')", nil, nil); a.Code != "" || !strings.Contains(a.Results[0].Rows[0], "are the same") {
		t.Errorf("in a block: %s %v", a.Message, a.Results)
	}

	// Numbers of a sequence that the command makes are given once, also to what is inserted later.
	one := func(sql, want string) {
		t.Helper()
		if a := p.Ask(pair.Simple, sql, nil, nil); a.Code != "" || a.Results[0].Rows[0] != want+" | " {
			t.Errorf("%s: %v %v %v, want %s", sql, a.Code, a.Message, a.Results, want)
		}
	}
	for i, column := range []string{"bigserial", "smallint generated always as identity", "int not null generated by default as identity (start with 100 increment by 10) check (n >= 100)", "serial unique", "int generated by default as identity (start -1 increment -1)"} {
		for _, m := range []pair.Mode{pair.Simple, pair.Prepared} {
			p.Must(t, "begin")
			p.Must(t, "create function loud() returns trigger language plpgsql as $$ begin raise exception 'fired'; end $$; create trigger loud before update on numbered for each row execute function loud()")
			p.Must(t, "alter table numbered disable trigger loud; alter table numbered enable trigger loud")
			if a := p.Ask(m, "alter table numbered add column n "+column, nil, nil); a.Code != "" {
				t.Fatalf("%s: %s %s", column, a.Code, a.Message)
			}
			one("select (count(distinct n), min(abs(n)), max(abs(n)))::text from numbered", []string{"(20,1,20)", "(20,1,20)", "(20,100,290)", "(20,1,20)", "(20,1,20)"}[i])
			p.Must(t, "insert into numbered (id) select generate_series(1001, 1010)")
			one("select count(distinct n)::text from numbered", "30")
			p.Must(t, "rollback")
		}
	}
	p.Must(t, "alter table numbered add column n bigserial, add column m int generated by default as identity")
	p.Must(t, "insert into numbered (id) values (1001), (1002), (1003)")
	one("select (count(distinct n), count(distinct m), max(n) >= 23, max(m) >= 23, min(n))::text from numbered", "(23,23,t,t,1)")
	p.Must(t, "delete from numbered where id > 1000")
	p.Must(t, "alter table numbered drop column n, drop column m")

	// As the hint says.
	p.Must(t, "alter table numbered add column c int")
	p.Must(t, "update numbered set c = nextval('source')")
	p.Must(t, "alter table numbered alter column c set not null, alter column c add generated by default as identity")
	p.Must(t, "select setval(pg_get_serial_sequence('numbered', 'c'), nextval('source'))")
	p.Must(t, "insert into numbered (id) values (21), (22), (23)")
	if a := p.Ask(pair.Simple, "select count(distinct a) = 23, count(distinct b) = 23, count(distinct c) = 23 from numbered", nil, nil); a.Code != "" || a.Results[0].Rows[0] != "t | t | t | " {
		t.Errorf("numbers are not unique: %v %v", a.Code, a.Results)
	}
	p.Must(t, "select weft.verify_reference('copied')")
}
