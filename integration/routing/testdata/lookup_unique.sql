# Columns that are unique over all shards, though they are not the shard key.
@setup
create table users (id int primary key, email text unique, handle varchar(20), born date, note text, unique (handle, born));
create table codes (code text primary key, owner int not null, serial uuid unique, weight numeric unique);
create table accounts (id int primary key, name text);
create table logins (account int references accounts on delete cascade on update cascade, login text unique);
insert into users select i, 'u' || i || '@x', 'h' || i % 5, date '2000-01-01' + i, 'n' || i from generate_series(1, 40) i;
insert into users values (41, null, 'null', null), (42, null, 'null', null);

@weft
select weft.shard_table('users', 'id');
select weft.shard_table('codes', 'owner');
select weft.shard_table('accounts', 'id');
select weft.shard_table('logins', 'account');

@data
truncate logins, accounts;
truncate codes;
delete from users where id > 100;
update users set email = 'u1@x' where id = 1;
update users set email = 'u2@x' where id = 2;

@route
select * from users where email = 'u7@x';
select * from users where email = $1;
  -- text:u7@x
  -- text:u8@x
  -- text:nobody
  -- varchar:u9@x
  -- unknown:u10@x
  -- text:NULL
select id from users where email in ('u1@x', 'u2@x', 'u3@x', 'nobody') order by id;
select id from users where email = any ($1) order by id;
  -- text[]:{u1@x,u2@x,u30@x}
  -- text[]:{}
  -- text[]:{nobody}
select id from users where email is null order by id;
select id from users where email = 'u7@x' and note = 'other';
select id from users where email = 'u7@x' or id = 3 order by id;
select count(*) from users where email = 'u7@x' and id = 7;
select u.id, v.id from users u join users v on v.id = u.id where u.email = 'u5@x';
select u.id, v.note from users u left join users v on v.id = u.id + 1 where u.email = 'u5@x';
select id from users where handle = 'h3' and born = '2000-01-04';
select id from users where (handle, born) = ($1, $2);
  -- text:h3 | date:2000-01-04
  -- text:h4 | date:2000-01-05
  -- text:h4 | date:2000-01-06
select id from users where email = 'u7@x' for update;

insert into users values (101, 'a@x', 'a', '2020-01-01');
insert into users values (102, 'b@x', 'b', '2020-01-01') returning *;
insert into users (id, email) values ($1, $2) returning id;
  -- int4:103 | text:c@x
  -- int4:104 | text:d@x
  -- int4:105 | text:NULL
  -- int4:106 | text:NULL
select id from users where email = 'c@x';
select id from users where email = 'a@x';
@error
insert into users values (201, 'a@x');
insert into users values (201, 'u7@x');
insert into users values (202, 'e@x', 'a', '2020-01-01');
insert into users (id, email) values ($1, $2);
  -- int4:203 | text:b@x
  -- int4:203 | text:u9@x
update users set email = 'u3@x' where id = 1;
update users set email = $1 where id = $2;
  -- text:u3@x | int4:2
  -- text:u4@x | int4:102
update users set handle = 'a', born = '2020-01-01' where id = 102;
@route
select id, email from users where id > 100 order by id;

update users set email = 'moved@x' where id = 101 returning id, email;
select id from users where email = 'a@x';
select id from users where email = 'moved@x';
insert into users values (107, 'a@x');
delete from users where id = 107;
insert into users values (108, 'a@x');
update users set email = null where id = 108;
insert into users values (109, 'a@x');
update users set note = 'touched' where email = 'a@x' returning id;
update users set email = upper(email) where email = 'a@x' returning id, email;
delete from users where email = 'A@X' returning id;
delete from users where email = 'A@X' returning id;
update users set email = 'same@x' where id = 103;
update users set email = 'same@x' where id = 103;
update users set email = email || '!' where id in (101, 102, 103, 104) returning id, email;
select id, email from users where email in ('moved@x!', 'b@x!', 'same@x!', 'd@x!') order by id;

# What a block does it sees, and can take back.
begin;
insert into users values (110, 'in@x');
select id from users where email = 'in@x';
update users set email = 'in2@x' where email = 'in@x';
select id from users where email = 'in@x';
select id from users where email = 'in2@x';
delete from users where email = 'in2@x' returning id;
select id from users where email = 'in2@x';
insert into users values (111, 'in2@x');
commit;
select id from users where email = 'in2@x';
begin;
delete from users where id = 111;
insert into users values (112, 'in2@x');
savepoint a;
update users set email = 'out@x' where id = 112;
insert into users values (113, 'in2@x');
rollback to a;
select id, email from users where email in ('in2@x', 'out@x');
commit;
select id, email from users where email in ('in2@x', 'out@x');
begin;
insert into users values (114, 'gone@x');
rollback;
select id from users where email = 'gone@x';
begin;
insert into users values (114, 'kept@x');
savepoint s;
@error
insert into users values (115, 'in2@x');
select 1;
@route
rollback to s;
insert into users values (115, 'other@x');
commit;
select id, email from users where id in (114, 115) order by id;

