package routing

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/integration/harness"
	"weft/integration/pair"
)

// onShard runs a statement on one shard, behind weft's back.
func onShard(t testing.TB, shard int, db, sql string) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), pair.Patience)
	defer stop()
	conn, err := pgx.Connect(ctx, harness.Weft(t).Shards()[shard].ConnString(db))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx) // its error says nothing about the test
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatal(err)
	}
}

// TestReferenceWriters: writers of one reference table through two proxies, each
// with rows in the opposite order, leave all copies the same, and none of them
// deadlocks on the table itself.
func TestReferenceWriters(t *testing.T) {
	db := database(t, "reference_writers")
	one := pair.Connect(t, harness.Weft(t), db, "postgres")
	one.Must(t, "create table r (id int primary key, v text, n serial, at timestamptz default clock_timestamp())")
	one.Must(t, "select weft.reference_table('r')")
	one.Must(t, "insert into r (id, v) select i, 'x' from generate_series(1, 20) i")
	peers := []*pair.Peer{one, second(t, db), pair.Connect(t, harness.Weft(t), db, "postgres"), second(t, db)}
	var wg sync.WaitGroup
	for w, p := range peers {
		wg.Go(func() {
			for i := range 12 {
				id := 1 + i%4
				if w%2 == 1 {
					id = 4 - i%4
				}
				var a pair.Answer
				switch i % 3 {
				case 0:
					a = p.Ask(pair.Text, fmt.Sprintf("update r set v = v || '%d', at = clock_timestamp() where id in (%d, %d)", w, id, 5-id), nil, nil)
				case 1:
					a = p.Ask(pair.Simple, fmt.Sprintf("insert into r (id, v) values (%d, random()::text) on conflict (id) do update set v = excluded.v, n = default", 100+i), nil, nil)
				case 2:
					a = p.Ask(pair.Simple, fmt.Sprintf("delete from r where id = %d", 100+i-1), nil, nil)
				}
				if a.Code != "" {
					t.Errorf("writer %d: %s %s", w, a.Code, a.Message)
				}
			}
		})
	}
	wg.Wait()
	for _, sql := range []string{"select weft.verify_reference('r')", "select weft.verify_reference()"} {
		if got := cells(t, one.Must(t, sql)); len(got) != 1 || !strings.Contains(got[0], "4 copies of 2") || !strings.HasSuffix(got[0], "are the same") {
			t.Errorf("%s: %q", sql, got)
		}
	}
}

// TestVerifyReference: it finds every kind of difference, on the shard it is on.
func TestVerifyReference(t *testing.T) {
	db := database(t, "verify_reference")
	p := pair.Connect(t, harness.Weft(t), db, "postgres")
	p.Must(t, "create table r (id int primary key, v text)")
	p.Must(t, "create table s (v text)")
	p.Must(t, "insert into r select i, 'v' || i from generate_series(1, 5) i")
	p.Must(t, "select weft.reference_table('r')")
	p.Must(t, "select weft.reference_table('s')")
	onShard(t, 1, db, "update r set v = 'other' where id = 2")
	onShard(t, 2, db, "delete from r where id = 3")
	onShard(t, 3, db, "insert into r values (9, 'more')")
	got := cells(t, p.Must(t, "select weft.verify_reference()"))
	want := []string{
		"differs from the home shard: 5 rows, not 5", "alone has (2,other)", "does not have (2,v2)",
		"differs from the home shard: 4 rows, not 5", "does not have (3,v3)",
		"differs from the home shard: 6 rows, not 5", "alone has (9,more)",
		"s: 4 copies of 0 rows are the same",
	}
	if len(got) != len(want) {
		t.Fatalf("%q", got)
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("%q, want %q", got[i], want[i])
		}
	}
	// A write to a row that is not on every copy is not half done.
	if a := p.Ask(pair.Simple, "update r set v = 'y' where id = 3", nil, nil); a.Code != "0A000" {
		t.Errorf("%s %s", a.Code, a.Message)
	}
	if a := p.Ask(pair.Simple, "insert into r values (9, 'z')", nil, nil); a.Code != "23505" {
		t.Errorf("%s %s", a.Code, a.Message)
	}
	if got := holders(t, db, "select from r where v in ('y', 'z')"); len(got) != 0 {
		t.Errorf("half done on %v", got)
	}
	if a := p.Ask(pair.Simple, "select weft.verify_reference('pg_class')", nil, nil); a.Code != "55000" {
		t.Errorf("%s %s", a.Code, a.Message)
	}
}

