# Rows are asked for by the keys of another piece.
@route
select a.id, q.id from a join q on q.n = a.n where a.id < 12 order by 1, 2;
select count(*) from q join a on a.n = q.n and a.id between 5 and 9;
select a.id, q.id from a left join q on q.n = a.n where a.id < 12 order by 1, 2;
select a.id, q.id from q left join a on a.n = q.n and a.id < 12 order by 2, 1;
select a.id, q.id from a right join q on q.n = a.n where a.id < 12 order by 1, 2;
select a.id from a where a.id < 30 and exists (select from q where q.n = a.n) order by 1;
select a.id from a where a.id < 30 and not exists (select from q where q.n = a.n) order by 1;
select a.id from a where a.id < 30 and a.n in (select n from q) order by 1;
select a.id from a where a.id < 30 and a.n not in (select n from q where n is not null) order by 1;
select a.id, (select count(*) from q where q.n = a.n) from a where a.id < 30 order by 1;
select a.id, q.id, u.k from a join q on q.n = a.n join u on u.n = q.n where a.id < 12 order by 1, 2, 3;
select a.id, q.id from a join q on q.n = a.n where a.id < 0;
select a.id, q.id from a full join q on q.n = a.n where a.id < 12 or a.id is null order by 1, 2;
with t as (select n from a where id < 20) select count(*) from q join t on t.n = q.n;
