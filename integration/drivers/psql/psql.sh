#!/bin/bash
# psql itself: its commands on sharded, reference and other tables.
. ./check.sh
shop

script describe <<'SQL'
\d
\d customers
\d+ orders
\d+ items
\d products
\d+ events
\d events_2024
\d notes
\d+ spending
\d orders_open
\d customers_id_seq
\dS+ mood
SQL
script "describe lists" <<'SQL'
\dt
\dti
\di
\dv
\ds
\dm
\dP
\dT+
\dD
\df
\df+ twice
\dn public
\dp
\ddp
\dx
\dX
\dc nosuch
\dd
\dC nosuch
\dRp
\des
\det
\dl
\drds
\dconfig work_mem
\sf twice
\sv spending
\z products
\dt nosuch
\d nosuch
\encoding
\conninfo
SQL
script "describe system" <<'SQL'
\dtS pg_catalog.pg_am
\dfS pg_catalog.abs
\dTS int4
\daS sum
\doS ~~
\dA
\db
\l nosuch
SQL
script "statements" <<'SQL'
\x
select * from customers where id = 3;
\x
select * from orders where customer_id = 7 order by id;
select status, count(*) from orders group by status order by status;
insert into customers (id, name) values (2000, 'ada') returning id, name, mood;
update customers set balance = balance + 1 where id in (1, 2, 3, 4, 5);
delete from customers where id = 2000;
select * from customers where id = 2000;
table products order by id limit 2;
values (1, 'a'), (2, null);
explain (costs off) select 1;
\timing off
\pset null <null>
select id, home, tags from customers order by id limit 3;
\pset format csv
select id, note from orders order by id limit 3;
\pset format html
select 1 as one;
\pset format unaligned
select 1 as one, 2 as two;
SQL
script "gdesc" <<'SQL'
select * from customers \gdesc
select id, home, tags, balance + 1 as more, count(*) over () from customers where id = 1 \gdesc
select status, count(*), max(placed) from orders group by status \gdesc
select 1 as a, 'x'::varchar(7) as b, null::numeric(5,2) as d \gdesc
update customers set name = name returning id, mood \gdesc
select nosuch from customers \gdesc
SQL
script "gexec and gset" <<'SQL'
select format('update customers set name = %L where id = %s', 'renamed ' || id, id) from customers where id < 6 order by id \gexec
select name from customers where id < 7 order by id;
select count(*) as n, max(id) as most from orders \gset
\echo :n :most
select 'create table made_' || i || ' (a int)' from generate_series(1, 3) i \gexec
\dt made_*
drop table made_1, made_2, made_3;
select id, name from customers where id < 3 order by id \g (format=csv)
SQL
script "crosstabview" <<'SQL'
select mood, status, count(*) from customers c join orders o on o.customer_id = c.id group by 1, 2 order by 1, 2 \crosstabview
SQL
script "errors" <<'SQL'
\errverbose
insert into customers (id, name) values (1, 'again');
\echo :SQLSTATE :ERROR :LAST_ERROR_SQLSTATE
insert into users (email) values ('user5@example.com');
insert into orders (customer_id) values (4711);
select nosuch from customers;
\set VERBOSITY verbose
\set SHOW_CONTEXT always
select 'x'::int from customers where id = 1;
\set VERBOSITY sqlstate
select 1/0;
begin;
select nosuch;
\echo :SQLSTATE :ROW_COUNT
select 1;
commit;
SQL
script "on_error_rollback" <<'SQL'
\set ON_ERROR_ROLLBACK on
begin;
update customers set name = 'kept' where id = 11;
update customers set name = 'kept too' where id = 12;
insert into customers (id, name) values (1, 'again');
select nosuch;
update customers set name = 'kept as well' where id = 13;
commit;
select id, name from customers where id between 10 and 14 order by id;
SQL
script "autocommit off" <<'SQL'
\set AUTOCOMMIT off
update customers set name = 'undone';
select count(*) from customers where name = 'undone';
rollback;
update customers set name = 'done' where id in (21, 22, 23);
commit;
select count(*) from customers where name = 'done' or name = 'undone';
commit;
SQL
script "fetch_count" <<'SQL'
\set FETCH_COUNT 7
select id, name from customers order by id;
select id, name from customers where id = 3;
select customer_id, count(*) from orders group by customer_id order by customer_id;
select nosuch from customers;
select 1 / (id - 3) from customers where id = 3;
\set FETCH_COUNT 1
select * from products order by id limit 5;
SQL
script "transactions" <<'SQL'
begin isolation level repeatable read;
select count(*) from orders;
savepoint a;
delete from orders;
rollback to a;
select count(*) from orders;
commit;
begin \; update customers set balance = 0 where id = 31 \; update customers set balance = 0 where id = 32 \; commit;
select 1 \; select 2 \; select count(*) from customers;
prepare p as select name from customers where id = $1;
execute p (40);
deallocate p;
begin;
declare c cursor for select id from customers order by id;
fetch 3 from c;
fetch 2 from c;
close c;
commit;
SQL

