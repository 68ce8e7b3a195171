package schema

import (
	"time"

	"weft/catalog"
	"weft/directory"
)

// Request describes a declaration, or the end of one.
type Request struct {
	Database string
	// User is the role that asks, as Shards.Dial knows it.
	User string
	// Table is the resolved name, with its schema.
	Table catalog.Name
	// Columns are the key columns of a table that is to be sharded.
	Columns []string
	// Vindex: an empty Kind means hash for one column and composite for
	// several.
	Vindex directory.Vindex
	// IDs is "routed" if generated ids are to name the buckets of their rows. IDColumn is the
	// column of these ids; empty for the generated column of the primary key.
	IDs, IDColumn string
	// Links is InShard if foreign keys are to contain the shard key: see KeyLinks.
	Links string
	// group is the group of a table that is declared while clients use it. See directory.Table.
	group string
	// LockTimeout bounds each wait for a lock: the session's lock_timeout. 0 means
	// DefaultLockTimeout, and not forever, because all statements on the table queue up behind the
	// lock.
	LockTimeout time.Duration
}

// DefaultLockTimeout is how long a declaration waits for transactions that use
// the table.
const DefaultLockTimeout = 10 * time.Second

func (r *Request) lockTimeout() time.Duration {
	if r.LockTimeout > 0 {
		return r.LockTimeout
	}
	return DefaultLockTimeout
}

// name returns the table's name for messages.
func (r *Request) name() string { return display(r.Table) }

// display returns a name as people write it: without the schema if it is public.
func display(n catalog.Name) string {
	if n.Schema == "public" {
		return n.Name
	}
	return n.Schema + "." + n.Name
}
