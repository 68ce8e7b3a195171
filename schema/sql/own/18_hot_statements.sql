-- The statements that shards have most work with.
CREATE OR REPLACE VIEW weft.hot_statements AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('hot_statements'))
	AS r (database text, username text, id bigint, statement text, shard text, reads_s float8, writes_s float8, failed_s float8,
		rows_s float8, bytes_s float8, busy_ms_s float8, share_of_shard float8, p50_ms float8, p99_ms float8, since timestamptz);

GRANT SELECT ON weft.hot_statements TO PUBLIC;
