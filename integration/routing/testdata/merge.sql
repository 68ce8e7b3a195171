# MERGE into a sharded table.
@include shop

@setup
create table stock (item bigint primary key, qty int not null, note text, changed date default '2024-01-01');
create table deltas (item bigint primary key, d int, why text);
create table news (id bigint, k text, v int);

@weft
select weft.shard_table('stock', 'item');
select weft.shard_table('deltas', 'item');

@data
truncate stock;
truncate deltas;
truncate news;
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
