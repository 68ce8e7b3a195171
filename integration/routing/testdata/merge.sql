# MERGE into a sharded table.
@include shop

@setup
create table stock (item bigint primary key, qty int not null, note text, changed date default '2024-01-01');
create table deltas (item bigint primary key, d int, why text);
create table news (id bigint, k text, v int);
create table tickets (id bigserial, item bigint not null, note text, n serial, primary key (item, id));
create table passes (id bigint generated always as identity, item bigint not null, note text, primary key (item, id));
create table routed (id bigserial primary key, item bigint not null, note text);

@weft
select weft.shard_table('stock', 'item');
select weft.shard_table('deltas', 'item');
select weft.shard_table('tickets', 'item');
select weft.shard_table('passes', 'item');
select weft.shard_table('routed', 'item', ids => 'routed');

@data
truncate stock;
truncate deltas;
truncate news;
truncate tickets, passes, routed;
insert into stock (item, qty, note) values (1, 10, 'a');
insert into stock (item, qty, note) values (2, 20, 'b');
insert into stock (item, qty, note) values (3, 30, null);
insert into stock (item, qty, note) values (4, 40, 'd');
insert into stock (item, qty, note) values (5, 50, 'e');
insert into deltas values (1, -10, 'sold');
insert into deltas values (2, 5, 'got');
insert into deltas values (6, 6, 'new');
insert into deltas values (7, 7, 'new');
insert into news values (3, 'c', 1), (4, 'd', null), (11, 'k', 11), (12, 'l', null);

@route
merge into stock s using (values (1::bigint, 5)) v (item, d) on s.item = v.item when matched then update set qty = s.qty + v.d when not matched then insert (item, qty) values (v.item, v.d);
merge into stock s using (values (1::bigint, 5), (7001, 6)) v (item, d) on s.item = v.item when matched then update set qty = qty + d when not matched then insert (item, qty) values (item, d);
merge into stock using (values (1::bigint, 5), (7002, 6)) v (x, d) on item = x when matched then update set qty = qty + d when not matched and d > 0 then insert (item, qty) values (x, d);
merge into stock s using deltas d on s.item = d.item when matched and s.qty + d.d <= 0 then delete when matched then update set qty = s.qty + d.d, note = d.why when not matched then insert (item, qty, note) values (d.item, d.d, d.why);
merge into stock s using news n on s.item = n.id when matched then update set note = n.k when not matched and n.v is not null then insert values (n.id, n.v, n.k, default) when not matched then do nothing;
merge into stock using (select id, count(*) as c from orders group by id having id < 104) o on stock.item = o.id when not matched then insert (item, qty) values (o.id, o.c);
merge into stock s using news n on s.item = n.id and n.v is null when matched then delete;
merge into stock s using products p on p.id = s.item when matched and p.price > 3 then update set note = p.name when matched then do nothing;
merge into stock s using news n on n.k = s.note when matched then update set qty = 0;
merge into stock s using (select item, d from deltas where why = 'new' union all select id, v from news where v is not null) x on s.item = x.item when matched then update set qty = x.d when not matched then insert (item, qty, note) values (x.item, x.d, 'union');
with w as (select 100::bigint as k, 1 as q union all select 101, 2) merge into stock s using w on s.item = w.k when not matched then insert (item, qty) values (w.k, w.q);
merge into stock s using (select $1::bigint as item, $2::int as q) v on s.item = v.item when matched then update set qty = v.q when not matched then insert (item, qty) values (v.item, v.q);
  -- int8:1 | int4:77
  -- int8:500 | int4:78
merge into settings t using customers c on t.key = c.name when not matched and c.id < 4 then insert values (c.name, c.region);
merge into stock s using deltas d on s.item = d.item when matched then do nothing;
begin;
merge into stock s using news n on s.item = n.id when matched then delete when not matched then insert (item, qty) values (n.id, 1);
select count(*), sum(qty) from stock;
rollback;
select * from stock order by item;

@error
merge into stock s using (values (2::bigint), (2::bigint)) v (item) on s.item = v.item when matched then update set qty = 1;
merge into stock s using deltas d on s.item = d.item when not matched then insert (item, qty) values (d.item, null) when matched then update set qty = null;
merge into stock s using deltas d on s.item = d.nosuch when matched then delete;

@tables

@maybe
merge into stock s using deltas d on s.item = d.item when matched then update set item = 5;
merge into stock s using deltas d on s.item = d.item when not matched then insert (item, qty) values (d.item + 1, 1);
merge into stock s using deltas d on s.qty = d.d when not matched then insert (item, qty) values (d.item, 1);

@tables

# Values of sequences come with the rows of the source.
@mask id n

@route
merge into tickets t using news n on t.item = n.id when not matched then insert (item, note) values (n.id, n.k);
merge into tickets t using (values (3::bigint, 'x'), (500, 'y'), (501, 'z')) v (k, w) on t.item = v.k when matched then update set note = v.w when not matched then insert values (default, v.k, v.w);
merge into tickets t using (values (600::bigint)) v (k) on t.item = v.k when not matched then insert (id, item, n) values (-1, v.k, default);
merge into tickets t using (values (601::bigint), (602)) v (k) on t.item = v.k when not matched and v.k = 601 then insert (item, note) values (v.k, 'one') when not matched then insert (id, item) values (-v.k, v.k);
select item, note, n is not null, id < 0, count(*) over (partition by id) from tickets order by item;
merge into passes t using news n on t.item = n.id when not matched then insert (item, note) values (n.id, n.k) when matched then delete;
merge into passes t using news n on t.item = n.id when not matched then insert overriding user value values (7, n.id, n.k) when matched then update set note = 'again';
merge into passes t using (values (700::bigint)) v (k) on t.item = v.k when not matched then insert (id, item) overriding system value values (77, v.k);
select item, note, id = 77, count(*) over (partition by id) from passes order by item;
merge into routed t using news n on t.item = n.id when not matched then insert (item, note) values (n.id, n.k);
select item, note, count(*) over (partition by id) from routed order by item;
select r.item from routed r where r.id = (select id from routed where item = 11);

@error
merge into passes t using (values (800::bigint)) v (k) on t.item = v.k when not matched then insert (id, item) values (78, v.k);

@tables
