package main

// question is a query with the arguments it is asked with. Its order is complete, so that its answer is one.
type question struct {
	name string
	sql  string
	args []any
}

// questions are what a shop wants to know. Those of one customer concern one shard, the others all.
var questions = []question{
	{"customer", `select id, name, mood::text, balance::text, vip from customers where id = $1`, []any{7}},
	{"nobody", `select id, name from customers where id = $1`, []any{-1}},
	{"customers in", `select id, name from customers where id = any($1) order by id`, []any{[]int64{3, 1, 33, 999}}},
	{"customer with orders", `select c.name, o.id, o.status from customers c join orders o on o.customer_id = c.id where c.id = $1 order by o.id`, []any{5}},
	{"order with items", `select o.id, i.line, p.name, (i.quantity * p.price)::text from orders o
		join items i on i.customer_id = o.customer_id and i.order_id = o.id join products p on p.id = i.product_id
		where o.customer_id = $1 and o.id = $2 order by i.line`, []any{6, 5}},
	{"user by email", `select id, customer_id, ref::text from users where email = $1`, []any{"user17@example.com"}},
	{"users by emails", `select id from users where email in ($1, $2, $3) order by id`, []any{"user1@example.com", "user40@example.com", "nobody"}},
	{"page by offset", `select id, name from customers order by id limit $1 offset $2`, []any{5, 10}},
	{"page by key", `select customer_id, id from orders where (placed, id) > ($1, $2) order by placed, id limit 7`, []any{"2024-02-03 00:00:00+00", 50}},
	{"last page", `select id, count(*) over () from customers order by id desc limit 3`, nil},
	{"counts", `select count(*), count(distinct status), min(id), max(id) from orders`, nil},
	{"per status", `select status, count(*), sum(customer_id)::text, round(avg(id), 3)::text from orders group by status having count(*) > $1 order by status`, []any{1}},
	{"spending", `select customer_id, sum(amount)::text from spending group by customer_id order by 2 desc, 1 limit 5`, nil},
	{"best products", `select p.name, sum(i.quantity) from items i join products p on p.id = i.product_id group by p.name order by 2 desc, 1 limit 4`, nil},
	{"without orders", `select c.id from customers c where not exists (select 1 from orders o where o.customer_id = c.id and o.status = $1) order by c.id`, []any{"paid"}},
	{"rank", `select id, rank() over (partition by mood order by balance desc) from customers order by 2, 1 limit 6`, nil},
	{"with", `with big as (select customer_id, count(*) n from orders group by customer_id) select n, count(*) from big group by n order by n`, nil},
	{"left join", `select c.id, u.email from customers c left join users u on u.customer_id = c.id and u.id > $1 where c.id between 18 and 22 order by c.id`, []any{20}},
	{"union", `select 'c' as k, name from customers where id < 3 union all select 'p', name from products where id < 3 order by 1, 2`, nil},
	{"json", `select id, note->>'gift' from orders where note @> $1 order by id limit 5`, []any{`{"gift": true}`}},
	{"arrays", `select tag, count(*) from customers, unnest(tags) tag group by tag order by tag`, nil},
	{"composite", `select id, (home).city from customers where (home).zip > $1 order by id`, []any{1036}},
	{"lateral", `select c.id, l.id from customers c, lateral (select o.id from orders o where o.customer_id = c.id order by o.id desc limit 1) l where c.id < 5 order by c.id`, nil},
	{"no table", `select $1::int + 1, current_setting('server_encoding')`, []any{41}},
}

// blunder is a statement that fails, and how.
type blunder struct {
	name string
	sql  string
	code string
}

var blunders = []blunder{
	{"duplicate key", `insert into customers (id, name) values (1, 'again')`, "23505"},
	{"duplicate email", `insert into users (email, customer_id) values ('user3@example.com', 9)`, "23505"},
	{"duplicate product", `insert into products values (1, 'x', 'x', 1)`, "23505"},
	{"no customer", `insert into orders (customer_id, placed) values (4711, now())`, "23503"},
	{"no product", `insert into items values (2, 1, 9, 4711, 1)`, "23503"},
	{"used product", `delete from products where id = 3`, "23503"},
	{"no name", `insert into customers (id, name) values (4711, null)`, "23502"},
	{"empty name", `insert into customers (id, name) values (4711, '')`, "23514"},
	{"no such table", `select * from nosuch`, "42P01"},
	{"no such column", `select nosuch from customers`, "42703"},
	{"no such function", `select nosuch(1)`, "42883"},
	{"syntax", `select from where`, "42601"},
	{"not a number", `select 'x'::int`, "22P02"},
	{"by zero", `select id / 0 from customers`, "22012"},
	{"no enum", `select id from customers where mood = 'angry'`, "22P02"},
	{"too large", `insert into customers (name, balance) values ('rich', 99999999999)`, "22003"},
	{"too long", `insert into kinds (id, vc) values (99, 'longer than ten')`, "22001"},
	{"several rows", `select (select id from customers)`, "21000"},
	{"raised", `do $$ begin raise exception 'custom' using errcode = 'WF001', detail = 'd', hint = 'h', constraint = 'c', table = 't'; end $$`, "WF001"},
}
