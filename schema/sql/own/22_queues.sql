-- Hot keys whose transactions wait in proxies.
CREATE OR REPLACE VIEW weft.queues AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('queues'))
	AS r (proxy text, shard text, database text, key text, kind text, mode text, slots bigint, used bigint, waiting bigint,
		wait_p99_ms float8, served bigint, waited bigint, refused bigint);

GRANT SELECT ON weft.queues TO PUBLIC;
