package routing

import (
	"testing"

	"weft/integration/pair"
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
	// Where the text of the statement cannot take the place of EXECUTE.
	for _, sql := range []string{"explain /**/ execute/**/ one(3, 4)", "create table c as execute j(1)", "execute one(1 + 1, 2)", "execute okk(1)"} {
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

// TestClientPrepares: transactions that clients prepare themselves are refused.
func TestClientPrepares(t *testing.T) {
	if *undeclared {
		t.Skip("nothing is refused without declared tables")
	}
	_, p := pairs(t, "client_prepares", 4)
	for _, m := range pair.Modes {
		for _, sql := range []string{"prepare transaction 'mine'", "commit prepared 'mine'", "rollback prepared 'mine'"} {
			if a := p.Weft.Ask(m, sql, nil, nil); !a.Refused() {
				t.Errorf("%s: %s: %s %s", m, sql, a.Code, a.Message)
			}
		}
	}
}
