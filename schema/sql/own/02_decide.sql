-- weft.decide enters a decision. Step 7 drops the function again: decisions are entered by INSERT since.
--
-- Every role that may write may call weft.decide, with a proof that weft alone can give: a row that another
-- program has entered would commit what was not committed. weft.decide also makes the COMMIT that follows durable,
-- whatever synchronous_commit the client has set.
CREATE OR REPLACE FUNCTION weft.decide(gid text, participants text, proof text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $weft$
-- Every name is written with its schema, operators and types too, so that the caller's search_path means nothing: to
-- SET one here would cost more than all the rest.
DECLARE
	secret pg_catalog.text;
	level pg_catalog.text := pg_catalog.current_setting('synchronous_commit');
BEGIN
	SELECT o.key INTO secret FROM weft.own o;
	IF NOT COALESCE(proof OPERATOR(pg_catalog.=) pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(
			secret OPERATOR(pg_catalog.||) decide.gid, 'UTF8')), 'hex'), false) THEN
		RAISE insufficient_privilege USING MESSAGE = 'weft.decide is for weft alone';
	END IF;
	INSERT INTO weft.decision (gid, participants) VALUES (decide.gid, decide.participants);
	IF level OPERATOR(pg_catalog.=) 'off' OR level OPERATOR(pg_catalog.=) 'local' OR level OPERATOR(pg_catalog.=) 'remote_write' THEN
		PERFORM pg_catalog.set_config('synchronous_commit', 'on', true);
	END IF;
END $weft$;
