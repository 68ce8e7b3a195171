-- What is hot: keys, buckets and shards. New columns come last. Four steps run this file: the one that made the views and those that
-- added verdicts, forecasts and limits.
CREATE OR REPLACE VIEW weft.hot_keys AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('hot_keys'))
	AS r (database text, tables text[], key text, bucket bigint, shard text, reads_s float8, writes_s float8, failed_s float8,
		rows_s float8, bytes_s float8, busy_ms_s float8, share_of_shard float8, share float8, error float8, p50_ms float8,
		p99_ms float8, since timestamptz, verdict text, reason text);

CREATE OR REPLACE VIEW weft.heat AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('heat'))
	AS r (database text, bucket bigint, shard text, reads_s float8, writes_s float8, failed_s float8, rows_s float8,
		bytes_s float8, busy_ms_s float8, share float8, over_mean float8, top_key_share float8, verdict text, reason text);

CREATE OR REPLACE VIEW weft.load AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('load'))
	AS r (shard text, reads_s float8, writes_s float8, failed_s float8, rows_s float8, bytes_s float8, busy_ms_s float8,
		share float8, over_mean float8, p50_ms float8, p99_ms float8, wait_p50_ms float8, wait_p99_ms float8, on_cpu float8,
		on_lock float8, on_io float8, verdict text, reason text, utilisation float8, full_at timestamptz, slowdown float8,
		allows bigint, wal_bytes_s float8, cpu_share float8);

GRANT SELECT ON weft.hot_keys, weft.heat, weft.load TO PUBLIC;
