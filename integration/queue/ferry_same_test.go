package queue

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"weft/config"
	"weft/integration/harness"
)

// twins is a database of one PostgreSQL and the same one behind weft, in which clients send the same reads.
type twins struct {
	*world
	plain *harness.Target
	asks  *pgx.Conn // for what the proxy knows
	shard *pgx.Conn // of key 42
	looks *pgx.Conn // at the same shard
}

// newTwins runs SQL on both. The tables named are sharded by id then.
func newTwins(t *testing.T, db, sql string, tables ...string) *twins {
	t.Helper()
	tw := &twins{plain: harness.Postgres(t), world: newWorld(t, db, shares(config.CoalesceOn), shares(config.CoalesceOn))}
	tw.plain.CreateDatabase(t, db)
	tw.asks = tw.conn(0, "postgres")
	for _, c := range []*pgx.Conn{tw.plain.Connect(t, "postgres", "dbname="+db), tw.asks} {
		for _, role := range []string{"ann", "ben"} {
			tw.must(c, "do $$ begin create role "+role+" login; exception when duplicate_object then null; end $$")
		}
		if _, err := c.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range tables {
		tw.must(tw.asks, "select weft.shard_table($1, 'id', colocate_with => 'acct')", table)
	}
	tw.shard, tw.looks = tw.direct(42), tw.direct(42)
	return tw
}

// party is clients that do the same: one of PostgreSQL, and several of weft.
type party struct {
	pg  raw
	all []raw
}

// join connects clients as a user, to which before has happened.
func (tw *twins) join(clients int, user string, before ...string) *party {
	tw.Helper()
	p := &party{}
	for i := range clients + 1 {
		target := tw.plain
		if i > 0 {
			target = tw.proxies[0]
		}
		c := target.Connect(tw.T, user, "dbname="+tw.db)
		for _, sql := range before {
			if _, err := c.Exec(tw.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
				tw.Fatalf("%s: %v", sql, err)
			}
		}
		r := hijack(tw.T, c)
		if p.all = append(p.all, r); i == 0 {
			p.pg, p.all = r, nil
		}
	}
	return p
}

// send lets all send messages.
func (p *party) send(messages []pgproto3.FrontendMessage) {
	for _, r := range append(p.all, p.pg) {
		r.send(messages)
	}
}

// agree compares so many answers of all with those of PostgreSQL.
func (p *party) agree(what string, answers int) {
	p.pg.Helper()
	for n := range answers {
		want := p.pg.answer()
		for i, r := range p.all {
			if got := r.answer(); got != want {
				p.pg.Errorf("%s, client %d, answer %d:\n got %q\nwant %q", what, i, n, got, want)
			}
		}
	}
}

// together lets parties read while a lock makes them wait for each other, and compares what they are answered.
func (tw *twins) together(what, lock string, answers int, ask []pgproto3.FrontendMessage, shared bool, parties ...*party) {
	tw.Helper()
	tw.awaitFerries(tw.asks, "on")
	tw.must(tw.shard, "begin")
	tw.must(tw.shard, "lock table "+lock+" in access exclusive mode")
	clients := 0
	for _, p := range parties {
		p.send(ask)
		clients += len(p.all)
	}
	tw.await(what, func() (any, bool) {
		wait := tw.number(tw.asks, "select count(*) from weft.sessions where state = $1 and statement not like '%from acct%'", rides)
		on := tw.number(tw.looks, "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query not like '%from acct%'")
		return fmt.Sprint(wait, " wait, ", on, " on the shard"), int(wait+on) == clients && (wait > 0) == shared
	})
	tw.must(tw.shard, "commit")
	for _, p := range parties {
		p.agree(what, answers)
	}
}

// part is the twins in a part of a test: clients leave at its end.
func (tw *twins) part(t *testing.T) *twins {
	out := *tw
	out.world = tw.in(t)
	return &out
}

const twinTables = `
create table wide (id bigint primary key, n int, f float8, at timestamptz, d interval, b bytea, s text, who text);
insert into wide values (42, 7, 0.1, '2026-11-17 12:00+00', '1 day 2:03', '\x00ff', 'caf' || chr(233), 'ann');
create view seen as select id, to_char(at, 'DD Mon HH24:MI TZ') as at, current_user::text as me, session_user::text as login, current_setting('app.x', true) as x, who from wide;
create schema other;
create table other.wide (id bigint primary key, n int, f float8, at timestamptz, d interval, b bytea, s text, who text);
insert into other.wide values (42, 8, 0.2, '2025-11-17 12:00+00', '3 days', '\x01', 'other', 'ben');
grant usage on schema other to public;
grant select on wide, other.wide, seen to public;`

// Whatever sessions have set, each gets what PostgreSQL gives under its settings, beside sessions that have set nothing.
func TestSettings(t *testing.T) {
	tw := newTwins(t, "ferryset", twinTables, "wide", "other.wide")
	tw.reads(4)
	const each = 6
	query := []pgproto3.FrontendMessage{&pgproto3.Query{String: "select w.id, w.n, w.f, w.at, w.d, w.b, w.s, s.* from wide w join seen s on s.id = w.id where w.id = 42"}}
	plain := tw.join(each, "postgres")
	for _, set := range []string{
		"set timezone = 'Asia/Tokyo'", "set time zone interval '-3:00' hour to minute", "set datestyle = 'German'", "set intervalstyle = 'iso_8601'", "set bytea_output = 'escape'",
		"set extra_float_digits = -10", "set client_encoding = 'LATIN1'", "set search_path = other, public", "set role ann", "set session authorization ben",
		"set app.x = 'y'", "select set_config('timezone', 'America/Lima', false)", "do $$ begin set datestyle = 'SQL, DMY'; end $$", "set row_security = off", "set application_name = 'other'",
	} {
		t.Run(set, func(t *testing.T) {
			tw := tw.part(t)
			others := tw.join(each, "postgres", set)
			tw.together(set, "wide, other.wide", 1, query, true, plain, others)
		})
	}
}

// What comes behind a read that was shared is answered as by PostgreSQL: a portal that is gone, a statement that stays, more reads in one go.
func TestBehind(t *testing.T) {
	tw := newTwins(t, "ferrybehind", twinTables, "wide")
	tw.reads(4)
	const text = "select id, n, at from wide where id = "
	sync, flush, exec, describe := &pgproto3.Sync{}, &pgproto3.Flush{}, &pgproto3.Execute{}, &pgproto3.Describe{ObjectType: 'P'}
	parse := &pgproto3.Parse{Query: text + "$1", ParameterOIDs: []uint32{20}}
	bind := &pgproto3.Bind{Parameters: [][]byte{[]byte("42")}}
	named := &pgproto3.Bind{DestinationPortal: "p", Parameters: [][]byte{[]byte("42")}}
	whole := []pgproto3.FrontendMessage{parse, bind, describe, exec, sync}
	then := func(more ...pgproto3.FrontendMessage) []pgproto3.FrontendMessage { return more }
	for _, x := range []struct {
		name    string
		ask     []pgproto3.FrontendMessage
		answers int
		shared  bool
		more    []pgproto3.FrontendMessage
		follow  int // answers to more
	}{
		{"an Execute", whole, 1, true, then(exec, sync), 1},
		{"a Describe", whole, 1, true, then(describe, sync), 1},
		{"a Bind of the unnamed statement", whole, 1, true, then(bind, describe, exec, sync, &pgproto3.Describe{ObjectType: 'S'}, sync), 2},
		{"a Close", whole, 1, true, then(&pgproto3.Close{ObjectType: 'P'}, &pgproto3.Close{ObjectType: 'S'}, sync, bind, sync), 2},
		{"a simple query, and its statement is gone", whole, 1, true, then(&pgproto3.Query{String: "select 1"}, bind, sync), 2},
		{"a pipeline", append(append(append([]pgproto3.FrontendMessage{}, whole...), whole...), whole...), 3, true, nil, 0},
		{"a pipeline that ends with an error", append(append([]pgproto3.FrontendMessage{}, whole...), &pgproto3.Parse{Query: "select nothing"}, bind, exec, sync, parse, bind, exec, sync), 3, true, nil, 0},
		{"a simple query behind a simple query", then(&pgproto3.Query{String: text + "42"}, &pgproto3.Query{String: text + "42"}), 2, true, nil, 0},
		{"two statements in a simple query", then(&pgproto3.Query{String: text + "42;" + text + "42"}), 1, false, nil, 0},
		{"a named portal", then(parse, named, &pgproto3.Execute{Portal: "p"}, sync), 1, false, nil, 0},
		{"a limit", then(parse, bind, describe, &pgproto3.Execute{MaxRows: 1}, exec, sync), 1, false, nil, 0},
		{"an execution for itself and another one", then(parse, bind, exec, bind, exec, sync), 1, false, nil, 0},
		{"a Flush", then(parse, bind, describe, exec, flush, sync), 1, false, nil, 0},
		{"too few values", then(parse, &pgproto3.Bind{}, describe, exec, sync), 1, false, nil, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			tw := tw.part(t)
			p := tw.join(7, "postgres")
			tw.together(x.name, "wide", x.answers, x.ask, x.shared, p)
			if x.more != nil {
				p.send(x.more)
				p.agree(x.name, x.follow)
			}
			p.send(whole)
			p.agree(x.name+", once more", 1)
		})
	}
}

