# Writes through views that PostgreSQL lets through to one table: sharded, reference
# and home tables, views of views, check options, defaults of a view, rights.
@setup
create table accounts (id int primary key, owner text not null default 'nobody', branch text, balance numeric not null default 0, note text, twice numeric generated always as (balance * 2) stored);
create table entries (account int, seq int, amount numeric, kind text default 'cash', made timestamptz default '2020-01-01', primary key (account, seq));
create table tickets (id bigserial primary key, title text, hidden int default 5);
create table keyless (part text default 'main', v int, w int default 3);
create table rates (code text primary key, rate numeric, memo text default 'm', src int default 7);
create table notes (id int primary key, v text, w text default 'w');
create view v_all as select * from accounts;
create view v_renamed as select a.owner as who, a.id as number, a.balance as money, upper(a.owner) as shouted from accounts a;
create view v_rich as select id, owner, balance from accounts where balance > 100;
create view v_local as select id, owner, balance from v_rich where id < 50 with local check option;
create view v_cascaded as select id, owner, balance from v_rich where id < 50 with cascaded check option;
create view v_barrier with (security_barrier) as select id, owner, balance from accounts where branch = 'north';
create view v_branch as select id, branch, balance from accounts where branch in ('north', 'south') with check option;
create view v_one as select id, owner, note from accounts where id = 7;
create view v_nokey as select owner, balance from accounts;
create view v_entries as select account as acc, seq, amount, kind from entries;
create view v_defaults as select id, owner, branch, balance from accounts;
create view v_tickets as select title, id from tickets;
create view v_titles as select title from tickets;
create view v_parts as select part, v, w from keyless;
create view v_keyless as select v, w from keyless;
create view v_with_entries as select id, owner, balance from accounts a where exists (select 1 from entries e where e.account = a.id and e.amount > 5);
create view v_elsewhere as select id, owner from accounts a where exists (select 1 from entries e where e.seq = a.id);
create view v_sums as select branch, sum(balance) as total from accounts group by branch;
create view v_union as select id from accounts union all select account from entries;
create view v_joined as select a.id, e.amount from accounts a join entries e on e.account = a.id;
create view v_counted as select count(*) as n from accounts;
create view v_rates as select code as c, rate as r from rates where rate > 0;
create view v_rates_all as select * from rates;
create view v_checked_rates as select code, rate from rates where rate < 1000 with check option;
create view v_rate_memo as select memo, rate from rates;
create view v_notes as select id as n, v from notes;
create view v_notes_checked as select * from notes where id < 100 with check option;
create view v_timed as select id, owner from accounts where now() > '2020-01-01';
@weft
select weft.shard_table('accounts', 'id');
select weft.shard_table('entries', 'account');
select weft.shard_table('tickets', 'id');
select weft.shard_table('keyless', 'part');
select weft.reference_table('rates');
@setup
alter view v_defaults alter column owner set default 'by view';
alter view v_defaults alter column id set default 99;
@data
truncate accounts, entries, tickets, keyless, rates, notes restart identity;
insert into accounts (id, owner, branch, balance, note) select g, 'o' || g, (array['north', 'south', 'east'])[g % 3 + 1], g * 20, case when g % 4 = 0 then 'n' end from generate_series(1, 30) g;
insert into entries (account, seq, amount) select g, s, g + s from generate_series(1, 30) g, generate_series(1, 2) s;
insert into rates select 'c' || g, g * 10 from generate_series(1, 8) g;
insert into notes select g, 'v' || g from generate_series(1, 10) g;

