-- The guard of shard keys. A BEFORE trigger can change every column of a row after the statement that brings the row
-- was sent to a shard, and no reading of its function can tell in how many ways. So the shard compares the key before
-- and after: a table with BEFORE triggers gets two more, whose names sort before and after all others.
--
--    " weft guard"  notes the shard key in a setting of the transaction
--    a, b, c        the user's triggers
--    "~weft guard"  fails if the key differs from the note
--
-- Both are conditions (WHEN) that call functions of PostgreSQL alone; weft.strayed runs only to fail. The name of the
-- setting contains the depth of triggers: a trigger that writes other rows, of this or another table, fires their
-- guards too, and these are through before the next trigger of the outer row runs.
--
-- weft.guarded lists the sharded tables and their key columns. The event trigger weft_guard_altered gives a table its
-- guard with its first BEFORE trigger and takes the guard away with the last, in whatever session that happens. Nothing
-- here knows where buckets are. Every statement of this file may be run again.

CREATE SCHEMA IF NOT EXISTS weft;
GRANT USAGE ON SCHEMA weft TO PUBLIC;

-- weft.guarded has a row for each sharded table: its oid and the numbers of its key columns.
CREATE TABLE IF NOT EXISTS weft.guarded (owner oid PRIMARY KEY, keys int2[] NOT NULL);
REVOKE ALL ON weft.guarded FROM PUBLIC;

-- weft.strayed fails: it is the function of both guard triggers, whose conditions hold only when the key has changed.
CREATE OR REPLACE FUNCTION weft.strayed() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  RAISE EXCEPTION USING ERRCODE = '0A000',
    MESSAGE = format('a BEFORE trigger of %s changes the shard key of a row', quote_ident(TG_TABLE_NAME)),
    DETAIL = 'The shard of a row is chosen by its key before triggers run.', HINT = 'Give the key in the statement.',
    SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME;
END $f$;

-- weft.guard_state shows for each sharded table whether it needs guards (needed), how many it has (made), whether one
-- is disabled (off), and a user's trigger whose name sorts outside the guards (astray). Triggers of partitions count.
CREATE OR REPLACE VIEW weft.guard_state AS
SELECT w.owner, w.keys, coalesce(s.needed, false) AS needed, coalesce(s.made, 0) AS made, coalesce(s.off, false) AS off, s.astray
FROM weft.guarded w JOIN pg_catalog.pg_class c ON c.oid = w.owner CROSS JOIN LATERAL (
  SELECT bool_or(NOT q.own) AS needed, count(*) FILTER (WHERE q.own AND q.tgrelid = w.owner) AS made,
    bool_or(q.own AND q.tgenabled <> 'A') AS off,
    min(q.tgname::text) FILTER (WHERE NOT q.own
      AND (q.tgname::text COLLATE "C" < ' weft guard' OR q.tgname::text COLLATE "C" > '~weft guard')) AS astray
  FROM (
    SELECT t.tgrelid, t.tgname, t.tgenabled, t.tgfoid = 'weft.strayed'::pg_catalog.regproc AS own FROM pg_catalog.pg_trigger t
    WHERE t.tgrelid IN (SELECT w.owner UNION ALL SELECT relid FROM pg_catalog.pg_partition_tree(w.owner))
      AND NOT t.tgisinternal AND (t.tgtype & 3) = 3 AND (t.tgtype & 20) <> 0) q) s;
REVOKE ALL ON weft.guard_state FROM PUBLIC;

