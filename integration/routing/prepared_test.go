package routing

import (
	"fmt"
	"strings"
	"testing"

	"weft/integration/pair"
	"weft/pgerr"
)

// TestSQLPrepare: PREPARE and EXECUTE in SQL mean the statement with its arguments, on
// whatever shards that is, also if its tables were declared after PREPARE.
func TestSQLPrepare(t *testing.T) {
	_, p := pairs(t, "sql_prepare", 4)
	p.Both(t, "", `create table e (id int primary key, b int, t text, n numeric, ok bool);
		create table r (id int primary key, v text);
		create table h (id int primary key, v text);
		insert into e select g, g % 7, 't' || g, g * 1.5, g % 2 = 0 from generate_series(1, 50) g`)
	same := func(list ...string) {
		t.Helper()
		for _, sql := range list {
			if wrong, _, got := p.Run(pair.Simple, sql, nil); wrong != "" || got.Refused() {
				t.Errorf("%s: %s%s", sql, wrong, got.Message)
			}
		}
	}
	same("prepare before as select count(*), sum(n) from e", "execute before")
	if !*undeclared {
		p.Weft.Must(t, "select weft.shard_table('e', 'id')")
		p.Weft.Must(t, "select weft.reference_table('r')")
	}
	same("execute before", "execute before(5)", "execute before(1, 'x')",
		"prepare one (int) as select * from e where id = $1", "execute one(5)", "execute one('7')", "execute one(7.2)", "execute one(null)",
		"execute one(1, 2)", "execute one", "execute one('x')", "prepare one as select 1",
		"prepare two as select id, t from e where b = $1 and t like $2 order by id limit $3", "execute two(3, 't%', 2)",
		"prepare upd (int, text) as update e set t = $2 where id = $1 returning id, t", "execute upd(3, 'three')", `execute upd(4, E'fo\'ur\n')`,
		"prepare updall (numeric) as update e set n = n + $1", "execute updall(1.25)", "select sum(n) from e",
		"prepare ins as insert into e (id, b, t) values ($1, $2, $3) returning *, $2", "execute ins(100, 1, 'a')", "execute ins(100, 1, 'a')",
		"prepare insr as insert into r values ($1, $2)", "execute insr(1, 'x')", "select * from r",
		"prepare bad as select * from nosuch", "execute nosuch",
		"begin", "execute upd(5, 'five')", "execute upd(6, 'six')", "savepoint a", "execute updall(100)", "rollback to a", "execute ins(101, 2, 'b')", "commit",
		"select sum(n), count(*) from e",
		"begin", "execute ins(100, 1, 'x')", "execute one(1)", "rollback",
		"prepare hh as select * from h where id = $1", "execute hh(1)",
		"prepare name as select $1, $2 as x from e where id = 1", "execute name('a', 'b')",
		"prepare okk (bool) as select count(*) from e where ok = $1", "execute okk(true)", "execute okk('f')",
		"deallocate one", "execute one(1)", "prepare one as select id from e where id in ($1, $2) order by 1", "execute one(3, 4)",
		"prepare j as select e.id, r.v from e join r on r.id = e.b where e.b = $1 order by 1", "execute j(1)",
		"prepare several as select count(*) from e; execute several; deallocate several")
	if *undeclared {
		return
	}
	same("create table c as execute j(1)", "select * from c", "execute one(1 + 1, 2)", "execute okk(1)")
	// Where the text of the statement cannot take the place of EXECUTE.
	for _, sql := range []string{"explain /**/ execute/**/ one(3, 4)"} {
		if a := p.Weft.Ask(pair.Simple, sql, nil, nil); !a.Refused() {
			t.Errorf("%s: %s %s", sql, a.Code, a.Message)
		}
	}
	for _, m := range pair.Modes {
		for _, sql := range []string{"explain execute one(3, 4)", "EXPLAIN (analyze, costs off)\n  EXECUTE one (3, 4)", `explain execute "j"(1)`, "explain execute ins(100, 1, 'x')"} {
			if a := p.Weft.Ask(m, sql, nil, nil); a.Code != "" || len(a.Results) != 1 || len(a.Results[0].Rows) == 0 {
				t.Errorf("%s: %s: %s %s %v", m, sql, a.Code, a.Message, a.Results)
			}
		}
	}
	if a := p.Weft.Ask(pair.Modes[1], "execute one(3, 4)", nil, nil); a.Code != "" {
		t.Errorf("through the extended protocol: %s %s", a.Code, a.Message)
	}
	same("execute one(3, 4)", "deallocate all", "execute one(3, 4)")
}

