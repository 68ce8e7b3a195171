package proxy

import (
	"weft/parser"
	"weft/wire"
)

// Roles do not belong to one database. As soon as tables are declared in any database, all
// shards have the same roles, and a command that changes roles goes to all shards.

// sharedRoles reports whether the shards have the same roles.
func (rt *routing) sharedRoles() bool { return len(rt.snap.Tables) > 0 }

// rolesOfAll reports whether a text changes roles for all shards though its database has no
// declared tables. A block in such a database is on the home shard alone.
func (rt *routing) rolesOfAll(f *parser.Facts) bool {
	return f.Effects&parser.Roles != 0 && f.Statements == 1 && rt.sharedRoles() &&
		!rt.s.tx.isOpen() && (rt.s.held.conn == nil || rt.s.held.conn.Status() == wire.TxIdle)
}
