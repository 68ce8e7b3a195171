-- The parts that this shard has of transactions of several shards, one row each, entered in the part itself. A row says
-- after a failover that the part is here. Every role may enter a row, and only a row with the right proof counts.
CREATE TABLE IF NOT EXISTS weft.part (
	gid text,
	proof text,
	entered timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
	PRIMARY KEY (gid, proof)
) WITH (fillfactor = 100, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.5);
REVOKE ALL ON weft.part FROM PUBLIC;
GRANT INSERT (gid, proof) ON weft.part TO PUBLIC;

-- The transactions of several shards of which failovers have lost all or a part.
CREATE OR REPLACE VIEW weft.failover_transactions AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('failover_transactions'))
	AS r (gid text, database text, state text, decider text, kept_by text[], lost_by text[], acknowledged boolean,
		committed_at timestamptz, found_at timestamptz, accepted_at timestamptz, proxy text);

GRANT SELECT ON weft.failover_transactions TO PUBLIC;
