-- begin read only
A begin read only
A select sum(balance) from acct
A savepoint s
A update acct set balance = 1
A rollback to s
A update acct set balance = 1 where id = {b}
A rollback to s
A insert into acct values (1000), (1001), (1002), (1003)
A rollback to s
A insert into acct (id) select id + 1000 from acct
A rollback to s
A delete from acct
A rollback to s
A truncate acct
A rollback to s
A update ref set v = 1
A rollback to s
A insert into ref values (100, 1)
A rollback to s
A delete from home
A rollback to s
A merge into acct using (values ({a}, 1), ({b}, 2)) s (i, n) on s.i = acct.id when matched then update set balance = s.n
A rollback to s
A select id from acct where id in ({a}, {b}) for update
A rollback to s
A select id from acct for share
A rollback to s
A create table x (i int)
A rollback to s
A alter table acct add y int
A rollback to s
A create index on acct (balance)
A rollback to s
A drop table acct
A rollback to s
A lock table acct in share mode
A rollback to s
A lock table acct in access share mode
A rollback to s
A select nextval('nowhere')
A rollback to s
A select sum(balance) from acct
A commit
A select count(*) from acct

-- read only set late
A begin
A update acct set balance = 1 where id = {a}
A set transaction read only
A select sum(balance) from acct
A update acct set balance = 1 where id = {b}
A rollback

-- read only set late, and what was written stays
A begin
A update acct set balance = 7 where id = {b}
A set transaction read only
A savepoint s
A update acct set balance = 1 where id = {a}
A rollback to s
A update acct set balance = 1
A rollback to s
A select sum(balance) from acct
A commit
A select sum(balance) from acct

-- read only set late and taken back
A begin
A select sum(balance) from acct
A set transaction read only
A savepoint s
A update acct set balance = 1 where id in ({a}, {b})
A rollback to s
A set transaction read write
A rollback

-- read only in a savepoint
A begin
A savepoint s
A set transaction read only
A update acct set balance = 1 where id in ({a}, {b})
A rollback to s
A update acct set balance = 1 where id in ({a}, {b})
A savepoint t
A set local transaction_read_only = on
A release t
A update acct set balance = 1 where id in ({a}, {c})
A rollback to s
A update acct set balance = 2 where id in ({a}, {c})
A commit
A select sum(balance) from acct

-- default read only
A set default_transaction_read_only = on
A update acct set balance = 1 where id in ({a}, {b})
A update acct set balance = 1 where id = {a}
A update ref set v = 1
A insert into acct values (1000), (1001), (1002), (1003)
A begin
A update acct set balance = 1
A rollback
A begin read write
A update acct set balance = 1
A rollback
A select sum(balance) from acct
A set session characteristics as transaction read write
A update acct set balance = 1 where id in ({a}, {b})
A show default_transaction_read_only

-- read only and then a text
A set default_transaction_read_only = on
A select 1; update acct set balance = 1 where id = {a}; select 2
A begin; update acct set balance = 1
A rollback

-- deferrable
A begin isolation level serializable read only deferrable
A select balance from acct where id = {a}
A show transaction_deferrable
A select balance from acct where id = {a2}
A commit
A begin deferrable
A show transaction_deferrable
A select sum(balance) from acct
A show transaction_deferrable
A commit

-- read only names the command, 1
A begin read only
A with u as (update acct set balance = 1 returning id) select count(*) from u
A rollback

-- read only names the command, 2
A begin read only
A with u as (update acct set balance = 1 returning id) insert into home select id + 100, 1 from u
A rollback

-- read only names the command, 3
A begin read only
A with u as (delete from home returning id) update acct set balance = u.id from u where acct.id = u.id
A rollback

-- read only names the command, 4
A begin read only
A update acct set id = id + 1000
A rollback

-- read only names the command, 5
A begin read only
A update acct set id = id + 1000 where id = {a}
A rollback

-- read only names the command, 6
A begin read only
A insert into acct select id + 1000 from home
A rollback

-- read only names the command, 7
A begin read only
A insert into acct select id + 1000, balance from acct on conflict do nothing
A rollback

-- read only names the command, 8
A begin read only
A copy (select sum(balance) from acct) to stdout
A rollback

-- read only names the command, 9
A begin read only
A copy acct (id) from stdin
A rollback

-- read only names the command, 11
A begin read only
A merge into acct using home on acct.id = home.id when matched then delete when not matched then insert (id) values (home.id)
A rollback

-- locks in a read only transaction
A begin read only
A lock table acct in share mode
A select sum(balance) from acct
A commit
A begin isolation level repeatable read read only
A lock table acct, home, ref in access share mode
B update acct set balance = 5
A select sum(balance) from acct
A commit
