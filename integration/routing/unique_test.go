package routing

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/integration/harness"
	"weft/integration/pair"
)

// statementsOf are the statements that a hint shows.
var statementsOf = regexp.MustCompile(`with these values: (ALTER TABLE .*)\.\)$`)

// TestUniqueHints: a unique index that no lookup can keep is refused, with the statements that make one which a lookup keeps. They do.
func TestUniqueHints(t *testing.T) {
	db := database(t, "unique_hints")
	c := pair.Connect(t, harness.Weft(t), db, "postgres")
	mend := func(sql, cause string) {
		t.Helper()
		a := c.Ask(pair.Simple, sql, nil, nil)
		m := statementsOf.FindStringSubmatch(a.Message)
		if a.Code != "0A000" || m == nil || !strings.Contains(a.Message, "not "+cause) {
			t.Fatalf("%s: %s %s", sql, a.Code, a.Message)
		}
		for _, s := range strings.Split(m[1], "; ") {
			c.Must(t, s)
		}
	}
	c.Must(t, "create table notes (id int primary key, code text, data jsonb)")
	c.Must(t, "select weft.shard_table('notes', 'id')")
	mend("create unique index concurrently on notes (upper(code), (data ->> 'ref')) where code <> ''", "expressions, a part of the rows or NULLS NOT DISTINCT with CONCURRENTLY: leave it out")
	c.Must(t, "create table accounts (id int primary key, home inet unique)")
	if a := c.Ask(pair.Simple, "select weft.shard_table('accounts', 'id')", nil, nil); a.Code != "0A000" || !strings.Contains(a.Message, "those of column home, whose type inet cannot be looked up") {
		t.Errorf("a type that has no lookup: %s %s", a.Code, a.Message)
	}
	c.Must(t, `insert into notes values (1, 'a', '{"ref": 1}'), (2, '', '{"ref": 1}'), (3, '', '{"ref": 1}'), (4, 'a', '{"ref": 2}')`)
	if a := c.Ask(pair.Simple, `insert into notes values (5, 'A', '{"ref": 2}')`, nil, nil); a.Code != "23505" {
		t.Errorf("an equal note: %s %s", a.Code, a.Message)
	}
}

// TestUniqueDerived: errors about unique indexes of expressions and of a part of the rows are PostgreSQL's, over all shards.
func TestUniqueDerived(t *testing.T) {
	db := database(t, "unique_messages")
	p := newPair(t, db)
	for _, sql := range []string{
		"create table users (id int primary key, email varchar(80), org int, slug text, gone date)",
		"create unique index users_email on users (lower(email))",
		"create unique index users_slug on users (org, slug) where gone is null",
		"create table late (id int primary key, name text)",
		"insert into users select i, 'U' || i, 1, 's' || i from generate_series(1, 40) i",
		"insert into late select i, 'N' || i % 30 from generate_series(1, 40) i",
	} {
		p.Both(t, "setup", sql)
	}
	p.Weft.Must(t, "select weft.shard_table('users', 'id')")
	p.Weft.Must(t, "select weft.shard_table('late', 'id')")
	plain, weft := harness.Postgres(t).Connect(t, "postgres", "dbname="+db), harness.Weft(t).Connect(t, "postgres", "dbname="+db)
	say := func(c *pgx.Conn, sql string, args ...any) string {
		_, err := c.Exec(t.Context(), sql, args...)
		var e *pgconn.PgError
		if !errors.As(err, &e) {
			return fmt.Sprint(err)
		}
		return strings.Join([]string{e.Code, e.Message, e.Detail, e.SchemaName, e.TableName, e.ConstraintName}, " / ")
	}
	for i := range 5 { // of these rows some are on other shards than the rows in their way
		for _, sql := range []string{
			"insert into users (id, email) values ($1, 'u' || $2::int)",
			"insert into users (id, org, slug) values ($1, 1, 's' || $2::int)",
		} {
			want, got := say(plain, sql, 100+i, 1+i), say(weft, sql, 100+i, 1+i)
			if want != got || !strings.HasPrefix(want, "23505") {
				t.Errorf("%s\n got %s\nwant %s", sql, got, want)
			}
		}
	}
	if got := say(weft, "create unique index late_name on late (lower(name))"); !strings.HasPrefix(got, `23505 / could not create unique index "late_name" / Key (lower(name))=(n`) {
		t.Errorf("an index with offenders: %s", got)
	}
	for _, c := range []*pgx.Conn{plain, weft} {
		n, err := c.PgConn().CopyFrom(t.Context(), strings.NewReader("201\tNew1\n202\tnew2\n203\tNEW1\n"), "copy users (id, email) from stdin")
		var e *pgconn.PgError
		if !errors.As(err, &e) || e.Code != "23505" || e.ConstraintName != "users_email" {
			t.Errorf("COPY: %v %v", n, err)
		}
		if n, err = c.PgConn().CopyFrom(t.Context(), strings.NewReader("201\tNew1\n202\tnew2\n"), "copy users (id, email) from stdin"); err != nil || n.RowsAffected() != 2 {
			t.Errorf("COPY: %v %v", n, err)
		}
	}
	rows := p.Weft.Must(t, "select * from weft.verify_lookup('users')").Results[0].Rows
	if len(rows) != 2 || !strings.Contains(rows[0], " | lower(email::text) | 42 | 0 | 0 | 0 |") || !strings.Contains(rows[1], " | 0 | 0 | 0 |") {
		t.Errorf("the lookups differ from the rows: %q", rows)
	}
}

