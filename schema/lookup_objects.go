package schema

import "weft/catalog"

// What a shard needs to keep lookup tables, in schema weft. All of it may be run
// again.
//
//	users ──trigger "email:note"──▶ weft.change ──weft.drain()──▶ weft ──"email:apply"──▶ weft.email
//	                                                                                      on the shards of the values
//
// Triggers note what has become of a table's values, in whatever way it has: by
// a statement, a cascade, a function. weft fetches the notes after each statement
// and writes them into the lookup tables of the shards the values belong on,
// inside the same transaction. Should it ever not do so, the transaction cannot
// commit: a deferred trigger on the notes sees that some are left.
//
// An entry travels as bucket:id:value[:value], the values as hexadecimal
// digits of their text in the server's encoding, which survives every client
// encoding and needs no quoting.
//
// What follows when a table is altered or dropped is done by event triggers, in
// the same transaction, whoever does it.
var lookupObjects = []string{
	`CREATE SCHEMA IF NOT EXISTS weft`,
	`GRANT USAGE ON SCHEMA weft TO PUBLIC`,

	// One row for each lookup. owner and the numbers of columns are this shard's
	// own; names are what the functions call them.
	`CREATE TABLE IF NOT EXISTS weft.lookup (
 name name PRIMARY KEY, owner oid NOT NULL, columns int2[] NOT NULL, keys int2[] NOT NULL, names text[] NOT NULL,
 types text[] NOT NULL, single bool NOT NULL, index oid NOT NULL, state text NOT NULL, id_sql text NOT NULL, bucket_sql text NOT NULL,
 job text NOT NULL DEFAULT '')`,
	`GRANT SELECT ON weft.lookup TO PUBLIC`,

	// Not logged: it is empty but for open transactions. The index keeps a long
	// transaction, behind which dead rows pile up, from slowing others down.
	`CREATE UNLOGGED TABLE IF NOT EXISTS weft.change (
 tx xid8 NOT NULL DEFAULT pg_current_xact_id(), lookup name NOT NULL, gone bool NOT NULL, entries text NOT NULL)`,
	// Only where it is missing: to ask with IF NOT EXISTS waits for everybody who writes.
	`DO $d$ BEGIN
 IF pg_catalog.to_regclass('weft.change_tx') IS NULL THEN
  CREATE INDEX change_tx ON weft.change (tx);
 END IF;
END $d$`,

	`CREATE OR REPLACE FUNCTION weft.undrained() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
 IF EXISTS (SELECT FROM weft.change WHERE tx = pg_current_xact_id()) THEN
  RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = format('lookup %s has not followed what the transaction has changed', quote_ident(NEW.lookup)),
   HINT = 'Change the table through weft. If you did, try again: the lookup was being made.';
 END IF;
 RETURN NULL;
END $f$`,
	`DO $d$ BEGIN
 IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid = 'weft.change'::regclass AND tgname = 'weft_undrained') THEN
  CREATE CONSTRAINT TRIGGER weft_undrained AFTER INSERT ON weft.change DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION weft.undrained();
  ALTER TABLE weft.change ENABLE ALWAYS TRIGGER weft_undrained; -- whatever session_replication_role is
 END IF;
END $d$`,

	// What has gone comes first: when a full answer has nothing gone in it, there
	// is nothing gone in those that follow.
	`DROP FUNCTION IF EXISTS weft.drain(int)`,
	`CREATE OR REPLACE FUNCTION weft.drain(most int, proof text) RETURNS TABLE (lookup name, gone bool, entries text) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
 PERFORM weft.prove('drain', proof);
 RETURN QUERY DELETE FROM weft.change c WHERE c.ctid = ANY (ARRAY(SELECT o.ctid FROM weft.change o WHERE o.tx = pg_current_xact_id() ORDER BY o.gone DESC LIMIT most))
  RETURNING c.lookup, c.gone, c.entries;
END $f$`,

	provedBy, lookupAdd, lookupFunctions, lookupMake, lookupDrop, lookupFollow, lookupAltered, lookupDropped,
	`REVOKE EXECUTE ON FUNCTION weft.lookup_add(name, regclass, text[], text[], text[], bool, oid, text, text, text, text), weft.prove(text, text), weft.lookup_functions(name), weft.lookup_make(name), weft.lookup_drop(name) FROM PUBLIC`,
	`DROP EVENT TRIGGER IF EXISTS weft_lookup_altered`,
	`CREATE EVENT TRIGGER weft_lookup_altered ON ddl_command_end WHEN TAG IN ('ALTER TABLE', 'CREATE INDEX') EXECUTE FUNCTION weft.lookup_altered()`,
	`DO $d$ BEGIN
 IF NOT EXISTS (SELECT FROM pg_catalog.pg_event_trigger WHERE evtname = 'weft_lookup_dropped') THEN
  CREATE EVENT TRIGGER weft_lookup_dropped ON sql_drop EXECUTE FUNCTION weft.lookup_dropped();
 END IF;
END $d$`,
	// Whatever session_replication_role is.
	`ALTER EVENT TRIGGER weft_lookup_altered ENABLE ALWAYS`,
	`ALTER EVENT TRIGGER weft_lookup_dropped ENABLE ALWAYS`,
}