for format in text csv binary; do
	rows() { q -c "select count(*), sum(customer_id), sum(id), max(status), min(note::text) from $1"; }
	file="$OUT/orders.$format"
	check "copy out $format" q -c "\\copy (select customer_id, id, status, placed, note from orders order by id) to '$file' (format $format)"
	q -c "create table back_$format (customer_id bigint, id bigint, status text, placed timestamptz, note jsonb, primary key (customer_id, id))"
	check "copy declare $format" $DECLARE back_$format=customer_id
	check "copy in $format" q -c "\\copy back_$format from '$file' (format $format)" -c "\\copy (select * from back_$format where id < 5 order by id) to stdout"
	equal "copy both ways $format" "$(rows orders)" rows back_$format
done
check "copy from program" q -c "\\copy notes (body) from program 'seq 3'" -c "select count(*) from notes"
printf '5\t900\n6\tx\n7\t902\n' >"$OUT/bad"
fails "copy bad" psql -X -c "\\copy orders (customer_id, id) from '$OUT/bad'"
equal "copy bad leaves nothing" 0 q -c "select count(*) from orders where id >= 900"

script "listen" <<'SQL'
listen news;
\! psql -X -q -c "notify news, 'from another'"
select pg_sleep(0.3);
unlisten news;
SQL

# \watch until it is interrupted.
watching() {
	: >"$OUT/watched" # the shell in the background makes it when it gets there
	psql -X -qAt -c '\o' -f - <<<'select count(*) from customers \watch 0.1' >"$OUT/watched" 2>&1 &
	pid=$!
	for _ in $(seq 100); do
		[ "$(grep -cx 50 "$OUT/watched")" -ge 3 ] && break
		sleep 0.1
	done
	kill -INT $pid
	wait $pid
	[ "$(grep -cx 50 "$OUT/watched")" -ge 3 ] && echo watched
}
equal watch watched watching

interrupted() {
	psql -X -q -c 'select pg_sleep(20), count(*) from customers' 2>&1 &
	sleep 0.5
	kill -INT $!
	wait $!
	echo "code $?"
}
check cancel interrupted

major=$(psql --version | sed 's/.* \([0-9]*\)\..*/\1/')
if [ "$major" -ge 16 ]; then
	script bind <<'SQL'
select name from customers where id = $1 \bind 7 \g
select count(*) from orders where status = $1 and id > $2 \bind open 20 \g
SQL
else
	echo "skip bind: psql $major has no \\bind, which came with 16"
fi
check isready pg_isready
equal "isready nowhere" 2 sh -c 'pg_isready -q -p 1; echo $?'
equal reconnect 50 sh -c '$RESTART; for i in $(seq 50); do n=$(psql -X -qAt -c "select count(*) from customers" 2>/dev/null) && break; sleep 0.2; done; echo $n'
exit $failed
