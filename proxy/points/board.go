package points

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"weft/backup"
	"weft/directory"
)

// Config is what a Board needs.
type Config struct {
	Log *slog.Logger
	// Store is nil if the directory keeps no points.
	Store directory.Points
	// Archived asks a shard for the last WAL file that it has archived.
	Archived func(ctx context.Context, shard string) (string, error)
}

// Board lists backup points. Its methods may be called by several goroutines.
type Board struct {
	cfg    Config
	newest atomic.Pointer[directory.Point]
}

// New returns a Board that has not looked yet.
func New(cfg Config) *Board { return &Board{cfg: cfg} }

// interval is how often Run looks.
const interval = 15 * time.Second

// Run looks at the newest point now and then, until ctx ends.
func (b *Board) Run(ctx context.Context) {
	if b.cfg.Store == nil {
		return
	}
	for {
		if list, err := b.cfg.Store.Points(ctx); err == nil {
			b.note(list)
		} else {
			b.cfg.Log.Debug("the backup points cannot be listed", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
	}
}

// note remembers the newest of a list.
func (b *Board) note(list []directory.Point) {
	if n := len(list); n > 0 {
		b.newest.Store(&list[n-1])
	} else {
		b.newest.Store(nil)
	}
}

// Newest returns the newest point, nil if none is known.
func (b *Board) Newest() *directory.Point { return b.newest.Load() }

// List returns all points, the newest first. Shards are asked about those that may have been archived since.
func (b *Board) List(ctx context.Context) ([]directory.Point, error) {
	if b.cfg.Store == nil {
		return nil, nil
	}
	list, err := b.cfg.Store.Points(ctx)
	if err != nil {
		return nil, err
	}
	b.note(list)
	backup.Settle(ctx, b.cfg.Store, list, b.cfg.Archived)
	slices.Reverse(list)
	return list, nil
}
