-- The gate stands between transactions that commit on several shards and readers that want to see all of such a
-- transaction or nothing. Both lock weft.gate; the table never holds a row.
CREATE TABLE IF NOT EXISTS weft.gate ();
GRANT UPDATE ON weft.gate TO PUBLIC;
