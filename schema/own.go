package schema

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weft/identity"
	"weft/pgerr"
	"weft/quote"
)

// What weft keeps on the shards is in schema weft of each database: the decisions about
// transactions of several shards, and everything else that must be written in the transaction that
// it is about. Install makes the schema when it is first needed and when a newer weft has more steps.

// Own is what a proxy must know to use schema weft of a database.
type Own struct {
	// Key is the secret of the database, which makes and checks proofs: see Prove, and appendProof
	// in package twopc.
	Key string
	// MaxPrepared is the server's max_prepared_transactions.
	MaxPrepared int
	// Found is the identity that the database states.
	Found identity.Found
}

// ownSteps are the steps that make schema weft, each of one or more texts, in order. The version of a database is the number
// of steps that it has seen, so a step that has been released is never changed, except in its
// layout: a change becomes another step. Each step may be run again and finds its work done.
var ownSteps = [][]string{
	{sqlFile("own/01_decision")},
	{sqlFile("own/02_decide")},
	{sqlFile("own/03_server")},
	{sqlFile("own/04_transactions")},
	{sqlFile("own/05_gate")},
	{sqlFile("own/06_party")},
	{sqlFile("own/07_proof")},
	{sqlFile("own/08_views"), sqlFile("shards")},
	{sqlFile("own/09_notify")},
	{sqlFile("prove")},
	{sqlFile("own/11_decision_key")},
	{sqlFile("own/12_gate")},
	{sqlFile("prove"), sqlFile("own/13_server")},
	{sqlFile("own/14_moves")},
	{sqlFile("own/15_fence")},
	{sqlFile("shards")},
	{sqlFile("heat"), sqlFile("skew")},
	{sqlFile("own/18_hot_statements")},
	{sqlFile("heat"), sqlFile("own/19_warnings")},
	{sqlFile("own/20_recording")},
	{sqlFile("own/21_throttles")},
	{sqlFile("own/22_queues")},
	{sqlFile("heat"), sqlFile("skew")},
	{sqlFile("heat")},
	{sqlFile("shards"), sqlFile("own/25_replicas")},
	{sqlFile("own/26_floor")},
	{sqlFile("shards")},
	{sqlFile("own/28_failovers")},
	{sqlFile("own/29_backups")},
	{sqlFile("own/30_part")},
	{sqlFile("own/31_lot")},
}

// ownVersion is the SQL for how many steps a database has seen. The gate is outside of schema weft
// and may have been dropped: then the step that makes the gate, and all later steps, run again.
const ownVersion = "CASE WHEN pg_catalog.to_regclass('weft_gate.gate') IS NULL THEN least(version, 11) ELSE version END"

// ownLock is the advisory lock under which a proxy installs: "weft" in ASCII.
const ownLock = "2003133044"

// freshNames makes a backend that has waited for the lock see what other proxies have made
// meanwhile: the backend may remember that there is no schema weft, and forgets that when it locks
// a table.
const freshNames = "SELECT FROM pg_catalog.pg_namespace LIMIT 0"

// Install makes what weft keeps in a database of a shard, unless it is there, and stamps the
// database as belonging to that shard of the cluster. Any number of proxies may call it at once.
// The user must be allowed to create a schema, unless the schema exists.
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

// readOwn returns what the database has; version 0 means nothing.
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
	err := s.run("BEGIN", "SELECT pg_catalog.pg_advisory_xact_lock("+ownLock+")", freshNames, sqlFile("own/00_own"))
	if err != nil {
		return err
	}
	// Another proxy may have run the steps while this one waited for the lock.
	text, err := s.one("SELECT " + ownVersion + " FROM weft.own")
	if err != nil {
		return err
	}
	version, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	if version < len(ownSteps) {
		if err := s.run(missing(version)...); err != nil {
			return err
		}
		if err := s.run(fmt.Sprintf("UPDATE weft.own SET version = %d", len(ownSteps))); err != nil {
			return err
		}
	}
	return s.run("COMMIT")
}

// missing returns the texts of the steps that a database of a version has not seen. A text that several steps have runs
// once, at the first of them: no step takes back what another one has made.
func missing(version int) (texts []string) {
	for _, step := range ownSteps[version:] {
		for _, text := range step {
			if !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// mayNotInstall returns the error for a service user that has too few rights, with a hint what to
// do.
func mayNotInstall(err error, database, user string) error {
	e := (*pgerr.Error)(nil)
	if !errors.As(err, &e) || e.Code != pgerr.InsufficientPrivilege {
		return err
	}
	return pgerr.New(pgerr.InsufficientPrivilege, "weft cannot make the tables that it keeps in schema weft: %s", strings.TrimSuffix(e.Message, ".")).
		WithDetail("%s", e.Detail).
		WithHint(`Run GRANT CREATE ON DATABASE %s TO %s on every shard, or set service.user in weft.yaml to a role that may.`, quote.Ident(database), quote.Ident(user)).
		WithCause(err)
}
