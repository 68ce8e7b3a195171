-- What a lookup takes over from a unique index. lookup_notes.sql comes first.

-- weft.index_shape returns what an index keeps unique, in a form that is equal for indexes that keep the same values
-- unique. The expression is catalog.IndexShape.
CREATE OR REPLACE FUNCTION weft.index_shape(index oid) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $f$
  SELECT pg_catalog.md5(pg_catalog.concat_ws('/', i.indrelid,
    pg_catalog.array_to_string((pg_catalog.string_to_array(i.indkey::pg_catalog.text, ' '))[1:i.indnkeyatts], ' '),
  pg_catalog.regexp_replace(pg_catalog.concat_ws('/', i.indexprs::pg_catalog.text, i.indpred::pg_catalog.text),
    ' :(location|[a-z]*typmod) -?[0-9]+', '', 'g'),
  CASE WHEN EXISTS (SELECT FROM pg_catalog.unnest(pg_catalog.string_to_array(i.indclass::pg_catalog.text, ' ')::pg_catalog.oid[]) u
  JOIN pg_catalog.pg_opclass c ON c.oid = u AND u >= 16384 JOIN pg_catalog.pg_type t ON t.oid = c.opcintype AND t.typname = 'citext'
  JOIN pg_catalog.pg_depend e ON e.classid = 1247 AND e.objid = t.oid AND e.deptype = 'e') THEN 'citext' END,
  CASE WHEN coalesce((pg_catalog.to_jsonb(i) ->> 'indnullsnotdistinct')::pg_catalog.bool, false) THEN 'nulls' END))
  FROM pg_index i WHERE i.indexrelid = index
$f$;

