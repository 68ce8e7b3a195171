-- repeatable read, one shard first
A begin isolation level repeatable read
A select balance from acct where id = {a}
B update acct set balance = 5
A select id, balance from acct where id in ({a}, {b}, {c})
A select balance from acct where id = {b}
A select sum(balance) from acct
A select v from home where id = 1
B update home set v = 100
B update ref set v = 100
A select v from home where id = 1
A select v from ref where id = 1
A update acct set balance = balance + 1 where id = {c}
A rollback
A select sum(balance) from acct

-- repeatable read, a constant first
A begin isolation level repeatable read
A select 1
B update acct set balance = 5
A select sum(balance) from acct
A select sum(balance) from acct where id = {b}
A commit

-- repeatable read, explain first
A begin isolation level repeatable read
A explain (costs off) select 1
B update acct set balance = 5
A select sum(balance) from acct
A commit

-- repeatable read, show first takes no snapshot
A begin isolation level repeatable read
A show transaction_isolation
B update acct set balance = 5
A select sum(balance) from acct
A commit

-- repeatable read, a failed first statement under a savepoint
A begin isolation level repeatable read
A savepoint s
A select 1/0
B update acct set balance = 5
A rollback to s
A select sum(balance) from acct
A select balance from acct where id = {b}
A commit

-- repeatable read, unknown table first
A begin isolation level repeatable read
A savepoint s
A select * from nowhere
B update acct set balance = 5
A rollback to s
B update acct set balance = 6
A select sum(balance) from acct
B update acct set balance = 7
A select sum(balance) from acct
A select balance from acct where id = {b}
A commit

-- repeatable read after rollback to
A begin isolation level repeatable read
A savepoint s
A select balance from acct where id = {a}
A rollback to s
B update acct set balance = 5
A select balance from acct where id = {b}
A select sum(balance) from acct
A update acct set balance = 7 where id = {b}
A rollback to s
A select sum(balance) from acct
A release s
A commit

-- repeatable read, lock table first
A begin isolation level repeatable read
A lock table home in share mode
B update acct set balance = 5
A select sum(balance) from acct
A commit

-- repeatable read, set first
A begin
A set transaction isolation level repeatable read
A set local work_mem = '1MB'
A select set_config('weft_test.x', '1', true)
B update acct set balance = 5
A select sum(balance) from acct
A commit

-- default isolation
A set default_transaction_isolation = 'repeatable read'
A begin
A select balance from acct where id = {a}
B update acct set balance = 5
A select balance from acct where id = {b}
A select sum(balance) from acct
A show transaction_isolation
A commit
A select sum(balance) from acct

-- default isolation set within the block is for the next one
A begin
A set default_transaction_isolation = 'repeatable read'
A select balance from acct where id = {a}
B update acct set balance = 5
A select balance from acct where id = {b}
A select sum(balance) from acct
A show transaction_isolation
A commit
A begin
A show transaction_isolation
A select balance from acct where id = {a}
B update acct set balance = 6
A select balance from acct where id = {b}
A rollback

-- serializable as default within the block
A begin
A set default_transaction_isolation = 'serializable'
A select balance from acct where id = {a}
A select sum(balance) from acct
A update acct set balance = 1
A show transaction_isolation
A commit

-- session characteristics within the block
A begin
A set session characteristics as transaction isolation level repeatable read
A select balance from acct where id = {a}
B update acct set balance = 5
A select balance from acct where id = {b}
A select sum(balance) from acct
A show transaction_isolation
A commit
A begin
A select balance from acct where id = {a}
B update acct set balance = 6
A select balance from acct where id = {b}
A show transaction_isolation
A commit

-- set_config of the level
A begin
A select set_config('transaction_isolation', 'repeatable read', true)
A select balance from acct where id = {a}
B update acct set balance = 5
A select balance from acct where id = {b}
A commit

