-- Decisions are entered by INSERT, at half the cost of a call. Every role may enter a row, and only a row with the
-- right proof counts. The constraint decision_database compares the first 16 digits of the proof with this database's
-- key: a proxy whose database of this name is another one learns so here. The default of the column durable makes
-- the COMMIT that follows durable, whatever synchronous_commit the client has set.
CREATE OR REPLACE FUNCTION weft.proof(key text, gid text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $weft$
	SELECT left(encode(sha256(convert_to('database ' || key, 'UTF8')), 'hex'), 16) || encode(sha256(convert_to(key || gid, 'UTF8')), 'hex')
$weft$;

ALTER TABLE weft.decision ADD COLUMN IF NOT EXISTS proof text, ADD COLUMN IF NOT EXISTS durable text;
UPDATE weft.decision d SET proof = weft.proof(o.key, d.gid) FROM weft.own o WHERE d.proof IS NULL;
ALTER TABLE weft.decision ALTER COLUMN durable SET DEFAULT
	CASE WHEN pg_catalog.current_setting('synchronous_commit') IN ('on', 'remote_apply') THEN NULL
	ELSE pg_catalog.set_config('synchronous_commit', 'on', true) END;
DO $weft$ BEGIN
	EXECUTE pg_catalog.format('ALTER TABLE weft.decision DROP CONSTRAINT IF EXISTS decision_database, '
		'ADD CONSTRAINT decision_database CHECK (pg_catalog.starts_with(proof, %L))',
		(SELECT pg_catalog.left(weft.proof(o.key, ''), 16) FROM weft.own o));
END $weft$;

GRANT INSERT (gid, participants, proof) ON weft.decision TO PUBLIC;
DROP FUNCTION IF EXISTS weft.decide(text, text, text);
