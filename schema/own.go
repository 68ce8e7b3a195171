package schema

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"weft/identity"
	"weft/pgerr"
)

// What weft keeps on the shards is in the schema weft of each database: the
// decisions about transactions of several shards and what else must be written
// in the transaction it is about. Install makes it, whenever it is first needed
// or something has been added.

// Own is what must be known to use it.
type Own struct {
	// Key proves that a row of weft.decision is weft's: see Proof in twopc.
	Key string
	// MaxPrepared is the server's max_prepared_transactions.
	MaxPrepared int
	// Found is who the database says it is.
	Found identity.Found
}

// ownSteps make it, in order; the version of a database is how many of them it
// has seen. So a step that has been released is never changed: what is to be
// different becomes another step. Each may be run again and finds its work done.
var ownSteps = []string{
	// 1: decisions. The row is there, or its transaction is not committed.
	`CREATE TABLE IF NOT EXISTS weft.decision (
	gid text PRIMARY KEY,
	participants text NOT NULL,
	decided timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
) WITH (fillfactor = 100, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.5);
REVOKE ALL ON weft.decision FROM PUBLIC`,

	// 2: entering one. Whoever may write may call it, with a proof that only weft can give:
	// a row of somebody else's would commit what was not committed. It also sees
	// to it that the COMMIT which follows is durable, whatever the client has set.
	`CREATE OR REPLACE FUNCTION weft.decide(gid text, participants text, proof text) RETURNS void
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
END $weft$`,

	// 3: which server this is, and since which failover. A prepared transaction that is not
	// there any more has been ended only if this has not changed.
	`CREATE OR REPLACE FUNCTION weft.server() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $weft$
	SELECT (SELECT system_identifier FROM pg_control_system()) || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8)
$weft$`,

	// 4: what is in doubt anywhere. weft fills the parameter before a client reads the view.
	`CREATE OR REPLACE VIEW weft.transactions AS
SELECT r.gid, r.database, r.shard, r.state, pg_catalog.make_interval(secs => r.age) AS age, r.role, r.proxy, r.decider,
	pg_catalog.string_to_array(r.participants, ',') AS participants
FROM pg_catalog.json_to_recordset(NULLIF(pg_catalog.current_setting('weft.in_doubt', true), '')::json)
	AS r (gid text, database text, shard text, state text, age float8, role text, proxy text, decider text, participants text);
GRANT SELECT ON weft.transactions TO PUBLIC`,

	// 5: the gate between transactions of several shards and those who want to see all of
	// one or nothing. It is locked by whoever commits or reads, and never holds a row.
	`CREATE TABLE IF NOT EXISTS weft.gate ();
GRANT UPDATE ON weft.gate TO PUBLIC`,

	// 6: what proxies tell each other while they look for deadlocks: of no use after a
	// crash.
	`CREATE UNLOGGED TABLE IF NOT EXISTS weft.party (
	proxy text PRIMARY KEY,
	parties text NOT NULL,
	seen timestamptz NOT NULL
);
REVOKE ALL ON weft.party FROM PUBLIC`,

	// 7: decisions are entered by INSERT, at half the cost of a call. Whoever may write may enter
	// one; it counts only with a proof that nobody but weft can give. Its beginning says
	// which database it is for, and is checked: a proxy that does not know yet that the
	// database is another one of the same name learns it here. The last column makes the COMMIT
	// which follows durable, whatever the client has set.
	`CREATE OR REPLACE FUNCTION weft.proof(key text, gid text) RETURNS text
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
DROP FUNCTION IF EXISTS weft.decide(text, text, text)`,

	// 8: what weft knows, as tables.
	ownViews,

	// 9: notifications of transactions of several shards.
	ownNotify,

	// 10: what a call of weft's proves itself by.
	provedBy + `;
REVOKE EXECUTE ON FUNCTION weft.prove(text, text) FROM PUBLIC`,

	// 11: decisions are unique with their proofs. Anybody may enter a row, and may see the names
	// of transactions that are being prepared: such a row must not be in the way of the one that weft
	// enters. weft.proof is for those who know the key.
	`DELETE FROM weft.decision WHERE proof IS NULL;
ALTER TABLE weft.decision DROP CONSTRAINT IF EXISTS decision_pkey;
ALTER TABLE weft.decision ADD CONSTRAINT decision_pkey PRIMARY KEY (gid, proof)`,

	// 12: the gate is in a schema that only weft may use. Whoever may name a table can lock it without any right to it:
	// PREPARE of an INSERT does, and CREATE RULE waits for its lock, with all behind it, before it asks whose the table is. Writers
	// go through it by a function, which wants a proof; weft's own connections shut it. The old gate is there for proxies that do
	// not know: they commit as ever, and cannot read atomically.
	`DO $weft$ BEGIN
	IF NOT EXISTS (SELECT FROM pg_catalog.pg_constraint WHERE conrelid = 'weft.gate'::pg_catalog.regclass) THEN
		ALTER TABLE weft.gate ADD CONSTRAINT gate_empty CHECK (false);
	END IF;
	IF EXISTS (SELECT FROM pg_catalog.pg_namespace n, pg_catalog.pg_namespace w WHERE n.nspname = 'weft_gate' AND w.nspname = 'weft' AND n.nspowner <> w.nspowner) THEN
		RAISE insufficient_privilege USING MESSAGE = 'schema "weft_gate" belongs to somebody else than schema "weft"';
	END IF;
	IF pg_catalog.to_regnamespace('weft_gate') IS NULL THEN
		CREATE SCHEMA weft_gate;
	END IF;
END $weft$;
REVOKE ALL ON SCHEMA weft_gate FROM PUBLIC;
CREATE TABLE IF NOT EXISTS weft_gate.gate ();
REVOKE ALL ON weft_gate.gate FROM PUBLIC;
CREATE OR REPLACE FUNCTION weft.enter(proof text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $weft$
BEGIN
	PERFORM weft.prove('enter', proof);
	LOCK TABLE ONLY weft_gate.gate IN ROW EXCLUSIVE MODE;
END $weft$;
REVOKE ALL ON weft.gate FROM PUBLIC;
GRANT INSERT ON weft.gate TO PUBLIC`,

	// 13: texts that mean the same where users have made casts to text implicit.
	provedBy + `;
CREATE OR REPLACE FUNCTION weft.server() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $weft$
	SELECT (SELECT system_identifier FROM pg_control_system())::text || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8)
$weft$`,
}

