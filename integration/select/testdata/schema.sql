# What all scripts and the generator read. Nothing is written after this.
# a, b and c are colocated; q has the same numbers as int4, so it is not; u, w and p are sharded by
# other types; r and r2 are reference tables; h and h2 stay at home. Keys are skewed (1 and 2 have many rows), many
# values are NULL, e0 and the shard of weight 0 have no rows, hollow has no columns. Words are such that collations order them differently.
@setup
create type mood as enum ('sad', 'ok', 'happy');
create type spot as (x int4, y text);
create domain small as int4 check (value < 100);
create function word(i int8) returns text language sql immutable as
  $$select (array['apple', 'Apple', 'äpfel', 'zebra', 'Zebra', '_x', 'a b', 'ab', 'a-b', '', 'Ösk', '10', '9', 'ß', 'ss'])[1 + abs(i) % 15]$$;
create function key(i int8) returns int8 language sql immutable as
  $$select case when i % 5 = 0 then 1 when i % 7 = 0 then 2 else i % 23 - 2 end$$;
create function guid(i int8) returns uuid language sql immutable as $$select md5(i::text)::uuid$$;

create table a (k int8, id int4, n int4, x numeric(12,2), s text, b bool, d date, ts timestamptz, f float8);
insert into a select key(i), i, nullif(i * 7 % 11 - 3, 2), nullif((i * 37 % 101 - 20)::numeric / 4, 5), nullif(word(i * 3), 'ab'), (array[true, false, null])[1 + i * 5 % 3],
  date '2024-01-01' + (i * 13 % 40)::int4, timestamptz '2024-03-30 22:30:00+00' + (i * 17 % 50) * interval '25 minutes', nullif((i * 11 % 17)::float8 / 4, 1)
  from generate_series(1, 60) i;
create table b (k int8, id int4, a_id int4, n int4, s varchar(20), e mood, c char(4), j jsonb, w small);
insert into b select nullif(key(i + 1), 4), i, (i * 7 % 70), nullif(i * 5 % 13 - 4, 0), word(i), (array['sad', 'ok', 'happy', null])[1 + i * 3 % 4]::mood, (array['x', 'Y', 'xy', '', null])[1 + i % 5],
  case when i % 6 > 0 then jsonb_build_object('n', i % 9, 's', word(i * 2), 'l', jsonb_build_array(i % 3, i % 2)) end, nullif(i * 3 % 50, 6)
  from generate_series(1, 50) i;
create table c (k int8, id int4, n int8, x numeric(10,3), l int4[], z interval, y bytea, g int4range, o spot, t text[], primary key (k, id));
insert into c select key(i * 3), i, nullif(i * 9 % 14, 3), (i * 31 % 57)::numeric / 8, case when i % 4 > 0 then array[i % 3, null, i % 5]::int4[] end, (array['1 day', '2 days', '1 mon', '3 hours', null])[1 + i * 3 % 5]::interval,
  decode(lpad(to_hex(i * 23 % 200), 4, '0'), 'hex'), case when i % 3 > 0 then int4range((i % 7)::int4, (i % 7 + i % 5)::int4) end, case when i % 4 > 1 then row(i % 3, word(i))::spot end,
  array[word(i), word(i + 4)]
  from generate_series(1, 40) i;
create table u (code text, id int4, k int8, n int4, x numeric(12,2), s text collate "C");
insert into u select nullif(word(i), 'ss'), i, key(i), nullif(i % 8 - 2, 1), (i * 19 % 41)::numeric / 4, word(i * 7) from generate_series(1, 45) i;
create table w (g uuid, id int4, k int8, n int4, s text, f float8);
insert into w select guid(i % 19), i, nullif(key(i + 2), 1), i * 3 % 7, nullif(word(i), '10'), (i % 12)::float8 / 8 from generate_series(1, 35) i;
create table p (tenant int4, day date, id int4, n int4, x numeric(12,2), s text);
insert into p select i % 6, date '2024-01-01' + (i * 3 % 9)::int4, i, nullif(i * 11 % 10 - 2, 3), nullif((i * 29 % 83)::numeric / 2, 4), word(i * 2) from generate_series(1, 48) i;
create table q (k int4, id int4, n int4, s text, b bool);
insert into q select key(i)::int4, i, nullif(i % 10 - 2, 4), word(i * 4), i % 3 = 1 from generate_series(1, 40) i;
create table m (k int8, id int4, n int4, s text, at date) partition by range (id);
create table m1 partition of m for values from (0) to (15);
create table m2 partition of m for values from (15) to (100);
insert into m select key(i), i, nullif(i % 9 - 3, 2), word(i * 8), date '2024-01-01' + (i * 3 % 25)::int4 from generate_series(1, 30) i;
create table e0 (k int8, id int4, n int4, x numeric(12,2), s text);
create table r (id int4 primary key, name text, price numeric(10,2), m mood, n int4);
insert into r select i, word(i * 2), nullif(i * 13 % 30, 9)::numeric / 4, (array['happy', 'sad', null])[1 + i % 3]::mood, i % 4 from generate_series(-3, 12) i;
create table r2 (k int8, id int4, s text, b bool);
insert into r2 select nullif(i % 5, 3), i, word(i * 5), (array[null, true, false])[1 + i % 3] from generate_series(1, 9) i;
create table h (id int4, k int8, n int4, s text, x numeric(12,2), ts timestamptz);
insert into h select i, key(i), nullif(i % 6, 2), word(i * 11), (i * 7 % 31)::numeric / 2, timestamptz '2024-03-31 00:00:00+00' + i * interval '1 hour' from generate_series(1, 20) i;
create table h2 (id int4, n int4, s text);
insert into h2 select i, nullif(i % 4, 1), word(i) from generate_series(1, 8) i;
create table hollow ();
insert into hollow default values;
insert into hollow default values;

# Numbers of forty digits, and times whose text is in no order.
create table big (k int8, v numeric, ts timestamptz);
insert into big select i, (array['1234567890123456789012345678901234567890', '1234567890123456789012345678901234567891', '0.00000000000000000000000000000000000001', '0.00000000000000000000000000000000000002',
  '-99999999999999999999999999999999.5', '9', '10', 'NaN', null])[1 + i % 9]::numeric, timestamptz '2024-10-27 00:00+00' + (i * 7 % 20) * interval '20 minutes' from generate_series(1, 30) i;

create view v_a as select k, id, n, x, s from a where b is not false;
create view v_ab as select a.k, a.id as a_id, b.id as b_id, a.n + b.n as n, a.s, b.e from a join b on a.k = b.k and a.id <> b.id;
create view v_sum as select k, count(*) as cnt, sum(x) as total, max(s) as top from a group by k;
create view v_cnt as select n, count(*) as cnt, min(id) as first, avg(x)::numeric(20,6) as mean from a group by n;
create view v_all as select k, id, n, s from a union all select k, id, n, s::text from b;
create view v_ref as select a.k, a.id, r.name, r.price, a.x from a left join r on r.id = a.n;

@weft
select weft.reference_table('r');
select weft.reference_table('r2');
select weft.shard_table('a', 'k');
select weft.shard_table('b', 'k');
select weft.shard_table('c', 'k');
select weft.shard_table('u', 'code');
select weft.shard_table('w', 'g');
select weft.shard_table('p', 'tenant, day');
select weft.shard_table('q', 'k');
select weft.shard_table('e0', 'k');
select weft.shard_table('m', 'k');
select weft.shard_table('big', 'k');
