package schema

import (
	"time"

	"weft/catalog"
	"weft/directory"
)

// Request is what somebody asks for.
type Request struct {
	Database string
	// User is who asks, as Shards.Dial knows it.
	User string
	// Table is resolved: schema and name.
	Table catalog.Name
	// Columns are the key columns, of a sharded table.
	Columns []string
	// Vindex: an empty Kind means hash for one column and composite for
	// several.
	Vindex directory.Vindex
	// IDs is "routed" if generated ids shall name their rows' buckets. IDColumn is
	// the column; empty for the generated one of the primary key.
	IDs, IDColumn string
	// LockTimeout bounds each wait for a lock: the session's lock_timeout.
	// 0 means DefaultLockTimeout, because everybody who names the table waits
	// behind this.
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
