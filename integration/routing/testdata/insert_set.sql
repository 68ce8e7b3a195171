# One row of VALUES that is several, because a function in it returns a set.
@include shop

# Under load numbers of a sequence are handed out in blocks.
@mask id
@route
insert into customers (id, name) values (generate_series(700, 705), 'many') returning id, name;
insert into customers (id, name) values (abs(generate_series(-712, -710)), unnest(array['x', 'y', 'z']));
insert into customers (id, name, region, balance) values (generate_series(720, 722), 'c', default, 1.5) on conflict do nothing;
@error
insert into customers values (generate_series(730, 732), default);
insert into customers (id, name) values (generate_series(1, 3), 'taken');
@route
insert into customers values (generate_series(740, 742), 'd', default) returning name, region;
insert into customers (name) values (unnest(array['s1', 's2', 's3'])) returning id, name;
insert into customers (id, name) values (generate_series(1, 0), 'nobody') returning id;
insert into customers (id, name) values (generate_series(700, 708), 'again') on conflict (id) do update set name = excluded.name || customers.id returning id, name;
insert into customers (id, name) values (generate_series($1, $2), $3) returning id, name;
  -- int4:750 | int4:752 | text:p
  -- int8:760 | int8:761 | text:q
with made as (insert into customers (id, name) values (generate_series(770, 773), 'w') returning id) select count(*) from made;
insert into order_items (customer_id, order_id, product_id, qty) values (1, 1, 1, generate_series(10, 12)) returning customer_id, qty;
select name, region, balance, count(*) from customers where id >= 700 or name like 's_' group by 1, 2, 3 order by 1, 2, 3;

@tables
