package primary

import "strings"

// Durability is what has become of commits when the primary of a shard is replaced.
type Durability string

// The durabilities that can be declared.
const (
	// Undeclared promises nothing and checks nothing.
	Undeclared Durability = ""
	// Synchronous promises that all that was acknowledged is there: every commit waits for a standby.
	Synchronous Durability = "sync"
	// Atomic promises that transactions of several shards are there, on all of them: their commits wait for a standby. The last moments of other
	// commits may be gone.
	Atomic Durability = "atomic"
	// Asynchronous promises nothing, and that is meant.
	Asynchronous Durability = "async"
)

// Valid reports whether d can be declared.
func (d Durability) Valid() bool {
	switch d {
	case Undeclared, Synchronous, Atomic, Asynchronous:
		return true
	}
	return false
}

// Lacks says what a primary lacks to be as durable as d, for a sentence; empty if it lacks nothing. names is its synchronous_standby_names, and hasty are
// the defaults by which commits do not wait for a standby, see HastySQL.
func (d Durability) Lacks(names string, hasty []string) string {
	switch {
	case d != Synchronous && d != Atomic:
		return ""
	case strings.TrimSpace(names) == "":
		return "synchronous_standby_names is empty"
	case d == Synchronous && len(hasty) > 0:
		return "synchronous_commit is " + strings.Join(hasty, ", ")
	}
	return ""
}

// HastySQL asks a server which defaults of roles and databases let commits not wait for its standby, and HastyFileSQL asks for its own default, which takes the
// right to read its configuration. Rows have one text each. The settings of the connection that asks do not count: weft sets its own.
const (
	HastySQL = `SELECT pg_catalog.split_part(c, '=', 2) || ' for ' || coalesce('role ' || r.rolname, 'all roles') || coalesce(' in database ' || d.datname, '') ` +
		`FROM pg_catalog.pg_db_role_setting s CROSS JOIN LATERAL pg_catalog.unnest(s.setconfig) c LEFT JOIN pg_catalog.pg_roles r ON r.oid = s.setrole LEFT JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase ` +
		`WHERE c ~ '^synchronous_commit=(off|local|remote_write|false|no|0)$' LIMIT 5`
	HastyFileSQL = `SELECT setting || ' in ' || pg_catalog.regexp_replace(sourcefile, '^.*/', '') FROM pg_catalog.pg_file_settings ` +
		`WHERE name = 'synchronous_commit' AND applied AND setting IN ('off', 'local', 'remote_write', 'false', 'no', '0')`
)

// ReadHasty reads the answers to HastySQL and HastyFileSQL.
func ReadHasty(rows [][]string) (hasty []string) {
	for _, r := range rows {
		hasty = append(hasty, r[0])
	}
	return hasty
}

// Waits reports whether commits of the primary wait for a standby, as of its last probe. known is false if the primary of a generation is not the one that
// was probed.
func (v *View) Waits(g Generation) (waits, known bool) {
	leader := v.Leader()
	if leader == nil || g.System != v.Generation.System || g.Timeline != v.Generation.Timeline {
		return false, false
	}
	return leader.Seen.SyncNames != "", true
}

// Leader returns what was last seen of the server that is the primary, nil if none is known to be.
func (v *View) Leader() *Server {
	if v == nil || v.State != Steady {
		return nil
	}
	for i := range v.Servers {
		if s := &v.Servers[i]; s.Address == v.Primary && s.Seen.Kind == Primary {
			return s
		}
	}
	return nil
}
