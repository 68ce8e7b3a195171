# What users found who tried to break it.
@route
# The parts of a row are as many columns as its type has.
select (o).* from c order by id, k;
select (o).*, id from c order by 2, 3, k limit 5;
select * from (select (o).*, id, k from c) s order by id, k;
select y, count(*) from (select (o).* from c) s group by y order by y collate "C";
select (o).*, a.id from c join a on a.n = c.n order by a.id, c.id, c.k;
select ((array_agg(o order by id, k))[3]).* from c;
with s as (select (o).*, id from c) select sum(x), max(id) from s;
select (o).* from c union select 1, 'a' order by 1, 2;
# A key compared with a parameter of a wider type.
select id from a where k = $1 order by id;
-- float8:1
-- float8:1.5
-- numeric:2
-- float8:NULL
select a.id, c.id from a join c on c.k = a.k where a.k = $1 order by 1, 2;
-- float8:2
@route
# Catalogs have columns of types that have no values elsewhere.
select (select count(*) from pg_class where relname = 'pg_class'), count(*) from a;
