-- savepoints of one name
A begin
A savepoint s
A update acct set balance = 1 where id = {a}
A savepoint s
A update acct set balance = 2 where id in ({a}, {b})
A savepoint s
A update acct set balance = 3 where id in ({b}, {c})
A rollback to s
A select id, balance from acct where id in ({a}, {b}, {c})
A release s
A rollback to s
A select id, balance from acct where id in ({a}, {b}, {c})
A release s
A rollback to s
A select id, balance from acct where id in ({a}, {b}, {c})
A release s
A rollback to s
A commit

-- rollback to a savepoint from before a shard joined
A begin
A savepoint one
A update acct set balance = 1 where id = {a}
A savepoint two
A update acct set balance = 1 where id = {b}
A update acct set balance = 1 where id = {c}
A rollback to two
A select id, balance from acct where id in ({a}, {b}, {c})
A update acct set balance = 2 where id = {c}
A rollback to one
A update acct set balance = 3 where id = {b}
A release one
A commit
A select id, balance from acct where id in ({a}, {b}, {c})

-- errors inside of savepoints
A begin
A update acct set balance = 1 where id = {a}
A savepoint s
A update acct set balance = 1/0 where id = {b}
A select 1
A rollback to s
A insert into acct values ({b})
A rollback to s
A insert into acct values (2000), (2001), (2002), ({c}), (2003)
A rollback to nowhere
A rollback to s
A select count(*) from acct
A rollback to nowhere
A select 1
A rollback to s
A release nowhere
A rollback to s
A commit
A select id, balance from acct where id in ({a}, {b}, {c})

-- a savepoint that is released is gone
A begin
A savepoint s
A update acct set balance = 1
A release s
A rollback to s
A commit
A select sum(balance) from acct

-- set local on several shards
A begin
A set local statement_timeout = '11s'
A select id, current_setting('statement_timeout') from acct where id in ({a}, {b}, {c})
A savepoint s
A set local statement_timeout = '12s'
A select id, current_setting('statement_timeout') from acct where id in ({a}, {b}, {c})
A select current_setting('statement_timeout') from acct where id = {b}
A rollback to s
A select id, current_setting('statement_timeout') from acct where id in ({a}, {b}, {c})
A select current_setting('statement_timeout') from acct where id = {b}
A show statement_timeout
A select set_config('app.user', 'carl', true)
A select id, current_setting('app.user') from acct where id in ({a}, {b}, {c})
A savepoint t
A select set_config('app.user', 'eve', true)
A select current_setting('app.user', true) from acct where id = {c}
A rollback to t
A select current_setting('app.user', true) from acct where id = {c}
A select id, current_setting('app.user') from acct where id in ({a}, {b}, {c})
A commit
A show statement_timeout
A select current_setting('app.user', true) from acct where id = {c}
A select id, current_setting('app.user', true) from acct where id in ({a}, {b}, {c})
A select id, current_setting('statement_timeout') from acct where id in ({a}, {b}, {c})

-- settings of the session set in a block
A begin
A set statement_timeout = '11s'
A set application_name = 'inblock'
A select id, current_setting('statement_timeout') from acct where id in ({a}, {b}, {c})
A rollback
A select id, current_setting('statement_timeout'), current_setting('application_name') from acct where id in ({a}, {b}, {c})
A begin
A select id from acct where id = {b}
A set statement_timeout = '13s'
A select current_setting('statement_timeout') from acct where id = {c}
A set local statement_timeout = '14s'
A select current_setting('statement_timeout') from acct where id = {c}
A rollback and chain
A select current_setting('statement_timeout') from acct where id = {b}
A set statement_timeout = '15s'
A commit and chain
A show statement_timeout
A rollback
A select id, current_setting('statement_timeout') from acct where id in ({a}, {b}, {c})
A begin
A select id, current_setting('statement_timeout') from acct where id in ({a}, {b}, {c})
A commit
A show statement_timeout

-- set local outside of a block is nothing
A set local statement_timeout = '11s'
A select id, current_setting('statement_timeout') from acct where id in ({a}, {b}, {c})
A select set_config('app.user', 'carl', true), set_config('app.other', 'x', false)
A select id, current_setting('app.user', true), current_setting('app.other', true) from acct where id in ({a}, {b}, {c})

