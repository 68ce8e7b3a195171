-- What was found to be hot, slow or saturated, and why.
CREATE OR REPLACE VIEW weft.warnings AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('warnings'))
	AS r (id text, since timestamptz, severity text, object text, message text, advice text, sql text);

GRANT SELECT ON weft.warnings TO PUBLIC;
