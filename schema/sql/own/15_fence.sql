-- The fence keeps proxies out that the directory no longer lists: one that stood still or was cut off does not know that
-- rows have moved, and would write where they were. Every backend that a proxy opens for a client is registered here under
-- the proxy and its epoch, which is new with each lease. Before rows move, weft.fence says which proxies are alive; from then
-- on a proxy with an older epoch that is not among them cannot register, and weft.expel ends the backends that it has.
--
-- The tables are in schema weft_gate, where nobody else can lock them.

-- The backends of proxies. A crash empties the table, and ends the backends.
CREATE UNLOGGED TABLE IF NOT EXISTS weft_gate.backend (
	pid int PRIMARY KEY,
	started timestamptz, -- null where the service user may not see it
	proxy text NOT NULL,
	epoch bigint NOT NULL
);
REVOKE ALL ON weft_gate.backend FROM PUBLIC;

-- Who was alive when the fence was last set: of the epochs up to revision, those in live, each as proxy/epoch. changes
-- counts how often the fence was set.
CREATE TABLE IF NOT EXISTS weft_gate.fence (
	single boolean PRIMARY KEY DEFAULT true CHECK (single),
	changes bigint NOT NULL DEFAULT 0,
	revision bigint NOT NULL DEFAULT 0,
	live text[] NOT NULL DEFAULT '{}'
);
REVOKE ALL ON weft_gate.fence FROM PUBLIC;
INSERT INTO weft_gate.fence DEFAULT VALUES ON CONFLICT DO NOTHING;