-- now is one value
A begin
A update acct set at = now(), note = clock_timestamp()::text where id in ({a}, {b}, {c})
A insert into acct (id) values (3000), (3001), (3002), (3003), (3004)
A update acct set at = transaction_timestamp() where id = {a2}
A update acct set at = current_timestamp where id = {b2}
A select count(distinct at), count(*) from acct where id >= 3000 or id in ({a}, {b}, {c}, {a2}, {b2})
A select bool_and(at = now()) from acct where id >= 3000 or id in ({a}, {b}, {c}, {a2}, {b2})
A select at = now() from acct where id = {c}
A select at = now(), now() <= statement_timestamp(), now() < clock_timestamp() from acct where id = {b}
A commit
A select bool_or(at = now()) from acct
A select count(distinct at), count(*) from acct where id >= 3000 or id in ({a}, {b}, {c}, {a2}, {b2})

-- now goes on with chain
A begin
A update acct set at = now()
A commit and chain
A update acct set at = now() where id in ({a}, {b})
A update acct set at = now() where id = {c}
A select count(distinct at), count(*) from acct where id in ({a}, {b}, {c})
A select count(distinct at) from acct
A commit

-- deferred constraints over shards
A insert into par values ({a}), ({b}), ({c})
A begin
A insert into kid values ({a}, 1), ({b}, 1)
A set constraints all deferred
A insert into kid values (5001, 1), (5002, 1), (5003, 1)
A insert into par values (5001), (5002), (5003)
A commit
A select count(*) from kid
A begin
A set constraints kid_id_fkey deferred
A insert into kid values (6001, 1), (6002, 1), (6003, 1)
A select count(*) from kid
A set constraints all immediate
A rollback
A begin
A set constraints kid_id_fkey deferred
A insert into kid values (6001, 1), (6002, 1), (6003, 1)
A insert into kid values ({a}, 2), ({b}, 2)
A commit
A select count(*) from kid
A begin
A insert into kid values ({c}, 9)
A savepoint s
A set constraints all deferred
A insert into kid values (6001, 1), (6002, 1), (6003, 1)
A rollback to s
A insert into kid values (6001, 1)
A rollback to s
A insert into kid values (6002, 1), (6003, 1)
A rollback
A set constraints all deferred
A set constraints nowhere deferred
A begin
A set constraints nowhere deferred
A rollback
A begin
A insert into kid values ({c}, 10)
A set constraints nowhere deferred
A rollback

-- deferred and one shard
A begin
A set constraints all deferred
A insert into kid values ({a}, 1)
A insert into par values ({a})
A commit
A begin
A insert into kid values ({a}, 2)
A set constraints all deferred
A insert into kid values ({b}, 1)
A select count(*) from kid
A set constraints all immediate
A commit
A select count(*) from kid

-- advisory locks
A begin
A update acct set balance = 1 where id = {b}
A select pg_advisory_xact_lock(77)
B select pg_try_advisory_lock(77)
A update acct set balance = 1 where id = {c}
A select pg_advisory_lock(78)
A commit
B select pg_try_advisory_lock(77)
B select pg_try_advisory_lock(78)
A select pg_advisory_unlock(78)
B select pg_try_advisory_lock(78)
B select pg_advisory_unlock_all()
A select pg_advisory_lock(79)
B begin
B select id from acct where id = {c}
B select pg_try_advisory_xact_lock(79), pg_try_advisory_xact_lock(80) from acct where id = {c}
B rollback

-- failed block
A begin
A update acct set balance = 1 where id = {a}
A update acct set balance = 1 where id = {b}
A select 1/0
A select 1
A commit
A select sum(balance) from acct
A begin
A update acct set balance = 1
A select * from nowhere
A commit and chain
A show transaction_isolation
A update acct set balance = 2
A commit
A select sum(balance) from acct

-- warnings and nothing to end
A commit
A rollback
A begin
A begin
A update acct set balance = 1
A begin
A commit
A savepoint s
A release s
A rollback to s
A commit and chain
A rollback and chain
A abort
A end

-- texts
A begin; update acct set balance = 2 where id = {a}; update acct set balance = 3 where id = {b}
A select sum(balance) from acct
A rollback
A update acct set balance = 2 where id = {a}; update acct set balance = 3 where id = {b}; select 1/0
A select sum(balance) from acct
A begin; update acct set balance = 2; commit
A select sum(balance) from acct
