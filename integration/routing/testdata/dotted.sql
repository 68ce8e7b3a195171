# Fields of rows that are calls: r.total is total(r) where r has no such column.
@setup
create type addr as (street text, city text, count int);
create table t (k int not null, id int, v text, a addr, primary key (k, id));
create table r (id int primary key, name text);
create table h (id int primary key, x text);
create function total(t) returns bigint language sql stable as 'select count(*) from t where id <> $1.id';
create function shown(t) returns text language sql immutable as 'select $1.v || $1.k';
create function many(t) returns setof int language sql immutable as 'select generate_series(1, 2)';
create function ofh(h) returns bigint language sql stable as 'select count(*) from t';
create function ofa(addr) returns bigint language sql stable as 'select count(*) from t';
create function hcount(r) returns bigint language sql stable as 'select count(*) from h';

@weft
select weft.shard_table('t', 'k');
select weft.reference_table('r');

@data
truncate t, r, h;
insert into t select i % 20, i, 'v' || i, row('s' || i, 'c' || i % 3, i)::addr from generate_series(1, 100) i;
insert into r select i, 'r' || i from generate_series(1, 10) i;
insert into h select i, 'h' || i from generate_series(1, 10) i;

@maybe
select t.count from t;
select (t).count from t;
select t.json_agg from t where k = 3;
select x.count from (select * from t) x;
select t.total from t where k = 3 order by 1;
select t.many from t order by 1 limit 5;
select h.ofh from h order by 1;
select (h).ofh from h order by 1;
select (select h.ofh) from h order by 1;
select (t.a).ofa from t where k = 3;
select (a).ofa from t where k = 3;
select t.id from t order by t.total, t.id;
update t set v = t.total::text where k = 3;
update h set x = h.ofh;
delete from t using h where h.id = t.k and h.ofh > 3;
insert into t select h.id, h.ofh from h;
select id from t where public.t.total > 3 order by 1;
with x as (select h.ofh from h) select count(*) from x;
select k(t), id(t) from t where k(t) = 3 order by 2;
select count(v(t)) from t;

@route
select id, t.shown from t order by id;
select id, (t).shown from t order by 2;
select id from t where t.shown = 'v33' order by 1;
select (t.a).city, count(*) from t group by 1 order by 1;
select (a).count from t order by 1 limit 3;
select sum((t.a).count) from t;
select ((t).a).city from t order by 1 limit 4;
select r.hcount from r order by 1;
update t set v = t.shown where k = 3;
insert into h select 1000 + t.id, t.shown from t where k = 4;

@tables
