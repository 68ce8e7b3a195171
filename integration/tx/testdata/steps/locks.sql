-- update waits and rechecks
A begin
A update acct set note = 'x', balance = 5 where id in ({a}, {b}, {c})
B& update acct set balance = balance + 1 where balance = 1000
A commit
B.
B select count(*), sum(balance) from acct

-- update waits and rechecks, rolled back
A begin
A update acct set balance = 5 where id in ({a}, {b}, {c})
B& update acct set balance = balance + 1 where balance = 1000
A rollback
B.
B select count(*), sum(balance) from acct

-- delete waits for an update
A begin
A update acct set balance = 5 where id in ({b}, {c})
B& delete from acct where balance = 1000 returning 1
A commit
B.
B select id, balance from acct

-- update waits for a delete
A begin
A delete from acct where id in ({b}, {c})
B& update acct set balance = 1 where id in ({a}, {b}, {c}) returning id
A commit
B.

-- update of a counter by two
A begin
A update acct set balance = balance + 1 where id in ({a}, {b})
B& update acct set balance = balance + 10 where id in ({b}, {c}) returning id, balance
A commit
B.
B select id, balance from acct where id in ({a}, {b}, {c})

-- a row that moves
A begin
A update acct set id = 7000 where id = {a}
B& update acct set balance = 1 where id = {a}
A rollback
B.
B select id, balance from acct where balance = 1

-- insert waits for insert
A begin
A insert into acct values (7000, 1), (7001, 1), (7002, 1)
B& insert into acct values (7001, 2), (7002, 2), (7003, 2)
A commit
B.
B select count(*) from acct where id >= 7000

-- insert waits for insert that is rolled back
A begin
A insert into acct values (7000, 1), (7001, 1), (7002, 1)
B& insert into acct values (7001, 2), (7002, 2), (7003, 2) returning id
A rollback
B.
B select count(*) from acct where id >= 7000

-- on conflict waits
A begin
A insert into acct values (7000, 1), (7001, 1), (7002, 1)
B& insert into acct values (7001, 2), (7002, 2), (7003, 2) on conflict do nothing returning id
A commit
B.
B select id, balance from acct where id >= 7000

-- on conflict do update waits
A begin
A insert into acct values (7000, 1), (7001, 1), (7002, 1)
B& insert into acct values (7001, 2), (7002, 2), (7003, 2) on conflict (id) do update set balance = acct.balance + excluded.balance returning id, balance
A commit
B.
B select id, balance from acct where id >= 7000

-- on conflict waits for a delete
A begin
A delete from acct where id in ({a}, {b})
B& insert into acct values ({a}, 2), ({b}, 2), ({c}, 3) on conflict (id) do update set balance = acct.balance + excluded.balance returning id, balance
A commit
B.
B select id, balance from acct where id in ({a}, {b}, {c})

-- on conflict under repeatable read
A begin isolation level repeatable read
A select count(*) from acct
B insert into acct values (7000, 1), (7001, 1), (7002, 1)
A insert into acct values (7000, 1), (7001, 1), (7003, 3) on conflict do nothing
A rollback
A begin isolation level repeatable read
A select count(*) from acct
B insert into acct values (7004, 1), (7005, 1), (7006, 1)
A insert into acct values (7004, 1), (7005, 1), (7007, 3) on conflict (id) do update set balance = 9
A rollback

-- merge waits
A begin
A update acct set balance = 5 where id in ({a}, {b})
B& merge into acct using (values ({a}), ({b}), ({c})) s (i) on s.i = acct.id when matched and acct.balance = 1000 then update set balance = 1 when matched then delete
A commit
B.
B select id, balance from acct where id in ({a}, {b}, {c})

-- for update waits and rechecks
A begin
A update acct set balance = 5 where id in ({a}, {b})
B begin
B& select id, balance from acct where balance = 1000 and id in ({a}, {b}, {c}) order by id for update
A commit
B.
C select id from acct where id in ({a}, {b}, {c}) order by id for update skip locked
B rollback

-- for update sees the new row
A begin
A update acct set balance = 5 where id in ({a}, {b})
B& select id, balance from acct where id in ({a}, {b}, {c}) order by id for update
A commit
B.

-- for update of a row that is deleted
A begin
A delete from acct where id in ({a}, {b})
B& select id, balance from acct where id in ({a}, {b}, {c}) order by id for share
A commit
B.

-- skip locked
A begin
A select id from acct where id in ({a}, {b}) for update
B begin
B select id from acct where id in ({a}, {b}, {c}) order by id for update skip locked
C select id from acct where id in ({a}, {b}, {c}) order by id for update skip locked
C select id from acct where id in ({a}, {b}, {c}) order by id limit 1 for update skip locked
C select id from acct where id in ({a}, {b}, {c}) order by id for key share skip locked
A commit
C select id from acct where id in ({a}, {b}, {c}) order by id for update skip locked
B commit

-- limit and skip locked
A begin
A select id from acct order by id limit 3 for update skip locked
B begin
B select id from acct order by id limit 3 for update skip locked
C select id from acct order by id limit 3 for update skip locked
C delete from acct where id in (select id from acct order by id limit 3 for update skip locked) returning id
A commit
C select id from acct order by id limit 3 for update skip locked
B commit