// lookupAdd makes the table of a lookup. Its columns are v1, v2, … and id. Texts
// are compared as bytes, which is what equality means under every collation that
// a lookup takes.
const lookupAdd = `CREATE OR REPLACE FUNCTION weft.lookup_add(which name, owner regclass, columns text[], keys text[], types text[], single bool, index oid,
 state text, id_sql text, bucket_sql text, job text) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
 list text; vs text;
BEGIN
 SELECT string_agg(format('v%s %s', i, t || CASE WHEN t IN ('text', 'bpchar') THEN ' COLLATE "C"' ELSE '' END), ', ' ORDER BY i), string_agg('v' || i::text, ', ' ORDER BY i)
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
 UPDATE weft.lookup k SET index = ` + oldestIndex + ` WHERE k.name = which AND k.index <> 0 AND ` + oldestIndex + ` IS NOT NULL;
END $f$`

// lookupFunctions makes the functions of a lookup, or makes them anew after columns
// have got other names, or after weft has got other functions. It locks no table.
const lookupFunctions = `CREATE OR REPLACE FUNCTION weft.lookup_functions(which name) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $f$
DECLARE
 l weft.lookup; source text; entry text; entry_head text; entry_tail text; new_entries text; old_entries text; note_head text; note_from text; note_tail text;
 parse text; find text; vs text; same text; known text; head text;
BEGIN
 SELECT * INTO STRICT l FROM weft.lookup WHERE name = which;
 UPDATE weft.lookup SET names = (SELECT array_agg(a.attname::text ORDER BY u.i) FROM unnest(l.columns || l.keys) WITH ORDINALITY u(n, i)
  JOIN pg_attribute a ON a.attrelid = l.owner AND a.attnum = u.n) WHERE name = which RETURNING names INTO l.names;
 SELECT string_agg(CASE WHEN i <= cardinality(l.columns) THEN format('r.%I::%s AS v%s', n, l.types[i], i) ELSE format('r.%I AS k%s', n, i - cardinality(l.columns)) END, ', ' ORDER BY i)
  INTO source FROM unnest(l.names) WITH ORDINALITY u(n, i);
 SELECT string_agg(format('encode(convert_to(v%s::text, getdatabaseencoding()), ''hex'')', i), ' || '':'' || ' ORDER BY i), string_agg(format('v%s IS NOT NULL', i), ' AND ' ORDER BY i),
  string_agg(format('convert_from(decode(split_part(e, '':'', %s), ''hex''), getdatabaseencoding())::%s AS v%s', i + 2, t, i), ', ' ORDER BY i),
  string_agg(format('convert_from(decode(split_part(e, '':'', %s), ''hex''), ''UTF8'')::%s AS v%s', i, t, i), ', ' ORDER BY i),
  string_agg('v' || i::text, ', ' ORDER BY i), string_agg(format('t.v%s = e.v%s', i, i), ' AND ' ORDER BY i)
  INTO entry, known, parse, find, vs, same FROM unnest(l.types) WITH ORDINALITY u(t, i);
 -- Texts are joined, and never filled in by replacing marks: a name can look like any mark.
 entry_head := format('SELECT (%s)::text || '':'' || (%s)::text || '':'' || %s AS e FROM (SELECT %s FROM ', l.bucket_sql, l.id_sql, entry, source);
 entry_tail := format(' r) x WHERE %s', known);
 new_entries := entry_head || 'new_rows' || entry_tail;
 old_entries := entry_head || 'old_rows' || entry_tail;
 note_head := format('INSERT INTO weft.change (lookup, gone, entries) SELECT %L, ', which);
 note_from := ', string_agg(e, '','') FROM (SELECT e, (row_number() OVER ()) / 2000 AS n FROM (';
 note_tail := ') q) z GROUP BY n';
 parse := format('SELECT split_part(e, '':'', 2)::int8 AS id, %s FROM unnest(string_to_array(%%s, '','')) e', parse);
 head := ' LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET datestyle = ''ISO'' SET timezone = ''UTC'' AS ';

 -- As they were before they wanted a proof.
 EXECUTE format('DROP FUNCTION IF EXISTS weft.%I(text, text), weft.%I(text, text), weft.%I(text), weft.%I(text)', which || ':apply', which || ':settle', which || ':find', which || ':claim');

 -- Whoever may execute a function may make it a trigger of a table of his own.
 EXECUTE format('CREATE OR REPLACE FUNCTION weft.%I() RETURNS trigger', which || ':note') || head || quote_literal(
 'BEGIN
  IF TG_RELID <> ' || l.owner::oid::text || ' THEN RAISE insufficient_privilege USING MESSAGE = ''this function is a trigger of another table''; END IF;
  SET CONSTRAINTS weft.weft_undrained DEFERRED;
  IF TG_OP = ''TRUNCATE'' THEN TRUNCATE weft.' || quote_ident(which) || ';
  ELSIF TG_OP = ''INSERT'' THEN ' || note_head || 'false' || note_from || new_entries || note_tail || ';
  ELSIF TG_OP = ''DELETE'' THEN ' || note_head || 'true' || note_from || old_entries || note_tail || ';
  ELSE
   ' || note_head || 'true' || note_from || old_entries || ' EXCEPT ALL ' || new_entries || note_tail || ';
   ' || note_head || 'false' || note_from || new_entries || ' EXCEPT ALL ' || old_entries || note_tail || ';
  END IF;
  RETURN NULL;
 END');
 EXECUTE format('CREATE OR REPLACE FUNCTION weft.%I() RETURNS trigger', which || ':row') || head || quote_literal(
 'DECLARE was text; becomes text;
 BEGIN
  IF TG_RELID <> ' || l.owner::oid::text || ' AND NOT EXISTS (SELECT FROM pg_partition_ancestors(TG_RELID) WHERE relid = ' || l.owner::oid::text || ') THEN
   RAISE insufficient_privilege USING MESSAGE = ''this function is a trigger of another table'';
  END IF;
  SET CONSTRAINTS weft.weft_undrained DEFERRED;
  IF TG_OP <> ''INSERT'' THEN SELECT e INTO was FROM (' || entry_head || '(SELECT OLD.*)' || entry_tail || ') o; END IF;
  IF TG_OP <> ''DELETE'' THEN SELECT e INTO becomes FROM (' || entry_head || '(SELECT NEW.*)' || entry_tail || ') n; END IF;
  INSERT INTO weft.change (lookup, gone, entries) SELECT ' || quote_literal(which) || ', x.gone, x.e FROM (VALUES (true, was), (false, becomes)) x (gone, e)
   WHERE was IS DISTINCT FROM becomes AND x.e IS NOT NULL;
  RETURN NULL;
 END');

 -- Notes all rows of the table, or of a partition of it.
 EXECUTE format('CREATE OR REPLACE FUNCTION weft.%I(source regclass, gone bool) RETURNS void', which || ':fill') || head || quote_literal(
 'BEGIN
  SET CONSTRAINTS weft.weft_undrained DEFERRED;
  EXECUTE ' || quote_literal(note_head) || ' || gone::text || ' || quote_literal(note_from || entry_head) || ' || source::text || ' || quote_literal(entry_tail || note_tail) || ';
 END');
 EXECUTE format('REVOKE EXECUTE ON FUNCTION weft.%I(regclass, bool), weft.%I() FROM PUBLIC', which || ':fill', which || ':note');

 EXECUTE format('CREATE OR REPLACE FUNCTION weft.%I(gone text, added text, proof text) RETURNS void', which || ':apply') || head || quote_literal(
 CASE WHEN l.single THEN
 'BEGIN
  PERFORM weft.prove(' || quote_literal(which || E':apply\n') || ' || gone || E''\n'' || added, proof);
  IF gone <> '''' THEN DELETE FROM weft.' || quote_ident(which) || ' t USING (' || format(parse, 'gone') || ') e WHERE t.id = e.id AND ' || same || '; END IF;
  IF added <> '''' THEN INSERT INTO weft.' || quote_ident(which) || ' (id, ' || vs || ') ' || format(parse, 'added') || ' ORDER BY ' || vs || '; END IF;
 END'
 ELSE
 'DECLARE c record;
 BEGIN
  PERFORM weft.prove(' || quote_literal(which || E':apply\n') || ' || gone || E''\n'' || added, proof);
  IF gone <> '''' THEN
   FOR c IN ' || format(parse, 'gone') || ' LOOP
    DELETE FROM weft.' || quote_ident(which) || ' WHERE ctid = (SELECT t.ctid FROM weft.' || quote_ident(which) || ' t WHERE t.id = c.id AND ' || replace(same, '= e.', '= c.') || ' LIMIT 1 FOR UPDATE SKIP LOCKED);
   END LOOP;
  END IF;
  IF added <> '''' THEN INSERT INTO weft.' || quote_ident(which) || ' (id, ' || vs || ') ' || format(parse, 'added') || '; END IF;
 END' END);

 -- Enters a value before its row is stored, or returns who has it: waits for
 -- whoever is about to. Entries of rows that are stored then take the place of what is
 -- claimed, and what is left of claims goes. Claims of ! say that nothing else may be added:
 -- a trigger may have made another value of what was claimed.
 IF l.single THEN
  EXECUTE format('CREATE OR REPLACE FUNCTION weft.%I(entries text, proof text) RETURNS SETOF text', which || ':claim') || head || quote_literal(
 'DECLARE c record; other int8;
 BEGIN
  PERFORM weft.prove(' || quote_literal(which || E':claim\n') || ' || entries, proof);
  FOR c IN ' || replace(format(parse, 'entries'), 'getdatabaseencoding()', quote_literal('UTF8')) || ' LOOP
  LOOP
   INSERT INTO weft.' || quote_ident(which) || ' (id, claimed, ' || vs || ') SELECT c.id, true, ' || (SELECT string_agg('c.v' || i::text, ', ' ORDER BY i) FROM generate_subscripts(l.types, 1) i) || ' ON CONFLICT DO NOTHING;
   IF FOUND THEN RETURN NEXT ''''; EXIT; END IF;
   SELECT t.id INTO other FROM weft.' || quote_ident(which) || ' t WHERE ' || replace(same, '= e.', '= c.') || ';
   IF FOUND THEN RETURN NEXT other::text; EXIT; END IF;
  END LOOP;
  END LOOP;
 END');
  EXECUTE format('CREATE OR REPLACE FUNCTION weft.%I(added text, claims text, proof text) RETURNS void', which || ':settle') || head || quote_literal(
 'DECLARE most int; n int;
 BEGIN
  PERFORM weft.prove(' || quote_literal(which || E':settle\n') || ' || added || E''\n'' || claims, proof);
  IF claims = ''!'' THEN
   SELECT count(*) INTO most FROM (' || format(parse, 'added') || ') e;
   UPDATE weft.' || quote_ident(which) || ' t SET claimed = NULL FROM (' || format(parse, 'added') || ') e WHERE t.claimed AND t.id = e.id AND ' || same || ';
   GET DIAGNOSTICS n = ROW_COUNT;
   IF n < most THEN
    RAISE EXCEPTION USING ERRCODE = ''0A000'', MESSAGE = ''a BEFORE trigger changes a unique column that ON CONFLICT looks at over all shards'',
     HINT = ''Give the value as the trigger leaves it, or name the shard key in ON CONFLICT.'';
   END IF;
   RETURN;
  END IF;
  IF added <> '''' THEN
   WITH e AS MATERIALIZED (' || format(parse, 'added') || '),
    u AS (UPDATE weft.' || quote_ident(which) || ' t SET claimed = NULL FROM e WHERE t.claimed AND t.id = e.id AND ' || same || ' RETURNING e.id, ' || regexp_replace(vs, 'v', 'e.v', 'g') || ')
   INSERT INTO weft.' || quote_ident(which) || ' (id, ' || vs || ') SELECT * FROM e WHERE NOT EXISTS (SELECT FROM u t WHERE t.id = e.id AND ' || same || ') ORDER BY ' || vs || ';
  END IF;
  IF claims <> '''' THEN DELETE FROM weft.' || quote_ident(which) || ' t USING (' || replace(format(parse, 'claims'), 'getdatabaseencoding()', quote_literal('UTF8')) || ') e WHERE t.claimed AND ' || same || '; END IF;
 END');
 END IF;

 -- Id NULL: somebody has promised to change the table and may have been told
 -- that it is done, but it is not yet.
 EXECUTE format('CREATE OR REPLACE FUNCTION weft.%I(want text, proof text) RETURNS SETOF int8', which || ':find') || head || quote_literal(
 'DECLARE n int;
 BEGIN
  PERFORM weft.prove(' || quote_literal(which || E':find\n') || ' || want, proof);
  RETURN QUERY SELECT DISTINCT t.id FROM (' || format('SELECT %s FROM unnest(string_to_array(want, '','')) e', find) || ') e JOIN weft.' || quote_ident(which) || ' t ON ' || same || ';
  GET DIAGNOSTICS n = ROW_COUNT;
  IF ' || CASE WHEN l.single THEN '(n = 0 OR n < cardinality(string_to_array(want, '','')))' ELSE 'true' END || ' AND EXISTS (SELECT FROM pg_prepared_xact()) AND EXISTS (SELECT FROM pg_locks k
   WHERE k.relation = ' || quote_literal('weft.' || quote_ident(which)) || '::regclass AND k.pid IS NULL AND k.mode = ''RowExclusiveLock'') THEN
   RETURN NEXT NULL;
  END IF;
 END');
END $f$`

