-- What lookups do when tables are altered or dropped: event triggers follow in the same transaction, in whatever
-- session that happens. lookup_make.sql comes first.

-- weft.lookup_follow does to a lookup what DDL makes necessary, inside the transaction of the DDL. step is a LookupStep
-- of weft. Rows that the DDL brings or takes become notes, as if a statement had written them.
CREATE OR REPLACE FUNCTION weft.lookup_follow(step text, proof text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
  s json;
  which name;
BEGIN
  PERFORM weft.prove(E'follow\n' || step, proof);
  s := step::json;
  which := s->>'name';
  IF s->>'do' = 'make' THEN
    PERFORM weft.lookup_add(which, (s->>'table')::regclass, ARRAY(SELECT json_array_elements_text(s->'columns')),
      ARRAY(SELECT json_array_elements_text(s->'keys')), ARRAY(SELECT json_array_elements_text(s->'types')), true,
      coalesce(to_regclass(s->>'index')::oid, 0), 'public', s->>'id', s->>'bucket', '');
    PERFORM weft.lookup_make(which);
  ELSIF s->>'do' = 'anew' THEN
    EXECUTE format('TRUNCATE weft.%I', which);
  END IF;
  EXECUTE format('SELECT weft.%I($1, $2)', which || ':fill') USING (s->>'table')::regclass, s->>'do' = 'take';
END $f$;

-- weft.lookup_altered follows new names, and refuses types whose values would hash otherwise. PostgreSQL makes an index
-- again when a column that the index uses changes its type; a lookup that is derived from the index cannot follow, unless the index
-- keeps its shape. It enables
-- triggers of lookups that a user has disabled: a lookup that misses rows is wrong, and a user who disables triggers to
-- load data means the triggers of the application.
CREATE OR REPLACE FUNCTION weft.lookup_altered() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
  l record;
BEGIN
  FOR l IN SELECT k.name, k.columns, k.names, k.types, c.relname, array_agg(a.attname::text ORDER BY u.i) AS now,
      array_agg(format_type(CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END, NULL) ORDER BY u.i) AS kinds
    FROM weft.lookup k JOIN pg_class c ON c.oid = k.owner CROSS JOIN LATERAL unnest(k.columns || k.keys) WITH ORDINALITY u(n, i)
    JOIN pg_attribute a ON a.attrelid = k.owner AND a.attnum = u.n AND NOT a.attisdropped JOIN pg_type t ON t.oid = a.atttypid
    WHERE cardinality(k.names) > 0 GROUP BY k.name, c.relname LOOP
    FOR i IN 1 .. cardinality(l.columns) LOOP
      IF NOT (l.kinds[i] = l.types[i]
        OR l.types[i] = 'int8' AND l.kinds[i] IN ('smallint', 'integer', 'bigint')
        OR l.types[i] = 'text' AND l.kinds[i] = 'character varying'
        OR l.types[i] = 'bpchar' AND l.kinds[i] IN ('character', 'bpchar')
        OR l.types[i] = 'timestamp' AND l.kinds[i] = 'timestamp without time zone'
        OR l.types[i] = 'timestamptz' AND l.kinds[i] = 'timestamp with time zone') THEN
        RAISE EXCEPTION USING ERRCODE = '0A000',
          MESSAGE = format('column %s of %s has a lookup and cannot change its type so', quote_ident(l.now[i]), quote_ident(l.relname)),
          HINT = 'Drop the lookup first, or the constraint that has it, and make it again.';
      END IF;
    END LOOP;
    IF l.names <> l.now THEN
      PERFORM weft.lookup_make(l.name);
    END IF;
  END LOOP;
  FOR l IN SELECT k.name FROM weft.lookup k
    WHERE cardinality(k.used) > 0 AND (k.used <> weft.lookup_used(k) OR tg_tag NOT IN ('ALTER TABLE', 'CREATE INDEX')) LOOP
    PERFORM weft.lookup_functions(l.name);
  END LOOP;
  FOR l IN SELECT t.tgrelid::regclass::text AS rel, t.tgname
    FROM pg_trigger t JOIN weft.lookup k ON t.tgrelid IN (SELECT k.owner UNION ALL SELECT relid FROM pg_partition_tree(k.owner))
    WHERE coalesce(current_setting('weft.quiet', true), '') <> 'on' AND t.tgenabled <> 'A'
      AND t.tgname LIKE 'weft ' || replace(k.name, '_', '\_') || ' %' LOOP
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', l.rel, l.tgname);
  END LOOP;
  -- The unique index of a lookup may be made after the lookup, or again because a column gets another type.
  UPDATE weft.lookup k SET index = weft.lookup_index(k)
    WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = k.index) AND weft.lookup_index(k) IS NOT NULL;
  FOR l IN SELECT k.name, k.shown FROM weft.lookup k
    WHERE cardinality(k.used) > 0 AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = k.index) AND weft.lookup_index(k) IS NULL LOOP
    RAISE EXCEPTION USING ERRCODE = '0A000',
      MESSAGE = format('a column of the unique index on (%s) cannot change its type so', array_to_string(l.shown, ', ')),
      HINT = 'Drop the index first, change the type, and make the index again.';
  END LOOP;
END $f$;

-- weft.lookup_dropped drops the lookups of tables, columns and indexes that are dropped. REINDEX CONCURRENTLY gives an
-- index another oid, and no event tells of that.
CREATE OR REPLACE FUNCTION weft.lookup_dropped() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
  which name;
BEGIN
  -- A lookup stays if another index is as unique as the one that is dropped.
  UPDATE weft.lookup k SET index = weft.lookup_index(k)
    WHERE k.index <> 0 AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = k.index) AND weft.lookup_index(k) IS NOT NULL;
  FOR which IN SELECT DISTINCT l.name FROM weft.lookup l
    JOIN pg_event_trigger_dropped_objects() d ON d.classid = 'pg_class'::regclass
      AND (d.objid = l.owner AND (d.objsubid = 0 OR d.objsubid = ANY (l.columns || l.uses)) OR d.objid = l.index
        OR l.index <> 0 AND d.object_type = 'index' AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = l.index)) LOOP
    PERFORM weft.lookup_drop(which);
  END LOOP;
END $f$;

-- ENABLE ALWAYS: both fire under every session_replication_role.
DROP EVENT TRIGGER IF EXISTS weft_lookup_altered;
CREATE EVENT TRIGGER weft_lookup_altered ON ddl_command_end
  WHEN TAG IN ('ALTER TABLE', 'CREATE INDEX', 'ALTER TYPE', 'ALTER FUNCTION', 'ALTER OPERATOR', 'ALTER EXTENSION', 'ALTER SCHEMA')
  EXECUTE FUNCTION weft.lookup_altered();
DO $d$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_event_trigger WHERE evtname = 'weft_lookup_dropped') THEN
    CREATE EVENT TRIGGER weft_lookup_dropped ON sql_drop EXECUTE FUNCTION weft.lookup_dropped();
  END IF;
END $d$;
ALTER EVENT TRIGGER weft_lookup_altered ENABLE ALWAYS;
ALTER EVENT TRIGGER weft_lookup_dropped ENABLE ALWAYS;
