package routing

import "testing"

// TestCommandsReached: what changes the schema is refused however a statement comes to
// run it.
func TestCommandsReached(t *testing.T) {
	w := newWorld(t, "body_reach")
	w.run("create table t (k int primary key, v int)", "create table home (id int primary key, v int)", "select weft.shard_table('t', 'k')",
		"create function mk() returns int language plpgsql as $$ begin create type reached_type as enum (); return 1; end $$",
		"create function mkt() returns trigger language plpgsql as $$ begin create type reached_type as enum (); return new; end $$",
		"create function mko(int, int) returns bool language sql as $$ select mk() = $1 $$",
		"create operator =~~~= (leftarg = int, rightarg = int, function = mko)",
		"create table defaulted (a int, b int default mk())")
	for _, sql := range []string{
		"create trigger tr before insert on t for each row execute function mkt()",
		"insert into defaulted (a) values (1)",
		"select count(*) from t where k =~~~= 1",
		"select 1 =~~~= 1",
		"select mk() from home",
		"insert into home values (1, mk())",
		"update t set v = mk() where k = 1",
	} {
		w.fails(sql, "0A000")
	}
	w.all("select count(*)::text from pg_type where typname = 'reached_type'", "0")
}
