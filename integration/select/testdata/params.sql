# Parameters of every type, where they decide shards and where they do not.
@route
select id, n from a where k = $1 and n > $2 order by id;
-- int8:1 | int4:0
-- int8:2 | int4:3
-- int4:7 | int8:-5
-- unknown:1 | unknown:2
-- int8:NULL | int4:0
select id from a where k in ($1, $2, $3) order by id;
-- int8:1 | int8:2 | int8:3
-- int8:1 | int8:1 | int8:1
-- int8:5 | int8:NULL | int8:-1
select id from a where k = any ($1) order by id desc;
-- int8[]:{1,2,3}
-- int8[]:{}
-- int8[]:{4,NULL}
-- int8[]:NULL
select count(*), sum(n + $1) from a where x < $2;
-- int4:1 | numeric:3.5
-- int4:NULL | numeric:100
select n, count(*) from a group by n having count(*) > $1 order by n limit $2 offset $3;
-- int8:1 | int8:3 | int8:1
-- int8:0 | int8:NULL | int8:0
-- int8:0 | int8:0 | int8:5
select a.id, b.id from a join b on a.n = b.n where a.k = $1 and b.s like $2 order by 1, 2;
-- int8:1 | text:a%
-- int8:2 | text:%
select $1::text || s from a where b = $2 order by 1 limit 5;
-- text:x | bool:t
-- unknown:y | bool:f
select id from a where d between $1 and $2 and ts > $3 order by id;
-- date:2024-01-01 | date:2024-01-20 | timestamptz:2024-03-31 00:00+02
select r.id, (select count(*) from a where a.n = r.id and a.x > $1) from r where r.n <> $2 order by 1;
-- numeric:2 | int4:3
select id from w where g = $1 or n = $2 order by id;
-- uuid:c4ca4238-a0b9-2382-0dcc-509a6f75849b | int4:2
select code, count(*) from u where code = $1 or code > $2 group by code order by 1;
-- text:apple | text:b
select tenant, sum(n) from p where tenant = $1 or day = $2 group by tenant order by 1;
-- int4:1 | date:2024-01-03
select id, $1 as one, $2 as two from a order by id limit 3;
-- int4:5 | text:x
@error
select id from a where n = $1;
-- text:x
select id / $1 from a order by 1;
-- int4:0