-- weft.index_uses returns the numbers of the columns that an index uses. The expression is catalog.IndexUses.
CREATE OR REPLACE FUNCTION weft.index_uses(index oid) RETURNS int2[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $f$
  SELECT ARRAY(SELECT DISTINCT n::pg_catalog.int2 FROM (SELECT
    pg_catalog.unnest((pg_catalog.string_to_array(i.indkey::pg_catalog.text, ' '))[1:i.indnkeyatts])
  UNION ALL SELECT m[1] FROM pg_catalog.regexp_matches(pg_catalog.concat_ws(' ', i.indexprs::pg_catalog.text,
    i.indpred::pg_catalog.text), ':varattno ([0-9]+)', 'g') m) u(n)
  WHERE n <> '0' ORDER BY 1)
  FROM pg_index i WHERE i.indexrelid = index
$f$;

-- weft.index_cause returns the part of an index that no lookup can take over, or ''. The functions of a lookup belong to
-- a superuser: they must not call what another role has made. The expression is catalog.IndexCause.
CREATE OR REPLACE FUNCTION weft.index_cause(index oid) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $f$
  SELECT coalesce(
  (SELECT pg_catalog.format('what calls the function %s, which is neither built in nor an immutable function of an extension',
    p.oid::pg_catalog.regprocedure)
    FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_proc p ON p.oid = d.refobjid
    WHERE d.classid = 1259 AND d.objid = i.indexrelid AND d.refclassid = 1255 AND p.oid >= 16384 AND NOT (p.provolatile = 'i'
      AND EXISTS (SELECT FROM pg_catalog.pg_depend e WHERE e.classid = 1255 AND e.objid = p.oid AND e.deptype = 'e')
      AND EXISTS (SELECT FROM pg_catalog.pg_roles o WHERE o.oid = p.proowner AND o.rolsuper)
      AND NOT EXISTS (SELECT FROM pg_catalog.unnest(p.proargtypes::pg_catalog.oid[]) a JOIN pg_catalog.pg_type t ON t.oid = a WHERE
        t.typtype = 'p')) LIMIT 1),
  (SELECT pg_catalog.format('what calls the operator %s, which is neither built in nor an immutable operator of an extension',
    r.oid::pg_catalog.regoperator)
    FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_operator r ON r.oid = d.refobjid JOIN pg_catalog.pg_proc p ON p.oid = r.oprcode
    WHERE d.classid = 1259 AND d.objid = i.indexrelid AND d.refclassid = 2617 AND r.oid >= 16384 AND NOT (p.provolatile = 'i'
      AND EXISTS (SELECT FROM pg_catalog.pg_depend e WHERE e.classid = 2617 AND e.objid = r.oid AND e.deptype = 'e')
      AND EXISTS (SELECT FROM pg_catalog.pg_roles o WHERE o.oid = r.oprowner AND o.rolsuper)
      AND (p.oid < 16384 OR EXISTS (SELECT FROM pg_catalog.pg_depend e WHERE e.classid = 1255 AND e.objid = p.oid AND e.deptype =
        'e'))
      AND EXISTS (SELECT FROM pg_catalog.pg_roles o WHERE o.oid = p.proowner AND o.rolsuper)
      AND NOT EXISTS (SELECT FROM pg_catalog.unnest(p.proargtypes::pg_catalog.oid[]) a JOIN pg_catalog.pg_type t ON t.oid = a WHERE
        t.typtype = 'p')) LIMIT 1),
  (SELECT pg_catalog.format('values of the type %s in an expression', t.oid::pg_catalog.regtype)
    FROM pg_catalog.regexp_matches(pg_catalog.concat_ws(' ', i.indexprs::pg_catalog.text, i.indpred::pg_catalog.text),
      ':([a-z_]*typ(?:e|id|eid)) ([0-9]+)', 'gi') m
    JOIN pg_catalog.pg_type t ON t.oid = m[2]::pg_catalog.oid
    LEFT JOIN pg_catalog.pg_type x ON x.oid = CASE WHEN m[1] = 'vartype' AND t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
    WHERE t.oid >= 16384 AND x.oid >= 16384 AND x.typtype <> 'e' AND NOT EXISTS (SELECT FROM pg_catalog.pg_type l WHERE l.oid =
      x.typelem AND l.typtype = 'e')
      AND NOT (x.typtype <> 'd' AND EXISTS (SELECT FROM pg_catalog.pg_depend e WHERE e.classid = 1247 AND e.objid = x.oid AND
        e.deptype = 'e')
        AND EXISTS (SELECT FROM pg_catalog.pg_roles o WHERE o.oid = x.typowner AND o.rolsuper)) LIMIT 1),
  (SELECT 'an expression with objects that are not built in'::pg_catalog.text FROM pg_catalog.pg_depend d
    WHERE d.classid = 1259 AND d.objid = i.indexrelid AND d.refobjid >= 16384 AND d.refclassid NOT IN (1259, 2606, 1255, 2617, 1247,
      3456, 2616) LIMIT 1),
  (SELECT 'a nondeterministic collation'::pg_catalog.text FROM pg_catalog.pg_collation c
    WHERE c.oid = ANY (pg_catalog.string_to_array(i.indcollation::pg_catalog.text, ' ')::pg_catalog.oid[]) AND NOT
      c.collisdeterministic LIMIT 1),
  (SELECT 'an operator class of its own'::pg_catalog.text FROM pg_catalog.pg_opclass c
    WHERE c.oid = ANY (pg_catalog.string_to_array(i.indclass::pg_catalog.text, ' ')::pg_catalog.oid[]) AND NOT c.opcdefault AND NOT
      (c.oid < 16384 AND c.opcname LIKE '%pattern_ops') LIMIT 1),
  '')
  FROM pg_index i WHERE i.indexrelid = index
$f$;

-- weft.lookup_index returns the oldest of the indexes that lookup k keeps unique over all shards, which PostgreSQL names
-- when a row breaks several. The condition is catalog.LookupIndex.
CREATE OR REPLACE FUNCTION weft.lookup_index(k weft.lookup) RETURNS oid
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $f$
  SELECT min(i.indexrelid) FROM pg_index i WHERE k.single AND i.indrelid = k.owner AND i.indisunique AND i.indimmediate AND CASE
    WHEN pg_catalog.cardinality(k.columns) > 0
  THEN (i.indpred IS NULL OR i.indpred::pg_catalog.text ~ '^([{]BOOLEXPR :boolop and :args [(])?'
        '([{]NULLTEST :arg [{]VAR [^{}]*[}] :nulltesttype 1 :argisrow false[^{}]*[}] ?)+([)] :location -?[0-9]+[}])?$'
  AND NOT EXISTS (SELECT FROM pg_catalog.regexp_matches(i.indpred::pg_catalog.text, ':varattno ([0-9]+)', 'g') m
    WHERE m[1]::pg_catalog.int2 <> ALL ((pg_catalog.string_to_array(i.indkey::pg_catalog.text,
      ' ')::pg_catalog.int2[])[1:i.indnkeyatts]))) AND i.indexprs IS NULL
    AND NOT coalesce((pg_catalog.to_jsonb(i) ->> 'indnullsnotdistinct')::pg_catalog.bool, false)
    AND i.indnkeyatts = pg_catalog.cardinality(k.columns) AND k.columns OPERATOR(pg_catalog.<@)
      (pg_catalog.string_to_array(i.indkey::pg_catalog.text, ' ')::pg_catalog.int2[])[1:i.indnkeyatts]
  ELSE pg_catalog.to_jsonb(k) ->> 'shape' = pg_catalog.md5(pg_catalog.concat_ws('/', i.indrelid,
    pg_catalog.array_to_string((pg_catalog.string_to_array(i.indkey::pg_catalog.text, ' '))[1:i.indnkeyatts], ' '),
  pg_catalog.regexp_replace(pg_catalog.concat_ws('/', i.indexprs::pg_catalog.text, i.indpred::pg_catalog.text),
    ' :(location|[a-z]*typmod) -?[0-9]+', '', 'g'),
  CASE WHEN EXISTS (SELECT FROM pg_catalog.unnest(pg_catalog.string_to_array(i.indclass::pg_catalog.text, ' ')::pg_catalog.oid[]) u
  JOIN pg_catalog.pg_opclass c ON c.oid = u AND u >= 16384 JOIN pg_catalog.pg_type t ON t.oid = c.opcintype AND t.typname = 'citext'
  JOIN pg_catalog.pg_depend e ON e.classid = 1247 AND e.objid = t.oid AND e.deptype = 'e') THEN 'citext' END,
  CASE WHEN coalesce((pg_catalog.to_jsonb(i) ->> 'indnullsnotdistinct')::pg_catalog.bool, false) THEN 'nulls' END)) END
$f$;

-- weft.lookup_derive reads, for a lookup that is derived from an index, the items and the predicate again: names of
-- columns, types and functions may have changed. Where NULL is equal to NULL (NULLS NOT DISTINCT),
-- the entries have texts, and chr(1) for NULL, which is doubled in values; texts that are the same for equal values
-- under all settings. Values of citext are equal if they are so in lower case, by the collation of the database. It
-- refuses an index that no lookup can take over.
CREATE OR REPLACE FUNCTION weft.lookup_derive(which name) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
  l weft.lookup;
  source oid;
  cause text;
BEGIN
  SELECT * INTO STRICT l FROM weft.lookup WHERE name = which;
  source := coalesce((SELECT i.indexrelid FROM pg_index i WHERE i.indexrelid = l.index), weft.lookup_index(l));
  IF source IS NULL THEN
    RETURN;
  END IF;
  cause := weft.index_cause(source);
  IF cause <> '' THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = format('lookup %s cannot keep index %s unique', quote_ident(which),
      source::regclass),
      HINT = format('A lookup keeps an index unique over all shards, but not %s.', cause);
  END IF;
  UPDATE weft.lookup SET
    items = ARRAY(SELECT CASE WHEN NOT x.nulls THEN x.item
          ELSE format('COALESCE(replace((%s)::text, chr(1), chr(1) || chr(1)), chr(1))',
          CASE WHEN x.typ IN ('date', 'timestamp', 'timestamptz') THEN format('EXTRACT(epoch FROM %s)', x.item)
            WHEN x.typ = 'numeric' THEN format('trim_scale(%s)', x.item) ELSE x.item END) END
      FROM (SELECT n, coalesce(b.typname, t.typname) AS typ,
          (SELECT coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::bool, false) FROM pg_index i
            WHERE i.indexrelid = source) AS nulls,
          CASE WHEN 'citext' IN (t.typname, b.typname) AND l.types[n] = 'text'
            THEN format('lower((%s)::text COLLATE "default")', pg_get_indexdef(source, n, false))
            ELSE pg_get_indexdef(source, n, false) END AS item
        FROM generate_subscripts(l.types, 1) n JOIN pg_attribute a ON a.attrelid = source AND a.attnum = n
        JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type b ON b.oid = t.typbasetype) x ORDER BY x.n),
    shown = ARRAY(SELECT pg_get_indexdef(source, n, true) FROM generate_subscripts(l.types, 1) n ORDER BY n),
    condition = (SELECT coalesce(pg_get_expr(i.indpred, i.indrelid), '') FROM pg_index i WHERE i.indexrelid = source),
    used = weft.lookup_used(l)
  WHERE name = which;
END $f$;

-- weft.lookup_used returns the names of the columns that lookup k uses.
CREATE OR REPLACE FUNCTION weft.lookup_used(k weft.lookup) RETURNS text[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $f$
  SELECT ARRAY(SELECT a.attname::text FROM unnest(k.uses) WITH ORDINALITY u(n, i)
    JOIN pg_attribute a ON a.attrelid = k.owner AND a.attnum = u.n ORDER BY u.i)
$f$;

REVOKE EXECUTE ON FUNCTION weft.index_shape(oid), weft.index_uses(oid), weft.index_cause(oid), weft.lookup_index(weft.lookup),
  weft.lookup_derive(name), weft.lookup_used(weft.lookup) FROM PUBLIC;
