package schema

import "weft/identity"

// stamp makes the database state which shard of which cluster it is, unless it does. A database
// that states another identity is left as it is, and is an error. Schema weft must exist.
//
// The system identifier of the server is not checked here: the dialer has compared it with the
// directory's.
func stamp(s *session, want identity.Expected, database string) (identity.Found, error) {
	rows, err := s.Exec(identity.Query)
	if err != nil {
		return identity.Found{}, err
	}
	found, err := identity.Read(rows)
	if err != nil {
		return found, err
	}
	want.System = found.System
	next := want.Stamp(found)
	if found.Stamp == next {
		return found, nil
	}
	if err := want.Check(found, database); err != nil {
		return found, err
	}
	// Two proxies may write at once. Both write the same, or the slower one is refused when it
	// looks again.
	if err := s.run("BEGIN", "SELECT pg_catalog.pg_advisory_xact_lock("+ownLock+")", freshNames); err != nil {
		return found, err
	}
	if rows, err = s.Exec(identity.Query); err != nil {
		return found, err
	}
	if found, err = identity.Read(rows); err != nil {
		return found, err
	}
	if err := want.Check(found, database); err != nil {
		return found, err
	}
	if err := s.run(next.Write(), "COMMIT"); err != nil {
		return found, err
	}
	found.Stamp, found.Stamped = next, true
	return found, nil
}
