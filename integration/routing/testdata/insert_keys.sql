# Shard keys that PostgreSQL has to evaluate.
@setup
create table k_text (k text, v int);
create table k_char (k char(6), v int);
create table k_varchar (k varchar(6), v int);
create table k_num (k numeric(8,2), v text);
create table k_date (k date default current_date, v text);
create table k_int (k int default 7 * 6, v text, r float8 default random());
create sequence counter;
create table k_seq (k bigint default nextval('counter') * 10, v text);
create function twice(i int) returns int language sql immutable as 'select i * 2';
create function later(i int) returns int language plpgsql volatile as $$ begin return i + 1; end $$;
create table k_func (k int default twice(21), v text);
create table k_multi (a int, b text, v text);
create table home (n int, name text);
create domain positive as int check (value > 0);
create table k_domain (k positive, v text);
create type mood as enum ('sad', 'ok', 'happy');
create type point2 as (x int, y int);
create table typed (k int primary key, m mood, p point2, tags text[], j jsonb, b bytea, i interval, nums int[], f float8, dom positive, c char(5), vc varchar(4));
create table part (k int, day date, v text) partition by range (day);
create table part_a partition of part for values from ('2024-01-01') to ('2024-07-01');
create table part_b partition of part for values from ('2024-07-01') to ('2025-01-01');

@weft
select weft.shard_table('k_text', 'k');
select weft.shard_table('k_char', 'k');
select weft.shard_table('k_varchar', 'k');
select weft.shard_table('k_num', 'k');
select weft.shard_table('k_date', 'k');
select weft.shard_table('k_int', 'k');
select weft.shard_table('k_seq', 'k');
select weft.shard_table('k_func', 'k');
select weft.shard_table('k_domain', 'k');
select weft.shard_table('k_multi', 'a');
select weft.shard_table('typed', 'k');
select weft.shard_table('part', 'k');

@data
truncate k_text, k_char, k_varchar, k_num, k_date, k_int, k_seq, k_func, k_multi, k_domain, typed, part;
truncate home;
select setval('counter', 100);
insert into home values (1, 'one'), (2, 'two'), (3, 'three');

@mask r
@route
insert into k_func (v) values ('a'), ('b') returning v;
insert into k_seq (v) values ('a'), ('b'), ('c');
insert into k_seq (v) select 'sel' from generate_series(1, 3);
select k, v from k_seq order by k;
insert into k_int (v) values ('a'), ('b') returning k, v;
insert into k_int (k, v) values (1 + 1, 'a'), (abs(-3), 'b'), (length('four'), 'c'), ('5'::int, 'd'), (6.4, 'e'), (twice(7), 'f'), (later(8), 'g') returning k, v;
insert into k_int (k, v) values ((select 10), 'a'), ((select max(n) from home), 'b'), ((select count(*) from k_int), 'c'), (1, (select name from home where n = 2)) returning k, v;
insert into k_int (k, v) values ($1::int + 1, 'a'), (abs($1), $2), (twice($3), lower($2)), ($3, $2) returning k, v;
  -- int4:20 | text:Abc | int4:30
  -- int4:-21 | text:NULL | int4:31
  -- int4:22 | text:Ü | int4:NULL
insert into k_text (k, v) values (lower('ABC'), 1), (upper($1), 2), ($1 || '!', 3), (concat($1, $1), 4), (md5('x'), 5), ('Straße', 6) returning *;
  -- text:key
  -- text:schlüssel
insert into k_text values (null, 1), ('', 2), (123, 3), (1.50, 4), (true, 5) returning *;
insert into k_char values ('ab', 1), ('ab   ', 2), (lower('AB') || '  ', 3), ('abcdef', 4) returning *;
insert into k_varchar values ('ab', 1), ('ab         ', 2), (lower('AB'), 3), ('abcdef', 4), (12, 5) returning *, length(k);
insert into k_num values (1.005, 'a'), (1.01, 'b'), (1, 'c'), ('1.0049', 'd'), (2 / 3.0, 'e'), (1e3, 'f') returning *;
insert into k_num select n / 3.0, 'sel' from home order by n returning *;
insert into k_text select n, n from home order by n returning *;
insert into k_varchar select name || '    ', n from home where length(name) < 6 order by n returning *, length(k);
insert into k_int (k, v) select n / 2.0, name from home order by n returning k, v;
insert into k_int (k, v) select n, name from home order by n returning k, v;
insert into k_domain values (1, 'a'), (1 + 1, 'b'), (abs($1), 'c') returning *;
  -- int4:-3
