package console

import (
	"context"
	"time"
)

// Replica is one server of a shard, as a proxy has seen it last.
type Replica struct {
	Shard, Address string
	// Role is what the server says of itself: primary or standby. It is empty if the server has not answered.
	Role string
	// State is what the server is to its shard: primary, standby, ejected, stale, split, foreign, silent or unknown.
	State    string
	System   string
	Timeline int64
	// LSN is how far a primary has written, or a standby has replayed.
	LSN string
	// Lag is how far a standby is behind. Nil: not known, or no standby.
	Lag *Behind
	// Sync has the sync_state of each standby that is attached to a primary.
	Sync  []string
	Error string
	Since time.Time
}

// Behind is how far a standby is behind the primary.
type Behind struct {
	Bytes int64
	Time  time.Duration
}

var replicaView = &View{
	"replicas", "REPLICAS", "the servers of the shards: which is the primary, and how far standbys are behind",
	[]Column{
		{"proxy", Text},
		{"shard", Text},
		{"address", Text},
		{"role", Text},
		{"state", Text},
		{"system", Text},
		{"timeline", Int},
		{"lsn", Text},
		{"lag_bytes", Int},
		{"lag_seconds", Float},
		{"sync", Texts},
		{"last_error", Text},
		{"since", Time},
	},
	replicaRows, false,
}

// replicaRows shows addresses and errors, which contain addresses, to those who may see all.
func replicaRows(_ context.Context, src Source, v Viewer) [][]any {
	var rows [][]any
	for _, r := range src.Replicas() {
		var address, failed, sync, bytes, behind any
		if v.All {
			address, failed = r.Address, text(r.Error)
		}
		if len(r.Sync) > 0 {
			sync = r.Sync
		}
		if r.Lag != nil {
			bytes, behind = r.Lag.Bytes, r.Lag.Time.Seconds()
		}
		rows = append(rows, []any{
			src.Proxy(), r.Shard, address, text(r.Role), r.State, text(r.System), number(r.Timeline), text(r.LSN), bytes, behind, sync, failed, r.Since,
		})
	}
	return rows
}