// TestUniqueDerivedRace: of two sessions that store the same value at a time the second waits, and is told 23505 if the first commits.
func TestUniqueDerivedRace(t *testing.T) {
	db := database(t, "unique_race")
	p := newPair(t, db)
	p.Weft.Must(t, "create table users (id int primary key, email text, gone date)")
	p.Weft.Must(t, "create unique index users_email on users (lower(email)) where gone is null")
	p.Weft.Must(t, "select weft.shard_table('users', 'id')")
	a, b := harness.Weft(t).Connect(t, "postgres", "dbname="+db), harness.Weft(t).Connect(t, "postgres", "dbname="+db)
	for i, end := range []string{"commit", "rollback"} {
		for shift := range 4 {
			for _, sql := range []string{"begin", fmt.Sprintf("insert into users values (%d, 'Same%d%d')", 1000*i+10*shift+1, i, shift)} {
				if _, err := a.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			told := make(chan error, 1)
			go func() {
				_, err := b.Exec(t.Context(), fmt.Sprintf("insert into users values (%d, 'sAME%d%d')", 1000*i+10*shift+2, i, shift))
				told <- err
			}()
			select {
			case err := <-told:
				t.Errorf("the second session does not wait: %v", err)
			case <-time.After(200 * time.Millisecond):
			}
			if _, err := a.Exec(t.Context(), end); err != nil {
				t.Fatal(err)
			}
			err := <-told
			var e *pgconn.PgError
			if end == "rollback" && err != nil || end == "commit" && (!errors.As(err, &e) || e.Code != "23505" || e.Message != `duplicate key value violates unique constraint "users_email"`) {
				t.Errorf("after %s: %v", end, err)
			}
		}
	}
}

// TestUniqueDerivedRefused: an index whose lookup would have to run what a user has made is refused, whenever the lookup would be made.
func TestUniqueDerivedRefused(t *testing.T) {
	db := database(t, "unique_refused")
	c := pair.Connect(t, harness.Weft(t), db, "postgres")
	for _, sql := range []string{
		"create function plainly(text) returns text language sql immutable as 'select lower($1)'",
		"create function lower(int) returns text language sql immutable as 'select $1::text'",
		"create operator %% (leftarg = text, rightarg = text, function = texteq)",
		"create domain name_d as text check (plainly(value) <> '')",
		"create type pair as (a text, b text)",
		"create table t (id int primary key, name text, n int, two pair, d name_d, j jsonb)",
		"create table u (id int primary key, name text, n int, two pair, d name_d, j jsonb)",
	} {
		c.Must(t, sql)
	}
	c.Must(t, "select weft.shard_table('t', 'id')")
	for _, x := range []struct{ items, cause string }{
		{"(plainly(name))", "the function public.plainly(text)"},
		{"(public.lower(n))", "the function public.lower(integer)"},
		{"(name) where plainly(name) <> ''", "the function public.plainly(text)"},
		{"(name) where name %% 'x'", "the operator public.%%(text,text)"},
		{"((name::name_d))", "values of the type public.name_d"},
		{"(((two).a))", "values of the type public.pair"},
		{"((j -> 'x'))", "an expression whose type cannot be looked up"},
		{"(lower(name), j) where n > 0", "column j, whose type jsonb cannot be looked up"},
	} {
		a := c.Ask(pair.Simple, "create unique index bad on t "+x.items, nil, nil)
		if a.Code != "0A000" || !strings.Contains(a.Message, x.cause) {
			t.Errorf("index %s: %s %s", x.items, a.Code, a.Message)
		}
		c.Must(t, "create unique index bad on u "+x.items)
		a = c.Ask(pair.Simple, "select weft.shard_table('u', 'id')", nil, nil)
		if a.Code != "0A000" || !strings.Contains(a.Message, x.cause) {
			t.Errorf("declaring a table with index %s: %s %s", x.items, a.Code, a.Message)
		}
		c.Must(t, "drop index bad")
	}
	c.Must(t, "create unique index good on t (lower(d), upper(name)) where d <> ''")
	for _, sql := range []string{"alter table t alter column name type varchar(100)", "alter table t alter column n type bigint"} {
		if a := c.Ask(pair.Simple, sql, nil, nil); a.Code != "" && a.Code != "0A000" {
			t.Errorf("%s: %s %s", sql, a.Code, a.Message)
		}
	}
	c.Must(t, "insert into t (id, name, d) values (1, 'a', 'A')")
	for id := 2; id < 6; id++ {
		if a := c.Ask(pair.Simple, fmt.Sprintf("insert into t (id, name, d) values (%d, 'A', 'a')", id), nil, nil); a.Code != "23505" {
			t.Errorf("an equal row: %s %s", a.Code, a.Message)
		}
	}
}

// TestUniqueReplaced: while one unique index takes the place of another, no value is stored twice, whatever clients do meanwhile.
func TestUniqueReplaced(t *testing.T) {
	db := database(t, "unique_replaced")
	connect := func() *pgx.Conn { return harness.Weft(t).Connect(t, "postgres", "dbname="+db) }
	ddl := connect()
	must := func(sql string) {
		t.Helper()
		if _, err := ddl.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	must("create table users (id int primary key, email text)")
	must("create unique index users_a on users (email)")
	must("select weft.shard_table('users', 'id')")
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var stored, denied atomic.Int64
	for n := range 3 {
		c := connect()
		clients.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				id := 1000*(n+1) + i%50
				_, err := c.Exec(t.Context(), "insert into users values ($1, $2)", id, fmt.Sprintf("e%d", i%4))
				var e *pgconn.PgError
				switch {
				case err == nil:
					stored.Add(1)
					_, err = c.Exec(t.Context(), "delete from users where id = $1", id)
				case errors.As(err, &e) && e.Code == "23505":
					denied.Add(1)
					continue
				}
				if err != nil && !(errors.As(err, &e) && (e.Code == "40001" || e.Code == "40P01")) {
					t.Errorf("a client: %v", err)
					return
				}
				if i%5 == 0 { // a value that stays
					_, _ = c.Exec(t.Context(), "insert into users values ($1, $2)", id, fmt.Sprintf("e%d", i%4))
					_, _ = c.Exec(t.Context(), "delete from users where id in ($1, $2)", id-10, id-20)
				}
			}
		})
	}
	for _, items := range []string{"(lower(email))", "(email)"} {
		for _, texts := range [][]string{
			{"create unique index users_b on users " + items, "drop index users_a", "alter index users_b rename to users_a"},
			{"begin", "drop index users_a", "create unique index users_a on users " + items, "commit"},
			{"begin", "create unique index users_b on users " + items, "alter index users_a rename to users_c", "drop index users_c", "alter index users_b rename to users_a", "commit"},
		} {
			for _, sql := range texts {
				must(sql)
			}
			var twice int
			if err := ddl.QueryRow(t.Context(), "select count(*) from (select from users group by email having count(*) > 1) x").Scan(&twice); err != nil || twice > 0 {
				t.Errorf("%s: %d values are stored twice: %v", texts[1], twice, err)
			}
		}
	}
	stop()
	clients.Wait()
	t.Logf("%d rows stored, %d duplicates denied", stored.Load(), denied.Load())
	if stored.Load() == 0 || denied.Load() == 0 {
		t.Errorf("%d rows stored, %d duplicates denied: the clients have shown nothing", stored.Load(), denied.Load())
	}
	pair.Verified(t, ddl.PgConn())
}