# A primary key that is not the shard key, and keys of other types.
insert into codes values ('x', 1, '00000000-0000-0000-0000-000000000001', 1.50);
insert into codes values ('y', 2, '00000000-0000-0000-0000-000000000002', 2);
select * from codes where code = 'x';
select code from codes where serial = '00000000-0000-0000-0000-000000000002';
select code from codes where weight = 1.5;
select code from codes where weight = $1;
  -- numeric:1.500
  -- int4:2
@error
insert into codes values ('x', 3, '00000000-0000-0000-0000-000000000003', 3);
insert into codes values ('z', 3, '00000000-0000-0000-0000-000000000001', 3);
insert into codes values ('z', 3, '00000000-0000-0000-0000-000000000003', 1.5);
update codes set code = 'y' where owner = 1;
@route
update codes set code = 'x2' where owner = 1 returning code;
select owner from codes where code = 'x2';
select owner from codes where code = 'x';

# Foreign keys that act.
insert into accounts values (1, 'one');
insert into accounts values (2, 'two');
insert into logins values (1, 'ann');
insert into logins values (1, 'anna');
insert into logins values (2, 'bob');
@error
insert into logins values (2, 'ann');
insert into logins values (3, 'cy');
@route
delete from accounts where id = 1;
select * from logins order by login;
insert into logins values (2, 'ann');
select account from logins where login = 'ann';
truncate logins;
select account from logins where login = 'ann';
insert into logins values (2, 'ann');
insert into logins values (2, 'bob');
select account from logins where login = 'bob';

# The row in the way is on another shard, or on its own, or nowhere.
insert into users (id, email) values (151, 'u1@x') on conflict do nothing;
insert into users (id, email) values (152, 'u1@x') on conflict (email) do nothing returning id;
insert into users (id, email) values (153, 'u1@x') on conflict (email) do update set note = 'again' returning id, note;
insert into users as u (id, email, note) values ($1, $2, 'new') on conflict (email) do update set note = u.note || excluded.note, email = excluded.email || '+' returning id, email, note;
  -- int4:154 | text:u2@x
  -- int4:155 | text:fresh@x
  -- int4:156 | text:fresh@x
  -- int4:157 | text:u2@x
  -- int4:158 | text:NULL
select id, email from users where email in ('u2@x', 'u2@x+', 'fresh@x', 'fresh@x+') order by id;
insert into users (id, email) values (1, 'unused@x') on conflict do nothing;
select id from users where email = 'unused@x';
insert into users (id, email) values (161, 'unused@x') on conflict (email) do nothing;
select id from users where email = 'unused@x';
insert into users (id, email, handle, born) values (162, 'two@x', 'a', '2020-01-01') on conflict on constraint users_handle_born_key do nothing;
insert into users (id, email) values (1, 'two@x') on conflict (id) do update set note = excluded.email returning note;
select id from users where email = 'two@x';
begin;
insert into users (id, email) values (163, 'block@x') on conflict (email) do nothing;
insert into users (id, email) values (164, 'block@x') on conflict (email) do update set note = 'twice' returning id;
insert into users (id, email) values (165, 'u1@x') on conflict (email) do nothing;
commit;
select id, email, note from users where email = 'block@x';
@error
insert into users (id, email) values (1, 'third@x') on conflict (email) do nothing;
insert into users (id, email) values (166, 'u1@x') on conflict (id) do nothing;
@route
select id from users where email = 'third@x';
update users set note = 'n2' where id = 2;
update users set note = 'n1' where id = 1;

# Over several shards at once.
update users set email = 'all' || id || '@x' where id > 100;
select id from users where email = 'all101@x';
update users set email = 'u1@x' where id > 100 and false;
@error
update users set email = 'u3@x' where id > 100;
@route
delete from users where id > 112 returning id > 112;
select count(*) from users where email like 'all%';
@maybe
insert into users (id, email) values (171, 'u1@x'), (172, 'c1@x') on conflict (email) do nothing;
insert into users (id, email) values (121, 'm1@x'), (122, 'm2@x'), (123, 'm3@x');
insert into users (id, email) values (131, 'm1@x'), (132, 'new@x');
insert into users (id, email) values (141, 'twice@x'), (142, 'twice@x');
update users set id = 160 where id = 101;
insert into users (id, email) select id + 200, 'sel' || id from users where id < 5;
update users u set email = v.email || '?' from users v where v.id = u.id and v.id > 100;
merge into users u using (values (102, 'merged@x')) s (id, email) on u.id = s.id when matched then update set email = s.email;
with gone as (delete from users where id = 104 returning email) select count(*) from gone;
@route
select id, email from users where id > 100 order by id;
select count(*), count(distinct email) from users;
@tables