-- weft.guard gives table which, or every table if which is NULL, the guards that it needs, and drops the others.
CREATE OR REPLACE FUNCTION weft.guard(which oid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET weft.guarding = 'on' AS $f$
DECLARE
  g record;
  rel text;
  key text;
BEGIN
  FOR g IN SELECT * FROM weft.guard_state s WHERE (which IS NULL OR s.owner = which)
    AND (s.needed <> (s.made > 0) OR s.made = 1 OR s.off OR s.astray IS NOT NULL) LOOP
    rel := g.owner::regclass::text;
    IF g.astray IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = '0A000',
        MESSAGE = format('trigger %s of sharded table %s would run before or after those that guard its shard key',
          quote_ident(g.astray), rel),
        HINT = 'BEFORE triggers run in the order of their names. Choose a name that begins with a letter from a to z.';
    END IF;
    IF NOT g.needed OR g.made = 1 THEN
      EXECUTE format('DROP TRIGGER IF EXISTS " weft guard" ON %s; DROP TRIGGER IF EXISTS "~weft guard" ON %s', rel, rel);
    END IF;
    IF g.needed AND g.made < 2 THEN
      SELECT string_agg(format('quote_nullable(NEW.%I::text)', a.attname), ' || '','' || ' ORDER BY u.i) INTO key
        FROM unnest(g.keys) WITH ORDINALITY u(n, i) JOIN pg_attribute a ON a.attrelid = g.owner AND a.attnum = u.n;
      EXECUTE format($b$CREATE TRIGGER " weft guard" BEFORE INSERT OR UPDATE ON %s FOR EACH ROW
        WHEN (set_config('weft.key' || pg_trigger_depth()::text, %s, true) IS NULL)
        EXECUTE FUNCTION weft.strayed()$b$, rel, key);
      EXECUTE format($b$CREATE TRIGGER "~weft guard" BEFORE INSERT OR UPDATE ON %s FOR EACH ROW
        WHEN (current_setting('weft.key' || pg_trigger_depth()::text, true) IS DISTINCT FROM %s)
        EXECUTE FUNCTION weft.strayed()$b$, rel, key);
    END IF;
    -- Guards fire under every session_replication_role; a guard that a user has disabled is enabled again.
    FOR rel, key IN SELECT t.tgrelid::regclass::text, quote_ident(t.tgname) FROM pg_trigger t
      WHERE t.tgrelid IN (SELECT g.owner UNION ALL SELECT relid FROM pg_partition_tree(g.owner))
        AND t.tgfoid = 'weft.strayed'::regproc AND t.tgenabled <> 'A' LOOP
      EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %s', rel, key);
    END LOOP;
  END LOOP;
END $f$;

-- weft.guard_table enters table rel as sharded by columns, or removes it if columns is NULL.
CREATE OR REPLACE FUNCTION weft.guard_table(rel regclass, columns text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  DELETE FROM weft.guarded w WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = w.owner);
  IF columns IS NULL THEN
    DELETE FROM weft.guarded w WHERE w.owner = rel;
    EXECUTE format('DROP TRIGGER IF EXISTS " weft guard" ON %s; DROP TRIGGER IF EXISTS "~weft guard" ON %s', rel, rel);
    RETURN;
  END IF;
  INSERT INTO weft.guarded (owner, keys) SELECT rel, array_agg(a.attnum ORDER BY u.i)
    FROM unnest(columns) WITH ORDINALITY u(n, i) JOIN pg_attribute a ON a.attrelid = rel AND a.attname = u.n
    ON CONFLICT (owner) DO UPDATE SET keys = excluded.keys WHERE guarded.keys <> excluded.keys;
  PERFORM weft.guard(rel);
END $f$;

-- weft.guard_altered runs weft.guard after DDL, except DDL of weft.guard itself and DDL under weft.quiet.
CREATE OR REPLACE FUNCTION weft.guard_altered() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  IF coalesce(current_setting('weft.guarding', true), '') <> 'on' AND coalesce(current_setting('weft.quiet', true), '') <> 'on' THEN
    PERFORM weft.guard(NULL);
  END IF;
END $f$;

REVOKE EXECUTE ON FUNCTION weft.guard(oid), weft.guard_table(regclass, text[]), weft.guard_altered() FROM PUBLIC;
DROP EVENT TRIGGER IF EXISTS weft_guard_altered;
CREATE EVENT TRIGGER weft_guard_altered ON ddl_command_end
  WHEN TAG IN ('CREATE TRIGGER', 'ALTER TRIGGER', 'DROP TRIGGER', 'ALTER TABLE', 'CREATE TABLE') EXECUTE FUNCTION weft.guard_altered();
ALTER EVENT TRIGGER weft_guard_altered ENABLE ALWAYS;
