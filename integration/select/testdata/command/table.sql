create table t1 as select id, s, x, f from a where n > 1
select * from t1 order by id
insert into t1 (id) values (1000)
select count(*) from t1 join a using (id)
create table t1 as select id from a
create table if not exists t1 as select id from a
drop table t1

create table t2 (a, b, c) as select b.s, b.c, b.w from b where id < 20
select column_name, data_type, character_maximum_length, domain_name from information_schema.columns where table_name = 't2' order by ordinal_position
select * from t2 order by a, b, c
drop table t2

create table t3 as select max(u.s) as m, u.s as s, u.code as code, x, x * 2 as y, u.s || 'x' as z from u group by 2, 3, 4, 5
select attname, format_type(atttypid, atttypmod), c.collname from pg_attribute a left join pg_collation c on c.oid = a.attcollation where attrelid = 't3'::regclass and attnum > 0 order by attnum
select * from t3 order by s collate "C", code, x
drop table t3

create table t4 as select u.s || v.code as clash from u join w on u.id = w.id join u v on v.id = u.id
create table t4 as select u.s || u.code as clash from u
select 1

create temp table t5 on commit drop as select * from a
select count(*) from t5

begin
create temp table t5 on commit drop as select * from a where k = 1
select count(*), sum(id) from t5
select count(*) from t5 join b on b.id = t5.id
commit
select count(*) from t5

create temp table t6 on commit delete rows as select id from a
select count(*) from t6
drop table t6

create temp table t6 as select id, e, w from b
select count(*), max(e), min(w) from t6
insert into t6 values (99)
select count(*) from t6
drop table t6

create unlogged table t7 with (fillfactor = 70) as select k, count(*) as n from a group by k with data
select relpersistence, reloptions from pg_class where relname = 't7'
select * from t7 order by k
drop table t7

create table t8 as select id, x from a with no data
select count(*) from t8
select attname, format_type(atttypid, atttypmod) from pg_attribute where attrelid = 't8'::regclass and attnum > 0 order by attnum
drop table t8

select id, n into t9 from a where id < 10
select * from t9 order by id
drop table t9

select id into t9 from a where id < 4 union all select id from b where id < 3
select * from t9 order by id
drop table t9

select id into temp t9 from a where k = 1
select count(*) from t9
drop table t9

create table t10 as select * from a where id > $1 -- int4:40
select count(*), min(id) from t10
drop table t10

create table t11 as select id, id from a
create table t11 (x) as select id, 1 from a
drop table t11
create table t11 (x, y, z) as select id, 1 from a
create table t11 as select nothing from a
create table t11 as select 1 / (id - 5) as x from a
create table a as select id from a
create table nowhere.t11 as select id from a
select count(*) from pg_class where relname = 't11'

begin
create table t12 as select a.id, h.s from a join h on a.k = h.k
select count(*) from t12
insert into t12 values (1, 'x')
rollback
select count(*) from t12

begin
savepoint s
create table t13 as select id from a
rollback to s
create table t13 as select n from b
commit
select count(*), count(n) from t13
drop table t13

create table t14 as select from a where id < 5
select count(*) from t14
drop table t14

create table t15 as select id, e, o, l, g, j from b natural join c where false
select attname, format_type(atttypid, atttypmod) from pg_attribute where attrelid = 't15'::regclass and attnum > 0 order by attnum
drop table t15

create table t16 as table r
select count(*) from t16
drop table t16

create table t17 as values (1, 'a')
drop table t17

create table t18 as with x as (select k, sum(n) as s from a group by k) select * from x where s > 3 order by k
table t18
drop table t18
