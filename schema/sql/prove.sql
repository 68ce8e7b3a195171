-- weft.prove fails unless proof shows that weft makes the call. See Own.Prove in proof.go.
CREATE OR REPLACE FUNCTION weft.prove(call text, proof text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
	secret text;
BEGIN
	SELECT o.key INTO secret FROM weft.own o;
	IF NOT coalesce(proof = encode(sha256(convert_to(secret || encode(sha256(convert_to(
			secret || pg_backend_pid()::text || E'\n' || call, 'UTF8')), 'hex'), 'UTF8')), 'hex'), false) THEN
		RAISE insufficient_privilege USING MESSAGE = 'what weft keeps is changed by weft alone',
			HINT = 'Change the table, through weft: lookups follow.';
	END IF;
END $f$;
REVOKE EXECUTE ON FUNCTION weft.prove(text, text) FROM PUBLIC;