-- nowait
A begin
A update acct set balance = 5 where id = {c}
B select id from acct where id in ({a}, {b}, {c}) order by id for update nowait
B select id from acct for share nowait
B select id from acct where id in ({a}, {b}) for update nowait
B begin
B select id from acct where id in ({a}, {b}) for update
B select id from acct where id in ({a}, {c}) for update nowait
A update acct set balance = 6 where id in ({a}, {b})
B rollback
A rollback

-- update of home from shards, rechecked
A begin
A update home set v = v + 100 where id < 3
B& update home set v = v + acct.balance from acct where acct.id = home.id and home.v < 5 returning home.id, home.v
A commit
B.

-- reference table: two writers
A begin
A update ref set v = v + 1 where id = 1
B& update ref set v = v + 10 where id = 1 returning v
A commit
B.
C select v from ref where id = 1

-- reference table: a writer and a reader that locks
A begin
A select v from ref where id = 1 for update
B& update ref set v = v + 10 where id = 1 returning v
A select v from ref where id = 1
A commit
B.

-- lock table and then see
A begin
A update home set v = 7
A update acct set balance = 3
B begin isolation level repeatable read
B& lock table home in share mode
A commit
B.
B select sum(v) from home
B select sum(balance) from acct
B commit

-- lock table of shards and then see
A begin
A update acct set balance = 3
B begin isolation level repeatable read
B& lock table acct in share mode
A commit
B.
B select sum(balance) from acct
B select balance from acct where id = {c}
B commit

-- deadlock over shards
A begin
B begin
A update acct set balance = 1 where id = {a}
B update acct set balance = 2 where id = {b}
A& update acct set balance = 1 where id = {b}
B update acct set balance = 2 where id = {a}
A.
B rollback
A commit
A select id, balance from acct where id in ({a}, {b})

-- deadlock of three
A begin
B begin
C begin
A update acct set balance = 1 where id = {a}
B update acct set balance = 2 where id = {b}
C update acct set balance = 3 where id = {c}
A& update acct set balance = 1 where id = {b}
B& update acct set balance = 2 where id = {c}
C update acct set balance = 3 where id = {a}
B.
B commit
A.
A commit
C rollback
A select id, balance from acct where id in ({a}, {b}, {c})

-- deadlock with a reference table
A begin
B begin
A update ref set v = 1 where id = 1
B update acct set balance = 2 where id = {b}
A& update acct set balance = 1 where id = {b}
B update ref set v = 2 where id = 1
A.
A commit
B rollback

-- deadlock after statements of several shards
A begin
B begin
A update acct set balance = 1 where id in ({a}, {b}, {c})
B update acct set balance = 2 where id in ({a2}, {b2}, {c2})
A& update acct set balance = 1 where id = {c2}
B update acct set balance = 2 where id = {b}
A.
A commit
B rollback

-- deadlock of statements of several shards
A begin
B begin
A select sum(balance) from acct
B select sum(balance) from acct
A update acct set balance = 1 where id in ({b}, {c})
B update acct set balance = 2 where id in ({b2}, {c2})
A& update acct set balance = 1 where id in ({a}, {c2})
B delete from acct where id in ({a2}, {b})
A.
A commit
B rollback

-- deadlock under repeatable read
A begin isolation level repeatable read
B begin isolation level repeatable read
A update acct set balance = 1 where id = {b}
B update acct set balance = 2 where id = {c}
A& update acct set balance = 1 where id = {c}
B update acct set balance = 2 where id = {b}
A.
A commit
B rollback

-- deadlock with a table lock
A begin
B begin
A lock table home in exclusive mode
B update acct set balance = 2 where id in ({b}, {c})
A& update acct set balance = 1 where id = {c}
B update home set v = 1
A.
A commit
B rollback

-- deadlock with for update
A begin
B begin
A select id from acct where id = {a} for update
B select id from acct where id in ({b}, {c}) for update
A& select id from acct where id in ({a2}, {c}) for update
B select id from acct where id = {a} for update
A.
A commit
B rollback

-- deadlock with an advisory lock
A begin
B begin
A select pg_advisory_xact_lock(5)
B update acct set balance = 2 where id = {b}
A& update acct set balance = 1 where id = {b}
B select pg_advisory_xact_lock(5)
A.
A commit
B rollback

-- write skew is allowed under repeatable read
A begin isolation level repeatable read
B begin isolation level repeatable read
A select sum(balance) from acct
B select sum(balance) from acct
A update acct set balance = 0 where id = {a}
B update acct set balance = 0 where id = {b}
A commit
B commit
A select sum(balance) from acct

-- serializable on one shard
A begin isolation level serializable
B begin isolation level serializable
A select sum(balance) from acct where id in ({a}, {a2})
B select sum(balance) from acct where id in ({a}, {a2})
A update acct set balance = 0 where id = {a}
B update acct set balance = 0 where id = {a2}
A commit
B commit