// lookupMake makes the functions and triggers of a lookup.
//
// Statements of an ordinary table are seen as a whole, by transition tables; an
// UPDATE then is the difference of what was and what is. A partition can be
// written by itself, so a partitioned table has triggers for each row, which all
// its partitions inherit. TRUNCATE goes to all shards, and so empties the lookup on
// all of them.
const lookupMake = `CREATE OR REPLACE FUNCTION weft.lookup_make(which name) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
 l weft.lookup; rel text; rows bool;
BEGIN
 PERFORM weft.lookup_functions(which);
 SELECT * INTO STRICT l FROM weft.lookup WHERE name = which;
 rel := l.owner::regclass::text;
 rows := (SELECT relkind = 'p' FROM pg_class WHERE oid = l.owner);
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
END $f$`

const lookupDrop = `CREATE OR REPLACE FUNCTION weft.lookup_drop(which name) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $f$
BEGIN
 DELETE FROM weft.lookup WHERE name = which;
 EXECUTE format('DROP FUNCTION IF EXISTS weft.%I(), weft.%I(), weft.%I(regclass, bool), weft.%I(text, text, text), weft.%I(text, text, text), weft.%I(text, text), weft.%I(text, text) CASCADE',
  which || ':note', which || ':row', which || ':fill', which || ':apply', which || ':settle', which || ':find', which || ':claim');
 EXECUTE format('DROP TABLE IF EXISTS weft.%I', which);
END $f$`

