-- The limits in effect, and what they have done.
CREATE OR REPLACE VIEW weft.throttles AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('throttles'))
	AS r (id bigint, target text, database text, class text, allows text, max_wait_ms float8, below text,
		mode text, origin text, reason text, made_by text, created timestamptz, expires timestamptz,
		demand_s float8, passed bigint, delayed bigint, refused bigint, delay_p99_ms float8);

GRANT SELECT ON weft.throttles TO PUBLIC;
