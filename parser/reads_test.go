package parser

import "testing"

func TestReads(t *testing.T) {
	for sql, want := range map[string]bool{
		"select 1": true, "select count(*), max(a) from t where b = 3": true, "values (1)": true, "show work_mem": true, "table t": true,
		"with x as (select 1) select * from x union all select 2": true, "select * from t for update": true,
		"select 1; select 2": true, "select 1; delete from t": false, "select f(1)": false, "select nextval('s')": false,
		"with x as (delete from t returning *) select * from x": false, "select * into u from t": false, "insert into t values (1)": false,
		"update t set a = 1": false, "call p()": false, "do $$ begin end $$": false, "copy t from stdin": false, "create table t ()": false,
		"explain analyze delete from t": false, "begin": false, "select 1 where": false, "select (select g())": false,
	} {
		if got := ParseFacts(sql).Reads; got != want {
			t.Errorf("%s: %t", sql, got)
		}
	}
}
