-- weft.server names the server and its timeline. A prepared transaction that is missing has been ended only if
-- weft.server() still returns what it returned when the transaction was prepared.
CREATE OR REPLACE FUNCTION weft.server() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $weft$
	SELECT (SELECT system_identifier FROM pg_control_system()) || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8)
$weft$;
