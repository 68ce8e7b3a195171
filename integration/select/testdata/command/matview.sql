create materialized view mv1 as select k, count(*) as n, sum(x) as total, max(s) as top from a group by k
select * from mv1 order by k
select matviewname, ispopulated, definition from pg_matviews
create unique index mv1_k on mv1 (k)
insert into a (k, id, n, x, s) values (1, 5001, 1, 10, 'new')
insert into a (k, id, n, x, s) values (2, 5002, 1, 10, 'new')
select n from mv1 where k = 1
refresh materialized view mv1
select * from mv1 order by k
delete from a where k = 1 and id = 5001
delete from a where k = 2 and id = 5002
refresh materialized view concurrently mv1
select * from mv1 order by k
select a.id, mv1.total from a join mv1 on mv1.k = a.k where a.id < 10 order by 1
insert into mv1 values (1)
drop materialized view mv1
select count(*) from pg_matviews

create materialized view mv2 (a, b) with (fillfactor = 80) as select v.k, h.s from v_sum v join h on h.k = v.k join r on r.id = h.n with no data
select * from mv2
select ispopulated from pg_matviews
refresh materialized view mv2
select * from mv2 order by a, b
refresh materialized view mv2 with no data
select * from mv2
drop materialized view mv2

create materialized view mv3 as select b.e, b.c, b.w, c.o, c.l, u.s from b join c using (k) join u on u.k = b.k
select attname, format_type(atttypid, atttypmod), c.collname from pg_attribute a left join pg_collation c on c.oid = a.attcollation where attrelid = 'mv3'::regclass and attnum > 0 order by attnum
select count(*), count(e), min(w), max(s) from mv3
create materialized view mv3 as select 1 from a
create materialized view if not exists mv3 as select 1 from a
drop materialized view mv3

begin
create materialized view mv4 as select id, n from a where id > 5000 or id < 4
select count(*), min(id), max(n) from mv4
savepoint s
refresh materialized view mv4
rollback to s
select count(*), min(id), max(n) from mv4
rollback
select * from mv4

create materialized view mv5 as select id from a where k = 1
select count(*) from mv5
alter materialized view mv5 rename to mv6
refresh materialized view mv6
select count(*) from mv6
drop materialized view mv6

create materialized view mv7 as select nothing from a
create materialized view mv7 as select 1 / (id - 5) as x from a
create materialized view mv7 as select id from a where id > $1 -- int4:3
refresh materialized view mv7
refresh materialized view a
select count(*) from pg_matviews

create materialized view mv8 as select from e0
refresh materialized view mv8
drop materialized view mv8
