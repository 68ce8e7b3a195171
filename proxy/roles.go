package proxy

import (
	"weft/parser"
	"weft/wire"
)

// Roles are not of one database. As soon as tables are declared in any, all shards
// have the same ones, and a command that changes them goes to all.

// sharedRoles reports whether the shards have the same roles.
func (rt *routing) sharedRoles() bool { return len(rt.snap.Tables) > 0 }

// rolesOfAll reports whether a text changes roles for all shards though its database
// has no declared tables. A block of such a database is the home shard's alone.
func (rt *routing) rolesOfAll(f *parser.Facts) bool {
	return f.Effects&parser.Roles != 0 && f.Statements == 1 && rt.sharedRoles() &&
		!rt.s.tx.open && (rt.s.held.conn == nil || rt.s.held.conn.Status == wire.TxIdle)
}