// TestClientPrepares: what PostgreSQL itself refuses to prepare it refuses through weft, in its own words and with all of the transaction rolled back;
// a pipeline is refused what only a statement by itself can do; and what one proxy's client has prepared another's ends.
func TestClientPrepares(t *testing.T) {
	_, p := pairs(t, "client_prepares", 40)
	for i, sql := range []string{
		"create temp table gone (a int) on commit drop", "notify pledges", "listen pledges",
		"declare c cursor with hold for select n from pairs where k = 1", "declare c cursor with hold for select n from pairs",
	} {
		for _, m := range pair.Modes {
			var answers [2]pair.Answer
			for j, peer := range []*pair.Peer{p.Plain, p.Weft} {
				peer.Must(t, "begin")
				peer.Must(t, sql)
				peer.Must(t, "update pairs set n = 1 where k = 1")
				peer.Must(t, "update pairs set n = 1 where k = 2")
				answers[j] = peer.Ask(m, fmt.Sprintf("prepare transaction 'client prepares %d'", i), nil, nil)
				if n := len(peer.Must(t, "select k from pairs where n = 1").Results[0].Rows); n != 0 {
					t.Errorf("%s: %s: %d rows are changed", m, sql, n)
				}
			}
			if want, got := answers[0], answers[1]; got.Code != want.Code || !strings.HasPrefix(got.Message, want.Message) || got.Status != want.Status {
				t.Errorf("%s: %s: PostgreSQL %s %s %c, weft %s %s %c", m, sql, want.Code, want.Message, want.Status, got.Code, got.Message, got.Status)
			}
		}
	}
	for _, peer := range []*pair.Peer{p.Plain, p.Weft} {
		for _, sql := range []string{"commit prepared 'client prepares'", "rollback prepared 'client prepares'"} {
			answers := peer.Pipeline([]pair.Query{{SQL: "update pairs set n = 2 where k = 3"}, {SQL: sql}}, nil)
			if got := answers[1]; got.Code != pgerr.ActiveSQLTransaction {
				t.Errorf("%s in a pipeline: %s %s", sql, got.Code, got.Message)
			}
		}
		if n := len(peer.Must(t, "select k from pairs where n = 2").Results[0].Rows); n != 0 {
			t.Errorf("%d rows are changed", n)
		}
	}
}

// TestClientPreparesAnyhow: sessions in every state prepare as they do with PostgreSQL.
func TestClientPreparesAnyhow(t *testing.T) {
	_, p := pairs(t, "client_anyhow", 40)
	both := func(m pair.Mode, list ...string) {
		t.Helper()
		for _, sql := range list {
			if wrong, _, got := p.Run(m, sql, nil); wrong != "" || got.Refused() {
				t.Errorf("%s: %s: %s%s", m, sql, wrong, got.Message)
			}
		}
	}
	unfinished := "select count(*) from pg_prepared_xacts where gid like 'client anyhow%'"
	transfer := func(begin, name, end string) []string {
		return []string{
			begin, "update pairs set n = n + 1 where k = 1", "update pairs set n = n + 1 where k = 2", "update pairs set n = n + 1 where k = 3", "prepare transaction " + name,
			"select sum(n) from pairs", end + " prepared " + name, "select sum(n) from pairs", unfinished,
		}
	}
	for i, m := range pair.Modes {
		name := fmt.Sprintf("'client anyhow %d'", i)
		both(m, transfer("begin", name, "commit")...)
		both(m, transfer("begin isolation level repeatable read", "E'client anyhow \\u00e9'", "rollback")...)
		both(m, transfer("start transaction read write", "$a$client anyhow $$ é$a$", "commit")...)
		both(m, "begin isolation level serializable", "update pairs set n = n + 1 where k = 5", "prepare transaction "+name, "commit prepared "+name, "select sum(n) from pairs")
		// In a transaction that has failed, or that is none.
		both(m, "begin", "update pairs set n = 0 where k = 1", "savepoint a", "select 1 / 0 from pairs where k = 2", "prepare transaction "+name, unfinished,
			"prepare transaction "+name, unfinished, "select sum(n) from pairs")
		both(m, "begin", "commit prepared "+name, "select 1", "rollback")
		// One statement over all shards, and a row that another session waits for.
		both(m, "begin", "update pairs set n = n + 1", "prepare transaction "+name, "set lock_timeout = '10ms'", "update pairs set n = 0 where k = 7", "reset lock_timeout",
			"commit prepared "+name, "select sum(n) from pairs")
	}
	p.Weft.Must(t, "set weft.commit = 'certain'")
	both(pair.Simple, transfer("begin", "'client anyhow c'", "commit")...)
	both(pair.Simple, "begin", "update pairs set n = n + 1 where k = 1", "prepare transaction 'client anyhow c'", "commit prepared 'client anyhow c'", "select sum(n) from pairs")
	p.Weft.Must(t, "set weft.commit = 'single'")
	both(pair.Simple, "begin", "update pairs set n = n + 1 where k = 1", "prepare transaction 'client anyhow c'", "commit prepared 'client anyhow c'", "select sum(n) from pairs")
	p.Weft.Must(t, "reset weft.commit")
	both(pair.Simple, "create temp table tied (a int)")
	both(pair.Simple, transfer("begin", "'client anyhow t'", "commit")...)
	both(pair.Simple, "begin", "insert into pairs values (100, 1, 1)", "set local synchronous_commit = off", "prepare transaction 'client anyhow t'", "show synchronous_commit", "rollback prepared 'client anyhow t'", "select count(*) from pairs")
	// PL/pgSQL can do none of this, not by weft either.
	for _, sql := range []string{"prepare transaction 'client anyhow f'", "commit prepared 'client anyhow f'"} {
		for _, text := range []string{
			"do $do$ begin update pairs set n = 0 where k = 1; execute $x$" + sql + "$x$; end $do$", "do $do$ begin update pairs set n = 0 where k = 1; " + sql + "; end $do$",
		} {
			want, got := p.Plain.Ask(pair.Simple, text, nil, nil), p.Weft.Ask(pair.Simple, text, nil, nil)
			if got.Code != want.Code || got.Code == "" {
				t.Errorf("%s: PostgreSQL %q %s, weft %q %s", text, want.Code, want.Message, got.Code, got.Message)
			}
		}
	}
	both(pair.Simple, "select sum(n) from pairs", unfinished)
}
