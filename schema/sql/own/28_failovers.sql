-- The changes of primaries, and what they have lost.
CREATE OR REPLACE VIEW weft.failovers AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('failovers'))
	AS r (at timestamptz, shard text, from_address text, from_timeline bigint, to_address text, to_timeline bigint, fork text,
		last_lsn text, lossy boolean, lost_bytes bigint, kept_until timestamptz, paused_sessions bigint, pause_ms float8);

GRANT SELECT ON weft.failovers TO PUBLIC;
