package routing

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/config"
	"weft/integration/harness"
	"weft/integration/pair"
)

// lookupRows counts the entries of a lookup on all shards.
func lookupRows(t *testing.T, db, lookup string) int {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), pair.Patience)
	defer stop()
	total := 0
	for _, s := range harness.Weft(t).Shards() {
		conn, err := pgx.Connect(ctx, s.ConnString(db))
		if err != nil {
			t.Fatal(err)
		}
		var n int
		err = conn.QueryRow(ctx, "select count(*) from weft."+lookup).Scan(&n)
		_ = conn.Close(ctx)
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	return total
}

func one(t *testing.T, p *pair.Peer, sql string) string {
	t.Helper()
	return p.Must(t, sql).Results[0].Rows[0]
}

// TestLookupRace: clients of two proxies want the same values. One of them gets
// each, the others are told 23505, as by PostgreSQL.
func TestLookupRace(t *testing.T) {
	const clients, values = 8, 25
	db := database(t, "lookup_race")
	setup := pair.Connect(t, harness.Weft(t), db, "postgres")
	setup.Must(t, "create table users (id int primary key, email text unique, by int)")
	setup.Must(t, "select weft.shard_table('users', 'id')")
	other := harness.StartWeft(t, func(*config.Config) {})
	var won, lost atomic.Int64
	var wg sync.WaitGroup
	for c := range clients {
		p := pair.Connect(t, []*harness.Target{harness.Weft(t), other}[c%2], db, "postgres")
		wg.Go(func() {
			for v := range values {
				sql := fmt.Sprintf("insert into users values (%d, 'v%d', %d)", c*1000+v, v, c)
				switch a := p.Ask(pair.Simple, sql, nil, nil); {
				case a.Code == "":
					won.Add(1)
				case a.Code == "23505" && a.Message == `duplicate key value violates unique constraint "users_email_key"`:
					lost.Add(1)
				default:
					t.Errorf("%s: %s %s", sql, a.Code, a.Message)
				}
			}
		})
	}
	wg.Wait()
	if won.Load() != values || lost.Load() != (clients-1)*values {
		t.Errorf("%d won, %d lost", won.Load(), lost.Load())
	}
	if got := one(t, setup, "select count(*), count(distinct email) from users"); got != fmt.Sprintf("%d | %d | ", values, values) {
		t.Errorf("there are %s rows", got)
	}
	if n := lookupRows(t, db, "users_email"); n != values {
		t.Errorf("%d entries", n)
	}
	t.Logf("%d won, %d lost", won.Load(), lost.Load())
}

