-- weft.server as in step 3, with a cast that also works where a user has made casts to text implicit.
CREATE OR REPLACE FUNCTION weft.server() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $weft$
	SELECT (SELECT system_identifier FROM pg_control_system())::text || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8)
$weft$;
