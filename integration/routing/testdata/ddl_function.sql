# Functions that run on the shard of an argument, and triggers that touch what is
# beside their row.
@setup
create table accounts (id int primary key, owner text, balance numeric not null default 0, changes int not null default 0);
create table entries (account_id int, no int, amount numeric, primary key (account_id, no));
create table logs (account_id int, at int, what text);
create table rates (code text primary key, rate numeric);
create table notes (id int primary key, v text);
insert into accounts select g, 'o' || g, 100, 0 from generate_series(1, 30) g;
insert into rates values ('eur', 1), ('usd', 2);
insert into notes values (1, 'n');
create function balance_of(acc int) returns numeric language sql stable as 'select balance from accounts where id = acc';
create function post(acc int, nr int, amt numeric) returns numeric language plpgsql as $$ begin insert into entries values (acc, nr, amt); update accounts set balance = balance + amt where id = acc; return (select balance from accounts where id = acc); end $$;
create procedure close_account(acc int) language plpgsql as $$ begin delete from entries where account_id = acc; update accounts set owner = 'closed' where id = acc; end $$;
create function history(acc int) returns setof entries language sql stable as 'select * from entries where account_id = acc order by no';
create function in_currency(x numeric, c text) returns numeric language sql stable as 'select x * rate from rates where code = c';
create function words_only(logs int) returns text language plpgsql as $$ declare accounts text := 'entries'; begin return accounts || logs; end $$;
create function all_of_it() returns numeric language sql stable as 'select sum(balance) from accounts';
create function log_change() returns trigger language plpgsql as $$ begin insert into logs (account_id, at, what) values (new.id, new.changes, (select max(code) from rates)); return new; end $$;
create function count_entries() returns trigger language plpgsql as $$ begin update accounts set changes = changes + 1 where id = new.account_id; return new; end $$;
create function wrong_way() returns trigger language plpgsql as $$ begin update accounts set changes = 0 where owner = 'x'; return new; end $$;

@weft
select weft.reference_table('rates');
select weft.shard_table('accounts', 'id');
select weft.shard_table('entries', 'account_id');
select weft.shard_table('logs', 'account_id');
select weft.distribute_function('balance_of(int)', 'acc');
select create_distributed_function('post(int,int,numeric)', 'acc', colocate_with => 'accounts');
select weft.distribute_function('close_account', '$1', 'accounts');
select weft.distribute_function('history', 'acc');

@route
select balance_of(7);
select balance_of(acc => 9);
select balance_of($1);
-- int4:7
-- int4:8
select post(7, 1, 10.5);
select post($1, $2, $3);
-- int4:3 | int4:1 | numeric:5
-- int4:4 | int4:1 | numeric:-5
call close_account(9);
call close_account($1);
-- int4:10
select * from history(7);
select no, amount from history(3) h where amount > 0;
select a.owner, balance_of(5) from accounts a where a.id = 5;
select * from accounts where id = 9;
select words_only(id) from accounts where id = 3;
select count(*) from accounts where words_only(id) <> '';
select in_currency(balance, 'usd') from accounts where id = 4;
select sum(in_currency(balance, 'usd')) from accounts;
begin;
select post(11, 1, 1);
select balance_of(11);
rollback;
select balance_of(11);
@maybe
select balance_of(id) from accounts;
select balance_of(id) from accounts where id = 5;
select balance_of(1), balance_of(2);
select all_of_it();
select balance_of();
insert into notes select 5, balance_of(3)::text;
@error
select balance_of('x');
select post(7, 1, 10.5);

@route
create trigger counts after insert on entries for each row execute function count_entries();
create trigger logged after update on accounts for each row execute function log_change();
insert into entries values (12, 1, 5);
select changes from accounts where id = 12;
select * from logs where account_id = 12 order by at;
update accounts set owner = 'new' where id = 13;
select * from logs order by account_id, at;
@maybe
create trigger wrong after insert on entries for each row execute function wrong_way();
drop trigger wrong on entries;
@route
drop trigger counts on entries;
drop trigger logged on accounts;
delete from entries;
delete from logs;
update accounts set balance = 100, changes = 0, owner = 'o' || id;
@tables
