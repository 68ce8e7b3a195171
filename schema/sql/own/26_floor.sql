-- The sequences that are known to be above all values that were drawn from them, and on which timeline of the home
-- shard. A new timeline may lack the last draws of the one before.
CREATE TABLE IF NOT EXISTS weft.floor (
	sequence oid PRIMARY KEY,
	timeline bigint NOT NULL
);
