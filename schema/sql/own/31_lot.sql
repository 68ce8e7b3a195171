-- On a shard: the values that its own copies of sequences may give out, to triggers, which draw without weft, and where each copy
-- would end without its lot. On the home shard: the sequences of which other shards have lots.
CREATE TABLE IF NOT EXISTS weft.lot (
	sequence oid PRIMARY KEY,
	low bigint NOT NULL,
	high bigint NOT NULL,
	ends bigint NOT NULL
);
REVOKE ALL ON weft.lot FROM PUBLIC;
GRANT SELECT ON weft.lot TO PUBLIC;

-- weft.end_lots ends the lots of sequences that a command may change: of those that it names, and of those of tables that it names.
-- A role that may not set a sequence cannot change it either.
CREATE OR REPLACE FUNCTION weft.end_lots(command text, proof text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $weft$
DECLARE
	l record;
	caller name := coalesce(nullif(current_setting('role'), 'none'), session_user);
BEGIN
	PERFORM weft.prove(concat('end_lots', E'\n', command), proof);
	FOR l IN SELECT t.sequence, t.ends FROM weft.lot t JOIN pg_class q ON q.oid = t.sequence
		LEFT JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = t.sequence AND d.refclassid = 'pg_class'::regclass
			AND d.deptype IN ('a', 'i')
		LEFT JOIN pg_class o ON o.oid = d.refobjid
		WHERE (strpos(lower(command), lower(q.relname)) > 0 OR strpos(lower(command), lower(o.relname)) > 0)
			AND has_sequence_privilege(caller, t.sequence, 'UPDATE')
	LOOP
		EXECUTE format('ALTER SEQUENCE %s MAXVALUE %s', l.sequence::regclass, l.ends);
		PERFORM setval(l.sequence, l.ends, true);
		DELETE FROM weft.lot t WHERE t.sequence = l.sequence;
	END LOOP;
END $weft$;
