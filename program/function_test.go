package program

import (
	"reflect"
	"strings"
	"testing"
)

// function is a function that is called with arguments.
type function struct {
	create string // without the name and the language
	args   []string
	body   string
}

// functions are called by PostgreSQL, as SELECT * FROM f(…), and by Run.
var functions = []function{
	{"(a int, b int) RETURNS int", []string{"3", "4"}, `begin return a * b; end`},
	{"(a int, b int DEFAULT 7) RETURNS int", []string{"3"}, `begin return a * b; end`},
	{"(int, int) RETURNS int", []string{"3", "4"}, `declare x alias for $1; begin return x - $2; end`},
	{"(a int) RETURNS int", []string{"3"}, `begin return 2.5; end`},
	{"(a int) RETURNS int", []string{"3"}, `begin return 'x'; end`},
	{"(a int) RETURNS int", []string{"3"}, `begin end`},
	{"(a int) RETURNS int", []string{"3"}, `begin if a > 5 then return 1; end if; end`},
	{"(a int) RETURNS text STRICT", []string{""}, `begin return 'never'; end`},
	{"(a int) RETURNS varchar", []string{"3"}, `begin return f.a || 'x'; end`},
	{"(a int) RETURNS SETOF int", []string{"3"}, `begin for i in 1..a loop return next i; end loop; return next 2.7; return; return next 9; end`},
	{"(a int) RETURNS SETOF t", []string{"2"}, `declare r t; begin return query select * from t where t.a < f.a; select * into r from t where t.a = 3; return next r; return next null; end`},
	{"(a int) RETURNS SETOF t", []string{"2"}, `begin return query select 1; end`},
	{"(a int) RETURNS SETOF t", []string{"2"}, `begin return query select 1, 2, 3; end`},
	{"(lo int) RETURNS TABLE (x int, y text)", []string{"2"}, `begin return query select a, b from t where a >= lo order by a; raise notice '%', found; x := 9; y := 'z'; return next; return query execute 'select $1, null::text' using lo; end`},
	{"(lo int) RETURNS TABLE (a int)", []string{"2"}, `begin return query select a from t; end`},
	{"(lo int) RETURNS TABLE (a int)", []string{"2"}, `begin return query select t.a from t where t.a > lo order by t.a; return query select q.a from (select 5 as a) q; end`},
	{"(IN a int, OUT b int, INOUT c text)", []string{"2", "q"}, `begin b := a + 1; c := c || b; end`},
	{"(IN a int, OUT b int)", []string{"2"}, `begin b := a + 1; return; end`},
	{"(a int, VARIADIC r int[])  RETURNS int", []string{"2", "{3,4}"}, `declare s int := a; x int; begin foreach x in array r loop s := s + x; end loop; return s; end`},
	{"(p pair) RETURNS pair", []string{"(1,x)"}, `begin p.x := p.x + 1; p.y := p.y || '!'; return p; end`},
	{"(p pair) RETURNS pair", []string{"(1,x)"}, `begin return (p.x, p.y); end`},
	{"(p pair) RETURNS pair", []string{"(1,x)"}, `declare r record; begin select 1 as a, 'v'::text as b into r; return r; end`},
	{"(p pair) RETURNS pair", []string{"(1,x)"}, `declare r record; begin select 1 as a, 2 as b into r; return r; end`},
	{"(p pair) RETURNS pair", []string{"(1,x)"}, `begin return null; end`},
	{"(p pair) RETURNS text", []string{"(1,x)"}, `begin return p.y || (p).x; end`},
	{"(p pair) RETURNS text", []string{"(1,x)"}, `begin return p; end`},
	{"(x small) RETURNS small", []string{"3"}, `begin return x * 3; end`},
	{"(x small) RETURNS small", []string{"4"}, `begin return x * 3; end`},
	{"(x int) RETURNS mood", []string{"4"}, `begin return case when x > 3 then 'happy' else 'sad' end; end`},
	{"(x int) RETURNS int[]", []string{"4"}, `declare a int[]; begin for i in 1..x loop a := a || i * i; end loop; return a; end`},
	{"(x int) RETURNS record", []string{"4"}, `begin return (1, 2); end`},
	{"(x int) RETURNS int", []string{"4"}, "declare\n  y int;\nbegin\n  y := x;\n  begin\n    y := y / (x - 4);\n  exception when others then\n    raise notice '%', sqlerrm;\n    y := x\n      / 0;\n  end;\n  return y;\nend"},
	{"(x numeric(4,1)) RETURNS numeric", []string{"4.25"}, `begin return x; end`},
	{"(c refcursor) RETURNS refcursor", []string{"mine"}, `begin open c for select * from t; return c; end`},
	{"(name text) RETURNS text", []string{"abc"}, `declare f text := 'inner'; begin return f || f.name || name; end`},
	{"(id int, v text) RETURNS int", []string{"9", "nine"}, `begin insert into u (id, v) values (id, v); update u set v = f.v || '!' where u.id = f.id; return (select count(*) from u); end`},
	{"(id int, v text) RETURNS int", []string{"1", "nine"}, `begin insert into u values (f.id, f.v); return 1; end`},
}