// A statement whose result has changed since it was prepared fails as in PostgreSQL, for each of those who have prepared it before, and for none of the
// others. The change comes through another proxy.
func TestChangedResult(t *testing.T) {
	tw := newTwins(t, "ferrychanged", twinTables, "wide")
	tw.reads(4)
	sync, exec := &pgproto3.Sync{}, &pgproto3.Execute{}
	prepare := []pgproto3.FrontendMessage{&pgproto3.Parse{Name: "w", Query: "select * from wide where id = $1", ParameterOIDs: []uint32{20}}, &pgproto3.Describe{ObjectType: 'S', Name: "w"}, sync}
	ask := []pgproto3.FrontendMessage{&pgproto3.Bind{PreparedStatement: "w", Parameters: [][]byte{[]byte("42")}}, exec, sync}
	before := tw.join(6, "postgres")
	before.send(prepare)
	before.agree("prepared", 1)
	tw.together("before", "wide", 1, ask, true, before)
	for _, c := range []*pgx.Conn{tw.plain.Connect(t, "postgres", "dbname="+tw.db), tw.conn(1, "postgres")} {
		tw.must(c, "alter table wide add column more int default 9")
	}
	after := tw.join(6, "postgres")
	after.send(prepare)
	after.agree("prepared", 1)
	tw.together("after", "wide", 1, ask, true, before, after)
}

// A temporary table hides the table for its own session only.
func TestHidden(t *testing.T) {
	tw := newTwins(t, "ferryhidden", twinTables, "wide")
	tw.reads(4)
	query := []pgproto3.FrontendMessage{&pgproto3.Query{String: "select n, s from wide where id = 42"}}
	others := tw.join(6, "postgres")
	hidden := tw.join(2, "postgres", "create temp table wide as select 42 as id, 1 as n, 'hidden'::text as s")
	tw.together("others", "wide", 1, query, true, others)
	tw.must(tw.shard, "begin")
	tw.must(tw.shard, "lock table wide in access exclusive mode")
	others.send(query)
	hidden.send(query)
	hidden.agree("hidden", 1) // does not wait for the lock
	tw.must(tw.shard, "commit")
	others.agree("others", 1)
}
