@include shop

@route
# Equality with literals that are not int8.
select * from customers where id = 1;
select * from customers where id = 7;
select * from customers where id = 99;
select id, name from customers where 3 = id;
select * from customers where id = '4';
select * from customers where id = 40 + 2 - 38;
select * from customers where id = 2 * 3;
select * from customers where id = 10 - 3;
select * from customers where id = -1;
select * from customers where id = - 1 + 3;
select * from customers where id = 5::bigint;
select * from customers where id = '5'::bigint;
select * from customers where id = cast(5 as int);
select * from customers where id = 5::int2;
select * from customers where id = int8 '6';
select * from customers where id = 42.0;
select * from customers where id = 4.0;
select * from customers where (id = 5);
select * from customers where id = (5);
select c.id from customers c where c.id = 5 and c.name = 'customer 5';
select c.id from customers as c where c.name = 'nobody' and c.id = 5;
select c.name n from public.customers c where c.id = 5;
select customers.name from customers where customers.id = 5;
select name from public.customers where public.customers.id = 5;
select count(*) from customers where id = 5;
select count(*), sum(total), min(note), max(status) from orders where customer_id = 3;
select status, count(*) from orders where customer_id = 3 group by status order by status;
select status, count(*) from orders where customer_id = 3 group by status having count(*) > 0 order by 1 desc;
select status, sum(total) over (order by id) from orders where customer_id = 4 order by id;
select distinct customer_id from orders where customer_id = 4;
select distinct on (customer_id) customer_id, id from orders where customer_id = 4 order by customer_id, id desc;
select * from orders where customer_id = 2 order by id limit 1;
select * from orders where customer_id = 2 order by id limit 2 offset 1;
select * from orders where customer_id = 2 order by id desc fetch first 2 rows only;
select id, total * 2 as twice, upper(status) from orders where customer_id = 2 order by 2 desc;
select case when total > 20 then 'much' else 'little' end from orders where customer_id = 2 order by id;
select o from orders o where customer_id = 2 order by id;
select row(o.id, o.status) from orders o where customer_id = 2 order by id;
select array_agg(id order by id) from orders where customer_id = 2;
select json_agg(o order by id) from orders o where customer_id = 2;
select string_agg(status, ',' order by id) from orders where customer_id = 2;
select exists (select from orders where customer_id = 2);
select (select max(id) from orders where customer_id = 2);
select id from orders where customer_id = 2 and total between 20 and 21 order by id;
select id from orders where customer_id = 2 and note is null;
select id from orders where customer_id = 2 and status in ('new', 'sent') order by id;
select id from orders where customer_id = 2 and not (status = 'new') order by id;
select id from orders where customer_id = 2 and (status = 'new' or total > 21) order by id;
select 'it''s', e'a\'b', $$x = 7$$, U&'d\0061t' from customers where id = 3;
select /* id = 9 */ name -- id = 8
  from customers where /* not 1 */ id = 3;
select name from customers where id = 3 and name <> 'a''b' and name <> e'c\\';
table settings;
values (1, 'a'), (2, 'b');
select 1 as one, 'x' as x;
select version() like 'PostgreSQL%' as yes;
select current_database() = current_database() as same;

# Lists of the same key, and lists whose values share a shard.
select * from customers where id in (5);
select * from customers where id in (5, 5);
select * from customers where id in ('5', 5);
select * from customers where id = any (array[5]);
select * from customers where id = any ('{5}');
select * from customers where id = any ('{5,5}'::bigint[]);
select * from customers where id = any (array[5, 5]::int[]);
select * from customers where id = 5 or id = 5;
select * from customers where (id = 5 and name = 'customer 5') or (id = 5 and region = 'eu');
select * from customers where id = 5 and id = 5;
select * from customers where id in (1, 2, 3) and id = 2;
select * from customers where id = 2 and id in (1, 2, 3);

# Nothing can match.
select * from customers where id = null;
select * from customers where id = 1 and id = null;
select * from customers where id in (null);
select * from customers where id = any ('{}');
select * from orders where customer_id is null and customer_id = 3;

# Rows.
select * from customers where (id, name) = (5, 'customer 5');
select * from customers where row(id, name) = row(5, 'customer 5');
select * from customers where (id, name) in ((5, 'customer 5'), (5, 'x'));
select * from orders where (customer_id, status) = (3, 'new');

# Rows without a customer live somewhere too.
select id, status from orders where customer_id is null order by id;
select count(*) from orders where customer_id is null and status = 'orphan';
select * from customers where id is null;
select id from orders where customer_id is not distinct from 4 order by id;

# Ranges and other conditions beside the key.
select * from customers where id = 5 and id > 3;
select * from customers where id = 5 and id <> 5;
select * from customers where id = 5 and id between 1 and 10;
select * from customers where id = 5 and true;
select * from customers where id = 5 and random() >= 0;