// TestReferenceRefused: what would change one copy, or each in its own way, is not
// done at all.
func TestReferenceRefused(t *testing.T) {
	db := database(t, "reference_refused")
	p := pair.Connect(t, harness.Weft(t), db, "postgres")
	p.Must(t, `create table r (id int primary key, v text, at timestamptz); create table log (v text); create table bare (a int, b text, c timestamptz default clock_timestamp());
create table o (id int primary key, k int); create table home (id int);
create function set_at() returns trigger language plpgsql as 'begin new.at := clock_timestamp(); return new; end';
create function shout() returns trigger language plpgsql as 'begin new.v := upper(new.v); return new; end';
create function logs() returns trigger language plpgsql as 'begin insert into log values (new.v); return new; end';
create function writes_r() returns int language sql as 'update r set v = v || ''!''; select 1';
create table timed (id int primary key, v text, at timestamptz); create trigger t before insert or update on timed for each row execute function set_at();
create table loud (id int primary key, v text); create trigger t before insert or update on loud for each row execute function shout();
create table logged (id int primary key, v text); create trigger t before insert on logged for each row execute function logs()`)
	for _, name := range []string{"r", "log", "bare", "timed", "loud"} {
		p.Must(t, "select weft.reference_table('"+name+"')")
	}
	refused := func(sql, says string) {
		t.Helper()
		if a := p.Ask(pair.Simple, sql, nil, nil); a.Code != "0A000" || !strings.Contains(a.Message, says) {
			t.Errorf("%s: %s %s", sql, a.Code, a.Message)
		}
	}
	// A trigger that writes another table stands against the declaration. It cannot be made
	// later either; but the function of one can be changed.
	refused("select weft.reference_table('logged')", `trigger "t" of reference table "logged"`)
	p.Must(t, "drop trigger t on logged; create trigger t before insert on logged for each row execute function shout()")
	p.Must(t, "select weft.reference_table('logged')")
	refused("create trigger u before insert on logged for each row execute function logs()", `"log"`)
	p.Must(t, "create function later() returns trigger language plpgsql as 'begin return new; end'")
	p.Must(t, "create trigger u before insert on logged for each row execute function later()")
	p.Must(t, "create or replace function later() returns trigger language plpgsql as 'begin insert into log values (new.v); return new; end'")
	p.Must(t, "select weft.shard_table('o', 'id')")
	p.Must(t, "insert into r values (1, 'a', now())")
	p.Must(t, "insert into loud values (1, 'a'), (2, 'b')")
	p.Must(t, "update loud set v = 'c' where id = 1")
	if got := cells(t, p.Must(t, "select string_agg(v, ' ' order by id) from loud")); got[0] != "C B" {
		t.Errorf("%q", got)
	}
	for _, sql := range []string{
		"insert into timed values (1, 'a')",
		"insert into logged values (1, 'a')",
		"select writes_r() + 1",
		"explain analyze update r set v = 'b'",
		"insert into bare select 1, random()::text on conflict do nothing; update bare set c = clock_timestamp()",
		"update r set id = id + (random() * 100)::int",
	} {
		if a := p.Ask(pair.Simple, sql, nil, nil); a.Code != "0A000" {
			t.Errorf("%s: %s %s", sql, a.Code, a.Message)
		}
	}
	same := func() {
		for _, line := range cells(t, p.Must(t, "select weft.verify_reference()")) {
			if !strings.HasSuffix(line, "are the same") {
				t.Error(line)
			}
		}
	}
	same()
	if got := holders(t, db, "select from r where v <> 'a' union all select from timed union all select from logged union all select from log"); len(got) != 0 {
		t.Errorf("written on %v", got)
	}
	for _, sql := range []string{"do $$ begin update r set v = 'b'; end $$", "select writes_r()"} { // weft runs both
		p.Must(t, sql)
		same()
	}
	if got := holders(t, db, "select from r where v = 'b!'"); len(got) != 4 {
		t.Errorf("DO and the function have written on %v", got)
	}
}