// TestLookupOnline: a lookup is made while clients of two proxies write. When it
// is there it has every row.
func TestLookupOnline(t *testing.T) {
	db := database(t, "lookup_online")
	setup := pair.Connect(t, harness.Weft(t), db, "postgres")
	setup.Must(t, "create table notes (id int primary key, tag text, body text)")
	setup.Must(t, "insert into notes select i, 't' || i % 50, 'b' from generate_series(1, 2000) i")
	setup.Must(t, "select weft.shard_table('notes', 'id')")
	other := harness.StartWeft(t, func(*config.Config) {})
	var stop atomic.Bool
	var again, done atomic.Int64
	var wg sync.WaitGroup
	for c := range 4 {
		p := pair.Connect(t, []*harness.Target{harness.Weft(t), other}[c%2], db, "postgres")
		wg.Go(func() {
			for n := 0; !stop.Load(); n++ {
				id := 1 + c + 4*(n*37%499)
				sql := fmt.Sprintf("update notes set tag = 't%d' where id = %d", n%50, id)
				switch n % 4 {
				case 1:
					sql = fmt.Sprintf("update notes set body = body || 'x' where id = %d", id)
				case 2:
					sql = fmt.Sprintf("delete from notes where id = %d", id)
				case 3:
					sql = fmt.Sprintf("insert into notes values (%d, 't%d', 'new') on conflict (id) do nothing", id-4, n%50)
				}
				switch a := p.Ask(pair.Simple, sql, nil, nil); a.Code {
				case "":
					done.Add(1)
				case "40001":
					again.Add(1)
				default:
					t.Errorf("%s: %s %s", sql, a.Code, a.Message)
					return
				}
			}
		})
	}
	a := setup.Ask(pair.Simple, "select weft.create_lookup('notes', 'tag')", nil, nil)
	before := done.Load()
	for done.Load() < before+50 && a.Code == "" && !t.Failed() {
		one(t, setup, "select 1")
	}
	// Nothing is missing, whatever is just being committed.
	for range 3 {
		if got := one(t, setup, "select * from weft.verify_lookup('notes', 'tag')"); a.Code == "" && !strings.HasSuffix(got, " | 0 | 0 | 0 | ") {
			t.Errorf("verify_lookup while others write: %s", got)
		}
	}
	stop.Store(true)
	wg.Wait()
	if a.Code != "" {
		t.Fatalf("create_lookup: %s %s", a.Code, a.Message)
	}
	for tag := range 50 {
		byLookup := one(t, setup, fmt.Sprintf("select count(*) from notes where tag = 't%d'", tag))
		byScan := one(t, setup, fmt.Sprintf("select count(*) from notes where tag || '' = 't%d'", tag))
		if byLookup != byScan {
			t.Errorf("t%d: %s rows by the lookup, %s are there", tag, byLookup, byScan)
		}
	}
	setup.Must(t, "select weft.verify_lookup('notes', 'tag')")
	if n, want := lookupRows(t, db, "notes_tag"), one(t, setup, "select count(*) from notes"); fmt.Sprintf("%d | ", n) != want {
		t.Errorf("%d entries for %s rows after verify_lookup", n, want)
	}
	t.Logf("%d writes, %d tried in vain", done.Load(), again.Load())
}

// TestLookupFollows: names, columns and constraints change, and the lookup with
// them.
func TestLookupFollows(t *testing.T) {
	db := database(t, "lookup_follows")
	p := pair.Connect(t, harness.Weft(t), db, "postgres")
	p.Must(t, "create table users (id int primary key, email text unique, phone text)")
	p.Must(t, "select weft.shard_table('users', 'id')")
	for i := range 10 {
		p.Must(t, fmt.Sprintf("insert into users values (%d, 'm%d', 'p%d')", i, i, i))
	}
	p.Must(t, "alter table users rename column email to mail")
	p.Must(t, "alter table users rename to people")
	p.Must(t, "alter table people rename constraint users_email_key to one_mail")
	if a := p.Ask(pair.Simple, "insert into people values (20, 'm3')", nil, nil); a.Code != "23505" || a.Message != `duplicate key value violates unique constraint "one_mail"` {
		t.Errorf("%s %s", a.Code, a.Message)
	}
	if got := one(t, p, "select id from people where mail = 'm3'"); got != "3 | " {
		t.Errorf("m3 is %s", got)
	}
	p.Must(t, "select weft.create_lookup('people', 'phone', is_unique => true)")
	if a := p.Ask(pair.Simple, "insert into people values (21, 'm21', 'p3')", nil, nil); a.Code != "23505" {
		t.Errorf("%s %s", a.Code, a.Message)
	}
	p.Must(t, "select weft.drop_lookup('people', 'phone')")
	p.Must(t, "insert into people values (21, 'm21', 'p3')")
	if a := p.Ask(pair.Simple, "alter table people add constraint one_phone unique (phone)", nil, nil); a.Code != "23505" || a.Message != `could not create unique index "one_phone"` {
		t.Errorf("a duplicate: %s %s", a.Code, a.Message)
	}
	if a := p.Ask(pair.Simple, "select weft.create_lookup('people', 'phone', is_unique => true)", nil, nil); a.Code != "23505" || a.Message != `could not create unique index "people_phone"` {
		t.Errorf("a duplicate: %s %s", a.Code, a.Message)
	}
	p.Must(t, "update people set phone = 'p21' where id = 21")
	p.Must(t, "select weft.create_lookup('people', 'phone', is_unique => true)")
	p.Must(t, "alter table people add constraint one_phone unique (phone)")
	if a := p.Ask(pair.Simple, "insert into people values (25, 'm25', 'p3')", nil, nil); a.Code != "23505" || a.Message != `duplicate key value violates unique constraint "one_phone"` {
		t.Errorf("%s %s", a.Code, a.Message)
	}
	p.Must(t, "alter table people drop column phone")
	if a := p.Ask(pair.Simple, "select weft.drop_lookup('people', 'mail')", nil, nil); a.Code != "2BP01" {
		t.Errorf("drop of a constraint's lookup: %s %s", a.Code, a.Message)
	}
	p.Must(t, "alter table people drop constraint one_mail")
	p.Must(t, "insert into people values (22, 'm21')")
	if got := one(t, p, "select count(*) from people where mail = 'm21'"); got != "2 | " {
		t.Errorf("%s rows", got)
	}
	p.Must(t, "select weft.unshard_table('people')")
	p.Must(t, "update people set mail = mail || id")
	p.Must(t, "alter table people add unique (mail)")
	p.Must(t, "select weft.shard_table('people', 'id')")
	p.Must(t, "insert into people values (23, 'm23')")
	p.Must(t, "select weft.unshard_table('people')")
	p.Must(t, "insert into people values (24, 'm24')")
	p.Must(t, "drop table people")
	p.Must(t, "create table people (id int)")
}

