# Blocks that write on several shards end alike on all of them.
@include shop

@setup
create table ledger (account int primary key, amount int not null check (amount >= 0), note text);
create table parents (id int primary key);
create table kids (id int primary key, parent int, foreign key (id) references parents (id) deferrable initially deferred);
create role clerk;
grant select, insert, update, delete on ledger to clerk;

@weft
select weft.shard_table('ledger', 'account');
select weft.shard_table('parents', 'id');
select weft.shard_table('kids', 'id');

@data
truncate kids, parents;
delete from ledger where account = 1;
delete from ledger where account = 2;
delete from ledger where account = 3;
delete from ledger where account = 4;
delete from ledger where account = 5;
insert into ledger values (1, 100);
insert into ledger values (2, 100);
insert into ledger values (3, 100);
insert into ledger values (4, 100);
insert into ledger values (5, 100);

@route
begin;
update ledger set amount = amount - 10 where account = 1;
update ledger set amount = amount + 10 where account = 2;
select amount from ledger where account = 1;
commit;
select * from ledger order by account;

# All five, a home table, and one that is only read.
begin;
update ledger set amount = amount + 1 where account = 1;
update ledger set amount = amount + 1 where account = 2;
update ledger set amount = amount + 1 where account = 3;
update ledger set amount = amount + 1 where account = 4;
update ledger set amount = amount + 1 where account = 5;
update settings set value = 'red' where key = 'color';
select count(*) from customers;
commit;
select * from ledger order by account;
select * from settings order by key;

begin;
update ledger set amount = 0 where account = 1;
update ledger set amount = 0 where account = 2;
rollback;
select * from ledger order by account;

# An error on one of them, and all is lost.
begin;
update ledger set amount = amount + 5 where account = 1;
update ledger set amount = amount + 5 where account = 3;
@error
update ledger set amount = amount - 1000 where account = 2;
update ledger set amount = amount + 5 where account = 4;
@route
commit;
select * from ledger order by account;

begin;
update ledger set amount = amount + 5 where account = 1;
@error
insert into ledger values (2, 1);
select 1;
@route
rollback;
select * from ledger order by account;

# Deferred constraints: on whichever shard they are, COMMIT fails everywhere.
begin;
insert into parents values (1);
insert into kids values (1, 1);
insert into parents values (2);
insert into kids values (2, 1);
insert into parents values (3);
insert into kids values (3, 1);
commit;
select * from kids order by id;
begin;
update ledger set amount = amount + 7 where account = 1;
update ledger set amount = amount + 7 where account = 2;
update ledger set amount = amount + 7 where account = 3;
insert into kids values (4, 1);
@error
commit;
@route
select * from ledger order by account;
begin;
insert into kids values (5, 1);
update ledger set amount = amount + 7 where account = 2;
update ledger set amount = amount + 7 where account = 3;
@error
commit;
@route
select * from kids order by id;
select * from ledger order by account;

# Savepoints, also of shards that have joined later.
begin;
update ledger set note = 'one' where account = 1;
savepoint a;
update ledger set note = 'two' where account = 2;
savepoint b;
update ledger set note = 'three' where account = 3;
rollback to a;
update ledger set note = 'four' where account = 4;
release a;
commit;
select * from ledger order by account;

begin;
savepoint a;
update ledger set note = 'five' where account = 5;
savepoint b;
@error
update ledger set amount = -1 where account = 2;
@route
rollback to b;
update ledger set note = 'after' where account = 2;
commit;
select * from ledger order by account;

# Chained.
begin isolation level repeatable read;
update ledger set amount = amount - 2 where account = 4;
update ledger set amount = amount + 2 where account = 5;
commit and chain;
show transaction isolation level;
update ledger set amount = amount - 2 where account = 2;
update ledger set amount = amount + 2 where account = 3;
rollback and chain;
update ledger set amount = amount - 3 where account = 2;
update ledger set amount = amount + 3 where account = 1;
commit;
select * from ledger order by account;

# What cannot be prepared is on the shard that decides.
begin;
update ledger set amount = amount - 4 where account = 1;
notify twophase;
update ledger set amount = amount + 4 where account = 2;
commit;
begin;
create temporary table scratch (x int) on commit drop;
insert into scratch values (1);
update ledger set amount = amount - 4 where account = 1;
update ledger set amount = amount + 4 where account = 3;
select count(*) from scratch;
commit;
select * from ledger order by account;

# Roles: who prepares may end it.
set role clerk;
begin;
update ledger set amount = amount - 1 where account = 1;
update ledger set amount = amount + 1 where account = 2;
update ledger set amount = amount + 1 where account = 3;
commit;
select current_user;
select * from ledger order by account;
reset role;
begin;
update ledger set amount = amount - 1 where account = 1;
set local role clerk;
update ledger set amount = amount + 1 where account = 2;
commit;
select current_user;
begin;
update ledger set amount = amount - 1 where account = 1;
update ledger set amount = amount + 1 where account = 2;
set work_mem = '7MB';
commit;
show work_mem;
reset work_mem;
set synchronous_commit = off;
begin;
update ledger set amount = amount - 1 where account = 1;
update ledger set amount = amount + 1 where account = 2;
commit;
show synchronous_commit;
reset synchronous_commit;
select * from ledger order by account;

# Changes of the schema and of rows, as one.
begin;
alter table ledger add column extra int default 1;
update ledger set extra = 2 where account = 1;
update ledger set extra = 3 where account = 2;
commit;
select * from ledger order by account;
begin;
update ledger set extra = 4 where account = 3;
update ledger set extra = 5 where account = 4;
alter table ledger drop column extra;
rollback;
select * from ledger order by account;
begin;
alter table ledger drop column extra;
update ledger set note = 'no extra' where account = 1;
commit;
select * from ledger order by account;

# COMMIT of a failed block, twice, and what weft says of the empty one.
begin;
commit;
begin;
update ledger set amount = amount + 1 where account = 1;
update ledger set amount = amount + 1 where account = 2;
@error
select 1/0;
@route
commit;
commit;

@simple
update ledger set amount = amount + 1 where account = 1; update ledger set amount = amount - 1 where account = 2;
select * from ledger order by account;
@simple error
update ledger set amount = amount + 1 where account = 1; update ledger set amount = amount - 1000 where account = 2;
@route
select * from ledger order by account;

@tables
