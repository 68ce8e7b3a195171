package tx

import (
	"fmt"
	"testing"
)

// TestAdvisoryFromAnywhere: a lock that is taken by a trigger, function, policy, default, check, view,
// operator or domain is the home shard's, or the statement is refused.
func TestAdvisoryFromAnywhere(t *testing.T) {
	w := newWorld(t, "advisoryall", 2)
	a, b := w.conn(0), w.conn(1)
	must(t, a, `create function locked(k bigint) returns bigint language plpgsql as $$ begin perform pg_advisory_xact_lock(k); return k; end $$`)
	must(t, a, `create function tried(k bigint) returns boolean language sql as $$ select pg_try_advisory_xact_lock(k) $$`)
	must(t, a, `create function trap() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock(new.id); return new; end $$`)
	must(t, a, `create function bump(k bigint) returns bigint language plpgsql as $$ begin perform pg_advisory_xact_lock(k); update acct set balance = balance where id = k; return k; end $$`)
	must(t, a, `create table kept (id bigint primary key, v bigint)`)
	must(t, a, `select weft.shard_table('kept', 'id')`)
	// What makes the lock be taken, and what undoes that.
	ways := []struct{ name, make, text, undo string }{
		{"trigger", "create trigger trap before insert on kept for each row execute function trap()", "insert into kept values (%d)", "drop trigger trap on kept"},
		{"check", "alter table kept add constraint held check (tried(id))", "insert into kept values (%d)", "alter table kept drop constraint held"},
		{"default", "alter table kept alter column v set default locked(77)", "insert into kept (id) values (%d)", "alter table kept alter column v drop default"},
		{"view", "create view held as select id, locked(id) as l from acct", "select l from held where id = %d", "drop view held"},
		{"view of a builtin", "create view held as select id, pg_try_advisory_xact_lock(id) as l from acct", "select l from held where id = %d", "drop view held"},
		{"operator", "create function held(x bigint, y bigint) returns boolean language sql as 'select pg_try_advisory_xact_lock(x)'; create operator <<-> (function = held, leftarg = bigint, rightarg = bigint)", "select id from acct where id = %d and id <<-> 1::bigint", "drop operator <<-> (bigint, bigint); drop function held"},
		{"function", "select 1", "select locked(id) from acct where id = %d", "select 1"},
		{"function in where", "select 1", "select id from acct where id = %[1]d and locked(%[1]d) > 0", "select 1"},
		{"function in an update", "select 1", "update acct set balance = balance where id = %[1]d and locked(%[1]d) > 0", "select 1"},
		{"function in returning", "select 1", "update acct set balance = balance where id = %d returning locked(id)", "select 1"},
		{"builtin", "select 1", "select pg_advisory_xact_lock(id) from acct where id = %d", "select 1"},
		{"builtin in an update", "select 1", "update acct set balance = balance where id = %d and pg_try_advisory_xact_lock(id)", "select 1"},
		{"builtin in returning", "select 1", "update acct set balance = balance where id = %d returning pg_advisory_xact_lock(id)", "select 1"},
		{"builtin in with", "select 1", "with x as (update acct set balance = balance where id = %d returning id) select pg_advisory_xact_lock(id) from x", "select 1"},
		{"builtin in an insert", "select 1", "insert into kept select id, 1 from acct where id = %d and pg_try_advisory_xact_lock(id)", "select 1"},
		{"function by its argument", "select weft.distribute_function('bump', 'k', 'acct')", "select bump(%d)", "select weft.undistribute_function('bump')"},
		{"function over sharded tables", "select 1", "select bump(%d)", "select 1"},
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			if err := exec(a, way.make); err != nil {
				if code(err) != "0A000" {
					t.Errorf("%v", err)
				}
				t.Logf("refused to be made: %v", err)
				return
			}
			taken := 0
			for i := range shards {
				k := w.keys[i][0]
				key := k
				if way.name == "default" {
					key = 77
				}
				must(t, a, "begin")
				switch err := exec(a, fmt.Sprintf(way.text, k)); {
				case err == nil:
					must(t, b, "begin")
					if value[bool](t, b, "select pg_try_advisory_xact_lock($1)", key) {
						t.Errorf("shard %d: the lock is taken, and another gets it too", i)
					}
					must(t, b, "rollback")
					taken++
				case code(err) != "0A000":
					t.Errorf("shard %d: %v", i, err)
				default:
					t.Logf("shard %d: %v", i, err)
				}
				must(t, a, "rollback")
			}
			t.Logf("taken on %d shards", taken)
			must(t, a, way.undo)
		})
	}
}