// TestLookupJoin: the rows of colocated tables that belong to a row which a lookup finds
// are on its shard, and no other is visited.
func TestLookupJoin(t *testing.T) {
	db := database(t, "lookup_join")
	p := pair.Connect(t, harness.Weft(t), db, "postgres")
	p.Must(t, "create table users (id int primary key, email text unique, plan int)")
	p.Must(t, "create table orders (id int, user_id int references users, total int, primary key (user_id, id))")
	p.Must(t, "create table plans (id int primary key, name text)")
	p.Must(t, "select weft.shard_table('users', 'id')")
	p.Must(t, "select weft.shard_table('orders', 'user_id')")
	p.Must(t, "select weft.reference_table('plans')")
	p.Must(t, "insert into users select i, 'm' || i, i % 3 from generate_series(1, 30) i")
	p.Must(t, "insert into orders select i, 1 + i % 30, i from generate_series(1, 90) i")
	p.Must(t, "insert into plans select i, 'p' || i from generate_series(0, 2) i")
	p.Must(t, "set weft.scatter = off")
	if a := p.Ask(pair.Simple, "select count(*) from orders", nil, nil); a.Code != "0A000" {
		t.Fatalf("all shards: %q %s", a.Code, a.Message)
	}
	mail := []pair.Param{{Type: "text", Text: ptr("m7")}}
	for _, tc := range []struct{ sql, want string }{
		{"select u.id, o.id from users u join orders o on o.user_id = u.id where u.email = $1 order by o.id", "7 | 6 | "},
		{"select count(*), sum(o.total) from users u left join orders o on o.user_id = u.id where u.email = $1", "3 | 108 | "},
		{"select p.name, o.total from users u join plans p on p.id = u.plan, orders o where o.user_id = u.id and u.email = $1 order by o.total desc limit 1", "p1 | 66 | "},
		{"select u.id from users u where u.email = $1 and exists (select from orders o where o.user_id = u.id and o.total > 60)", "7 | "},
		{"select o.total from orders o, users u where u.id = o.user_id and u.email = $1 and o.id = 36", "36 | "},
		{"with u as (select id from users where email = $1) select count(*) from u join orders o on o.user_id = u.id", "3 | "},
		{"update orders o set total = total from users u where u.id = o.user_id and u.email = $1 returning o.user_id", "7 | "},
		{"select o.id from orders o join users u on u.id = o.user_id where u.email = $1 order by 1 for update of o", "6 | "},
	} {
		for _, m := range []pair.Mode{pair.Simple, pair.Prepared} {
			sql, set := tc.sql, mail
			if m == pair.Simple {
				sql, set = strings.ReplaceAll(sql, "$1", "'m7'"), nil
			}
			a := p.Ask(m, sql, set, nil)
			if a.Code != "" || len(a.Results[0].Rows) == 0 || a.Results[0].Rows[0] != tc.want {
				t.Errorf("%s: %s: %s %s %v, want %s", m, sql, a.Code, a.Message, a.Results, tc.want)
			}
		}
	}
}