# What PostgreSQL refuses, and with 0A000 what it has no way for.
@error
insert into v_local values (60, 'x', 500);
insert into v_cascaded values (45, 'x', 50);
insert into v_cascaded values (60, 'x', 500);
insert into v_cascaded values (45, 'x', 500), (46, 'y', 600), (47, 'z', 1);
update v_cascaded set balance = 5;
update v_branch set branch = 'west';
insert into v_branch values (150, 'west', 1), (151, 'north', 1), (152, 'south', 1);
insert into v_sums values ('x', 1);
delete from v_sums;
update v_union set id = 1;
delete from v_joined;
update v_joined set amount = 1 where id = 1;
delete from v_counted;
insert into v_counted values (1);
insert into v_all (id, twice) values (170, 1);
insert into v_all (id, owner) values (10, 'x'), (171, 'y');
insert into v_all values (172, 'x', 'y', 1, 'n', default, 5);
update v_all set nosuch = 1;
insert into v_checked_rates values ('big', 2000);
update v_checked_rates set rate = 5000;
insert into v_notes_checked values (200, 'x');

@maybe
insert into v_renamed (number, shouted) values (160, 'X');
update v_renamed set shouted = 'X';
merge into v_all v using notes n on n.id = v.id and n.id < 0 when matched then delete;
@tables

# One shard.
@route
insert into v_all (id, owner, balance) values (100, 'hundred', 5) returning *;
insert into v_renamed (number, who, money) values (101, 'renamed', 7) returning *;
insert into v_renamed (who, number) values ('x', 102) returning who, number, money, shouted;
insert into v_renamed as r (number) values (103) returning r.*;
update v_renamed set money = money + 1 where number = 101 returning number, money, shouted;
update v_renamed r set who = 'again' where r.number = 101 returning r.*;
delete from v_renamed where number = 103 returning number;
update v_one set owner = 'seven' returning *;
update v_one set owner = 'none' where id = 8;
select id, owner from accounts where id in (7, 101, 102, 103) order by id;
insert into v_all (id, owner) values ($1, $2) returning id, owner, balance;
  -- int4:110 | text:a
  -- int4:111 | text:b
update v_renamed set money = $1 where number = $2 returning number, money;
  -- numeric:12.5 | int4:110
  -- numeric:13 | int4:111
delete from v_renamed where number = $1;
  -- int4:110
  -- int4:111
insert into v_entries (acc, seq, amount) values (1, 9, 100) returning *;
insert into v_entries (acc, seq) values (1, 9) on conflict (acc, seq) do update set amount = excluded.amount returning acc, seq, amount;
insert into v_entries (acc, seq) values (1, 9) on conflict do nothing;
update v_entries set amount = 5 where acc = 1 and seq = 9;
insert into v_defaults (balance) values (3) returning *;
insert into v_defaults (id, balance) values (98, 3) returning *;
insert into v_defaults (id, owner) values (default, default) on conflict (id) do update set balance = 77 returning *;
insert into v_defaults default values on conflict do nothing;
insert into v_tickets (title) values ('one') returning *;
insert into v_tickets values ('two') returning *;
insert into v_tickets values ('three', default) returning *;
insert into v_tickets (title, id) values ('four', 1000);
update v_tickets set title = 'TWO' where id = 2 returning *;
insert into v_keyless values (1), (2) returning *;
insert into v_keyless (w) values (5) returning *;
@tables

