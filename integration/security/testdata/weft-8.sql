CREATE SCHEMA weft; GRANT USAGE ON SCHEMA weft TO PUBLIC;
CREATE TABLE weft.own (single boolean PRIMARY KEY DEFAULT true CHECK (single), version int NOT NULL, key text NOT NULL);
REVOKE ALL ON weft.own FROM PUBLIC;
INSERT INTO weft.own (version, key) VALUES (0, pg_catalog.gen_random_uuid()::text || pg_catalog.gen_random_uuid()::text);
CREATE TABLE IF NOT EXISTS weft.decision (
	gid text PRIMARY KEY,
	participants text NOT NULL,
	decided timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
) WITH (fillfactor = 100, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.5);
REVOKE ALL ON weft.decision FROM PUBLIC;
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
CREATE OR REPLACE FUNCTION weft.server() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $weft$
	SELECT (SELECT system_identifier FROM pg_control_system()) || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8)
$weft$;
CREATE OR REPLACE VIEW weft.transactions AS
SELECT r.gid, r.database, r.shard, r.state, pg_catalog.make_interval(secs => r.age) AS age, r.role, r.proxy, r.decider,
	pg_catalog.string_to_array(r.participants, ',') AS participants
FROM pg_catalog.json_to_recordset(NULLIF(pg_catalog.current_setting('weft.in_doubt', true), '')::json)
	AS r (gid text, database text, shard text, state text, age float8, role text, proxy text, decider text, participants text);
GRANT SELECT ON weft.transactions TO PUBLIC;
CREATE TABLE IF NOT EXISTS weft.gate ();
GRANT UPDATE ON weft.gate TO PUBLIC;
CREATE UNLOGGED TABLE IF NOT EXISTS weft.party (
	proxy text PRIMARY KEY,
	parties text NOT NULL,
	seen timestamptz NOT NULL
);
REVOKE ALL ON weft.party FROM PUBLIC;
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
	EXECUTE pg_catalog.format('ALTER TABLE weft.decision DROP CONSTRAINT IF EXISTS decision_database, ADD CONSTRAINT decision_database CHECK (pg_catalog.starts_with(proof, %L))',
		(SELECT pg_catalog.left(weft.proof(o.key, ''), 16) FROM weft.own o));
END $weft$;
GRANT INSERT (gid, participants, proof) ON weft.decision TO PUBLIC;
DROP FUNCTION IF EXISTS weft.decide(text, text, text);
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
			HINT = pg_catalog.format('Ask weft, not the shard, and name the table in the statement itself: SELECT ... FROM weft.%s.', rows.name);
	END IF;
	RETURN found;
END $weft$;
CREATE OR REPLACE VIEW weft.transactions AS
SELECT r.gid, r.database, r.shard, r.state, pg_catalog.make_interval(secs => r.age_seconds) AS age, r.role, r.proxy, r.decider, r.participants
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
CREATE OR REPLACE VIEW weft.shards AS
SELECT r.* FROM pg_catalog.json_to_recordset(weft.rows('shards'))
	AS r (proxy text, name text, hosts text[], home boolean, weight bigint, buckets bigint, paused boolean, open bigint, used bigint,
		waiting bigint, connection_limit bigint, statements bigint, seconds float8, p50_ms float8, p99_ms float8, queue_waits bigint,
		queue_seconds float8);
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
GRANT SELECT ON weft.transactions, weft.sessions, weft.pools, weft.servers, weft.shards, weft.tables, weft.placement, weft.statements,
	weft.stats, weft.settings TO PUBLIC;
UPDATE weft.own SET version = 8;
CREATE SCHEMA IF NOT EXISTS weft;
GRANT USAGE ON SCHEMA weft TO PUBLIC;
CREATE TABLE IF NOT EXISTS weft.lookup (
 name name PRIMARY KEY, owner oid NOT NULL, columns int2[] NOT NULL, keys int2[] NOT NULL, names text[] NOT NULL,
 types text[] NOT NULL, single bool NOT NULL, index oid NOT NULL, state text NOT NULL, id_sql text NOT NULL, bucket_sql text NOT NULL,
 job text NOT NULL DEFAULT '');
