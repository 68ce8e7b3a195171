-- The recording of transactions on each proxy.
CREATE OR REPLACE VIEW weft.recording AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('recording'))
	AS r (proxy text, database text, state text, share float8, since timestamptz, until timestamptz,
		transactions bigint, kept bigint, bytes bigint);

GRANT SELECT ON weft.recording TO PUBLIC;