// ownVersion is how many steps a database has seen. Somebody may have dropped what is outside of schema weft: those that make
// it are run again.
const ownVersion = "CASE WHEN pg_catalog.to_regclass('weft_gate.gate') IS NULL THEN least(version, 11) ELSE version END"

// ownLock keeps two proxies from making it at the same time: "weft" in ASCII.
const ownLock = "2003133044"

// freshNames makes a backend that has waited for the lock notice what others have made meanwhile: it may remember
// that there is no schema weft, and forgets that when it locks a table.
const freshNames = "SELECT FROM pg_catalog.pg_namespace LIMIT 0"

// Install makes sure that a database of a shard has what weft keeps there, and says that it
// belongs to that shard of the cluster. Any number of proxies may do so at once. The user
// must be allowed to create a schema, or find it made.
func Install(ctx context.Context, shards Shards, cluster, shard, database, user string) (*Own, error) {
	s, err := open(ctx, shards, shard, database, user, "weft install")
	if err != nil {
		return nil, fmt.Errorf("log in as service user %q: %w", user, err)
	}
	defer s.close()
	own, err := install(s, database, user)
	if err != nil {
		return nil, err
	}
	own.Found, err = stamp(s, identity.Expected{Cluster: cluster, Shard: shard}, database)
	return own, err
}

