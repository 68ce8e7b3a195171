# A temporary table is on the home shard: what sharded tables hold is lent to it.
@include shop

@route
create temporary table scratch (id int, nm varchar(8), x numeric(6,1) default 7);
insert into scratch (id, nm) select id, left(name, 8) from customers where id = 3 returning id, nm, x;
insert into scratch (id, nm) select id, left(name, 8) from customers order by id limit 3;
insert into scratch (id, nm, x) select c.id, s.key, 1 from customers c join settings s on length(s.key) > c.id;
insert into scratch (id, nm) select c.id, t.nm from customers c join scratch t on t.id = c.id and c.id < 3;
insert into scratch (id, nm) values ((select count(*) from orders), (select left(max(name), 8) from customers)), (1, 'x') returning id, nm;
insert into scratch (id, nm) select id, null from customers where id < 3;
insert into scratch (id, x) select id, $1 from orders where customer_id > $2 returning x;
  -- numeric:1.26 | int8:5
  -- numeric:NULL | int8:7
with w as (select id, name from customers where id > 5) insert into scratch (id, nm) select id, 'w' from w returning nm;
insert into scratch (id) select id from customers union all select length(key) from settings;
select id, nm, x from scratch order by id, nm, x;
update scratch set nm = left(c.name, 3) from customers c where c.id = scratch.id;
update customers set name = t.nm from scratch t where t.id = customers.id and t.nm is not null and t.x = 1;
delete from scratch where id in (select customer_id from orders);
select id, nm, x from scratch order by id, nm, x;

@error
insert into scratch (id, nm) select id, 'too long a string' from customers where id < 3;
insert into scratch (id) select 'abc' from customers;

@tables

# PostgreSQL makes a view temporary that reads a temporary table: it is on one shard alone.
@maybe
create view scratched as select c.id, s.nm from customers c join scratch s on s.id = c.id;
select count(*) from scratched;