-- set transaction after a query
A begin
A select balance from acct where id = {a}
A set transaction isolation level repeatable read
A rollback
A begin
A select sum(balance) from acct
A set transaction isolation level repeatable read
A rollback
A begin
A update acct set balance = 1 where id in ({a}, {b})
A set transaction_isolation = 'serializable'
A rollback

-- set transaction to the same level after a query
A begin isolation level repeatable read
A select balance from acct where id = {a}
A set transaction isolation level repeatable read
A select balance from acct where id = {b}
A set transaction read only
A select balance from acct where id = {b}
A update acct set balance = 1
A rollback

-- set transaction in a savepoint
A begin
A savepoint s
A set transaction isolation level repeatable read
A rollback

-- conflict under repeatable read
A begin isolation level repeatable read
A select balance from acct where id = {a}
B update acct set balance = 5 where id = {b}
A update acct set balance = 6 where id = {b}
A rollback
A begin isolation level repeatable read
A select balance from acct where id = {a}
B update acct set balance = 7 where id in ({b}, {c})
A update acct set balance = 6
A rollback
A begin isolation level repeatable read
A select balance from acct where id = {a}
B delete from acct where id in ({b}, {c})
A update acct set balance = 6
A rollback
A begin isolation level repeatable read
A select count(*) from acct
B insert into acct values ({b}, 1), ({c}, 1)
A select count(*) from acct
A insert into acct values ({b}, 2), ({c}, 1)
A rollback

-- for update under repeatable read
A begin isolation level repeatable read
A select 1
B update acct set balance = 5 where id = {b}
A select id from acct where id in ({a}, {b}) order by id for update
A rollback

-- with hold cursor
A begin isolation level repeatable read
A declare c cursor with hold for select id, balance from acct where id in ({a}, {b}, {c}) order by id
B update acct set balance = 5
A fetch 1 from c
A select sum(balance) from acct
A commit
A fetch all from c
A close c

-- cursor sees the state of its declaration
A begin
A declare c cursor for select id, balance from acct where id in ({a}, {b}, {c}) order by id
A update acct set balance = 9
A fetch all from c
A commit

-- cursor and later changes of others
A begin
A declare c cursor for select id, balance from acct order by id
B update acct set balance = 5
A fetch 2 from c
A select sum(balance) from acct
A fetch 2 from c
A commit

-- copy under repeatable read
A begin isolation level repeatable read
A copy (select count(*) from acct where balance = 1000) to stdout
B update acct set balance = 5
A copy (select sum(balance) from acct) to stdout
A copy (select balance from acct where id = {b}) to stdout
A commit
A copy (select sum(balance) from acct) to stdout

-- chain keeps the modes
A begin isolation level repeatable read read only
A select balance from acct where id = {a}
A commit and chain
A show transaction_isolation
A show transaction_read_only
A select balance from acct where id = {b}
B update acct set balance = 5
A select sum(balance) from acct
A update acct set balance = 1
A rollback and chain
A select sum(balance) from acct
A select balance from acct where id = {b}
A show transaction_isolation
A show transaction_read_only
A rollback and chain
A update acct set balance = 1 where id = {c}
A rollback

-- chain after set transaction
A begin
A set transaction isolation level repeatable read, read only, deferrable
A select sum(balance) from acct
A commit and chain
A show transaction_isolation
A select balance from acct where id = {b}
B update acct set balance = 5
A select balance from acct where id = {c}
A show transaction_read_only
A show transaction_deferrable
A commit and chain
A select sum(balance) from acct
A rollback

-- chain after writes of several shards
A begin isolation level repeatable read
A update acct set balance = 2
A commit and chain
A select balance from acct where id = {b}
B update acct set balance = 5
A select balance from acct where id = {c}
A update acct set balance = 3 where id in ({a}, {b})
A rollback and chain
A update acct set balance = 3 where id in ({a}, {b})
A commit and chain
A select sum(balance) from acct
A commit
