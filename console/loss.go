package console

import (
	"context"
	"time"
)

// Loss is a transaction of several shards of which failovers have lost all or a part.
type Loss struct {
	GID, Database, State, Decider string
	Kept, Lost                    []string
	Told                          *bool
	Committed, Found, Accepted    time.Time
	Proxy                         string
}

var lossView = &View{
	"failover_transactions", "FAILOVER_TRANSACTIONS", "the transactions of several shards of which failovers have lost all or a part",
	[]Column{
		{"gid", Text},
		{"database", Text},
		{"state", Text},
		{"decider", Text},
		{"kept_by", Texts},
		{"lost_by", Texts},
		{"acknowledged", Bool},
		{"committed_at", Time},
		{"found_at", Time},
		{"accepted_at", Time},
		{"proxy", Text},
	},
	lossRows, false,
}

// lossRows shows transactions of other databases to those who may see all.
func lossRows(ctx context.Context, src Source, v Viewer) [][]any {
	when := func(t time.Time) any {
		if t.IsZero() {
			return nil
		}
		return t
	}
	var rows [][]any
	for _, l := range src.Losses(ctx) {
		if !v.All && l.Database != v.Database {
			continue
		}
		var told any
		if l.Told != nil {
			told = *l.Told
		}
		rows = append(rows, []any{l.GID, l.Database, l.State, l.Decider, append([]string{}, l.Kept...), append([]string{}, l.Lost...), told, when(l.Committed), when(l.Found), when(l.Accepted), text(l.Proxy)})
	}
	return rows
}
