-- The servers of the shards.
CREATE OR REPLACE VIEW weft.replicas AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('replicas'))
	AS r (proxy text, shard text, address text, role text, state text, system text, timeline bigint, lsn text, lag_bytes bigint,
		lag_seconds float8, sync text[], last_error text, since timestamptz);

GRANT SELECT ON weft.replicas TO PUBLIC;
