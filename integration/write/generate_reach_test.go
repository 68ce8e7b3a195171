package writes

// Statements that run functions without naming them: by operators, domains, defaults,
// checks and triggers; and functions over sharded tables. weft answers as PostgreSQL does,
// or refuses them.

// reaching are the objects for that. What reads a sharded table is refused wherever it
// would run, what reads a reference table is right everywhere.
var reaching = []string{
	`create function n_orders(c int) returns bigint stable language sql as $$ select count(*) from orders where customer_id = c $$`,
	`create function n_products() returns bigint stable language sql as $$ select count(*) from products $$`,
	`create function n_logged() returns bigint stable language sql as $$ select count(*) from log $$`,
	`create function below(a int, b int) returns bool stable language plpgsql as $$ begin return a < b + (select min(id) from products) * 0; end $$`,
	`create function ordered(a int, b int) returns bool stable language plpgsql as $$ begin return n_orders(a) < b; end $$`,
	`create operator <%% (function = below, leftarg = int, rightarg = int)`,
	`create operator <%%% (function = ordered, leftarg = int, rightarg = int)`,
	`create domain score as int check (below(value, 40))`,
	`create table ruled (owner int, id int, a score, b bigint default n_products(), c int check (below(c, 30)), primary key (owner, id))`,
	`create table ruled_log (owner int not null, id int, op text)`,
	`create table homely (id int, a score, b bigint default n_orders(1), c bigint default n_logged())`,
	`create function note_ruled() returns trigger language plpgsql as $$ declare o int := coalesce(new.owner, old.owner); begin
		insert into ruled_log values (o, coalesce(new.id, old.id), tg_op); return null; end $$`,
}

// ruling comes after the declarations.
var ruling = []string{
	`create trigger note after insert or update or delete on ruled for each row execute function note_ruled()`,
}

func (g *generator) reach() string {
	return g.oneOf(
		func() string {
			return "insert into ruled (owner, id, a, c) values " + g.rows(func() string {
				return g.number(12) + ", " + g.number(9) + ", " + g.number(41) + ", " + pick(g, []string{"null", g.number(30)})
			}) + pick(g, []string{"", " on conflict do nothing", " on conflict (owner, id) do update set a = excluded.a"}) + g.returning("owner, b", "a")
		},
		func() string {
			return "insert into ruled values (" + g.number(12) + ", " + g.number(9) + ", " + g.number(40) + ", " + pick(g, []string{"default", g.number(5)}) + ", null)" + g.returning("b")
		},
		func() string {
			return "update ruled set " + pick(g, []string{"a = a + 1", "c = " + g.number(31), "b = default"}) + pick(g, []string{"", " where owner = " + g.number(12), " where a <%% " + g.number(40), " where owner <%%% " + g.number(3)})
		},
		func() string {
			return "delete from ruled where " + pick(g, []string{"owner = " + g.number(12), "id <%% " + g.number(4), "b > " + g.number(9)}) + g.returning("owner")
		},
		func() string {
			return "insert into homely (id, a" + pick(g, []string{") values (", ", b) values (" + g.number(9) + ", "}) + g.number(41) + ", " + g.number(9) + ")"
		},
		func() string {
			return "update homely set " + pick(g, []string{"a = " + g.number(41), "b = default", "c = default"}) + " where id <%% " + g.number(9)
		},
		func() string {
			return "select count(*), sum(a) from " + pick(g, []string{"ruled where id <%% ", "ruled where owner <%%% ", "homely where id <%% ", "homely where id <%%% "}) + g.number(9)
		},
		func() string {
			return "select owner, op, count(*) from ruled_log where owner " + pick(g, []string{"= ", "<%% "}) + g.number(12) + " group by owner, op order by owner, op"
		},
		func() string {
			return "select " + pick(g, []string{"n_orders(3)", "n_products()", "n_logged()", "41::score", "7::score + n_products()"})
		},
		func() string {
			return "insert into ruled select owner + 20, id, a from ruled where a <%% " + g.number(20)
		},
	)
}
