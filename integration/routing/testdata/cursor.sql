@include shop

@setup
create sequence tickets start 100;

@route
begin;
declare c cursor for select id from orders where customer_id = 3 order by id;
fetch 1 from c;
fetch next from c;
fetch all from c;
move backward 2 from c;
fetch 1 from c;
close c;
commit;

begin;
declare a scroll cursor for select id, status from orders where customer_id = 3 order by id;
declare b scroll cursor for select id from order_items where customer_id = 3 order by id;
fetch 2 from a;
fetch 2 from b;
fetch prior from a;
fetch last from b;
fetch absolute 1 from b;
update orders set status = 'cursor' where customer_id = 3 and id = 107;
close all;
rollback;

@maybe
begin;
declare u cursor for select id from orders where customer_id = 5 order by id for update;
fetch 1 from u;
# Where the cursor stands only its shard knows.
update orders set note = 'at the cursor' where current of u;
rollback;
@route

begin;
declare b2 binary cursor for select id from customers where id = 3;
fetch 1 from b2;
commit;

@error
fetch 1 from nosuch;
declare outside cursor for select id from customers where id = 3;

@route
prepare h as select value from settings where key = $1;
execute h ('color');
execute h ('size');
deallocate h;

# SQL's own PREPARE over sharded tables. Drivers use the protocol's.
@maybe
prepare p (bigint) as select name from customers where id = $1;
execute p (1);
execute p (2);
execute p (3);
execute p ('4');
execute p (2 + 3);
deallocate p;
prepare q as select id from orders where customer_id = $1 and status = $2;
execute q (1, 'new');
execute q (5, 'paid');
execute q (null, 'paid');
prepare w (bigint, text) as update customers set name = $2 where id = $1 returning id, name;
execute w (1, 'prepared');
execute w (6, 'prepared');
begin;
execute w (7, 'prepared');
execute q (7, 'sent');
rollback;
prepare i (bigint, bigint) as insert into orders (id, customer_id) values ($1, $2) returning id;
execute i (5000, 1);
execute i (5001, 2);
@simple
# Arguments are any expressions, evaluated once and converted as EXECUTE does.
prepare e (int) as select count(*) from orders where id > $1;
execute e (length('a') + 100);
execute e (103.4 + 0.2);
execute e (null::int + 1);
prepare n (timestamptz, text) as select $1 = now() as same, $2 as t, count(*) from orders where status <> $2;
execute n (now(), upper('new'));
begin;
execute n (now(), 'pa' || 'id');
execute e (nextval('tickets'));
commit;
prepare c (bigint) as select id, name from customers where id = $1;
execute c (length('abc'));
prepare a (int[], date, float8, char(5)) as select $1 as a, $2 as d, $3 as f, $4 as c, count(*) from orders;
execute a (array[1, 2] || 3, date '2026-01-01' + 1, 0.1::float8 + 0.2::float8, 'ab' || '  ');
prepare z (bigint) as update orders set note = 'executed' where id <= $1 and customer_id > 1 returning id;
begin;
execute z (100 + 1);
rollback;
execute w (length('a') + 5, lower('MADE'));
execute i (5002 + 0, length('ab'));
create table made as execute e (length('a') + 100);
select * from made;
create table made_of (id, called) as execute c (2 + 1) with data;
select * from made_of;
create table made_empty as execute c (3) with no data;
select * from made_empty;
drop table made, made_of, made_empty;
create table made as execute c (3);
select * from made;
drop table made;
@simple error
execute e ('1'::text);
execute e (1 / (length('a') - 1));
execute e ((select 1));
execute e (nosuch);
execute e (1, 2);
create table made as execute w (1, 'x' || 'y');
@simple
begin;
@simple error
execute e (1 / (length('a') - 1));
execute e (1);
@simple
rollback;
@route
deallocate all;
@error
execute p (1);
@route
explain (costs off) select * from customers where id = 3;

@route
begin;
declare a cursor for select id from orders where customer_id = 1 order by id;
declare "B" cursor for select id from orders where customer_id = 2 order by id;
declare c cursor for select name from customers where id = 3;
fetch 1 from a;
fetch next in "B";
fetch c;
fetch all a;
move 1 in "B";
close a;
fetch 5 from "B";
close c;
commit;

@maybe
begin;
declare every cursor for select id + 0 as id from orders order by id;
fetch 2 from every;
rollback;
declare hold cursor with hold for select id + 0 as id from orders where customer_id = 3 order by id;
fetch 1 from hold;
select name from customers where id = 4;
fetch 1 from hold;
close hold;
prepare s as select count(*) from customers;
execute s;
deallocate all;

@tables
