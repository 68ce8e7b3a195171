# Transactions that write on several shards, beside one PostgreSQL: savepoints,
# chains, failures, settings, several connections.
@setup
create table acct (id bigint primary key, balance int not null default 100 check (balance >= 0));
create table log (id bigint primary key, what text);
create table ref (id int primary key, v text);
create table parent (id int primary key);
create table child (id bigint primary key, p int references parent deferrable initially immediate);

@weft
select weft.shard_table('acct', 'id');
select weft.reference_table('ref');

@data
delete from acct;
delete from log;
delete from ref;
delete from child;
delete from parent;
insert into acct (id) values (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12);

@route
begin;
update acct set balance = balance - 1 where id = 1;
update acct set balance = balance + 1 where id = 2;
update acct set balance = balance + 1 where id = 3;
insert into log values (1, 'moved');
select sum(balance) from acct;
commit;
select id, balance from acct order by id;

begin;
update acct set balance = 0 where id = 1;
update acct set balance = 0 where id = 2;
update acct set balance = 0 where id = 3;
rollback;
select id, balance from acct order by id;

# A savepoint before, between and after the shards join.
begin;
savepoint a;
update acct set balance = 1 where id = 4;
savepoint b;
update acct set balance = 2 where id = 5;
update acct set balance = 2 where id = 6;
savepoint c;
update acct set balance = 3 where id = 4;
update acct set balance = 3 where id = 7;
update acct set balance = 3 where id = 8;
rollback to c;
select id, balance from acct where id in (4, 5, 6, 7, 8) order by id;
release c;
rollback to b;
select id, balance from acct where id in (4, 5, 6, 7, 8) order by id;
update acct set balance = 4 where id = 9;
release a;
commit;
select id, balance from acct order by id;

# Nested ones of one name.
begin;
update acct set balance = 10 where id = 1;
savepoint s;
update acct set balance = 11 where id = 2;
savepoint s;
update acct set balance = 12 where id = 3;
rollback to s;
release s;
update acct set balance = 13 where id = 4;
rollback to s;
update acct set balance = 14 where id = 5;
commit;
select id, balance from acct order by id;

# A late joiner's work is undone by a savepoint that is older than it.
begin;
update acct set balance = 20 where id = 1;
savepoint s;
update acct set balance = 21 where id = 2;
update acct set balance = 21 where id = 3;
update acct set balance = 21 where id = 4;
@error
update acct set balance = -1 where id = 5;
select 1;
savepoint t;
@route
rollback to s;
select id, balance from acct order by id;
update acct set balance = 22 where id = 6;
commit;
select id, balance from acct order by id;

# Errors fail the whole transaction, on whichever shard.
begin;
update acct set balance = 30 where id = 1;
update acct set balance = 30 where id = 2;
update acct set balance = 30 where id = 3;
@error
update acct set balance = -30 where id = 4;
update acct set balance = 30 where id = 1;
select sum(balance) from acct;
insert into log values (30, 'never');
@route
commit;
select id, balance from acct order by id;

begin;
update acct set balance = 31 where id = 1;
update acct set balance = 31 where id = 2;
@error
select 1/0;
@route
rollback;
select id, balance from acct order by id;

begin;
update acct set balance = balance + 1 where id = 1;
update acct set balance = balance + 1 where id = 2;
@error
insert into acct (id) values (3);
rollback to nosuch;
@route
end;

# Chains.
begin isolation level repeatable read;
update acct set balance = 40 where id = 1;
update acct set balance = 40 where id = 2;
commit and chain;
show transaction_isolation;
update acct set balance = 41 where id = 3;
update acct set balance = 41 where id = 4;
rollback and chain;
show transaction_isolation;
update acct set balance = 42 where id = 5;
update acct set balance = 42 where id = 6;
commit;
show transaction_isolation;
select id, balance from acct order by id;

begin;
update acct set balance = 43 where id = 1;
update acct set balance = 43 where id = 2;
@error
select 1/0;
@route
rollback and chain;
update acct set balance = 44 where id = 1;
update acct set balance = 44 where id = 2;
commit;
select id, balance from acct order by id;

# READ ONLY reaches whoever joins.
begin read only;
select balance from acct where id = 1;
select balance from acct where id = 2;
@error
update acct set balance = 0 where id = 3;
@route
rollback;
begin;
set transaction read only;
select sum(balance) from acct;
@error
update acct set balance = 0;
@route
rollback;
begin isolation level repeatable read, read only, deferrable;
select sum(balance) from acct;
select balance from acct where id = 1;
commit;

# SET LOCAL, and SET that is rolled back.
begin;
set local work_mem = '5MB';
select current_setting('work_mem') from acct where id = 1;
select current_setting('work_mem') from acct where id = 2;
select current_setting('work_mem') from acct where id = 3;
set work_mem = '6MB';
select current_setting('work_mem') from acct where id = 1;
select current_setting('work_mem') from acct where id = 4;
update acct set balance = 50 where id = 1;
update acct set balance = 50 where id = 2;
rollback;
show work_mem;
select distinct current_setting('work_mem') from acct;

begin;
update acct set balance = 51 where id = 1;
set local statement_timeout = '100s';
savepoint s;
set local statement_timeout = '200s';
update acct set balance = 51 where id = 2;
rollback to s;
select current_setting('statement_timeout') from acct where id = 1;
select current_setting('statement_timeout') from acct where id = 2;
select current_setting('statement_timeout') from acct where id = 3;
commit;
show statement_timeout;

# SET CONSTRAINTS.
begin;
set constraints all deferred;
update acct set balance = 52 where id = 1;
update acct set balance = 52 where id = 2;
insert into child values (1, 7);
insert into parent values (7);
commit;
begin;
set constraints all deferred;
update acct set balance = 53 where id = 1;
update acct set balance = 53 where id = 2;
insert into child values (2, 8);
@error
commit;
@route
select id, balance from acct where id < 3 order by id;

# Advisory locks are in one place.
begin;
select balance from acct where id = 1;
select pg_advisory_xact_lock(17);
select balance from acct where id = 2;
select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid();
update acct set balance = 60 where id = 1;
update acct set balance = 60 where id = 2;
commit;

@simple
update acct set balance = 70 where id = 1; update acct set balance = 70 where id = 2; update acct set balance = 70 where id = 3;
select id, balance from acct order by id;
update acct set balance = 71 where id = 1; update acct set balance = 71 where id = 2; select 1/0;
update acct set balance = 72 where id = 1; update acct set balance = -72 where id = 2;
select id, balance from acct order by id;
insert into log values (70, 'x'); update acct set balance = 73 where id = 4; update acct set balance = 73 where id = 5; insert into log values (71, 'y');
select * from log order by id;

@tables
