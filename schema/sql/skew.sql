-- How evenly work is spread, and whether that is usual. New columns come last. Two steps run this file: the one that made the view
-- and the one that said what is usual.
CREATE OR REPLACE VIEW weft.skew AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('skew'))
	AS r (database text, class text, evenness float8, effective_buckets float8, buckets bigint, gini float8, top_bucket bigint,
		top_bucket_share float8, top_key_share float8, shards_over_mean float8, cross_shard float8, scatter float8,
		two_phase float8, usual float8, warned boolean);

GRANT SELECT ON weft.skew TO PUBLIC;
