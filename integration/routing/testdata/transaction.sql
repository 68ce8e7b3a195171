@include shop

@route
begin;
select * from customers where id = 3;
update customers set balance = balance - 10 where id = 3;
insert into orders (id, customer_id, total) values (700, 3, 10);
select balance from customers where id = 3;
commit;
select balance from customers where id = 3;

begin;
delete from orders where customer_id = 4;
select count(*) from orders where customer_id = 4;
rollback;
select count(*) from orders where customer_id = 4;

start transaction isolation level repeatable read;
show transaction isolation level;
select count(*) from orders where customer_id = 4;
commit and chain;
select count(*) from orders where customer_id = 5;
show transaction isolation level;
rollback and no chain;

begin isolation level serializable, read only;
select count(*) from orders where customer_id = 4;
end;

begin read only;
select name from customers where id = 4;
abort;

# Savepoints.
begin;
update customers set name = 'before' where id = 5;
savepoint a;
update customers set name = 'after' where id = 5;
rollback to savepoint a;
select name from customers where id = 5;
savepoint b;
insert into orders (id, customer_id) values (701, 5);
release savepoint b;
savepoint c;
savepoint c;
delete from orders where customer_id = 5;
rollback to c;
release c;
rollback to c;
commit;
select name from customers where id = 5;
select id from orders where customer_id = 5 order by id;

# A savepoint before any shard is chosen.
begin;
savepoint early;
select name from customers where id = 6;
update customers set name = 'lost' where id = 6;
rollback to early;
select name from customers where id = 6;
commit;

begin;
set local work_mem = '5MB';
select name from customers where id = 6;
show work_mem;
set constraints all deferred;
commit;
show work_mem;

# The catalogs inside a transaction that has its shard.
begin;
select 1;
select name from customers where id = 7;
select 2;
select p.name from products p where id = 1;
commit;

# Home tables alone.
begin;
select value from settings where key = 'color';
insert into settings values ('t', 'u');
commit;

# The work of a classic application, shard after shard.
begin;
select * from customers where id = 1 for update;
insert into orders (id, customer_id, status, total) values (710, 1, 'new', 5) returning id;
insert into order_items (customer_id, id, order_id, product_id, qty) values (1, 1, 710, 1, 2);
insert into order_items (customer_id, id, order_id, product_id, qty) values (1, 2, 710, 2, 1);
update orders set total = (select sum(i.qty * p.price) from order_items i join products p on p.id = i.product_id where i.customer_id = 1 and i.order_id = 710) where customer_id = 1 and id = 710 returning total;
update customers set balance = balance - 1 where id = 1 returning balance;
commit;

# Errors inside a transaction.
begin;
update customers set name = 'x' where id = 2;
@error
select 1/0;
select name from customers where id = 2;
@route
commit;
select name from customers where id = 2;

begin;
@error
insert into customers (id, name) values (3, 'twice');
insert into customers (id, name) values (3000, 'fine');
@route
rollback;

begin;
savepoint s;
@error
insert into customers (id, name) values (3, 'twice');
@route
rollback to s;
select name from customers where id = 3;
update customers set name = 'saved' where id = 3;
commit;
select name from customers where id = 3;

begin;
@error
select * from nosuch;
select 1;
savepoint x;
@route
rollback;

begin;
savepoint q;
@error
release nosuch;
rollback to nosuch;
@route
rollback to q;
select name from customers where id = 3;
rollback;
@error
savepoint outside;
@route
commit;
rollback;

# Deferred constraints fail at COMMIT.
begin;
alter table settings add constraint later foreign key (value) references settings (key) deferrable initially deferred not valid;
rollback;

@simple
begin; select name from customers where id = 3; commit;
select name from customers where id = 3; select count(*) from orders where customer_id = 3;
insert into orders (id, customer_id) values (720, 3); update orders set note = 'multi' where customer_id = 3 and id = 720; select note from orders where customer_id = 3 and id = 720;
insert into orders (id, customer_id) values (721, 3); select 1/0;
select id from orders where customer_id = 3 and id = 721;
begin; insert into orders (id, customer_id) values (722, 3);
select id from orders where customer_id = 3 and id = 722;
rollback; select id from orders where customer_id = 3 and id = 722;
;
select 1;;select 2;

# Two shards in one transaction.
@maybe
begin;
select name from customers where id = 1;
select name from customers where id = 2;
select name from customers where id = 3;
select name from customers where id = 4;
rollback;
begin;
update customers set name = 'w1' where id = 1;
update customers set name = 'w2' where id = 2;
update customers set name = 'w3' where id = 3;
update customers set name = 'w4' where id = 4;
commit;
begin;
update customers set name = 'h1' where id = 1;
insert into settings values ('both', 'shards');
commit;
begin;
insert into settings values ('both2', 'shards');
update customers set name = 'h2' where id = 2;
commit;
begin;
update customers set name = 'h3' where id = 3;
savepoint s;
update customers set name = 'h4' where id = 4;
rollback to s;
commit;
@simple maybe
update customers set name = 'm1' where id = 1; update customers set name = 'm2' where id = 2; update customers set name = 'm3' where id = 3;
insert into settings values ('m', 'm'); update customers set name = 'm4' where id = 4; update customers set name = 'm5' where id = 5;

@tables