# Several shards.
@route
insert into v_all (id, owner, balance) values (120, 'a', 1), (121, 'b', 2), (122, 'c', 3), (123, 'd', 4), (124, 'e', 5);
insert into v_renamed (who, number) values ('a', 130), ('b', 131), ('c', 132), ('d', 133) returning number, who, money, shouted;
insert into v_renamed (who, number) select 'sel', id + 200 from accounts where id < 8;
insert into v_renamed (number, money) select acc + 300, sum(amount) from v_entries group by 1;
insert into v_entries select id, 50, balance from v_all where id < 10;
insert into v_tickets (title) values ('m1'), ('m2'), ('m3'), ('m4'), ('m5');
insert into v_tickets (title) select 's' || g from generate_series(1, 5) g;
update v_all set note = 'all' where owner like 'o1%';
update v_renamed set money = money + 1;
update v_renamed set money = money * 2 where who = 'sel' returning number, money;
update v_renamed r set money = e.amount from v_entries e where e.acc = r.number and e.seq = 1;
update v_renamed r set money = n.n from v_notes n where n.v = 'v' || r.number and r.number < 5 returning r.number, r.money;
update v_renamed set money = (select avg(balance) from accounts where id < 5) where number between 5 and 8;
update v_rich set owner = 'rich' where balance > 300 returning id, owner;
update v_rich set balance = 50 where id = 29;
update v_rich set balance = 60 where id > 27;
update v_local set balance = 20 where owner = 'rich' and id < 20;
update v_barrier set owner = owner || '!' returning id, owner, balance;
update v_branch set branch = 'south' where branch = 'north' and balance < 100;
update v_nokey set balance = balance + 1 where owner like 'o%' returning owner;
update v_nokey set balance = default where owner = 'nobody at all';
update v_branch set branch = default where id = 900;
update v_defaults set owner = default where id in (1, 2, 3, 4) returning id, owner;
update v_with_entries set owner = 'has entries' where balance < 100 returning id;
delete from v_with_entries where id > 26 returning id;
delete from v_rich where owner = 'rich' and id < 22 returning id;
delete from v_renamed r using v_entries e where e.acc = r.number and e.amount > 40;
delete from v_renamed where who = 'sel';
delete from v_nokey where owner = 'o5' returning *;
with gone as (delete from v_renamed where number between 120 and 125 returning *) select count(*), sum(money) from gone;
with gone as (delete from v_entries where seq = 50 returning acc, amount) insert into v_notes select acc + 50, amount::text from gone;
with new as (insert into v_renamed (number, who) select g, 'cte' from generate_series(400, 410) g returning number) select count(*) from new;
update v_timed set owner = 'timed' where id = 6 returning owner;
@tables

# A key that changes.
@route
update v_all set id = id + 1000 where id in (1, 2, 3, 4) returning id, owner, note;
update v_all set id = 500 where id = 6;
update v_entries set acc = acc where acc = 3;
update v_renamed set number = number where who = 'o9';
@maybe
update v_parts set part = default where v = 1 returning part, v;
update v_renamed set number = number + 2000 where who = 'o9';
update v_entries set acc = 2 where acc = 12;
update v_timed set owner = 'timed';
@tables

# Reference and home tables.
@route
insert into v_rates values ('n1', 5), ('n2', 6) returning *;
insert into v_rates_all (code, rate) values ('n3', 7) returning *;
insert into v_rates_all (code, rate) values ('n3', 8) on conflict (code) do update set rate = excluded.rate returning *;
update v_rates set r = r + 1 where c like 'n%' returning *;
update v_rates set r = -1 where c = 'n1' returning *;
update v_rates set r = r * 2;
update v_rates_all set memo = memo || code where rate > 50;
update v_rates_all set code = 'k' || code where code in ('c1', 'c2');
update v_rate_memo set rate = 3 where memo = 'm' and rate < 20;
delete from v_rates where r > 100 returning c;
delete from v_rates_all where rate < 0;
insert into v_checked_rates values ('ok', 20);
insert into v_notes values (20, 'twenty'), (21, 'one') returning *;
update v_notes set v = v || '!' where n > 9;
update v_notes n set v = a.owner from accounts a where a.id = n.n;
update v_notes_checked set w = (select count(*) from accounts)::text where id = 1;
delete from v_notes where n in (select id from accounts where id > 5);
insert into v_notes select id + 60, owner from accounts where id between 8 and 12;
@tables

# In a block.
@route
begin;
update v_renamed set money = 0;
insert into v_renamed (number, who) values (700, 'b'), (701, 'c'), (702, 'd');
rollback;
begin;
update v_renamed set money = 1 where number < 10;
delete from v_renamed where number > 20 and number < 25;
savepoint a;
delete from v_renamed;
rollback to a;
commit;
@tables

@maybe
# Refused: what each needs is on other shards.
insert into v_titles values ('hidden id');
insert into v_with_entries values (800, 'x', 1);
update v_elsewhere set owner = 'x';
