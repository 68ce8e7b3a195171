package proxy

import (
	"weft/parser"
	"weft/wire"
)

// Roles are not of one database. As soon as tables are declared in any, all shards
// have the same ones, and a command that changes them goes to all.

// sharedRoles reports whether the shards have the same roles.
func (s *Session) sharedRoles() bool { return len(s.snap.Tables) > 0 }

// rolesOfAll reports whether a text changes roles for all shards though its database
// has no declared tables. A block of such a database is the home shard's alone.
func (s *Session) rolesOfAll(f *parser.Facts) bool {
	return f.Effects&parser.Roles != 0 && f.Statements == 1 && s.sharedRoles() &&
		!s.block.open && (s.conn == nil || s.conn.Status == wire.TxIdle)
}
