-- The functions that make and drop a lookup: its table, its functions, its triggers. lookup_index.sql comes first.

-- weft.lookup_add makes the table of a lookup and its row in weft.lookup. The columns of the table are v1, v2, … and id.
-- Texts are compared as bytes, which is what equality means under every collation that a lookup takes. A lookup without
-- columns is derived from the index.
CREATE OR REPLACE FUNCTION weft.lookup_add(which name, owner regclass, columns text[], keys text[], types text[], single bool, index oid,
  state text, id_sql text, bucket_sql text, job text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
  list text;
  vs text;
BEGIN
  SELECT string_agg(format('v%s %s', i, t || CASE WHEN t IN ('text', 'bpchar') THEN ' COLLATE "C"' ELSE '' END), ', ' ORDER BY i),
    string_agg('v' || i::text, ', ' ORDER BY i)
    INTO list, vs FROM unnest(types) WITH ORDINALITY u(t, i);
  EXECUTE format('CREATE TABLE weft.%I (%s, id int8 NOT NULL%s)', which, list, CASE WHEN single THEN ', claimed bool' ELSE '' END);
  IF single THEN
    EXECUTE format('ALTER TABLE weft.%I ADD PRIMARY KEY (%s)', which, vs);
  ELSE
    EXECUTE format('CREATE INDEX ON weft.%I (%s, id)', which, vs);
  END IF;
  IF cardinality(columns) = 0 AND coalesce(weft.index_shape(index), '') = '' THEN
    RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('the index of lookup %s does not exist', quote_ident(which));
  END IF;
  INSERT INTO weft.lookup (name, owner, columns, keys, names, types, single, index, state, id_sql, bucket_sql, job, shape, uses)
  SELECT which, lookup_add.owner,
    (SELECT coalesce(array_agg(a.attnum ORDER BY u.i), '{}') FROM unnest(lookup_add.columns) WITH ORDINALITY u(n, i)
      JOIN pg_attribute a ON a.attrelid = lookup_add.owner AND a.attname = u.n),
    (SELECT array_agg(a.attnum ORDER BY u.i) FROM unnest(lookup_add.keys) WITH ORDINALITY u(n, i)
      JOIN pg_attribute a ON a.attrelid = lookup_add.owner AND a.attname = u.n),
    '{}', lookup_add.types, lookup_add.single, lookup_add.index, lookup_add.state, lookup_add.id_sql, lookup_add.bucket_sql, lookup_add.job,
    CASE WHEN cardinality(lookup_add.columns) = 0 THEN weft.index_shape(lookup_add.index) ELSE '' END,
    CASE WHEN cardinality(lookup_add.columns) = 0 THEN weft.index_uses(lookup_add.index) ELSE '{}' END;
  UPDATE weft.lookup k SET index = weft.lookup_index(k) WHERE k.name = which AND k.index <> 0 AND weft.lookup_index(k) IS NOT NULL;
END $f$;

-- weft.lookup_functions makes the functions of a lookup, and replaces them after a column was renamed or a newer weft
-- makes other functions. It locks no table.
--
-- Column names stand in the texts that are joined with ||, or are arguments of one format(), and never in a text that
-- is a format itself: a name can look like any mark.
CREATE OR REPLACE FUNCTION weft.lookup_functions(which name) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $f$
DECLARE
  l weft.lookup;
  head text; -- the attributes of each function
  vs text; -- v1, v2, …
  known text; -- the condition that no value is NULL
  same text; -- the condition that t and e have the same values
  parse text; -- the format of the query that reads a list of entries; the argument is the list
  find text; -- the columns of a query that reads a list of values
  entry text; -- the values of a row as they travel
  entry_head text; entry_tail text; -- the query that makes entries of rows: the rows stand between
  new_entries text; old_entries text;
  note_head text; note_from text; note_tail text; -- the INSERT of notes: true or false and the entries stand between
  source text; -- the columns of the table that make an entry
BEGIN
  PERFORM weft.lookup_derive(which) FROM weft.lookup WHERE name = which AND shape <> '';
  SELECT * INTO STRICT l FROM weft.lookup WHERE name = which;
  UPDATE weft.lookup SET names = (SELECT array_agg(a.attname::text ORDER BY u.i) FROM unnest(l.columns || l.keys) WITH ORDINALITY u(n, i)
    JOIN pg_attribute a ON a.attrelid = l.owner AND a.attnum = u.n) WHERE name = which RETURNING names INTO l.names;
  SELECT string_agg(CASE WHEN i <= cardinality(l.columns) THEN format('r.%I::%s AS v%s', n, l.types[i], i)
      ELSE format('r.%I AS k%s', n, i - cardinality(l.columns)) END, ', ' ORDER BY i)
    INTO source FROM unnest(l.names) WITH ORDINALITY u(n, i);
  IF l.shape <> '' THEN -- bare names of columns are those of r
    source := (SELECT string_agg(format('(%s)::%s AS v%s', n, l.types[i], i), ', ' ORDER BY i) FROM unnest(l.items) WITH ORDINALITY u(n, i))
      || ', ' || source;
  END IF;
  SELECT string_agg(format('encode(convert_to(v%s::text, getdatabaseencoding()), ''hex'')', i), ' || '':'' || ' ORDER BY i),
    string_agg(format('v%s IS NOT NULL', i), ' AND ' ORDER BY i),
    string_agg(format('convert_from(decode(split_part(e, '':'', %s), ''hex''), getdatabaseencoding())::%s AS v%s', i + 2, t, i),
      ', ' ORDER BY i),
    string_agg(format('convert_from(decode(split_part(e, '':'', %s), ''hex''), ''UTF8'')::%s AS v%s', i, t, i), ', ' ORDER BY i),
    string_agg('v' || i::text, ', ' ORDER BY i),
    string_agg(format('t.v%s = e.v%s', i, i), ' AND ' ORDER BY i)
    INTO entry, known, parse, find, vs, same FROM unnest(l.types) WITH ORDINALITY u(t, i);
  entry_head := format('SELECT (%s)::text || '':'' || (%s)::text || '':'' || %s AS e FROM (SELECT %s FROM ',
    l.bucket_sql, l.id_sql, entry, source);
  entry_tail := CASE WHEN l.condition <> '' THEN ' r WHERE (' || l.condition || ')' ELSE ' r' END || ') x WHERE ' || known;
  new_entries := entry_head || 'new_rows' || entry_tail;
  old_entries := entry_head || 'old_rows' || entry_tail;
  note_head := format('INSERT INTO weft.change (lookup, gone, entries) SELECT %L, ', which);
  note_from := ', string_agg(e, '','') FROM (SELECT e, (row_number() OVER ()) / 2000 AS n FROM (';
  note_tail := ') q) z GROUP BY n';
  parse := format('SELECT split_part(e, '':'', 2)::int8 AS id, %s FROM unnest(string_to_array(%%s, '','')) e', parse);
  head := ' LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET datestyle = ''ISO'' SET timezone = ''UTC'' AS ';

  -- The older forms of these functions wanted no proof.
  EXECUTE format('DROP FUNCTION IF EXISTS weft.%I(text, text), weft.%I(text, text), weft.%I(text), weft.%I(text)',
    which || ':apply', which || ':settle', which || ':find', which || ':claim');

  -- :note notes what a statement has changed, as the trigger of an ordinary table. It checks its table: a role that may
  -- execute a function may make it a trigger of a table of its own.
  EXECUTE format('CREATE OR REPLACE FUNCTION weft.%I() RETURNS trigger', which || ':note')
    || head || quote_literal(format(
$b$#variable_conflict use_column
 BEGIN
  IF TG_RELID <> %1$s THEN RAISE insufficient_privilege USING MESSAGE = 'this function is a trigger of another table'; END IF;
  SET CONSTRAINTS weft.weft_undrained DEFERRED;
  IF TG_OP = 'TRUNCATE' THEN TRUNCATE weft.%2$I;
  ELSIF TG_OP = 'INSERT' THEN %3$s;
  ELSIF TG_OP = 'DELETE' THEN %4$s;
  ELSE
   %5$s;
   %6$s;
  END IF;
  RETURN NULL;
 END$b$,
    l.owner, which,
    note_head || 'false' || note_from || new_entries || note_tail,
    note_head || 'true' || note_from || old_entries || note_tail,
    note_head || 'true' || note_from || old_entries || ' EXCEPT ALL ' || new_entries || note_tail,
    note_head || 'false' || note_from || new_entries || ' EXCEPT ALL ' || old_entries || note_tail));

  -- :row notes what has become of a row, as the trigger of a partitioned table and of its partitions.
  EXECUTE format('CREATE OR REPLACE FUNCTION weft.%I() RETURNS trigger', which || ':row')
    || head || quote_literal(format(
$b$#variable_conflict use_column
 DECLARE was text; becomes text;
 BEGIN
  IF TG_RELID <> %1$s AND NOT EXISTS (SELECT FROM pg_partition_ancestors(TG_RELID) WHERE relid = %1$s) THEN
   RAISE insufficient_privilege USING MESSAGE = 'this function is a trigger of another table';
  END IF;
  SET CONSTRAINTS weft.weft_undrained DEFERRED;
  IF TG_OP <> 'INSERT' THEN SELECT e INTO was FROM (%2$s) o; END IF;
  IF TG_OP <> 'DELETE' THEN SELECT e INTO becomes FROM (%3$s) n; END IF;
  INSERT INTO weft.change (lookup, gone, entries) SELECT %4$L, x.gone, x.e FROM (VALUES (true, was), (false, becomes)) x (gone, e)
   WHERE was IS DISTINCT FROM becomes AND x.e IS NOT NULL;
  RETURN NULL;
 END$b$,
    l.owner, entry_head || '(SELECT OLD.*)' || entry_tail, entry_head || '(SELECT NEW.*)' || entry_tail, which));

  -- :fill notes all rows of the table, or of a partition of it.
  EXECUTE format('CREATE OR REPLACE FUNCTION weft.%I(source regclass, gone bool) RETURNS void', which || ':fill')
    || head || quote_literal(format(
$b$BEGIN
  SET CONSTRAINTS weft.weft_undrained DEFERRED;
  EXECUTE %L || gone::text || %L || source::text || %L;
 END$b$,
    note_head, note_from || entry_head, entry_tail || note_tail));
  EXECUTE format('REVOKE EXECUTE ON FUNCTION weft.%I(regclass, bool), weft.%I() FROM PUBLIC', which || ':fill', which || ':note');

  -- :apply deletes the entries in gone from the lookup table and adds those in added. An entry may not be there yet although
  -- its row is: the transaction that has stored both is committed on the shard of the row first. In a lookup that is not unique,
  -- an entry can be there several times, and one of them goes.
  EXECUTE format('CREATE OR REPLACE FUNCTION weft.%I(gone text, added text, proof text) RETURNS void', which || ':apply')
    || head || quote_literal(
    CASE WHEN l.single THEN format(
$b$DECLARE n int;
 BEGIN
  PERFORM weft.prove(%1$L || gone || E'\n' || added, proof);
  IF gone <> '' THEN
   DELETE FROM weft.%2$I t USING (%3$s) e WHERE t.id = e.id AND %4$s;
   GET DIAGNOSTICS n = ROW_COUNT;
   IF n < cardinality(string_to_array(gone, ',')) THEN
    PERFORM weft.await_prepared(%7$L);
    DELETE FROM weft.%2$I t USING (%3$s) e WHERE t.id = e.id AND %4$s;
   END IF;
  END IF;
  IF added <> '' THEN INSERT INTO weft.%2$I (id, %5$s) %6$s ORDER BY %5$s; END IF;
 END$b$,
    which || E':apply\n', which, format(parse, 'gone'), same, vs, format(parse, 'added'), 'weft.' || quote_ident(which))
    ELSE format(
$b$DECLARE c record;
 BEGIN
  PERFORM weft.prove(%1$L || gone || E'\n' || added, proof);
  IF gone <> '' THEN
   FOR c IN %3$s LOOP
    DELETE FROM weft.%2$I WHERE ctid = (SELECT t.ctid FROM weft.%2$I t WHERE t.id = c.id AND %4$s LIMIT 1 FOR UPDATE SKIP LOCKED);
    IF NOT FOUND THEN
     PERFORM weft.await_prepared(%7$L);
     DELETE FROM weft.%2$I WHERE ctid = (SELECT t.ctid FROM weft.%2$I t WHERE t.id = c.id AND %4$s LIMIT 1
      FOR UPDATE SKIP LOCKED);
    END IF;
   END LOOP;
  END IF;
  IF added <> '' THEN INSERT INTO weft.%2$I (id, %5$s) %6$s; END IF;
 END$b$,
    which || E':apply\n', which, format(parse, 'gone'), replace(same, '= e.', '= c.'), vs, format(parse, 'added'),
    'weft.' || quote_ident(which)) END);

  IF l.single THEN
    -- :claim enters values before their rows are stored. It returns '' for each value that it has entered, and the id of
    -- the entry for each that is there already; it waits for a transaction that is about to store the value.
    EXECUTE format('CREATE OR REPLACE FUNCTION weft.%I(entries text, proof text) RETURNS SETOF text', which || ':claim')
      || head || quote_literal(format(
$b$DECLARE c record; other int8;
 BEGIN
  PERFORM weft.prove(%1$L || entries, proof);
  FOR c IN %2$s LOOP
  LOOP
   INSERT INTO weft.%3$I (id, claimed, %4$s) SELECT c.id, true, %5$s ON CONFLICT DO NOTHING;
   IF FOUND THEN RETURN NEXT ''; EXIT; END IF;
   SELECT t.id INTO other FROM weft.%3$I t WHERE %6$s;
   IF FOUND THEN RETURN NEXT other::text; EXIT; END IF;
  END LOOP;
  END LOOP;
 END$b$,
      which || E':claim\n', replace(format(parse, 'entries'), 'getdatabaseencoding()', quote_literal('UTF8')), which, vs,
      (SELECT string_agg('c.v' || i::text, ', ' ORDER BY i) FROM generate_subscripts(l.types, 1) i), replace(same, '= e.', '= c.')));

    -- :settle puts the entries of rows that are stored in the place of their claims, and deletes the claims that are
    -- left. Claims of ! say that every entry must have been claimed: a trigger may have changed a value since.
    EXECUTE format('CREATE OR REPLACE FUNCTION weft.%I(added text, claims text, proof text) RETURNS void', which || ':settle')
      || head || quote_literal(format(
$b$DECLARE most int; n int;
 BEGIN
  PERFORM weft.prove(%1$L || added || E'\n' || claims, proof);
  IF claims = '!' THEN
   SELECT count(*) INTO most FROM (%2$s) e;
   UPDATE weft.%3$I t SET claimed = NULL FROM (%2$s) e WHERE t.claimed AND t.id = e.id AND %4$s;
   GET DIAGNOSTICS n = ROW_COUNT;
   IF n < most THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'a BEFORE trigger changes a unique column that ON CONFLICT looks at over all shards',
     HINT = 'Give the value as the trigger leaves it, or name the shard key in ON CONFLICT.';
   END IF;
   RETURN;
  END IF;
  IF added <> '' THEN
   WITH e AS MATERIALIZED (%2$s),
    u AS (UPDATE weft.%3$I t SET claimed = NULL FROM e WHERE t.claimed AND t.id = e.id AND %4$s RETURNING e.id, %5$s)
   INSERT INTO weft.%3$I (id, %6$s) SELECT * FROM e WHERE NOT EXISTS (SELECT FROM u t WHERE t.id = e.id AND %4$s) ORDER BY %6$s;
  END IF;
  IF claims <> '' THEN DELETE FROM weft.%3$I t USING (%7$s) e WHERE t.claimed AND %4$s; END IF;
 END$b$,
      which || E':settle\n', format(parse, 'added'), which, same, regexp_replace(vs, 'v', 'e.v', 'g'), vs,
      replace(format(parse, 'claims'), 'getdatabaseencoding()', quote_literal('UTF8'))));
  END IF;

  -- :find returns the ids of values. An id of NULL says that a prepared transaction writes the lookup table and is not
  -- yet committed here, though its client may have been told that it is.
  EXECUTE format('CREATE OR REPLACE FUNCTION weft.%I(want text, proof text) RETURNS SETOF int8', which || ':find')
    || head || quote_literal(format(
$b$DECLARE n int;
 BEGIN
  PERFORM weft.prove(%1$L || want, proof);
  RETURN QUERY SELECT DISTINCT t.id FROM (SELECT %2$s FROM unnest(string_to_array(want, ',')) e) e JOIN weft.%3$I t ON %4$s;
  GET DIAGNOSTICS n = ROW_COUNT;
  IF %5$s AND EXISTS (SELECT FROM pg_prepared_xact()) AND EXISTS (SELECT FROM pg_locks k
   WHERE k.relation = %6$L::regclass AND k.pid IS NULL AND k.mode = 'RowExclusiveLock') THEN
   RETURN NEXT NULL;
  END IF;
 END$b$,
    which || E':find\n', find, which, same,
    CASE WHEN l.single THEN '(n = 0 OR n < cardinality(string_to_array(want, '','')))' ELSE 'true' END, 'weft.' || quote_ident(which)));
END $f$;

-- weft.lookup_make makes the functions and triggers of a lookup.
--
-- Triggers of an ordinary table see a statement as a whole, in transition tables, and an UPDATE is the difference of the
-- two. A partition can be written by itself, so a partitioned table has triggers for each row, which all its partitions
-- inherit. TRUNCATE goes to all shards, and so empties the lookup on all of them.
CREATE OR REPLACE FUNCTION weft.lookup_make(which name) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
  l weft.lookup;
  rel text;
  rows bool;
BEGIN
  PERFORM weft.lookup_functions(which);
  SELECT * INTO STRICT l FROM weft.lookup WHERE name = which;
  rel := l.owner::regclass::text;
  rows := (SELECT relkind = 'p' FROM pg_class WHERE oid = l.owner);
  EXECUTE (SELECT coalesce(string_agg(format('DROP TRIGGER %I ON %s', tgname, rel), '; '), 'SELECT 1') FROM pg_trigger
    WHERE tgrelid = l.owner AND tgname LIKE 'weft ' || replace(which, '_', '\_') || ' %');
  IF l.state IN ('declared', 'dropped') THEN
    RETURN;
  END IF;
  IF rows THEN
    EXECUTE format('CREATE TRIGGER %I AFTER INSERT OR UPDATE OR DELETE ON %s '
      'FOR EACH ROW EXECUTE FUNCTION weft.%I()', 'weft ' || which || ' row', rel, which || ':row');
  ELSE
    EXECUTE format('CREATE TRIGGER %I AFTER INSERT ON %s REFERENCING NEW TABLE AS new_rows '
      'FOR EACH STATEMENT EXECUTE FUNCTION weft.%I()', 'weft ' || which || ' insert', rel, which || ':note');
    EXECUTE format('CREATE TRIGGER %I AFTER UPDATE ON %s REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows '
      'FOR EACH STATEMENT EXECUTE FUNCTION weft.%I()', 'weft ' || which || ' update', rel, which || ':note');
    EXECUTE format('CREATE TRIGGER %I AFTER DELETE ON %s REFERENCING OLD TABLE AS old_rows '
      'FOR EACH STATEMENT EXECUTE FUNCTION weft.%I()', 'weft ' || which || ' delete', rel, which || ':note');
  END IF;
  EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %s '
    'FOR EACH STATEMENT EXECUTE FUNCTION weft.%I()', 'weft ' || which || ' truncate', rel, which || ':note');
  EXECUTE (SELECT string_agg(format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', rel, tgname), '; ') FROM pg_trigger
    WHERE tgrelid = l.owner AND tgname LIKE 'weft ' || replace(which, '_', '\_') || ' %');
END $f$;

-- weft.lookup_drop drops a lookup: its row, its functions with their triggers, its table.
CREATE OR REPLACE FUNCTION weft.lookup_drop(which name) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $f$
BEGIN
  DELETE FROM weft.lookup WHERE name = which;
  EXECUTE format('DROP FUNCTION IF EXISTS weft.%I(), weft.%I(), weft.%I(regclass, bool), weft.%I(text, text, text), '
    'weft.%I(text, text, text), weft.%I(text, text), weft.%I(text, text) CASCADE',
    which || ':note', which || ':row', which || ':fill', which || ':apply', which || ':settle', which || ':find', which || ':claim');
  EXECUTE format('DROP TABLE IF EXISTS weft.%I', which);
END $f$;

REVOKE EXECUTE ON FUNCTION weft.lookup_add(name, regclass, text[], text[], text[], bool, oid, text, text, text, text),
  weft.lookup_functions(name), weft.lookup_make(name), weft.lookup_drop(name) FROM PUBLIC;