GRANT SELECT ON weft.lookup TO PUBLIC;
CREATE UNLOGGED TABLE IF NOT EXISTS weft.change (
 tx xid8 NOT NULL DEFAULT pg_current_xact_id(), lookup name NOT NULL, gone bool NOT NULL, entries text NOT NULL);
CREATE INDEX IF NOT EXISTS change_tx ON weft.change (tx);
CREATE OR REPLACE FUNCTION weft.undrained() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $f$
BEGIN
 IF EXISTS (SELECT FROM weft.change WHERE tx = pg_current_xact_id()) THEN
  RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = format('lookup %s has not followed what the transaction has changed', quote_ident(NEW.lookup)),
   HINT = 'Change the table through weft. If you did, try again: the lookup was being made.';
 END IF;
 RETURN NULL;
END $f$;
DO $d$ BEGIN
 IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid = 'weft.change'::regclass AND tgname = 'weft_undrained') THEN
  CREATE CONSTRAINT TRIGGER weft_undrained AFTER INSERT ON weft.change DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION weft.undrained();
 END IF;
END $d$;
CREATE OR REPLACE FUNCTION weft.drain(most int) RETURNS TABLE (lookup name, gone bool, entries text) LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS $f$
DELETE FROM weft.change c WHERE c.ctid = ANY (ARRAY(SELECT o.ctid FROM weft.change o WHERE o.tx = pg_current_xact_id() ORDER BY o.gone DESC LIMIT most))
RETURNING c.lookup, c.gone, c.entries $f$;
CREATE OR REPLACE FUNCTION weft.lookup_add(which name, owner regclass, columns text[], keys text[], types text[], single bool, index oid,
 state text, id_sql text, bucket_sql text, job text) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog AS $f$
DECLARE
 list text; vs text;
BEGIN
 SELECT string_agg(format('v%s %s', i, t || CASE WHEN t IN ('text', 'bpchar') THEN ' COLLATE "C"' ELSE '' END), ', ' ORDER BY i), string_agg('v' || i, ', ' ORDER BY i)
  INTO list, vs FROM unnest(types) WITH ORDINALITY u(t, i);
 EXECUTE format('CREATE TABLE weft.%I (%s, id int8 NOT NULL%s)', which, list, CASE WHEN single THEN ', claimed bool' ELSE '' END);
 IF single THEN
  EXECUTE format('ALTER TABLE weft.%I ADD PRIMARY KEY (%s)', which, vs);
 ELSE
  EXECUTE format('CREATE INDEX ON weft.%I (%s, id)', which, vs);
 END IF;
 INSERT INTO weft.lookup (name, owner, columns, keys, names, types, single, index, state, id_sql, bucket_sql, job)
 SELECT which, lookup_add.owner, (SELECT array_agg(a.attnum ORDER BY u.i) FROM unnest(lookup_add.columns) WITH ORDINALITY u(n, i) JOIN pg_attribute a ON a.attrelid = lookup_add.owner AND a.attname = u.n),
  (SELECT array_agg(a.attnum ORDER BY u.i) FROM unnest(lookup_add.keys) WITH ORDINALITY u(n, i) JOIN pg_attribute a ON a.attrelid = lookup_add.owner AND a.attname = u.n),
  '{}', lookup_add.types, lookup_add.single, lookup_add.index, lookup_add.state, lookup_add.id_sql, lookup_add.bucket_sql, lookup_add.job;
 UPDATE weft.lookup k SET index = (SELECT min(i.indexrelid) FROM pg_index i WHERE k.single AND i.indrelid = k.owner AND i.indisunique AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
  AND i.indnkeyatts = cardinality(k.columns) AND k.columns <@ (string_to_array(i.indkey::text, ' ')::int2[])[1:i.indnkeyatts]) WHERE k.name = which AND k.index <> 0 AND (SELECT min(i.indexrelid) FROM pg_index i WHERE k.single AND i.indrelid = k.owner AND i.indisunique AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
  AND i.indnkeyatts = cardinality(k.columns) AND k.columns <@ (string_to_array(i.indkey::text, ' ')::int2[])[1:i.indnkeyatts]) IS NOT NULL;
