package proxy

import (
	"time"

	"weft/directory"
	"weft/planner"
	"weft/pool"
)

// routing is what a session plans by, in a database with declared tables.
type routing struct {
	s *Session

	base      *directory.Snapshot // the cluster as last seen
	snap      *directory.Snapshot // base as statements of the session's database see it
	hasTables bool                // snap declares tables of the session's database
	standbys  bool                // snap has shards with several servers
	relies    reliance            // the plans that were made by snap and may not have been sent
	// outdated: something unsent was planned by an older snapshot with other
	// declarations.
	outdated  bool
	env       *planner.Env
	envFor    *pool.Settings // the settings that env was made of
	roleAsked time.Time      // when the rights of env's role were asked for
	touch     touching       // what the transaction touches while rows change shards
	outset    outset         // where transactions begin
}

// forgetNames notes that names may mean other relations from now on, such as temporary ones. The
// next statement is planned with a new environment.
func (rt *routing) forgetNames() { rt.env = nil }
