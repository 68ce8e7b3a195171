package routing

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/integration/pair"
)

// TestStatementTriggers: a trigger FOR EACH STATEMENT runs once, over all rows of the
// statement, or the statement is refused. Those here tell by their SQLSTATE how many rows
// they have seen.
func TestStatementTriggers(t *testing.T) {
	db := database(t, "statement_triggers")
	p := newPair(t, db)
	for _, sql := range []string{
		"create table t (k int, id int, v int, w int, primary key (k, id))",
		"create table child (k int, id int, foreign key (k, id) references t on delete cascade)",
		"create table src (k int, id int)",
		"create table parts (k int, v int) partition by range (v)", "create table low partition of parts for values from (0) to (10)",
		"create table r (id int primary key)", "create table of_r (k int, id int references r on delete cascade)",
		"create table plain (k int primary key, v int)",
		"create view through as select k, id, v from t",
		"insert into t select g, 1, 1, 1 from generate_series(1, 20) g", "insert into child select g, 1 from generate_series(1, 20) g", "insert into src select g, 2 from generate_series(1, 20) g",
		"insert into parts select g, 1 from generate_series(1, 20) g", "insert into r values (1), (2)", "insert into of_r select g, 1 from generate_series(1, 20) g", "insert into plain select g, 1 from generate_series(1, 20) g",
		"create function seen() returns trigger language plpgsql as $$ begin raise exception using errcode = 'ZZ' || to_char((select count(*) from changed), 'FM000'); end $$",
		"create function called() returns trigger language plpgsql as $$ begin raise exception using errcode = 'ZZ999'; end $$",
		"create trigger i after insert on t referencing new table as changed for each statement execute function seen()",
		"create trigger u after update on t referencing old table as changed for each statement execute function seen()",
		"create trigger d before delete on child execute function called()", // FOR EACH STATEMENT is what it means
		"create trigger c after insert on parts execute function called()", "create trigger l after update on low execute function called()",
		"create trigger f after delete on of_r execute function called()", "create trigger e after truncate on t execute function called()",
		"create trigger v after update of v on plain execute function called()", "create trigger n after insert on plain execute function called()",
		"alter table plain disable trigger n",
	} {
		p.Both(t, "setup", sql)
	}
	for _, sql := range []string{
		"select weft.shard_table('t', 'k')", "select weft.shard_table('child', 'k')", "select weft.shard_table('src', 'k')", "select weft.shard_table('parts', 'k')",
		"select weft.reference_table('r')", "select weft.shard_table('of_r', 'k')", "select weft.shard_table('plain', 'k')",
	} {
		declare(t, p, pair.Statement{SQL: sql})
	}
	other := &pair.Pair{Plain: p.Plain, Weft: second(t, db), Counts: p.Counts}
	for _, test := range []struct {
		sql  string
		runs bool // as in PostgreSQL
		code string
	}{
		{"update t set v = 2 where k = 3", true, "ZZ001"},
		{"update t set v = 2 where k = 3 and id in (select id from src)", true, "ZZ000"},
		{"update t set v = 2 where k = -1", true, "ZZ000"},
		{"update through set v = 2 where k = 3", true, "ZZ001"},
		{"insert into t values (3, 2, 1, 1), (3, 3, 1, 1)", true, "ZZ002"},
		{"insert into t values ((select 3), 2, 1, 1)", true, "ZZ001"},
		{"insert into t select k, 7, 1, 1 from src where k = 3", true, "ZZ001"},
		{"insert into t values (3, 1, 1, 1) on conflict (k, id) do update set v = 9", true, "ZZ001"},
		{"insert into t select 1, 1, 1, 1 where false", true, "ZZ000"},
		{"delete from t where k = 3", true, "ZZ999"},
		{"delete from child where k = 3", true, "ZZ999"},
		{"with x as (update t set v = 3 where k = 4 returning k) select * from x", true, "ZZ001"},
		{"merge into t using src on t.k = src.k and t.id = src.id and t.k = 3 when matched then update set v = 1", true, "ZZ000"},

		{"update t set v = 2", false, "ZZ020"},
		{"update t set v = 2 where k in (1, 2, 3, 4, 5, 6)", false, "ZZ006"},
		{"update t set v = 2 where false", false, "ZZ000"},
		{"update through set v = 2", false, "ZZ020"},
		{"update t set v = 2 from src where src.id = t.k", false, "ZZ001"},
		{"insert into t select g, 2, 1, 1 from generate_series(1, 9) g", false, "ZZ009"},
		{"insert into t select k, id, 1, 1 from src", false, "ZZ020"},
		{"insert into t select g, 2, 1, 1 from generate_series(1, 9) g where false", false, "ZZ000"},
		{"insert into t values (1, 2, 1, 1), (2, 2, 1, 1), (3, 2, 1, 1), (4, 2, 1, 1), (5, 2, 1, 1) returning k", false, "ZZ005"},
		{"insert into t values (1, 1, 1, 1), (2, 1, 1, 1), (3, 1, 1, 1), (4, 1, 1, 1), (5, 1, 1, 1) on conflict do nothing returning k", false, "ZZ000"},
		{"delete from t", false, "ZZ999"},
		{"delete from child where id = 1", false, "ZZ999"},
		{"with x as (delete from child returning k) select count(*) from x", false, "ZZ999"},
		{"with x as (select k from src) update t set v = 3 from x where x.k = t.k", false, "ZZ020"},
		{"merge into t using src on t.k = src.k and t.id = src.id when not matched then insert values (src.k, src.id, 1, 1)", false, "ZZ020"},
		{"insert into parts select k, 1 from src", false, "ZZ999"},
		{"update low set v = 2", false, "ZZ999"},
		{"delete from r where id = 1", false, "ZZ999"},
		{"truncate t, child", false, "ZZ999"},
		{"truncate t cascade", false, "ZZ999"},
		{"update plain set v = 2", false, "ZZ999"},
		{"update plain set v = 2 where k = 3", true, "ZZ999"},

		// These set off none.
		{"insert into low select k, 1 from src", true, ""},
		{"update parts set v = 2", true, ""},
		{"delete from parts where v = 7", true, ""},
		{"update plain set k = k", true, ""},
		{"insert into plain select g + 100, 1 from generate_series(1, 9) g", true, ""},
		{"delete from plain where k > 100", true, ""},
		{"truncate child", true, ""},
		{"update t set v = 2 where k = 3", true, "ZZ001"},
	} {
		for _, ways := range []struct {
			name string
			pair *pair.Pair
			list []pair.Mode
		}{
			{"one proxy", p, pair.Ways},
			{"another", other, []pair.Mode{pair.Simple, pair.Prepared}},
		} {
			for _, mode := range ways.list {
				for _, peer := range []*pair.Peer{ways.pair.Plain, ways.pair.Weft} {
					peer.Must(t, "begin")
				}
				wrong, want, got := ways.pair.Run(mode, test.sql, nil)
				if got.Refused() {
					want = ways.pair.Plain.Ask(mode, test.sql, nil, nil)
				}
				if want.Code != test.code {
					t.Errorf("%s: PostgreSQL says %s %s", test.sql, want.Code, want.Message)
				}
				refused := got.Refused() && strings.Contains(got.Message, "runs once for a statement") && strings.Contains(got.Message, "weft.statement_triggers")
				if test.runs && (wrong != "" || got.Refused()) || !test.runs && !refused {
					t.Errorf("%s, %s, %s: %s %s%s", test.sql, mode, ways.name, got.Code, got.Message, wrong)
				}
				for _, peer := range []*pair.Peer{ways.pair.Plain, ways.pair.Weft} {
					peer.Must(t, "rollback")
				}
			}
		}
		if !test.runs && test.code != "ZZ000" {
			p.Weft.Must(t, "set weft.statement_triggers = per_shard")
			if a := p.Weft.Ask(pair.Simple, test.sql, nil, nil); a.Code < "ZZ" {
				t.Errorf("%s, per shard: %s %s", test.sql, a.Code, a.Message)
			}
			p.Weft.Must(t, "reset weft.statement_triggers")
		}
	}
	copies := func(c *pgconn.PgConn) string {
		_, err := c.CopyFrom(t.Context(), strings.NewReader("1\t5\t1\t1\n2\t5\t1\t1\n3\t5\t1\t1\n"), "copy t from stdin")
		if e, ok := err.(*pgconn.PgError); ok {
			return e.Code
		}
		return "none"
	}
	if want, got := copies(p.Plain.Conn), copies(p.Weft.Conn); want != "ZZ003" || got != "0A000" {
		t.Errorf("COPY: PostgreSQL says %s, weft %s", want, got)
	}
	pair.SameTables(t, db, nil)
}