-- weft.register registers the backend that calls it. Every role may call it, with a proof that weft alone can give.
-- The lock makes weft.fence wait until the row can be seen. One call in a hundred removes rows of backends that have
-- ended.
CREATE OR REPLACE FUNCTION weft.register(proxy text, epoch bigint, proof text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $weft$
BEGIN
	PERFORM weft.prove(concat('register', E'\n', proxy, E'\n', epoch), proof);
	LOCK TABLE ONLY weft_gate.fence IN ROW SHARE MODE;
	IF EXISTS (SELECT FROM weft_gate.fence f
		WHERE register.epoch <= f.revision AND concat(register.proxy, '/', register.epoch) <> ALL (f.live)) THEN
		RAISE cannot_connect_now USING MESSAGE =
			format('proxy %s is fenced off: it has lost its place in the directory, and rows have moved since', proxy);
	END IF;
	INSERT INTO weft_gate.backend AS b (pid, started, proxy, epoch)
		SELECT pg_backend_pid(), a.backend_start, register.proxy, register.epoch FROM pg_stat_get_activity(pg_backend_pid()) a
		ON CONFLICT (pid) DO UPDATE SET started = excluded.started, proxy = excluded.proxy, epoch = excluded.epoch;
	IF random() < 0.01 THEN
		PERFORM pg_stat_clear_snapshot();
		DELETE FROM weft_gate.backend b WHERE b.pid IN (
			SELECT e.pid FROM weft_gate.backend e
			WHERE NOT EXISTS (SELECT FROM pg_stat_get_activity(NULL) a WHERE a.pid = e.pid) FOR UPDATE SKIP LOCKED);
	END IF;
END $weft$;

-- weft.enroll registers other backends, which began at the given times, in microseconds. It is for weft's own connections.
CREATE OR REPLACE FUNCTION weft.enroll(proxy text, epoch bigint, pids int[], began bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $weft$
BEGIN
	LOCK TABLE ONLY weft_gate.fence IN ROW SHARE MODE;
	IF EXISTS (SELECT FROM weft_gate.fence f
		WHERE enroll.epoch <= f.revision AND concat(enroll.proxy, '/', enroll.epoch) <> ALL (f.live)) THEN
		RAISE cannot_connect_now USING MESSAGE =
			format('proxy %s is fenced off: it has lost its place in the directory, and rows have moved since', proxy);
	END IF;
	INSERT INTO weft_gate.backend AS b (pid, started, proxy, epoch)
		SELECT a.pid, a.backend_start, enroll.proxy, enroll.epoch
		FROM unnest(pids, began) w (pid, began) JOIN pg_stat_get_activity(NULL) a
			ON a.pid = w.pid AND (1000000 * date_part('epoch', a.backend_start))::bigint = w.began
		ON CONFLICT (pid) DO UPDATE SET started = excluded.started, proxy = excluded.proxy, epoch = excluded.epoch;
END $weft$;

-- weft.fence sets the fence: of the epochs up to revision, those in list are alive. seen is the value of changes that was
-- read before the list was. If the fence was set meanwhile, the list may be the older one, and the call fails.
CREATE OR REPLACE FUNCTION weft.fence(list text[], revision bigint, seen bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $weft$
BEGIN
	LOCK TABLE ONLY weft_gate.fence IN EXCLUSIVE MODE;
	UPDATE weft_gate.fence f SET changes = f.changes + 1, revision = greatest(f.revision, fence.revision), live = list
		WHERE f.changes = seen;
	IF NOT FOUND THEN
		RAISE serialization_failure USING MESSAGE = 'the fence was set by another proxy meanwhile';
	END IF;
END $weft$;

-- weft.outside lists the backends of proxies that are not among live.
CREATE OR REPLACE FUNCTION weft.outside(live text[]) RETURNS TABLE (pid int, proxy text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $weft$
BEGIN
	PERFORM pg_stat_clear_snapshot(); -- else the transaction goes on seeing the processes that it saw first
	RETURN QUERY SELECT b.pid, b.proxy FROM weft_gate.backend b
		JOIN pg_stat_get_activity(NULL) a ON a.pid = b.pid AND a.backend_start IS NOT DISTINCT FROM b.started
		WHERE concat(b.proxy, '/', b.epoch) <> ALL (live);
END $weft$;

-- weft.expel ends the backends of proxies that are not among live, waits for each, and removes the rows of backends that
-- have ended. It returns the backends that have not ended within patience, in milliseconds.
CREATE OR REPLACE FUNCTION weft.expel(live text[], patience bigint) RETURNS TABLE (pid int, proxy text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $weft$
BEGIN
	PERFORM pg_terminate_backend(o.pid) FROM weft.outside(live) o;
	PERFORM pg_terminate_backend(o.pid, patience) FROM weft.outside(live) o;
	PERFORM pg_stat_clear_snapshot();
	DELETE FROM weft_gate.backend b WHERE b.pid IN (
		SELECT e.pid FROM weft_gate.backend e
		WHERE NOT EXISTS (SELECT FROM pg_stat_get_activity(NULL) a WHERE a.pid = e.pid AND a.backend_start IS NOT DISTINCT FROM e.started)
		FOR UPDATE SKIP LOCKED);
	RETURN QUERY SELECT o.pid, o.proxy FROM weft.outside(live) o;
END $weft$;

-- weft.strangers lists the backends that no proxy has registered and that may write to one of the tables or to one of
-- their partitions.
CREATE OR REPLACE FUNCTION weft.strangers(tables regclass[]) RETURNS TABLE (pid int, role name, application text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $weft$
BEGIN
	PERFORM pg_stat_clear_snapshot();
	RETURN QUERY WITH RECURSIVE part (relid) AS (
		SELECT unnest(tables)::oid UNION SELECT i.inhrelid FROM pg_inherits i JOIN part p ON i.inhparent = p.relid)
	SELECT DISTINCT a.pid, a.usename, a.application_name
	FROM pg_locks l JOIN part p ON l.relation = p.relid JOIN pg_stat_activity a ON a.pid = l.pid
	WHERE l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) AND l.granted
		AND l.mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock') AND a.pid <> pg_backend_pid()
		AND NOT (a.usename = current_user AND a.application_name LIKE 'weft %')
		AND NOT EXISTS (SELECT FROM weft_gate.backend b WHERE b.pid = a.pid AND b.started IS NOT DISTINCT FROM a.backend_start);
END $weft$;

REVOKE EXECUTE ON FUNCTION weft.enroll(text, bigint, int[], bigint[]), weft.fence(text[], bigint, bigint), weft.outside(text[]),
	weft.expel(text[], bigint), weft.strangers(regclass[]) FROM PUBLIC;
