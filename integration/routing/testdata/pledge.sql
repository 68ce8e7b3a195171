# Transactions that clients prepare under a name, and end later.

@setup
create table pledged (account int primary key, amount int not null check (amount >= 0), note text);
create table at_home (id int primary key, v text);
create table for_all (id int primary key, v text);
create table above (id int primary key);
create table below (id int primary key, parent int, foreign key (id) references above (id) deferrable initially deferred);
create role pledger;
grant select, insert, update, delete on pledged to pledger;

@weft
select weft.shard_table('pledged', 'account');
select weft.shard_table('above', 'id');
select weft.shard_table('below', 'id');
select weft.reference_table('for_all');

@data
truncate below, above;
delete from for_all where true;
delete from at_home;
delete from pledged;
insert into pledged select g, 100 from generate_series(1, 6) g;

@route
# No shard, the home shard, one shard, all.
begin;
prepare transaction 'pledge 0';
select gid, owner, database = current_database() as here, prepared <= now() as past from pg_prepared_xacts where gid like 'pledge%';
commit prepared 'pledge 0';
begin;
insert into at_home values (1, 'x');
prepare transaction 'pledge 1';
select count(*) from at_home;
commit prepared 'pledge 1';
select * from at_home;
begin;
update pledged set amount = 1 where account = 1;
prepare transaction 'pledge 2';
select amount from pledged where account = 1;
select gid, owner, database = current_database() as here from pg_prepared_xacts where gid like 'pledge%';
commit prepared 'pledge 2';
select amount from pledged where account = 1;
begin;
update pledged set amount = amount - 1 where account = 2;
update pledged set amount = amount - 1 where account = 3;
prepare transaction 'pledge 3';
select * from pledged order by account;
rollback prepared 'pledge 3';
select * from pledged order by account;
begin;
update pledged set amount = amount + 7;
insert into at_home values (2, 'y');
insert into for_all values (1, 'z');
prepare transaction 'pledge 4';
begin;
update pledged set amount = amount * 2 where account = 6 and false;
insert into at_home values (3, 'u');
prepare transaction 'pledge''5';
select gid from pg_prepared_xacts where gid like 'pledge%' order by gid;
select sum(amount) from pledged;
commit prepared 'pledge 4';
select sum(amount) from pledged;
select * from for_all;
select * from at_home order by id;
rollback prepared 'pledge''5';
select * from at_home order by id;
select count(*) from pg_prepared_xacts where gid like 'pledge%';

# What was only read or locked.
begin read only;
select sum(amount) from pledged;
prepare transaction 'pledge 6';
rollback prepared 'pledge 6';
begin;
select amount from pledged where account = 4 for update;
prepare transaction 'pledge 7';
@error
select amount from pledged where account = 4 for update nowait;
@route
rollback prepared 'pledge 7';
select amount from pledged where account = 4 for update nowait;
begin isolation level repeatable read;
select sum(amount) from pledged;
update pledged set note = 'r' where account in (1, 5);
prepare transaction 'pledge 8';
commit prepared 'pledge 8';
select account, note from pledged order by account;

# Settings of the block stay, or go.
begin;
set statement_timeout = '61s';
set local lock_timeout = '62s';
update pledged set note = 's' where account in (1, 2);
prepare transaction 'pledge 9';
show statement_timeout;
show lock_timeout;
commit prepared 'pledge 9';
reset statement_timeout;

# The owner is who has prepared.
begin;
set local role pledger;
update pledged set note = 'o' where account in (1, 2, 3);
prepare transaction 'pledge 10';
select gid, owner from pg_prepared_xacts where gid like 'pledge%';
select current_user = 'pledger' as still;
set role pledger;
rollback prepared 'pledge 10';
reset role;
begin;
update pledged set note = 'p' where account in (1, 2, 3);
prepare transaction 'pledge 11';
set role pledger;
@error
commit prepared 'pledge 11';
@route
reset role;
commit prepared 'pledge 11';
select account, note from pledged order by account;

# Savepoints.
begin;
update pledged set note = 'a' where account = 1;
savepoint s;
update pledged set note = 'b' where account in (2, 3);
rollback to s;
update pledged set note = 'c' where account = 4;
prepare transaction 'pledge 12';
commit prepared 'pledge 12';
select account, note from pledged order by account;

# Mistakes.
@error
commit prepared 'pledge none';
rollback prepared 'pledge none';
@route
begin;
@error
commit prepared 'pledge none';
@route
rollback;
begin;
@error
select 1 / 0 from pledged where account = 1;
@route
prepare transaction 'pledge 13';
select count(*) from pg_prepared_xacts where gid like 'pledge%';
prepare transaction 'pledge 14';
begin;
update pledged set note = 'd' where account in (1, 2);
prepare transaction 'pledge 15';
begin;
update pledged set note = 'e' where account in (3, 4);
@error
prepare transaction 'pledge 15';
@route
select account, note from pledged order by account;
rollback prepared 'pledge 15';
@error
commit prepared 'pledge 15';
@route
begin;
update pledged set note = 'f' where account in (3, 4);
@error
prepare transaction 'pledge 1234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789';
@route
select account, note from pledged order by account;
begin;
insert into below values (1, 1);
insert into below values (2, 2);
@error
prepare transaction 'pledge 16';
@route
select count(*) from below;
select count(*) from pg_prepared_xacts where gid like 'pledge%';

# Texts of several statements.
@simple
begin; update pledged set note = 'i' where account in (1, 2, 3); prepare transaction 'pledge 20';
select account, note from pledged where note = 'i' order by account; select 1;
commit prepared 'pledge 20';
select account, note from pledged order by account;
@error
update pledged set note = 'j' where account = 1; commit prepared 'pledge 20';

# What weft refuses.
@maybe
begin;
create table pledged_too (a int);
update pledged set note = 'k' where account in (1, 2);
prepare transaction 'pledge 21';
rollback;
rollback prepared 'pledge 21';
drop table if exists pledged_too;
prepare transaction 'weft:mine';
commit prepared 'weft:mine';
@tables
