-- The tables of what weft knows: views over rows that weft gives the backend in the parameter weft.rows before a
-- client reads them. Their columns are those of console.Views. Reading one of them in another way is an error.
CREATE OR REPLACE FUNCTION weft.rows(name text) RETURNS json LANGUAGE plpgsql STABLE AS $weft$
DECLARE
	given pg_catalog.text := pg_catalog.current_setting('weft.rows', true);
	found pg_catalog.json;
BEGIN
	IF given OPERATOR(pg_catalog.<>) '' THEN
		found := given::pg_catalog.json OPERATOR(pg_catalog.->) rows.name;
	END IF;
	IF found IS NULL THEN
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = pg_catalog.format('the rows of weft.%s are known to weft alone', rows.name),
			HINT = pg_catalog.format('Ask weft, not the shard, and name the table in the statement itself: SELECT ... FROM weft.%s.',
				rows.name);
	END IF;
	RETURN found;
END $weft$;

CREATE OR REPLACE VIEW weft.transactions AS
SELECT r.gid, r.database, r.shard, r.state, pg_catalog.make_interval(secs => r.age_seconds) AS age, r.role, r.proxy, r.decider,
	r.participants
FROM pg_catalog.json_to_recordset(weft.rows('transactions'))
	AS r (gid text, database text, shard text, state text, age_seconds float8, role text, proxy text, decider text, participants text[]);

CREATE OR REPLACE VIEW weft.sessions AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('sessions'))
	AS r (proxy text, id bigint, username text, database text, application text, address text, state text, connected timestamptz,
		statement text, since timestamptz, shard text, backend_pid bigint, shards bigint, pinned text);

CREATE OR REPLACE VIEW weft.pools AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('pools'))
	AS r (proxy text, shard text, database text, username text, mode text, open bigint, used bigint, idle bigint, waiting bigint,
		connection_limit bigint);

CREATE OR REPLACE VIEW weft.servers AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('servers'))
	AS r (proxy text, shard text, database text, username text, backend_pid bigint, state text, session bigint);

CREATE OR REPLACE VIEW weft.tables AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('tables'))
	AS r (database text, schema text, name text, kind text, columns text[], vindex text, state text);

CREATE OR REPLACE VIEW weft.placement AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('placement'))
	AS r (first_bucket bigint, last_bucket bigint, buckets bigint, shard text);

CREATE OR REPLACE VIEW weft.statements AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('statements'))
	AS r (proxy text, id bigint, username text, database text, statement text, kind text, calls bigint, errors bigint, rows bigint,
		shards bigint, total_ms float8, min_ms float8, max_ms float8, mean_ms float8, since timestamptz);

CREATE OR REPLACE VIEW weft.stats AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('stats'))
	AS r (proxy text, kind text, statements bigint, seconds float8, p50_ms float8, p99_ms float8);

CREATE OR REPLACE VIEW weft.settings AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('settings'))
	AS r (proxy text, name text, value text, reload boolean);

GRANT SELECT ON weft.transactions, weft.sessions, weft.pools, weft.servers, weft.tables, weft.placement, weft.statements,
	weft.stats, weft.settings TO PUBLIC;
