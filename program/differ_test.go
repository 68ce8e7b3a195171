package program

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// blocks are programs that PostgreSQL and Run must run alike, as DO.
var blocks = []string{
	`declare x int; begin x := 1/0; end`,
	`declare x int; begin x := (select 1/0 from t); end`,
	`declare x int; begin x := 'abc'; end`,
	`declare x int; begin x := nosuch + 1; end`,
	`declare x int := 1/0; begin  end`,
	`declare x int; begin if 1/0 > 1 then end if; end`,
	`begin if nosuch > 1 then end if; end`,
	`begin perform 1/0; end`,
	`declare a int; begin select a into a from t; end`,
	`declare a int; begin select t.a into a from t where t.a = a; end`,
	`declare a int := 2; r record; begin select t.a as q into r from t where t.a = 2 order by q; raise notice '% %', r, r.q; end`,
	`begin insert into t values (1/0) ; end`,
	`declare a int; begin execute 'select 1/'||0 into a; end`,
	`begin for a in 1..1/0 loop end loop; end`,
	`begin raise exception 'x % y', 1 using errcode='22012', detail='d', hint='h'; end`,
	`begin raise notice 'x % y %', 1; end`,
	`begin raise notice 'x %% y %', null; raise info 'i'; raise warning 'w %', 1.50; raise debug 'd'; end`,
	`begin raise division_by_zero; end`,
	`begin raise sqlstate '22012' using message = 'm'; end`,
	`begin raise using errcode = 'unique_violation'; end`,
	`begin raise unique_violation using message = 'dup', column = 'c', table = 'tt', schema = 's', constraint = 'k', datatype = 'dt'; end`,
	`begin raise exception 'a' using message = 'b'; end`,
	`begin raise; end`,
	`declare s text; begin get stacked diagnostics s = message_text; end`,
	`declare v varchar(3); begin v := 'abcdef'; end`,
	`declare v varchar(3); begin v := 'abc'; raise notice '%', v; v := 'ab   '; raise notice '[%]', v; end`,
	`declare v char(5); begin v := 'ab'; raise notice '[%] %', v, length(v); v := 'abcdef'; end`,
	`declare v numeric(5,2); begin v := 1.005; raise notice '%', v; v := 12345; end`,
	`declare a int[]; begin a[3] := 1; raise notice '%', a; a[1.6] := 5; raise notice '%', a; a[null] := 1; end`,
	`declare a int[] := '{{1,2},{3,4}}'; begin a[1][2] := 9; raise notice '%', a; a[3][1] := 1; end`,
	`declare a text[]; begin a[1] := 'q"u o\te'; a[3] := null; a[4] := ''; raise notice '% % %', a, a[1], a[2] is null; a := a || 'x'; raise notice '%', array_length(a, 1); end`,
	`declare b bool; begin b := 1; raise notice '%', b; b := 2; end`,
	`declare i int; begin i := 2.5; raise notice '%', i; i := 3.5; raise notice '%', i; i := 1e12; end`,
	`declare i smallint := 7; j bigint; n numeric; begin j := i; n := j; raise notice '% %', j, n; i := 70000; end`,
	`declare a int; r record; begin for r in select * from t order by t.a loop raise notice '% %', r.a, r; end loop; raise notice '%', found; end`,
	`begin case 5 when 1 then null; end case; end`,
	`declare x int := 5; begin case x when 1, 2 then raise notice 'a'; when 5 then raise notice 'b'; else raise notice 'c'; end case; case when x > 7 then null; when null then null; else raise notice 'else'; end case; end`,
	`declare x text := 'q'; begin case x when 'p' then raise notice 'a'; when 'q' then raise notice 'b'; end case; end`,
	`declare x int not null := null; begin end`,
	`declare x int not null := 1; begin x := null; end`,
	`declare x constant int := 1; begin x := 2; end`,
	`declare r record; begin raise notice '%', r.a; end`,
	`declare r record; begin raise notice '%', r; end`,
	`declare r record; begin select * into r from t where false; raise notice '% %', r, r.a; end`,
	`declare r t; begin select * into r from t where false; raise notice '% %', r, r.a; end`,
	`declare r t%rowtype; begin select * into r from t where a = 1; raise notice '% %', r, r.c; r.c := 9.999; raise notice '%', r; insert into t select r.*; insert into t values (r.*); end`,
	`declare r record; begin select * into r from t; raise notice '%', r.zz; end`,
	`declare r record; begin select 1 as y into r; r.x := max(true); end`,
	`declare r record; begin r.x := nosuch; end`,
	`declare r record; begin select 1 as y into r; r.x[1] := nosuch; end`,
	`declare r t; begin raise notice '% %', r, r is null; r.a := '7'; raise notice '%', r; r := null; raise notice '%', r; end`,
	`declare r record; s record; begin select 1 as x, 'a'::text as y into r; s := r; s.x := 5; raise notice '% % %', r, s, row_to_json(s); r := row(1, 'z'::text, null::int); raise notice '% %', r, r.f2; end`,
	`declare p pair; begin p := row(1, 'b'); raise notice '% %', p, p.y; p.y := 'c d'; raise notice '%', p; p := (3, null); raise notice '% %', p, p.y is null; p := 5; end`,
	`declare p pair; q pair := (1, 'x'); begin p := q; q.x := 2; raise notice '% % %', p, q, p = q; select p.x + q.x, 'sum' into p; raise notice '%', p; end`,
	`declare c cursor for select * from t order by a; r record; begin open c; fetch c into r; raise notice '% %', c, r; move c; fetch prior from c into r; raise notice '%', r; fetch last from c into r; raise notice '%', r; fetch c into r; raise notice '% %', r, found; close c; fetch c into r; end`,
	`declare c cursor (lo int, hi int) for select a from t where a between lo and hi order by a; x int; begin open c(2, 3); fetch c into x; raise notice '%', x; fetch c into x; raise notice '%', x; close c; for r in c(hi := 2, lo := 1) loop raise notice '%', r.a; end loop; open c(1, 1); open c(1, 1); end`,
	`declare c refcursor; x int; y text; begin open c scroll for select a, b from t order by a; fetch absolute 2 from c into x, y; raise notice '% %', x, y; fetch relative -1 from c into x, y; raise notice '% %', x, y; move forward 2 from c; fetch next from c into x; raise notice '% %', x, found; end`,
	`declare c refcursor := 'mine'; x int; begin open c for execute 'select a from t where a > $1 order by 1' using 1; fetch c into x; raise notice '% %', c, x; close c; close c; end`,
	`declare c cursor (lo int) for select a from t where a > lo; d cursor for select 1; x int; begin set local work_mem = '1MB'; open c(1); get diagnostics x = row_count; raise notice '% %', x, found; perform 1 where false; open d; get diagnostics x = row_count; raise notice '% %', x, found; end`,
	`declare c refcursor; x int; begin fetch c into x; end`,
	`begin assert 1=2, 'msg'; end`,
	`begin assert null; end`,
	`begin assert true, 'no'; raise notice 'ok'; end`,
	`begin begin raise exception 'a'; exception when others then raise notice '% % ', sqlerrm, sqlstate; raise; end; end`,
	`declare c text; d text; begin begin perform 1/0; exception when division_by_zero then get stacked diagnostics c = pg_exception_context, d = returned_sqlstate; raise notice '[%] %', c, d; get diagnostics c = pg_context; raise notice '[%]', c; end; end`,
	`declare c text; k text; begin insert into u values (1, 'z'); exception when unique_violation then get stacked diagnostics c = message_text, k = constraint_name; raise notice '% % %', c, k, sqlerrm; insert into u values (9, 'z'); end`,
	`begin insert into u values (5, 'z'); begin insert into u values (6, 'toolong'); exception when others then raise notice '%', sqlerrm; end; insert into u values (7, 'q'); end`,
	`begin begin raise exception 'inner'; exception when division_by_zero then raise notice 'no'; end; exception when raise_exception then raise notice 'outer %', sqlerrm; end`,
	`begin begin raise exception 'inner' using errcode = '22001'; exception when data_exception then raise notice 'class %', sqlstate; raise exception 'second'; end; exception when others then raise notice 'outer %', sqlerrm; end`,
	`begin assert false; exception when others then raise notice 'no'; end`,
	`begin assert false; exception when assert_failure then raise notice 'yes'; end`,
	`declare x int; begin select 1 into strict x from t; end`,
	`declare x int; begin select a into strict x from t where false; end`,
	`declare x int; begin select a into x from t where false; raise notice '% %', x, found; select a, b into x from t order by a; raise notice '% %', x, found; end`,
	`declare x int; y text; z int; begin select a, b into x, y, z from t where a = 1; raise notice '% % %', x, y, z; end`,
	`declare x int; begin update t set a=a returning a into x; end`,
	`declare x int; n bigint; begin update t set a = a + 10 where a > 1; get diagnostics n = row_count; raise notice '% %', n, found; delete from t where a = 11 returning a into x; raise notice '% %', x, found; delete from t where a = 12 returning t.a into x; raise notice '%', x; insert into t(a) values (5) returning a into x; raise notice '%', x; end`,
	`begin select 1; end`,
	`begin insert into t values (1) returning a; end`,
	`begin savepoint x; end`,
	`begin commit; end`,
	`begin rollback; end`,
	`declare x int; begin foreach x in array 5 loop end loop; end`,
	`declare x int; begin foreach x in array null::int[] loop end loop; end`,
	`declare x int; begin foreach x slice 1 in array array[1,2] loop end loop; end`,
	`declare x int; begin foreach x in array array[1,null,3] loop raise notice '%', x; end loop; raise notice '%', found; foreach x in array '{}'::int[] loop end loop; raise notice '% %', x, found; end`,
	`declare x int[]; begin foreach x slice 1 in array '{{1,2},{3,4}}'::int[] loop raise notice '%', x; end loop; foreach x slice 2 in array '{{1,2},{3,4}}'::int[] loop raise notice '%', x; end loop; foreach x slice 3 in array '{{1,2},{3,4}}'::int[] loop raise notice '%', x; end loop; end`,
	`begin for x in 1..3 by 0 loop end loop; end`,
	`begin for x in null..3 loop end loop; end`,
	`begin for x in 1..10 by 4 loop raise notice '%', x; x := x + 1; end loop; for x in reverse 3..1 loop raise notice '%', x; end loop; raise notice '%', found; for x in 5..1 loop end loop; raise notice '%', found; end`,
	`begin for x in 2147483646..2147483647 loop raise notice '%', x; end loop; end`,
	`begin <<o>> for i in 1..3 loop for j in 1..3 loop continue o when j = 2; exit o when i = 3; raise notice '% %', i, j; end loop; end loop o; end`,
	`<<b>> declare x int := 1; begin declare x int := 2; begin raise notice '% %', x, b.x; b.x := 7; exit b; end; raise notice 'no'; end`,
	`declare i int := 0; begin loop i := i + 1; continue when i = 2; raise notice '%', i; exit when i > 3; end loop; while i > 0 loop i := i - 2; end loop; raise notice '%', i; end`,
	`begin execute null; end`,
	`declare x int; y text; begin execute 'select a, b from t where a = $1' into x, y using 2; raise notice '% % %', x, y, found; execute 'select 1 where false' into x; raise notice '% %', x, found; execute 'insert into u values ($1, $2)' using 3, 'dyn'; get diagnostics x = row_count; raise notice '% %', x, found; execute 'select a from t' into strict x; end`,
	`begin execute 'select 1 into x'; end`,
	`begin execute 'commit'; end`,
	`begin execute 'selec 1'; end`,
	`declare r record; begin for r in execute 'select * from t where a > $1 order by a' using 1 loop raise notice '%', r; end loop; end`,
	`declare x int; begin insert into t(a) values (x) on conflict (a) do nothing; end`,
	`declare x int; a int; begin insert into t(a) values (x) on conflict (a) do nothing; end`,
	`declare id int := 1; begin insert into u values (id, 'n') on conflict (id) do update set v = 'z'; end`,
	"#variable_conflict use_column\n" + `declare a int := 2; x int; begin select a into x from t where a = 3; raise notice '%', x; update t set a = a + 1; end`,
	"#variable_conflict use_variable\n" + `declare a int := 2; x int; begin select a into x from t where t.a = 3; raise notice '%', x; end`,
	`declare x int := 2; y text; begin select b into y from t where a = x and exists (select 1 from u where id = x); raise notice '%', y; update t set b = b || x, a = x where a = x; delete from u where id = x; perform * from t where a = x; raise notice '%', found; end`,
	`declare t int := 1; begin perform t.a from t; end`,
	`declare x int := 1; r record; begin for r in select x, x + 1 as y, (select x) from t where a <= x loop raise notice '% % %', r, r.x, row_to_json(r); end loop; for r in select x::text, case when true then 1 else x end from t where a = 1 loop raise notice '%', row_to_json(r); end loop; end`,
	`declare s small; begin s := 5; raise notice '%', s; s := 50; end`,
	`declare s full_text; begin end`,
	`declare s full_text := 'a'; begin s := null; end`,
	`declare s short; begin s := 'abcd'; end`,
	`declare m mood; begin m := 'happy'; raise notice '% %', m, m > 'sad'; m := 'angry'; end`,
	`declare x t.a%type; y x%type; z u.v%type; begin x := 3.7; y := x; z := 'toolong'; end`,
	`declare x nosuch; begin end`,
	`declare x t.zz%type; begin end`,
	`declare x nosuch%rowtype; begin end`,
	`declare n int := 4; s text := 'a'; begin call bump(n, s); raise notice '% %', n, s; call half(n, s); raise notice '%', s; end`,
	`declare s text; begin call bump(1, s); end`,
	`begin perform noisy(a) from t order by a; perform noisy(7); end`,
	`declare c scroll cursor for select * from t order by a; x int; begin for r in c loop raise notice '%', r.a; fetch c into x; raise notice '% %', x, found; end loop; raise notice '%', found; end`,
	`declare c scroll cursor for select * from t order by a; begin for r in c loop raise notice '%', r.a; close c; end loop; end`,
	`declare c scroll cursor for select * from t order by a; begin for r in c loop raise notice '%', r.a; begin close c; exception when others then raise notice '%', sqlerrm; end; move forward 1 from c; end loop; raise notice '%', found; close c; end`,
	`declare c scroll cursor for select * from t where false; begin for r in c loop fetch c into r; end loop; raise notice '%', found; end`,
	`declare r record; p pair := (1, 'p'); begin r := p; r := array[1, 2]; end`,
	`declare r record; p pair := (1, 'p'); begin r := p; r := '(3,w)'; raise notice '% %', r, r.y; r := 5; end`,
	`declare r record; p pair; begin p.x := 1; r := p; r := '(4,w)'; raise notice '%', r; select 1 as a into r; r := '(4,w)'; end`,
	`declare a int[]; begin a[null] := '{5,6}'; end`,
	`declare a int[]; begin a[1/0] := 'x'; end`,
	`declare a int[]; begin a[nosuch] := 'x'; end`,
	`declare l int[]; b int; begin l[null] := (select count(*) from t where b = 'x'); end`,
	`declare l int[]; begin l[nosuch] := other + 1; end`,
	`declare l int[]; begin l[null] := 1 + 1; end`,
	`declare s small; begin s := (select sum(a) * 10 from t); end`,
	`declare i int; begin i := (select b from t where a = 1); end`,
	`declare i int; k int := 1; begin i := (select b from t where a = k); end`,
	`declare i int not null := 1; begin i := (select null::int from t limit 1); end`,
	`declare v varchar(2); begin v := (select b from t where a = 1); end`,
	`declare a int[]; begin a[1] := (select b from t where a = 1); end`,
	`declare r record; begin select 1 as x into r; r.x := (select b from t where t.a = 1); end`,
	`declare x int; begin x := failing(0); end`,
	`begin if failing(0) > 1 then end if; end`,
	`declare x int := 0; begin x := failing(x); end`,
	`declare x int; begin x := noisy(3) + noisy(4); raise notice '%', x; end`,
	`declare d date := '2020-02-28'; i interval := '1 day'; ts timestamptz; begin d := d + i; raise notice '% %', d, i * 2; ts := d; raise notice '%', ts; d := 'not a date'; end`,
	`declare f float8 := 0.1; begin f := f + 0.2; raise notice '%', f; f := 'nan'; raise notice '%', f; end`,
	`declare j jsonb := '{"a": [1, 2]}'; begin raise notice '% %', j->'a'->>1, j; j := jsonb_set(j, '{b}', '1'); raise notice '%', j; end`,
	`declare b bytea := '\x00ff'; begin raise notice '% %', b, length(b); end`,
	`declare x int := 1; begin create temp table tmp as select x as n, 'v'::text as w; perform * from tmp where n = x; raise notice '%', found; drop table tmp; end`,
	`declare x alias for found; begin perform 1; raise notice '%', x; end`,
	`declare "Odd Name" int := 1; begin "Odd Name" := "Odd Name" + 1; raise notice '%', "Odd Name"; end`,
	`declare x int; begin x := (select a from t); end`,
	`declare x int; begin x := a from t where a = 2; raise notice '%', x; end`,
	`declare x int; begin x := (select count(*) from t where b is null); raise notice '%', x; if exists (select from t where a = x) then raise notice 'yes'; elsif x = 1 then raise notice 'two'; else raise notice 'three'; end if; end`,
	`declare r record; begin with w as (insert into u values (8, 'w') returning *) select * into r from w; raise notice '%', r; end`,
	`begin null; end`,
	`declare r record; begin select null::int as a, null::text as b into r; raise notice '% % %', r::text, row_to_json(r), r; end`,
	`begin return; raise notice 'no'; end`,
	`begin retrun; end`,
	`begin if true then raise notice 'x' end if; end`,
	`declare x int; begin x = 5; raise notice '%', x; end`,
	`declare x int := 3; begin perform generate_series(1, x); raise notice '%', found; end`,
	`declare a text; begin select v into a from u where id = 1; raise notice '%', a; select upper(a) into a; raise notice '%', a; end`,
	`declare n int := 2; r record; begin for r in select a from t order by a limit n offset n - 1 loop raise notice '%', r.a; end loop; end`,
	`declare x int[] := array[1,2,3]; y int; begin y := x[2]; raise notice '% %', y, x[1:2]; raise notice '%', 2 = any(x); end`,
	`begin <<l>> loop exit l; end loop; exit q; end`,
	`begin raise exception no_such_condition; end`,
	`begin begin perform 1; exception when no_such then null; end; end`,
	`declare x text := 'é'; r record; begin select 'ü' as u, x as y into r from t where b = 'one' or b = x; raise notice '%', r; end`,
	`declare r record; begin select a as dup, a as dup into r from t where a = 1; raise notice '% %', r, r.dup; end`,
	`declare x int := 5; begin declare y int := x * 2; x int := y; begin raise notice '% %', x, y; end; end`,
	`declare x int; begin for i in 1..2 loop declare k int := i; l int; begin raise notice '% %', k, l; l := 1; end; end loop; end`,
	`declare x int; begin begin x := 1; insert into u values (20, 'a'); x := 1/0; exception when others then raise notice 'x is %', x; end; end`,
}

func dollar(body string) string { return "$body$" + body + "$body$" }

// refused reports whether Run does not run a program.
func refused(o outcome) bool { return strings.HasPrefix(o.err, "0A000 weft does not run") }

func TestBlocks(t *testing.T) {
	c := connect(t)
	if err := c.simple(tables); err != nil {
		t.Fatal(err)
	}
	cache := NewCache()
	for i, b := range blocks {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			do := "DO " + dollar(b)
			want := c.native(do, "")
			c.portals = 0
			got := c.ours(t.Context(), do, nil, cache)
			if refused(got) {
				t.Errorf("%s\nrefused: %s", b, got.err)
				return
			}
			if strings.Contains(want.context, "compilation of") || strings.HasPrefix(want.context, "invalid type name") || want.context == "" {
				want.context, got.context = "", ""
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s\ngot\n%s\nwant\n%s", b, got, want)
			}
		})
	}
}
