# UPDATE that changes the shard key: rows move.
@include shop

@setup
create table events (id bigint primary key, payload text, kind int, at timestamptz default '2024-01-01 00:00+00');
create table users (tenant int not null, id int generated always as identity, name varchar(5), n numeric(6,2) check (n < 1000), d date, up text generated always as (upper(name)) stored, codes int[], unique (tenant, name));
create table parent (id bigint primary key);
create table child (id bigint references parent (id) on delete cascade, x int, primary key (id, x));
create table pairs (a int, b text, v int, primary key (a, b));
create table labels (code text primary key, note text);

@weft
select weft.shard_table('events', 'id');
select weft.shard_table('users', 'tenant');
select weft.shard_table('parent', 'id');
select weft.shard_table('child', 'id');
select weft.shard_table('labels', 'code');

@data
truncate events;
truncate users;
truncate parent, child;
truncate labels;
insert into events (id, payload, kind) values (1, 'a', 10);
insert into events (id, payload, kind) values (2, 'b', 20);
insert into events (id, payload, kind) values (3, null, 30);
insert into events (id, payload, kind) values (4, 'd', null);
insert into events (id, payload, kind) values (5, 'e', 50);
insert into users (tenant, id, name, n, d, codes) overriding system value values (1, 1, 'ann', 1.5, '2024-01-01', '{1}');
insert into users (tenant, id, name, n, d, codes) overriding system value values (2, 2, 'bob', 2.5, null, null);
insert into users (tenant, id, name, n, d, codes) overriding system value values (3, 3, 'cid', null, '2024-01-03', '{3,3}');
insert into parent values (1);
insert into parent values (2);
insert into child values (1, 1);
insert into child values (2, 2);
insert into labels values ('x', 'one');
insert into labels values ('y', 'two');

@route
update events set id = 1000 where id = 1 returning *;
update events set id = id + 100 returning id, payload, kind;
update events set id = id - 100, payload = payload || '!' where id < 1000 returning *;
update events e set id = o.id, payload = o.note from orders o where o.id = e.id + 100 and o.status = 'paid' returning e.id, e.payload;
update events set id = kind, kind = id where kind is not null returning id, kind;
update events set (id, payload) = (id * 1000, 'x') where id < 60 returning id, payload;
update events set id = '77', payload = null, at = default where kind is null returning id, payload, at at time zone 'UTC' as at;
update events set id = (select max(id) from events) + 1 where id = 77 returning id;
update events set id = id where id > 0;
update events set id = 5 where id = 999999;
update events set id = $1 where id = $2 returning id;
  -- int8:3000 | int8:1000
  -- int8:3001 | int8:3000
update events set id = $1 + id returning id;
  -- int8:7
update users set tenant = tenant + 10 returning *;
update users set tenant = 5, name = 'zz', n = 3.14159, d = '2024-05-05', codes = '{7,8}' where tenant = 11 returning *;
update users set tenant = tenant * 2, n = n + 1 where name <> 'zz' returning tenant, n, up;
update users u set tenant = 100 + u.tenant from settings s where s.key = 'color' returning u.*;
update labels set code = code || code, note = 'was ' || code returning *;
update labels set code = 'z' where code = 'xx' returning code;
update child set id = 2 where id = 1 returning *;
with m as (select id, kind from events) update events e set id = e.id + m.kind from m where m.id = e.id and m.kind is not null returning e.id;
begin;
update events set id = id + 5000;
select count(*) from events where id > 5000;
update events set id = id - 4000 where id > 5000;
rollback;
select count(*), sum(id) from events;

@tables

@error
update events set id = null where id > 0;
update users set tenant = tenant + 1, name = 'toolong';
update users set tenant = tenant + 1, n = 5000;
update users set tenant = tenant + 1, up = 'x';
update users set tenant = tenant + 1, id = 5;
update events set id = 'x';
update events set id = 1;
update child set id = 77;
update events set id = id + 1, nosuch = 2;
update events set id = 1 / (id - id);

@tables

@maybe
update events set id = id + 1;
update events e set id = o.id from events o where o.id = e.id + 1;
update parent set id = id + 1;
update events e set id = o.id from orders o where o.id = e.id returning *;
update users set (tenant, name) = (select 1, 'x');

@tables
