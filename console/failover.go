package console

import (
	"context"
	"time"
)

// Failover is a change of a shard's primary.
type Failover struct {
	Shard, From, To        string
	At                     time.Time
	FromTimeline, Timeline int64
	// Fork is where the new timeline begins, and Last is how far the old primary is known to have written; empty if that is not known.
	Fork, Last string
	// Lost is how many bytes were lost, at least. Nil: not known.
	Lost *int64
	// Kept is a time before which nothing was lost; zero if that is not known.
	Kept   time.Time
	Paused int64 // sessions that have waited
	Millis float64
}

var failoverView = &View{
	"failovers", "FAILOVERS", "the changes of primaries, and what they have lost",
	[]Column{
		{"at", Time},
		{"shard", Text},
		{"from_address", Text},
		{"from_timeline", Int},
		{"to_address", Text},
		{"to_timeline", Int},
		{"fork", Text},
		{"last_lsn", Text},
		{"lossy", Bool},
		{"lost_bytes", Int},
		{"kept_until", Time},
		{"paused_sessions", Int},
		{"pause_ms", Float},
	},
	failoverRows, false,
}

// failoverRows shows addresses to those who may see all.
func failoverRows(ctx context.Context, src Source, v Viewer) [][]any {
	var rows [][]any
	for _, f := range src.Failovers(ctx) {
		var from, to, lossy, lost, kept any
		if v.All {
			from, to = text(f.From), text(f.To)
		}
		if f.Lost != nil {
			lossy, lost = *f.Lost > 0, *f.Lost
		}
		if !f.Kept.IsZero() {
			kept = f.Kept
		}
		rows = append(rows, []any{f.At, f.Shard, from, number(f.FromTimeline), to, number(f.Timeline), text(f.Fork), text(f.Last), lossy, lost, kept, f.Paused, f.Millis})
	}
	return rows
}