// TestUniqueCitext: values of citext are equal without regard to case, in unique constraints and indexes of all kinds.
func TestUniqueCitext(t *testing.T) {
	db := database(t, "unique_citext")
	p := newPair(t, db)
	if a := p.Plain.Ask(pair.Simple, "create extension citext", nil, nil); a.Code != "" {
		t.Skipf("the server has no contrib extension citext: %s", a.Message)
	}
	p.Weft.Must(t, "create extension citext")
	for _, sql := range []string{
		"create table accounts (id int primary key, org int, email citext unique, nick citext, gone date)",
		"create unique index accounts_nick on accounts (org, nick) where gone is null",
		"insert into accounts select g, g % 3, 'Ä' || g, 'N' || g from generate_series(1, 20) g",
		"create table late (id int primary key, tag citext)",
		"insert into late select g, 'T' || g from generate_series(1, 20) g",
	} {
		p.Both(t, "setup", sql)
	}
	p.Weft.Must(t, "select weft.shard_table('accounts', 'id')")
	p.Weft.Must(t, "select weft.shard_table('late', 'id')")
	for _, m := range []pair.Mode{pair.Simple, pair.Prepared} {
		for _, sql := range []string{
			"insert into accounts (id, email) values (101, 'ä7')",
			"insert into accounts (id, email) values (101, 'new'), (102, 'two')",
			"insert into accounts (id, email) values (103, 'NEW')",
			"update accounts set email = 'TWO' where id = 102",
			"update accounts set email = 'NEW' where id = 102",
			"select id from accounts where email = 'tWo'",
			"insert into accounts (id, org, nick) values (104, 1, 'n1')",
			"insert into accounts (id, org, nick) values (104, 2, 'n1')",
			"insert into accounts (id, org, nick, gone) values (105, 1, 'n1', '2024-05-05')",
			"update accounts set gone = null where id = 105",
			"update accounts set gone = '2024-05-05' where id = 1",
			"update accounts set gone = null where id = 105",
			"delete from accounts where email = 'ä9'",
			"insert into accounts (id, email) values (106, 'Ä9')",
			"create unique index late_tag on late (tag)",
			"insert into late values (101, 't5')",
			"insert into late values (102, 'T21')",
			"drop index late_tag",
			"insert into late values (103, 't7')",
			"alter table late add unique (tag)",
			"delete from late where id > 100",
			"alter table late add unique (tag)",
			"insert into late values (104, 't8')",
			"alter table late drop constraint late_tag_key",
			"delete from accounts where id > 100 or id = 1",
			"insert into accounts select g, g % 3, 'Ä' || g, 'N' || g from generate_series(1, 20) g on conflict (id) do nothing",
		} {
			if wrong, _, got := p.Run(m, sql, nil); wrong != "" || got.Refused() {
				t.Errorf("%s: %s %s", sql, wrong, got.Message)
			}
		}
	}
	pair.SameTables(t, db, nil)
	p.Weft.Must(t, "create unique index late_tag on late (tag)")
	if a := p.Weft.Ask(pair.Simple, "alter table late alter column tag type text", nil, nil); a.Code != "0A000" {
		t.Errorf("another equality under the same index: %s %s", a.Code, a.Message)
	}
	rows := p.Weft.Must(t, "select * from weft.verify_lookup('accounts')").Results[0].Rows
	for _, r := range rows {
		if !strings.Contains(r, " | 0 | 0 | 0 |") {
			t.Errorf("a lookup differs from the rows: %s", r)
		}
	}
}
