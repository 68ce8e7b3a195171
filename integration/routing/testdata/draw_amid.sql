# Values of sequences inside of larger expressions, as for numbers of invoices: one for each row, none twice.
# Which values there are is weft's to choose; so codes are masked, and conditions on them compared.
@setup
create sequence s;
create sequence s2 start 1000;
create table inv (key int primary key, code text, v text, n int);
create table dft (key int primary key, code text default 'INV-' || lpad(nextval('s')::text, 6, '0'), v text, id serial);
create table first (id serial, key int primary key, code text default 'F-' || nextval('s'));
create table lines (account int, line int, code text default 'L' || nextval('s2'), v text, primary key (account, line));
create table names (k int primary key, a text, b text);
create table copied (id serial primary key, v text);
create view v_inv as select key as job, code, v from inv where key < 100;
create function pretty(bigint) returns text language sql immutable as $$ select 'P-' || $1 $$;
@weft
select weft.shard_table('inv', 'key');
select weft.shard_table('dft', 'key');
select weft.shard_table('first', 'key');
select weft.shard_table('lines', 'account');
select weft.reference_table('copied');
@data
truncate inv, dft, first, lines, names, copied restart identity;
insert into inv select g, 'x', 'v' || g, 0 from generate_series(1, 20) g;
insert into names select g, 'a' || g, 'b' || g from generate_series(1, 5) g;
insert into lines select g % 4, g, 'x', 'l' || g from generate_series(1, 12) g;
insert into dft (key, code, id) select g, 'x', -g from generate_series(1, 12) g;
@mask code id n
@route
insert into inv (key, code) values (101, 'A-' || nextval('s')) returning key, code like 'A-%' as fits;
insert into inv (key, code) values (102, lpad(nextval('s')::text, 6, '0')), (103, 'A-' || nextval('s')), (104, 'x') returning key, length(code);
insert into inv (key, code) values ($1, $2 || nextval('s')) returning key, code like $2 || '%' as fits;
  -- int4:105 | text:B-
  -- int4:106 | text:C-
insert into inv (key, code) select g, 'B-' || nextval('s') from generate_series(110, 119) g;
insert into inv (key, code) select k + 200, a || '-' || nextval('s') from names;
insert into inv (key, code) select key + 300, v || '-' || nextval('s') from inv where key < 6;
select count(*), count(distinct code), bool_and(code ~ '^([ABC]-|a[1-5]-|v[1-5]-|0)[0-9]+$') from inv where key > 100 and key <> 104;
update inv set code = 'D-' || nextval('s') where key = 1 returning key, code like 'D-%' as fits;
update inv set code = 'D-' || nextval('s') where key in (1, 2, 3, 4) returning key, v, code like 'D-%' as fits;
update inv set code = 'E-' || lpad(nextval('s')::text, 8, '0') || '-' || nextval('s2');
select count(*), count(distinct code), count(distinct substr(code, 1, 10)), count(distinct substr(code, 12)), bool_and(code like 'E-00%') from inv;
update inv set n = nextval('s') * 10 + 3, code = v || '/' || nextval('s') where key < 8 returning key, n % 10 as rest;
update inv set n = n + nextval('s'), v = upper(v) where key < 8;
select count(distinct n), bool_and(code ~ '^v[0-9]/[0-9]+$') from inv where key < 8;
update inv set code = pretty(nextval('s')) where key > 15 returning key, code like 'P-%' as fits;
update inv set code = greatest('0', nextval('s')::text) || coalesce(v, 'none') || case when key > 17 then '!' else '?' end where key > 15 returning key, right(code, 4) as rest;
update inv set code = to_char(now(), '"at" YYYY-') || nextval('s') where key in (5, 6, 7) returning key, code = to_char(now(), '"at" YYYY-') || substr(code, 9) as fits;
update inv set (code, v) = ('T' || nextval('s'), lower(v)) where key between 3 and 9 returning key, v;
update inv i set code = x.a || '-' || i.key || '-' || nextval('s'), v = x.b from names x where x.k = i.key returning i.key, i.v, i.code like 'a_-%' as fits;
update inv i set code = a || '-' || nextval('s') || '-' || b from names x where x.k = i.key returning i.key, i.code ~ '^a[0-9]-[0-9]+-b[0-9]$' as fits;
update inv set code = $1 || nextval('s') || v where key < $2 returning key, code like $1 || '%' as fits;
  -- text:G- | int4:6
  -- text:H- | int4:3
update v_inv set code = 'V-' || nextval('s') where job < 10 returning job, v;
update lines set code = default, v = 'now';
update lines l set code = account || '.' || line || '.' || nextval('s2') where line > 6 returning account, line;
select count(*), count(distinct code), bool_and(code ~ '^(L|[0-9]+[.][0-9]+[.])[0-9]+$') from lines;
insert into dft (key) values (101) returning key, code like 'INV-00%' as fits;
insert into dft (key) values (102), (103), (104) returning key, code like 'INV-00%' as fits;
insert into dft (key, code) values (105, default), (106, 'given') returning key, code like 'INV-00%' as fits;
insert into dft (key, code) values (107, default) returning key, code like 'INV-00%' as fits;
insert into dft values (108, default, default, default), (109, 'x', default, default) returning key, length(code) > 5;
insert into dft (key, v) select k + 200, a from names;
insert into dft (key, v) values ($1, $2) returning key, v, code like 'INV-00%' as fits;
  -- int4:301 | text:p
  -- int4:302 | text:q
update dft set code = default where key = 1 returning key, code like 'INV-00%' as fits;
update dft set code = default, id = default where key < 6 returning key, code like 'INV-00%' as fits;
update dft set code = default, v = 'all';
select count(*), count(distinct code), count(distinct id), bool_and(code like 'INV-00%') from dft;
begin;
update inv set code = 'R-' || nextval('s');
update inv set code = 'R-' || nextval('s') where key < 5;
rollback;
begin;
savepoint a;
update inv set code = 'R-' || nextval('s') where key < 5;
rollback to a;
update inv set code = 'S-' || nextval('s') where key < 5 returning key;
update inv set v = 'later' where key < 5;
commit;
select count(*), count(distinct code) from inv where code like 'S-%';
update inv set code = 'A-' || nextval('s') where key = 10000;
@tables
@error
update inv set code = 'A-' || nextval('s'), n = 1 / (key - 3);
update inv set code = 'A-' || nosuch || nextval('s');
update inv i set code = v || nextval('s') from inv v where v.key = i.key;
update inv set n = 1 / (key - 3) + nextval('s');
@maybe
update inv set code = 'A-' || nextval('nosuch');
update inv set code = coalesce(code, 'A-' || nextval('s')) where key = 1;
update inv set code = case when key = 1 then nextval('s')::text else 'b' end;
update inv set code = (select max(a) from names) || nextval('s');
update inv set code = 'A-' || nextval('s') || null;
update inv set code = (inv).v || nextval('s');
update inv set code = inv || nextval('s')::text where key = 4;
insert into inv (key) values (1), (2) on conflict (key) do update set code = 'C-' || nextval('s');
insert into dft (key) values (1), (2) on conflict (key) do update set code = default;
with u as (update inv set code = 'W-' || nextval('s') returning key) select count(*) from u;
with u as (update dft set code = default returning key) select count(*) from u;
merge into inv i using names x on i.key = x.k when matched then update set code = 'M-' || nextval('s');
merge into dft i using names x on i.key = x.k when matched then update set code = default;
merge into dft i using (values (1), (501)) x (k) on i.key = x.k when not matched then insert (key) values (x.k);
update inv set key = key + 1000, code = 'K-' || nextval('s');