END $f$;
CREATE OR REPLACE FUNCTION weft.lookup_make(which name) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog AS $f$
DECLARE
 l weft.lookup; rel text; rows bool; source text; entry text; chunks text; parse text; find text; vs text; same text; known text; head text; added text; gone text;
BEGIN
 SELECT * INTO STRICT l FROM weft.lookup WHERE name = which;
 UPDATE weft.lookup SET names = (SELECT array_agg(a.attname::text ORDER BY u.i) FROM unnest(l.columns || l.keys) WITH ORDINALITY u(n, i)
  JOIN pg_attribute a ON a.attrelid = l.owner AND a.attnum = u.n) WHERE name = which RETURNING names INTO l.names;
 rel := l.owner::regclass::text;
 rows := (SELECT relkind = 'p' FROM pg_class WHERE oid = l.owner);
 SELECT string_agg(CASE WHEN i <= cardinality(l.columns) THEN format('r.%I::%s AS v%s', n, l.types[i], i) ELSE format('r.%I AS k%s', n, i - cardinality(l.columns)) END, ', ' ORDER BY i)
  INTO source FROM unnest(l.names) WITH ORDINALITY u(n, i);
 SELECT string_agg(format('encode(convert_to(v%s::text, getdatabaseencoding()), ''hex'')', i), ' || '':'' || ' ORDER BY i), string_agg(format('v%s IS NOT NULL', i), ' AND ' ORDER BY i),
  string_agg(format('convert_from(decode(split_part(e, '':'', %s), ''hex''), getdatabaseencoding())::%s AS v%s', i + 2, t, i), ', ' ORDER BY i),
  string_agg(format('convert_from(decode(split_part(e, '':'', %s), ''hex''), ''UTF8'')::%s AS v%s', i, t, i), ', ' ORDER BY i),
  string_agg('v' || i, ', ' ORDER BY i), string_agg(format('t.v%s = e.v%s', i, i), ' AND ' ORDER BY i)
  INTO entry, known, parse, find, vs, same FROM unnest(l.types) WITH ORDINALITY u(t, i);
 -- @rows@ is where the rows come from, @gone@ whether they go: names may have a % in them.
 entry := format('SELECT (%s) || '':'' || (%s) || '':'' || %s AS e FROM (SELECT %s FROM @rows@ r) x WHERE %s', l.bucket_sql, l.id_sql, entry, source, known);
 chunks := format('INSERT INTO weft.change (lookup, gone, entries) SELECT %L, @gone@, string_agg(e, '','') FROM (SELECT e, (row_number() OVER ()) / 2000 AS n FROM (@entries@) q) z GROUP BY n', which);
 added := replace(replace(chunks, '@gone@', 'false'), '@entries@', replace(entry, '@rows@', 'new_rows'));
 gone := replace(replace(chunks, '@gone@', 'true'), '@entries@', replace(entry, '@rows@', 'old_rows'));
 parse := format('SELECT split_part(e, '':'', 2)::int8 AS id, %s FROM unnest(string_to_array(%%s, '','')) e', parse);
 head := ' LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET datestyle = ''ISO'' SET timezone = ''UTC'' AS ';

 EXECUTE format('CREATE OR REPLACE FUNCTION weft.%I() RETURNS trigger', which || ':note') || head || quote_literal(
 'BEGIN
  SET CONSTRAINTS weft.weft_undrained DEFERRED;
  IF TG_OP = ''TRUNCATE'' THEN TRUNCATE weft.' || quote_ident(which) || ';
  ELSIF TG_OP = ''INSERT'' THEN ' || added || ';
  ELSIF TG_OP = ''DELETE'' THEN ' || gone || ';
  ELSE
   ' || replace(replace(chunks, '@gone@', 'true'), '@entries@', replace(entry, '@rows@', 'old_rows') || ' EXCEPT ALL ' || replace(entry, '@rows@', 'new_rows')) || ';
   ' || replace(replace(chunks, '@gone@', 'false'), '@entries@', replace(entry, '@rows@', 'new_rows') || ' EXCEPT ALL ' || replace(entry, '@rows@', 'old_rows')) || ';
  END IF;
  RETURN NULL;
 END');
 EXECUTE format('CREATE OR REPLACE FUNCTION weft.%I() RETURNS trigger', which || ':row') || head || quote_literal(
 'DECLARE was text; becomes text;
 BEGIN
  SET CONSTRAINTS weft.weft_undrained DEFERRED;
  IF TG_OP <> ''INSERT'' THEN SELECT e INTO was FROM (' || replace(entry, '@rows@', '(SELECT OLD.*)') || ') o; END IF;
  IF TG_OP <> ''DELETE'' THEN SELECT e INTO becomes FROM (' || replace(entry, '@rows@', '(SELECT NEW.*)') || ') n; END IF;
  INSERT INTO weft.change (lookup, gone, entries) SELECT ' || quote_literal(which) || ', x.gone, x.e FROM (VALUES (true, was), (false, becomes)) x (gone, e)
   WHERE was IS DISTINCT FROM becomes AND x.e IS NOT NULL;
  RETURN NULL;
 END');

 -- Notes all rows of the table, or of a partition of it.
 EXECUTE format('CREATE OR REPLACE FUNCTION weft.%I(source regclass, gone bool) RETURNS void', which || ':fill') || head || quote_literal(
 'BEGIN
  SET CONSTRAINTS weft.weft_undrained DEFERRED;
  EXECUTE replace(replace(' || quote_literal(replace(chunks, '@entries@', entry)) || ', ''@rows@'', source::text), ''@gone@'', gone::text);
 END');
 EXECUTE format('REVOKE EXECUTE ON FUNCTION weft.%I(regclass, bool) FROM PUBLIC', which || ':fill');

 EXECUTE format('CREATE OR REPLACE FUNCTION weft.%I(gone text, added text) RETURNS void', which || ':apply') || head || quote_literal(
 CASE WHEN l.single THEN
 'BEGIN
  IF gone <> '''' THEN DELETE FROM weft.' || quote_ident(which) || ' t USING (' || format(parse, 'gone') || ') e WHERE t.id = e.id AND ' || same || '; END IF;
  IF added <> '''' THEN INSERT INTO weft.' || quote_ident(which) || ' (id, ' || vs || ') ' || format(parse, 'added') || ' ORDER BY ' || vs || '; END IF;
 END'
 ELSE
 'DECLARE c record;
 BEGIN
  IF gone <> '''' THEN
   FOR c IN ' || format(parse, 'gone') || ' LOOP
    DELETE FROM weft.' || quote_ident(which) || ' WHERE ctid = (SELECT t.ctid FROM weft.' || quote_ident(which) || ' t WHERE t.id = c.id AND ' || replace(same, '= e.', '= c.') || ' LIMIT 1 FOR UPDATE SKIP LOCKED);
   END LOOP;
  END IF;
  IF added <> '''' THEN INSERT INTO weft.' || quote_ident(which) || ' (id, ' || vs || ') ' || format(parse, 'added') || '; END IF;
 END' END);

 -- Enters a value before its row is stored, or returns who has it: waits for
 -- whoever is about to. Entries of rows that are stored then take the place of what is
 -- claimed, and what is left of claims goes.
 IF l.single THEN
  EXECUTE format('CREATE OR REPLACE FUNCTION weft.%I(entry text) RETURNS int8', which || ':claim') || head || quote_literal(
 'DECLARE c record; other int8;
 BEGIN
  SELECT * INTO c FROM (' || replace(format(parse, 'entry'), 'getdatabaseencoding()', quote_literal('UTF8')) || ') p;
  LOOP
   INSERT INTO weft.' || quote_ident(which) || ' (id, claimed, ' || vs || ') SELECT c.id, true, ' || (SELECT string_agg('c.v' || i, ', ' ORDER BY i) FROM generate_subscripts(l.types, 1) i) || ' ON CONFLICT DO NOTHING;
   IF FOUND THEN RETURN NULL; END IF;
   SELECT t.id INTO other FROM weft.' || quote_ident(which) || ' t WHERE ' || replace(same, '= e.', '= c.') || ';
   IF FOUND THEN RETURN other; END IF;
  END LOOP;
 END');
  EXECUTE format('CREATE OR REPLACE FUNCTION weft.%I(added text, claims text) RETURNS void', which || ':settle') || head || quote_literal(
 'BEGIN
  IF added <> '''' THEN
   WITH e AS MATERIALIZED (' || format(parse, 'added') || '),
    u AS (UPDATE weft.' || quote_ident(which) || ' t SET claimed = NULL FROM e WHERE t.claimed AND t.id = e.id AND ' || same || ' RETURNING ' || regexp_replace(vs, 'v', 'e.v', 'g') || ')
   INSERT INTO weft.' || quote_ident(which) || ' (id, ' || vs || ') SELECT * FROM e WHERE NOT EXISTS (SELECT FROM u t WHERE ' || same || ') ORDER BY ' || vs || ';
  END IF;
  IF claims <> '''' THEN DELETE FROM weft.' || quote_ident(which) || ' t USING (' || replace(format(parse, 'claims'), 'getdatabaseencoding()', quote_literal('UTF8')) || ') e WHERE t.claimed AND ' || same || '; END IF;
 END');
 END IF;

 -- Id NULL: somebody has promised to change the table and may have been told
 -- that it is done, but it is not yet.
 EXECUTE format('CREATE OR REPLACE FUNCTION weft.%I(want text) RETURNS SETOF int8', which || ':find') || head || quote_literal(
 'DECLARE n int;
 BEGIN
  RETURN QUERY SELECT DISTINCT t.id FROM (' || format('SELECT %s FROM unnest(string_to_array(want, '','')) e', find) || ') e JOIN weft.' || quote_ident(which) || ' t ON ' || same || ';
  GET DIAGNOSTICS n = ROW_COUNT;
  IF ' || CASE WHEN l.single THEN '(n = 0 OR n < cardinality(string_to_array(want, '','')))' ELSE 'true' END || ' AND EXISTS (SELECT FROM pg_prepared_xact()) AND EXISTS (SELECT FROM pg_locks k
   WHERE k.relation = ' || quote_literal('weft.' || quote_ident(which)) || '::regclass AND k.pid IS NULL AND k.mode = ''RowExclusiveLock'') THEN
   RETURN NEXT NULL;
  END IF;
 END');

 EXECUTE (SELECT coalesce(string_agg(format('DROP TRIGGER %I ON %s', tgname, rel), '; '), 'SELECT 1') FROM pg_trigger WHERE tgrelid = l.owner AND tgname LIKE 'weft ' || replace(which, '_', '\_') || ' %');
 IF l.state IN ('declared', 'dropped') THEN
  RETURN;
 END IF;
 IF rows THEN
  EXECUTE format('CREATE TRIGGER %I AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW EXECUTE FUNCTION weft.%I()', 'weft ' || which || ' row', rel, which || ':row');
 ELSE
  EXECUTE format('CREATE TRIGGER %I AFTER INSERT ON %s REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION weft.%I()', 'weft ' || which || ' insert', rel, which || ':note');
  EXECUTE format('CREATE TRIGGER %I AFTER UPDATE ON %s REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION weft.%I()', 'weft ' || which || ' update', rel, which || ':note');
  EXECUTE format('CREATE TRIGGER %I AFTER DELETE ON %s REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION weft.%I()', 'weft ' || which || ' delete', rel, which || ':note');
 END IF;
 EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION weft.%I()', 'weft ' || which || ' truncate', rel, which || ':note');
 EXECUTE (SELECT string_agg(format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', rel, tgname), '; ') FROM pg_trigger WHERE tgrelid = l.owner AND tgname LIKE 'weft ' || replace(which, '_', '\_') || ' %');
END $f$;
CREATE OR REPLACE FUNCTION weft.lookup_drop(which name) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog SET client_min_messages = warning AS $f$
BEGIN
 DELETE FROM weft.lookup WHERE name = which;
 EXECUTE format('DROP FUNCTION IF EXISTS weft.%I(), weft.%I(), weft.%I(regclass, bool), weft.%I(text, text), weft.%I(text, text), weft.%I(text), weft.%I(text) CASCADE',
  which || ':note', which || ':row', which || ':fill', which || ':apply', which || ':settle', which || ':find', which || ':claim');
 EXECUTE format('DROP TABLE IF EXISTS weft.%I', which);
END $f$;
CREATE OR REPLACE FUNCTION weft.lookup_follow(step text, proof text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $f$
DECLARE
 secret text; s json; which name;
BEGIN
 SELECT o.key INTO secret FROM weft.own o;
 IF NOT coalesce(proof = encode(sha256(convert_to(secret || encode(sha256(convert_to(secret || step, 'UTF8')), 'hex'), 'UTF8')), 'hex'), false) THEN
  RAISE insufficient_privilege USING MESSAGE = 'weft.lookup_follow is for weft alone';
 END IF;
 s := step::json;
 which := s->>'name';
 IF s->>'do' = 'make' THEN
  PERFORM weft.lookup_add(which, (s->>'table')::regclass, ARRAY(SELECT json_array_elements_text(s->'columns')), ARRAY(SELECT json_array_elements_text(s->'keys')),
   ARRAY(SELECT json_array_elements_text(s->'types')), true, coalesce(to_regclass(s->>'index')::oid, 0), 'public', s->>'id', s->>'bucket', '');
  PERFORM weft.lookup_make(which);
 ELSIF s->>'do' = 'anew' THEN
  EXECUTE format('TRUNCATE weft.%I', which);
 END IF;
 EXECUTE format('SELECT weft.%I($1, $2)', which || ':fill') USING (s->>'table')::regclass, s->>'do' = 'take';
END $f$;
CREATE OR REPLACE FUNCTION weft.lookup_altered() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $f$
DECLARE
 l record;
BEGIN
 FOR l IN SELECT k.name, k.names, k.types, c.relname, array_agg(a.attname::text ORDER BY u.i) AS now,
   array_agg(format_type(CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END, NULL) ORDER BY u.i) AS kinds
  FROM weft.lookup k JOIN pg_class c ON c.oid = k.owner CROSS JOIN LATERAL unnest(k.columns || k.keys) WITH ORDINALITY u(n, i)
  JOIN pg_attribute a ON a.attrelid = k.owner AND a.attnum = u.n AND NOT a.attisdropped JOIN pg_type t ON t.oid = a.atttypid
  WHERE cardinality(k.names) > 0 GROUP BY k.name, c.relname LOOP
  FOR i IN 1 .. cardinality(l.types) LOOP
   IF NOT (l.kinds[i] = l.types[i] OR l.types[i] = 'int8' AND l.kinds[i] IN ('smallint', 'integer', 'bigint') OR l.types[i] = 'text' AND l.kinds[i] = 'character varying'
    OR l.types[i] = 'bpchar' AND l.kinds[i] IN ('character', 'bpchar') OR l.types[i] = 'timestamp' AND l.kinds[i] = 'timestamp without time zone'
    OR l.types[i] = 'timestamptz' AND l.kinds[i] = 'timestamp with time zone') THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = format('column %s of %s has a lookup and cannot change its type so', quote_ident(l.now[i]), quote_ident(l.relname)),
     HINT = 'Drop the lookup first, or the constraint that has it, and make it again.';
   END IF;
  END LOOP;
  IF l.names <> l.now THEN
   PERFORM weft.lookup_make(l.name);
  END IF;
 END LOOP;
 FOR l IN SELECT t.tgrelid::regclass::text AS rel, t.tgname FROM pg_trigger t JOIN weft.lookup k ON t.tgrelid IN (SELECT k.owner UNION ALL SELECT relid FROM pg_partition_tree(k.owner))
  WHERE coalesce(current_setting('weft.quiet', true), '') <> 'on' AND t.tgenabled <> 'A' AND t.tgname LIKE 'weft ' || replace(k.name, '_', '\_') || ' %' LOOP
  EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', l.rel, l.tgname);
 END LOOP;
 -- A unique index that was made after its lookup, or again because a column has another type.
 UPDATE weft.lookup k SET index = (SELECT min(i.indexrelid) FROM pg_index i WHERE k.single AND i.indrelid = k.owner AND i.indisunique AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
  AND i.indnkeyatts = cardinality(k.columns) AND k.columns <@ (string_to_array(i.indkey::text, ' ')::int2[])[1:i.indnkeyatts])
 WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = k.index) AND (SELECT min(i.indexrelid) FROM pg_index i WHERE k.single AND i.indrelid = k.owner AND i.indisunique AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
  AND i.indnkeyatts = cardinality(k.columns) AND k.columns <@ (string_to_array(i.indkey::text, ' ')::int2[])[1:i.indnkeyatts]) IS NOT NULL;
END $f$;
CREATE OR REPLACE FUNCTION weft.lookup_dropped() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $f$
DECLARE
 which name;
BEGIN
 -- Another index that is as unique keeps it.
 UPDATE weft.lookup k SET index = (SELECT min(i.indexrelid) FROM pg_index i WHERE k.single AND i.indrelid = k.owner AND i.indisunique AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
  AND i.indnkeyatts = cardinality(k.columns) AND k.columns <@ (string_to_array(i.indkey::text, ' ')::int2[])[1:i.indnkeyatts])
 WHERE k.index IN (SELECT d.objid FROM pg_event_trigger_dropped_objects() d WHERE d.classid = 'pg_class'::regclass) AND (SELECT min(i.indexrelid) FROM pg_index i WHERE k.single AND i.indrelid = k.owner AND i.indisunique AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
  AND i.indnkeyatts = cardinality(k.columns) AND k.columns <@ (string_to_array(i.indkey::text, ' ')::int2[])[1:i.indnkeyatts]) IS NOT NULL;
 FOR which IN SELECT DISTINCT l.name FROM weft.lookup l JOIN pg_event_trigger_dropped_objects() d ON d.classid = 'pg_class'::regclass
  AND (d.objid = l.owner AND (d.objsubid = 0 OR d.objsubid = ANY (l.columns)) OR d.objid = l.index) LOOP
  PERFORM weft.lookup_drop(which);
 END LOOP;
END $f$;
REVOKE EXECUTE ON FUNCTION weft.lookup_add(name, regclass, text[], text[], text[], bool, oid, text, text, text, text), weft.lookup_make(name), weft.lookup_drop(name) FROM PUBLIC;
DROP EVENT TRIGGER IF EXISTS weft_lookup_altered;
CREATE EVENT TRIGGER weft_lookup_altered ON ddl_command_end WHEN TAG IN ('ALTER TABLE', 'CREATE INDEX') EXECUTE FUNCTION weft.lookup_altered();
DO $d$ BEGIN
 IF NOT EXISTS (SELECT FROM pg_catalog.pg_event_trigger WHERE evtname = 'weft_lookup_dropped') THEN
  CREATE EVENT TRIGGER weft_lookup_dropped ON sql_drop EXECUTE FUNCTION weft.lookup_dropped();
 END IF;
END $d$;
ALTER EVENT TRIGGER weft_lookup_altered ENABLE ALWAYS;
ALTER EVENT TRIGGER weft_lookup_dropped ENABLE ALWAYS;
ALTER TABLE weft.change ENABLE ALWAYS TRIGGER weft_undrained;
CREATE FUNCTION weft.lookup_version() RETURNS text LANGUAGE sql AS 'SELECT ''22ad46c4''';