insert into k_multi values (1, 'x', 'a'), (2, 'y', 'b'), (3, lower('Z'), 'c') returning *;
insert into part values (1, '2024-02-01', 'a'), (2, '2024-08-01', 'b'), (3, '2024-02-01', 'c'), (4, '2024-12-31', 'd') returning *;
insert into part select k + 10, day, v from part;
insert into part select k + 1, day, v from part order by 1 returning *;
insert into part_a values (21, '2024-03-01', 'a'), (22, '2024-03-01', 'b'), (23, '2024-03-01', 'c');
select k, v from k_int order by k, v;

# Values of all kinds go as they are.
insert into typed values
  (1, 'sad', row(1, 2), '{a,b}', '{"a": [1, null]}', '\x0102', '1 day 2 hours', '{1,2,null}', 1.5, 1, 'ab', 'cd'),
  (2, 'ok', '(3,4)', array['x','y'], null, null, interval '3 mon', array[[1,2],[3,4]], 'NaN', 2, 'c', 'd'),
  (3, null, null, null, 'true', '', null, '{}', '-Infinity', null, null, null) returning *;
insert into typed (k, m, p, tags, nums, f) values ($1, $2, $3, $4, $5, $6), ($7, $2, $3, $4, $5, $6) returning *;
  -- int4:11 | unknown:happy | unknown:(5,6) | text[]:{q,r} | int4[]:{7,8} | float8:2.5 | int4:12
  -- int4:13 | unknown:NULL | unknown:NULL | text[]:NULL | int4[]:{} | float8:NULL | int4:14
insert into typed (k, m, p, tags, j, b, i, nums, f, dom, c, vc) select k + 100, m, p, tags, j, b, i, nums, f, dom, c, vc from typed order by k returning *;
insert into typed (k, m) values ((select 200), (select m from typed where k = 1)), (201, (select 'ok'::mood)), (202, 'sad') returning k, m;
insert into typed (k, m) select k + 300, 'happy' from typed where k < 5 order by k returning k, m;
insert into typed (k, p) select k + 400, row(k, k)::point2 from typed where k < 5 order by k returning k, p;
@tables

@error
insert into k_int (k, v) values (1/0, 'a'), (2, 'b');
insert into k_int (k, v) values (twice(2147483647), 'a'), (2, 'b');
insert into k_int (k, v) values ('x' || 'y', 'a'), (2, 'b');
insert into k_int (k, v) values (99999999999, 'a'), (2, 'b');
insert into k_domain values (1 - 1, 'a'), (2, 'b');
insert into k_varchar values ('abcdefg', 1), ('b', 2);
insert into k_varchar values (lower('ABCDEFG'), 1), ('b', 2);
insert into k_varchar select name || 'xxxxxx', n from home;
insert into k_num values (99999999, 'a'), (1, 'b');
insert into k_int (k, v) values ((select n from home), 'a'), (2, 'b');
insert into k_date values ('nosuch', 'a'), ('2024-01-01', 'b');
insert into part values (1, '2024-02-01', 'a'), (2, '2026-08-01', 'b'), (3, '2024-02-01', 'c');
insert into part_a values (21, '2024-03-01', 'a'), (22, '2024-09-01', 'b');
insert into typed (k, m) values (501, 'sad'), (502, 'nosuch');
insert into typed (k, vc) values (501, 'abcd'), (502, 'abcde'), (503, 'a');
insert into typed (k, vc) select k + 500, 'abcde' from typed;
insert into typed (k, m) values (501, 'sad'), (1, 'sad'), (502, 'ok');
@tables