// scripts are functions in SQL.
var scripts = []function{
	{"(a int, b int) RETURNS int", []string{"3", "4"}, `select a * b`},
	{"(a int, b int DEFAULT 7) RETURNS bigint", []string{"3"}, `select a * $2`},
	{"(a int) RETURNS bigint", []string{"3"}, `select count(*) from t where a = a`},
	{"(k int) RETURNS bigint", []string{"2"}, `select count(*) from t where a > k`},
	{"(a int) RETURNS bigint", []string{"2"}, `select count(*) from t where t.a > f.a`},
	{"(k int) RETURNS text", []string{"2"}, `select b from t where a = k`},
	{"(k int) RETURNS text", []string{"400"}, `select b from t where a = k`},
	{"(k int) RETURNS text STRICT", []string{""}, `select 'never'::text`},
	{"(k int) RETURNS int", []string{"0"}, `select 1 / k from t`},
	{"(k int) RETURNS SETOF int", []string{"2"}, `select a from t where a >= k order by a desc`},
	{"(k int) RETURNS SETOF t", []string{"2"}, `select * from t where a >= k order by a desc`},
	{"(k int) RETURNS t", []string{"2"}, `select * from t where a = k`},
	{"(k int) RETURNS TABLE (x bigint, y text)", []string{"2"}, `select a, b from t where a >= k order by a`},
	{"(k int, OUT x int, OUT y text)", []string{"2"}, `select a, b from t where a = k`},
	{"(k int) RETURNS void", []string{"77"}, `insert into u values (k, 'sc'); update u set v = v || '!' where id = k`},
	{"(k int) RETURNS int", []string{"78"}, `insert into u values (k, 'sc'); select 1 from u; delete from u where id = k returning id`},
	{"(k int) RETURNS int", []string{"1"}, `insert into u values (k, 'sc'); select 1`},
	{"(k int) RETURNS int", []string{"79"}, `insert into u values (k, 'sc') returning id`},
	{"(k int) RETURNS SETOF u", []string{"79"}, `update u set v = v || k returning *`},
	{"(k int) RETURNS int", []string{"5"}, `select k; select k + 1;`},
	{"(p pair) RETURNS text", []string{"(1,x)"}, `select (p).y || (p).x`},
	{"(x small) RETURNS small", []string{"3"}, `select x * 3`},
	{"(a int[]) RETURNS int", []string{"{1,2}"}, `select a[2]`},
}

func TestFunctions(t *testing.T) { callAll(t, "plpgsql", functions) }

func TestScripts(t *testing.T) { callAll(t, "sql", scripts) }

// callAll calls functions in a language, by PostgreSQL and by Run.
func callAll(t *testing.T, language string, functions []function) {
	c := connect(t)
	if err := c.simple(tables); err != nil {
		t.Fatal(err)
	}
	cache := NewCache()
	for _, f := range functions {
		args := make([]Value, len(f.args))
		var list []string
		for i, a := range f.args {
			if a == "" {
				list = append(list, "NULL")
				continue
			}
			args[i] = text(a)
			list = append(list, "'"+a+"'")
		}
		call := "SELECT * FROM f(" + strings.Join(list, ", ") + ")"
		if strings.Contains(f.create, "VARIADIC") {
			call = strings.Replace(call, ", ", ", VARIADIC ", 1)
		}
		create := "CREATE FUNCTION f" + f.create + " LANGUAGE " + language + " AS " + dollar(f.body)
		want := c.native(create, call)
		got := c.ours(t.Context(), create, args, cache)
		if refused(got) {
			if !strings.Contains(f.create, "RETURNS record") {
				t.Errorf("%s %s\nrefused: %s", f.create, f.body, got.err)
			}
			continue
		}
		if want.err != "" { // rows that came before an error are not shown by PostgreSQL
			got.rows = want.rows
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\n%s\ngot\n%s\nwant\n%s", create, call, got, want)
		}
	}
}

// TestTransactions: a procedure ends its transactions.
func TestTransactions(t *testing.T) {
	c := connect(t)
	if err := c.simple(tables); err != nil {
		t.Fatal(err)
	}
	body := `begin for i in 10..13 loop insert into u values (i, 'p'); if i % 2 = 0 then commit; else rollback; end if; end loop;
 begin insert into u values (20, 'x'); commit; exception when others then raise notice '% %', sqlstate, sqlerrm; end; end`
	if err := c.simple("CREATE PROCEDURE p() LANGUAGE plpgsql AS " + dollar(body) + "; "); err != nil {
		t.Fatal(err)
	}
	if err := c.simple("CALL p()"); err != nil {
		t.Fatal(err)
	}
	want, notices := c.dump(), c.notices
	if err := c.simple("DELETE FROM u WHERE id > 9; BEGIN"); err != nil {
		t.Fatal(err)
	}
	c.notices = nil
	p, err := Compile(Source{Kind: Procedure, Name: "p", Body: body})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(t.Context(), &Environment{Executor: c, Transaction: c, Output: c, Cache: NewCache()}, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.simple("COMMIT"); err != nil {
		t.Fatal(err)
	}
	if got := c.dump(); got != want || !reflect.DeepEqual(c.notices, notices) || len(notices) != 1 {
		t.Errorf("got %s %q, want %s %q", got, c.notices, want, notices)
	}
}

// TestMemory: rows of a loop are bounded.
func TestMemory(t *testing.T) {
	c := connect(t)
	p, err := Compile(Source{Kind: Do, Body: `declare r record; begin for r in select repeat('x', 1000) from generate_series(1, 1000) loop end loop; end`})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Run(t.Context(), &Environment{Executor: c, Transaction: c, Output: c, Cache: NewCache(), MaxBytes: 100_000}, nil)
	if err == nil || !strings.Contains(err.Error(), "53400") {
		t.Errorf("%v", err)
	}
}
