-- The points to which all shards can be restored.
CREATE OR REPLACE VIEW weft.backups AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('backups'))
	AS r (name text, at timestamptz, age_seconds float8, strict boolean, usable boolean, manifest_bytes bigint, took_ms float8,
		waited_ms float8, lsn text);

GRANT SELECT ON weft.backups TO PUBLIC;