# Parameters.
select * from customers where id = $1;
  -- int8:1
  -- int8:2
  -- int8:3
  -- int8:99
  -- int8:NULL
  -- int8:9223372036854775807
select * from customers where id = $1;
  -- unknown:4
  -- unknown:5
select * from customers where id = $1;
  -- int4:4
  -- int4:5
  -- int4:-2147483648
select * from customers where id = $1;
  -- int2:4
  -- int2:6
select * from customers where id = $1::bigint;
  -- unknown:7
select id from orders where customer_id = $1 and status = $2;
  -- int8:3 | text:new
  -- int8:4 | text:paid
  -- unknown:5 | unknown:sent
  -- int4:5 | varchar:nosuch
select id from orders where status = $2 and customer_id = $1;
  -- int8:3 | text:new
  -- int8:4 | text:paid
select id from orders where customer_id = $1 and total > $2 order by id limit $3;
  -- int8:3 | numeric:30.5 | int8:1
  -- int8:4 | numeric:0 | int8:2
  -- unknown:5 | unknown:1 | unknown:5
select * from customers where id = any ($1);
  -- int8[]:{5}
  -- int8[]:{6,6}
  -- int8[]:{}
  -- unknown:{7}
  -- int8[]:NULL
select * from customers where id = any ($1::bigint[]);
  -- unknown:{7}
select * from customers where id = any ($1);
  -- int4[]:{5}
select * from customers where id in ($1, $2) order by id;
  -- int8:5 | int8:5
  -- unknown:6 | unknown:6
select * from customers where id = $1 or id = $1;
  -- int8:5
select * from customers where id = $1 and id = $2;
  -- int8:5 | int8:5
select * from customers where id = $1 + 0;
  -- int8:5
select * from customers where (id, name) = ($1, $2);
  -- int8:5 | text:customer 5
select $1::int + $2::int as sum;
  -- int4:40 | int4:2
select $1::text, count(*) from orders where customer_id = $2;
  -- text:abc | int8:2
select name from customers where $1 = id;
  -- int8:2
select o.id from orders o where o.customer_id = $1 and o.note is not distinct from $2 order by 1;
  -- int8:2 | text:NULL
  -- int8:2 | text:note 104

# Errors are PostgreSQL's.
@error
select * from customers where id = 'five';
select nosuch from customers where id = 5;
select * from nosuch where id = 5;
select * from customers where id = 5 and nosuch();
select total / 0 from orders where customer_id = 3;
select * frm customers;
select * from customers where id = $1;
  -- unknown:five

# More than one shard, or nobody can tell: refused or right.
@maybe
select * from customers where id = $1::bigint;
  -- text:8
select * from customers where id = $1::text::bigint;
  -- text:7
select * from customers where id = 1/0;
select * from customers where id = 99999999999999999999;
select * from customers order by id;
select count(*) from customers;
select * from customers where id in (1, 2, 3, 4, 5) order by id;
select * from customers where id = 1 or name = 'customer 2' order by id;
select * from customers where id <> 1 order by id;
select * from customers where id > 3 order by id;
select * from customers where id between 3 and 5 order by id;
select * from customers where id + 0 = 5;
select * from customers where abs(id) = 5;
select * from customers where id = (random() * 0 + 5)::bigint;
select * from customers where id::text = '5';
select * from customers where id = 5::float8;
select * from customers where id = 5.0::numeric;
select * from customers where id = 4.5;
select * from customers where id = 9007199254740993::float8;
select * from customers where not (id = 5) order by id;
select * from customers where not (id <> 5);
select * from customers where id = 5 is true;
select * from customers where (id = 5) is not false;
select * from customers where coalesce(id, 0) = 5;
select * from customers where id is not null order by id;
select * from customers where id = id order by id;
select * from customers where id in (select 5);
select * from customers where id = (select 5);
select * from customers where id = length('12345');
select * from customers where id = any (array[1, 2, 3]) order by id;
select * from customers where id = all (array[5]);
select * from customers where id != all (array[5]) order by id;
select * from customers where (id, name) > (5, 'customer 5') order by id;
select * from customers where (id, name) <> (5, 'customer 5') order by id;
select * from customers where case when id = 5 then true else id = 6 end order by id;
select * from customers where id = $1;
  -- float8:5
select * from customers where id = $1;
  -- numeric:5
  -- numeric:5.5
select * from customers where id in ($1, $2) order by id;
  -- int8:1 | int8:2
  -- int8:3 | int8:NULL
select * from customers where id = any ($1) order by id;
  -- int8[]:{1,2,3,4,5,6}
  -- int8[]:{1,NULL}
select region, count(*) from customers group by region order by region;
select * from customers tablesample bernoulli (100) where id = 5;
select ctid is not null from customers where id = 5;
