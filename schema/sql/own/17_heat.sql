-- How evenly work is spread.
CREATE OR REPLACE VIEW weft.skew AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('skew'))
	AS r (database text, class text, evenness float8, effective_buckets float8, buckets bigint, gini float8, top_bucket bigint,
		top_bucket_share float8, top_key_share float8, shards_over_mean float8, cross_shard float8, scatter float8,
		two_phase float8);

GRANT SELECT ON weft.skew TO PUBLIC;
