-- Decisions about transactions of several shards. A transaction is committed if, and only if, its row is here.
CREATE TABLE IF NOT EXISTS weft.decision (
	gid text PRIMARY KEY,
	participants text NOT NULL,
	decided timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
) WITH (fillfactor = 100, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.5);
REVOKE ALL ON weft.decision FROM PUBLIC;
