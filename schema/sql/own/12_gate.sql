-- The gate moves to schema weft_gate, which weft alone may use. A role that can name a table can lock it without any
-- right to it: PREPARE of an INSERT locks the table, and CREATE RULE waits for its lock, with all later statements
-- behind it, before it checks who owns the table. Writers go through the gate with weft.enter, which wants a proof;
-- weft's own connections shut the gate. The old gate, weft.gate, stays for proxies of an older version: they commit as
-- before and cannot read atomically.
DO $weft$ BEGIN
	IF NOT EXISTS (SELECT FROM pg_catalog.pg_constraint WHERE conrelid = 'weft.gate'::pg_catalog.regclass) THEN
		ALTER TABLE weft.gate ADD CONSTRAINT gate_empty CHECK (false);
	END IF;
	IF EXISTS (SELECT FROM pg_catalog.pg_namespace n, pg_catalog.pg_namespace w
		WHERE n.nspname = 'weft_gate' AND w.nspname = 'weft' AND n.nspowner <> w.nspowner) THEN
		RAISE insufficient_privilege USING MESSAGE = 'schema "weft_gate" belongs to somebody else than schema "weft"';
	END IF;
	IF pg_catalog.to_regnamespace('weft_gate') IS NULL THEN
		CREATE SCHEMA weft_gate;
	END IF;
END $weft$;

REVOKE ALL ON SCHEMA weft_gate FROM PUBLIC;
CREATE TABLE IF NOT EXISTS weft_gate.gate ();
REVOKE ALL ON weft_gate.gate FROM PUBLIC;
CREATE OR REPLACE FUNCTION weft.enter(proof text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $weft$
BEGIN
	PERFORM weft.prove('enter', proof);
	LOCK TABLE ONLY weft_gate.gate IN ROW EXCLUSIVE MODE;
END $weft$;

REVOKE ALL ON weft.gate FROM PUBLIC;
GRANT INSERT ON weft.gate TO PUBLIC;
