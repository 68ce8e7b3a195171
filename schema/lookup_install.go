package schema

import (
	"context"
	"errors"
	"strconv"

	"weft/pgerr"
	"weft/quote"
)

// lookupObjects are the texts that make what a shard needs for lookups.
var lookupObjects = []string{sqlFile("prove"), sqlFile("lookup_notes"), sqlFile("lookup_index"), sqlFile("lookup_make"), sqlFile("lookup_follow")}

// lookupVersion is the number of the texts in lookupObjects. Every change of a text, even of its
// layout, adds one: a proxy that finds a lower number on a shard replaces what is there, and a proxy
// that finds a higher number leaves it alone. So proxies of different versions never undo each
// other's work.
const lookupVersion = 9

// InstallLookups makes what a shard needs for lookups.
func InstallLookups(ctx context.Context, shards Shards, shard, database, user string) error {
	s, err := open(ctx, shards, shard, database, user, "weft install")
	if err != nil {
		return err
	}
	defer s.close()
	return installLookups(s)
}

// installLookups makes what a shard needs for lookups, unless it is there: making it waits for
// transactions that have changed something, and one of those may wait for this session.
func installLookups(s *session) error {
	there, err := lookupVersionOf(s)
	if err != nil || there >= lookupVersion {
		return err
	}
	if err := s.run("BEGIN", "SELECT pg_advisory_xact_lock("+ownLock+")", freshNames); err != nil {
		return err
	}
	// Another proxy may have installed it while this one waited for the lock.
	if there, err = lookupVersionOf(s); err == nil && there < lookupVersion {
		err = makeLookupObjects(s)
	}
	if err != nil {
		var e *pgerr.Error
		if errors.As(err, &e) && e.Code == pgerr.InsufficientPrivilege {
			return e.WithHint("Lookup tables need a service user (service.user in weft.yaml) that is a superuser on every shard: it makes event triggers, which follow ALTER and DROP.")
		}
		return err
	}
	return s.run("COMMIT")
}

// makeLookupObjects runs lookupObjects, and makes the functions of existing lookups again.
func makeLookupObjects(s *session) error {
	if err := s.run(lookupObjects...); err != nil {
		return err
	}
	return s.run("SELECT weft.lookup_functions(name) FROM weft.lookup",
		// A weft before version 2 returns a text here, and replaced every text that was not its
		// own. It cannot replace a function that returns a number, and so leaves all functions
		// alone.
		"DROP FUNCTION IF EXISTS weft.lookup_version()",
		"CREATE FUNCTION weft.lookup_version() RETURNS int LANGUAGE sql AS "+quote.Literal("SELECT "+strconv.Itoa(lookupVersion)))
}

// upgradeLookups is installLookups for a shard that has lookups; it does nothing to others.
func upgradeLookups(s *session) error {
	there, err := s.one("SELECT to_regclass('weft.lookup')")
	if err != nil || there == "" {
		return err
	}
	return installLookups(s)
}

// lookupVersionOf returns the version that a shard has: 0 for nothing, 1 for versions that had no
// number.
func lookupVersionOf(s *session) (int, error) {
	kind, err := s.one("SELECT prorettype::regtype FROM pg_proc WHERE oid = to_regprocedure('weft.lookup_version()')")
	switch {
	case err != nil || kind == "":
		return 0, err
	case kind != "integer":
		return 1, nil
	}
	there, err := s.one("SELECT weft.lookup_version()")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(there)
}
