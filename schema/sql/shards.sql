-- The shards of the cluster. Views of users may be over this one, so it is never dropped: new columns come last. Four steps
-- run this file: the one that made the view, and those that added state, what is known of the primary, and durability.
CREATE OR REPLACE VIEW weft.shards AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('shards'))
	AS r (proxy text, name text, hosts text[], home boolean, weight bigint, buckets bigint, paused boolean, open bigint, used bigint,
		waiting bigint, connection_limit bigint, statements bigint, seconds float8, p50_ms float8, p99_ms float8, queue_waits bigint,
		queue_seconds float8, state text, primary_address text, generation text, primary_state text, at_gate bigint,
		durable boolean, durable_lacks text);

GRANT SELECT ON weft.shards TO PUBLIC;
