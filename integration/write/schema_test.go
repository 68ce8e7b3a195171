package writes

// schema has a table of each kind: colocated ones with foreign keys that cascade,
// one with another key, one with partitions, a reference table, a home table; and views of them.
var schema = []string{
	`create table customers (id int primary key, name text not null, region text default 'eu',
		credit numeric(12,2) not null default 0 check (credit >= -500), at timestamptz)`,
	`create table orders (customer_id int references customers on delete cascade, id int, status text default 'new' check (status <> 'bad'),
		total numeric(12,2), note text, primary key (customer_id, id))`,
	`create table items (customer_id int, order_id int, line int, product_id int, qty int check (qty > 0),
		price numeric(12,2), worth numeric generated always as (qty * price) stored,
		primary key (customer_id, order_id, line), foreign key (customer_id, order_id) references orders on delete cascade)`,
	`create table events (key text, n int, body jsonb, tags text[], primary key (key, n))`,
	`create table totals (customer_id int primary key, n int not null default 0, sum numeric)`,
	`create table readings (sensor int, day date, v int, primary key (sensor, day)) partition by range (day)`,
	`create table readings_old partition of readings for values from (minvalue) to ('2026-06-01')`,
	`create table readings_new partition of readings for values from ('2026-06-01') to (maxvalue)`,
	`create table products (id int primary key, name text unique, price numeric(12,2), stock int check (stock >= 0))`,
	`create table members (id int primary key, email text unique, team int, handle varchar(12), n int not null default 0 check (n < 1000), unique (team, handle))`,
	`create table seats (team int, code text unique, n int)`,
	`create table log (id int primary key, what text, amount numeric)`,
	`create view rich as select name as who, id as number, credit, upper(name) as shouted from customers where credit > 50`,
	`create view richest as select number, credit from rich where credit > 150 with cascaded check option`,
	`create view open_orders as select o.id, o.customer_id as customer, o.status, o.total from orders o where o.status <> 'sent' with check option`,
	`create view keyed as select * from events where n < 100`,
	`create view measured as select sensor, day, v from readings where v > 2`,
	`create view dear as select price, id, stock from products where price > 3`,
	`create view logged as select id as n, what from log where id < 2000 with check option`,
}

var declarations = []string{
	`select weft.reference_table('products')`,
	`select weft.shard_table('customers', 'id')`,
	`select weft.shard_table('orders', 'customer_id')`,
	`select weft.shard_table('items', 'customer_id')`,
	`select weft.shard_table('totals', 'customer_id')`,
	`select weft.shard_table('events', 'key')`,
	`select weft.shard_table('readings', 'sensor')`,
	`select weft.shard_table('members', 'id')`,
	`select weft.shard_table('seats', 'team')`,
}

// data is what a history begins with.
var data = []string{
	`insert into products select i, 'product ' || i, i * 1.5, i * 10 from generate_series(1, 8) i`,
	`insert into customers (id, name, region, credit) select i, 'c' || i, (array['eu', 'us', 'asia', null])[1 + i % 4], i * 10 from generate_series(1, 20) i`,
	`insert into orders select 1 + i % 20, i, (array['new', 'paid', 'sent'])[1 + i % 3], i * 2.5, null from generate_series(1, 40) i`,
	`insert into items (customer_id, order_id, line, product_id, qty, price) select 1 + i % 20, i, 1, 1 + i % 8, 1 + i % 5, i from generate_series(1, 40) i`,
	`insert into events select (array['a', 'b', 'c', 'd', 'e', 'f'])[1 + i % 6], i, jsonb_build_object('i', i), array['t' || i % 3] from generate_series(1, 24) i`,
	`insert into totals select i, 0, null from generate_series(1, 10) i`,
	`insert into readings select i % 7, date '2026-05-20' + i, i from generate_series(1, 30) i`,
	`insert into members select i, 'm' || i, i % 4, 'h' || i, i from generate_series(1, 20) i`,
	`insert into seats select i % 5, 's' || i, i from generate_series(1, 25) i`,
	`insert into log select i, 'l' || i, i from generate_series(1, 10) i`,
}
