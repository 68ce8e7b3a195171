# What the generator found, made smaller. Each was answered wrongly once.
@route
# DISTINCT inside ran in each shard by itself.
select 1 from (select distinct 1 as c from a) s;
with t as materialized (select distinct 1 as c from c) select 1 from t;
select count(*) from (select distinct g, z from c) s;
# Texts lost brackets when they were written anew.
select (coalesce(array['x', s], array['y']))[2] from a order by id;
select id from a where (k > 7) <> all (array[false, true]);
select id from a where ((k > 7) = b) = (n is null) order by id;
# The same subquery in two places became two expressions.
select (select count(*) from c where c.id = 0) as c1 group by rollup ((select count(*) from c where c.id = 0));
select (select count(*) from b where b.id = a.n) from a group by (select count(*) from b where b.id = a.n) order by 1;
select distinct (select max(id) from q where q.n = a.n) from a order by (select max(id) from q where q.n = a.n);
# No columns at all.
select from a where id < 4;
# A modifier that only planning finds.
select coalesce(x, null) from a order by id limit 3;
