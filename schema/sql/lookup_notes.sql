-- What a shard needs to keep lookup tables, in schema weft. Every statement of this file, of lookup_index.sql,
-- lookup_make.sql and lookup_follow.sql may be run again.
--
--    users ──trigger "email:note"──▶ weft.change ──weft.drain()──▶ weft ──"email:apply"──▶ weft.email
--                                                                                 on the shards of the values
--
-- Triggers note each change of a table's values, made by a statement, a cascade or a function. weft fetches the notes
-- after each statement and writes them into the lookup tables of the shards that the values belong on, inside the same
-- transaction. If weft does not fetch them, the transaction cannot commit: the deferred trigger weft_undrained finds
-- the notes that are left.
--
-- An entry travels as bucket:id:value[:value], the values as hexadecimal digits of their text in the server's encoding:
-- hexadecimal digits survive every client encoding and need no quoting.

CREATE SCHEMA IF NOT EXISTS weft;
GRANT USAGE ON SCHEMA weft TO PUBLIC;

-- weft.lookup has a row for each lookup. owner, index and the column numbers in columns and keys are this shard's
-- own; names are the names of these columns that the lookup's functions use.
CREATE TABLE IF NOT EXISTS weft.lookup (
  name name PRIMARY KEY,
  owner oid NOT NULL,
  columns int2[] NOT NULL,
  keys int2[] NOT NULL,
  names text[] NOT NULL,
  types text[] NOT NULL,
  single bool NOT NULL,
  index oid NOT NULL,
  state text NOT NULL,
  id_sql text NOT NULL,
  bucket_sql text NOT NULL,
  job text NOT NULL DEFAULT '');
GRANT SELECT ON weft.lookup TO PUBLIC;

-- A lookup that is derived from an index with more than whole columns has no columns. shape is that of the index
-- (weft.index_shape), uses are the numbers of the columns that the index uses, used their names in the lookup's functions, items and
-- condition are the SQL of its items and its predicate, and shown are the items as PostgreSQL's messages show them.
DO $d$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid = 'weft.lookup'::regclass AND attname = 'shape') THEN
    ALTER TABLE weft.lookup ADD shape text NOT NULL DEFAULT '', ADD uses int2[] NOT NULL DEFAULT '{}',
      ADD used text[] NOT NULL DEFAULT '{}', ADD items text[] NOT NULL DEFAULT '{}',
      ADD condition text NOT NULL DEFAULT '', ADD shown text[] NOT NULL DEFAULT '{}';
  END IF;
END $d$;

-- weft.change holds the notes of open transactions and is empty otherwise, so it need not be logged. The index keeps a
-- long transaction, behind which dead rows pile up, from slowing others down.
CREATE UNLOGGED TABLE IF NOT EXISTS weft.change (
  tx xid8 NOT NULL DEFAULT pg_current_xact_id(),
  lookup name NOT NULL,
  gone bool NOT NULL,
  entries text NOT NULL);

-- CREATE INDEX IF NOT EXISTS would wait for all writers even where the index is there.
DO $d$ BEGIN
  IF pg_catalog.to_regclass('weft.change_tx') IS NULL THEN
    CREATE INDEX change_tx ON weft.change (tx);
  END IF;
END $d$;

-- weft.undrained fails at COMMIT if notes of the transaction are left.
CREATE OR REPLACE FUNCTION weft.undrained() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  IF EXISTS (SELECT FROM weft.change WHERE tx = pg_current_xact_id()) THEN
    RAISE EXCEPTION USING ERRCODE = '40001',
      MESSAGE = format('lookup %s has not followed what the transaction has changed', quote_ident(NEW.lookup)),
      HINT = 'Change the table through weft. If you did, try again: the lookup was being made.';
  END IF;
  RETURN NULL;
END $f$;

-- ENABLE ALWAYS: the trigger fires under every session_replication_role.
DO $d$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid = 'weft.change'::regclass AND tgname = 'weft_undrained') THEN
    CREATE CONSTRAINT TRIGGER weft_undrained AFTER INSERT ON weft.change DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION weft.undrained();
    ALTER TABLE weft.change ENABLE ALWAYS TRIGGER weft_undrained;
  END IF;
END $d$;

-- weft.drain takes and returns at most most notes of the transaction. Entries that are gone come first: when a full
-- answer has none of them, the answers that follow have none either. The older form, drain(int), wanted no proof.
DROP FUNCTION IF EXISTS weft.drain(int);
CREATE OR REPLACE FUNCTION weft.drain(most int, proof text) RETURNS TABLE (lookup name, gone bool, entries text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  PERFORM weft.prove('drain', proof);
  RETURN QUERY DELETE FROM weft.change c
    WHERE c.ctid = ANY (ARRAY(SELECT o.ctid FROM weft.change o WHERE o.tx = pg_current_xact_id() ORDER BY o.gone DESC LIMIT most))
    RETURNING c.lookup, c.gone, c.entries;
END $f$;

-- weft.await_prepared waits until the prepared transactions that write a lookup table now are over. Their proxies are about
-- to commit them, or have died, which others notice within seconds.
CREATE OR REPLACE FUNCTION weft.await_prepared(lookup regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $f$
DECLARE
  those text[] := ARRAY(SELECT k.virtualtransaction FROM pg_locks k WHERE k.relation = lookup AND k.pid IS NULL
    AND k.mode = 'RowExclusiveLock' AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()));
  began timestamptz := clock_timestamp();
BEGIN
  WHILE cardinality(those) > 0 AND EXISTS (SELECT FROM pg_locks k WHERE k.pid IS NULL AND k.virtualtransaction = ANY (those)) LOOP
    IF clock_timestamp() > began + interval '30 s' THEN
      RAISE EXCEPTION USING ERRCODE = '40001',
        MESSAGE = 'could not serialize access due to a transaction that is not yet committed on all shards', HINT = 'Try again.';
    END IF;
    PERFORM pg_sleep(0.002);
  END LOOP;
END $f$;
REVOKE EXECUTE ON FUNCTION weft.await_prepared(regclass) FROM PUBLIC;
