package console

import (
	"context"
	"time"
)

// Backup is a point to which all shards can be restored.
type Backup struct {
	Name   string
	At     time.Time
	Age    float64 // seconds
	Strict bool
	// Usable says that all shards have archived the point. Nil: not known.
	Usable *bool
	// Size is that of the manifest.
	Size int64
	// Took and Waited are how long the point took, and for how long commits waited, in milliseconds.
	Took, Waited float64
	// LSN is where the point is in the log of each shard, as JSON.
	LSN string
}

var backupView = &View{
	"backups", "BACKUPS", "the points to which all shards can be restored",
	[]Column{
		{"name", Text},
		{"at", Time},
		{"age_seconds", Float},
		{"strict", Bool},
		{"usable", Bool},
		{"manifest_bytes", Int},
		{"took_ms", Float},
		{"waited_ms", Float},
		{"lsn", Text},
	},
	backupRows, false,
}

func backupRows(ctx context.Context, src Source, _ Viewer) [][]any {
	var rows [][]any
	for _, b := range src.Backups(ctx) {
		var usable any
		if b.Usable != nil {
			usable = *b.Usable
		}
		rows = append(rows, []any{b.Name, b.At, b.Age, b.Strict, usable, b.Size, b.Took, b.Waited, b.LSN})
	}
	return rows
}