// lookupFollow does to a lookup what DDL makes necessary, inside its transaction, by
// whomever that is run. What it says is weft's own: see LookupStep. Rows that have come
// or gone with it become notes, as if somebody had written them.
const lookupFollow = `CREATE OR REPLACE FUNCTION weft.lookup_follow(step text, proof text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
 s json; which name;
BEGIN
 PERFORM weft.prove(E'follow\n' || step, proof);
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
END $f$`

// lookupAltered follows new names of columns, and refuses types whose values
// would hash otherwise. Triggers that somebody has disabled are enabled again: a lookup
// that misses rows is wrong, and whoever loads data so means triggers of his own.
const lookupAltered = `CREATE OR REPLACE FUNCTION weft.lookup_altered() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
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
 UPDATE weft.lookup k SET index = ` + oldestIndex + `
 WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = k.index) AND ` + oldestIndex + ` IS NOT NULL;
END $f$`

// oldestIndex is the one of them that PostgreSQL names when a row breaks several.
const oldestIndex = `(SELECT min(i.indexrelid) FROM pg_index i WHERE ` + catalog.LookupIndex + `)`

// lookupDropped drops the lookups of tables, columns and indexes that are gone. REINDEX
// CONCURRENTLY gives an index another number, of which no event tells.
const lookupDropped = `CREATE OR REPLACE FUNCTION weft.lookup_dropped() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
 which name;
BEGIN
 -- Another index that is as unique keeps it.
 UPDATE weft.lookup k SET index = ` + oldestIndex + `
 WHERE k.index <> 0 AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = k.index) AND ` + oldestIndex + ` IS NOT NULL;
 FOR which IN SELECT DISTINCT l.name FROM weft.lookup l JOIN pg_event_trigger_dropped_objects() d ON d.classid = 'pg_class'::regclass
  AND (d.objid = l.owner AND (d.objsubid = 0 OR d.objsubid = ANY (l.columns)) OR d.objid = l.index
   OR l.index <> 0 AND d.object_type = 'index' AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = l.index)) LOOP
  PERFORM weft.lookup_drop(which);
 END LOOP;
END $f$`
