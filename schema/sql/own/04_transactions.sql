-- weft.transactions shows the transactions in doubt of all shards. weft sets the parameter weft.in_doubt before a
-- client reads the view. Step 8 replaces the view.
CREATE OR REPLACE VIEW weft.transactions AS
SELECT r.gid, r.database, r.shard, r.state, pg_catalog.make_interval(secs => r.age) AS age, r.role, r.proxy, r.decider,
	pg_catalog.string_to_array(r.participants, ',') AS participants
FROM pg_catalog.json_to_recordset(NULLIF(pg_catalog.current_setting('weft.in_doubt', true), '')::json)
	AS r (gid text, database text, shard text, state text, age float8, role text, proxy text, decider text, participants text);
GRANT SELECT ON weft.transactions TO PUBLIC;
