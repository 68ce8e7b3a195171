begin
declare c cursor for select id, s, x from a order by id
fetch 3 from c
fetch next c
fetch forward 5 from c
move 4 in c
fetch c
fetch all from c
fetch all from c
close c
fetch c

begin
declare c scroll cursor for select id, x::numeric(8,1) as x, s::varchar(3) as s from a where n > 1 order by id desc
fetch last from c
fetch backward 3 from c
fetch absolute 2 from c
fetch relative -1 from c
fetch prior from c
fetch first from c
move backward all in c
fetch 0 from c
select name, is_holdable, is_binary, is_scrollable from pg_cursors
close c
select count(*) from pg_cursors
commit

begin
declare c no scroll cursor for select k, count(*), sum(x) from a group by k order by k
fetch 2 from c
fetch backward 1 from c

declare c cursor with hold for select a.id, u.id as uid from a join u on a.s = u.code order by 1, 2
fetch 2 from c
begin
select id from a where k = 1 order by id
fetch 2 from c
select count(*) from a
fetch 2 from c
commit
fetch 2 from c
close c
fetch c

begin
declare c cursor with hold for select id from a order by id
commit
fetch 3 from c
move 2 in c
fetch 2 in c
close all

begin
declare "My Cur" cursor for select id from a where id > $1 order by id -- int4:20
fetch 2 from "My Cur"
declare d cursor for select b.id from b where b.n = $1 order by id -- int4:3
fetch all from d
fetch 1 from "My Cur"
savepoint s
declare e cursor for select count(*) from c
fetch e
rollback to s
fetch e

begin
declare c binary cursor for select id, n from a order by id limit 3
fetch all c
commit

declare c cursor for select id from a

begin
declare c cursor for select nothing from a

begin
declare c cursor for select id from a where k = 1 order by id
fetch 2 from c
declare d cursor for select id from a where k = 2 order by id
fetch 2 from d
fetch 2 from c
declare e cursor for select id from a order by id
fetch 2 from d
fetch 2 from e
fetch 2 from c
close d
fetch 1 from e
commit

begin isolation level repeatable read read only
declare c cursor for select id, now() = transaction_timestamp() as t from a order by id
fetch 2 from c
fetch 2 from c
commit

begin
declare c cursor for select from a where id < 4
fetch all from c
rollback

begin
declare c cursor for select * from v_cnt order by n
fetch 3 from c
declare c cursor for select id from a

declare c cursor with hold for select id from a order by id
begin
select count(*) from a where k = 1
fetch 2 from c
select count(*) from a where k = 2
fetch 2 from c
select count(*) from a where k = 3
fetch 2 from c
select count(*) from a where k = 6
move 1 in c
select count(*) from a where k = 7
fetch 2 from c
select count(*) from a where k = 8
close c
fetch c