func install(s *session, database, user string) (*Own, error) {
	own, version, err := readOwn(s)
	if err != nil {
		return nil, err
	}
	if version >= len(ownSteps) { // perhaps by a newer weft, whose steps do no harm
		return own, upgradeLookups(s)
	}
	if err := installOwn(s); err != nil {
		return nil, mayNotInstall(err, database, user)
	}
	if own, version, err = readOwn(s); err != nil {
		return nil, err
	}
	if version < len(ownSteps) {
		return nil, fmt.Errorf("schema weft is at version %d after it was brought to %d", version, len(ownSteps))
	}
	return own, upgradeLookups(s)
}

// readOwn returns what is there; version 0 is nothing.
func readOwn(s *session) (own *Own, version int, err error) {
	rows, err := s.Exec(`SELECT pg_catalog.to_regclass('weft.own') IS NOT NULL, n.nspowner IS NOT NULL AND NOT pg_catalog.pg_has_role(n.nspowner, 'USAGE'), ` +
		`pg_catalog.current_setting('max_prepared_transactions') FROM (SELECT) one LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = 'weft'`)
	if err != nil {
		return nil, 0, err
	}
	if len(rows) != 1 {
		return nil, 0, errors.New("the server gave no answer")
	}
	if rows[0][1] == "t" {
		return nil, 0, pgerr.New(pgerr.InsufficientPrivilege, `schema "weft" belongs to somebody else than weft's service user`).
			WithHint("weft keeps its own tables there. Rename the schema, or set service.user in weft.yaml to its owner.")
	}
	own = &Own{}
	if own.MaxPrepared, err = strconv.Atoi(rows[0][2]); err != nil {
		return nil, 0, err
	}
	if rows[0][0] != "t" {
		return own, 0, nil
	}
	rows, err = s.Exec("SELECT " + ownVersion + ", key FROM weft.own")
	if err != nil || len(rows) == 0 {
		return own, 0, err
	}
	own.Key = rows[0][1]
	version, err = strconv.Atoi(rows[0][0])
	return own, version, err
}

// installOwn runs the steps that are missing, all or none.
func installOwn(s *session) error {
	err := s.run("BEGIN", "SELECT pg_catalog.pg_advisory_xact_lock("+ownLock+")", freshNames,
		"CREATE SCHEMA IF NOT EXISTS weft", "GRANT USAGE ON SCHEMA weft TO PUBLIC",
		`CREATE TABLE IF NOT EXISTS weft.own (single boolean PRIMARY KEY DEFAULT true CHECK (single), version int NOT NULL, key text NOT NULL)`,
		`REVOKE ALL ON weft.own FROM PUBLIC`,
		`INSERT INTO weft.own (version, key) VALUES (0, pg_catalog.gen_random_uuid()::text || pg_catalog.gen_random_uuid()::text) ON CONFLICT DO NOTHING`)
	if err != nil {
		return err
	}
	// Only now, under the lock: somebody may just have done it.
	text, err := s.one("SELECT " + ownVersion + " FROM weft.own")
	if err != nil {
		return err
	}
	version, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	for ; version < len(ownSteps); version++ {
		if err := s.run(ownSteps[version], fmt.Sprintf("UPDATE weft.own SET version = %d", version+1)); err != nil {
			return err
		}
	}
	return s.run("COMMIT")
}

// mayNotInstall says what to do where the service user has too few rights.
func mayNotInstall(err error, database, user string) error {
	e := (*pgerr.Error)(nil)
	if !errors.As(err, &e) || e.Code != pgerr.InsufficientPrivilege {
		return err
	}
	return pgerr.New(pgerr.InsufficientPrivilege, "weft cannot make the tables that it keeps in schema weft: %s", strings.TrimSuffix(e.Message, ".")).
		WithDetail("%s", e.Detail).
		WithHint(`Run GRANT CREATE ON DATABASE %s TO %s on every shard, or set service.user in weft.yaml to a role that may.`, ident(database), ident(user)).
		WithCause(err)
}
