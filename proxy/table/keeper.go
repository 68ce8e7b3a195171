package table

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"weft/catalog"
	"weft/directory"
	"weft/proxy/pause"
)

// Mover does the work, as schema.Mover does.
type Mover interface {
	// Running reports whether this proxy works on a job.
	Running(id string) bool
	// Recover finishes or undoes the unfinished move of a table.
	Recover(ctx context.Context, t directory.Table) error
	// ResumeLookup goes on with a lookup that was being made.
	ResumeLookup(ctx context.Context, database string, table catalog.Name, l catalog.Lookup) error
	// SettleIDs finishes the raising of a limit of routed ids.
	SettleIDs(ctx context.Context, t directory.Table) error
	// Guarded reports whether the shard keys of a database are known to be guarded, GuardTables makes
	// them so.
	Guarded(snap *directory.Snapshot, database string) bool
	GuardTables(ctx context.Context, snap *directory.Snapshot, database string) error
}

// Config is what a Keeper needs. All fields are required.
type Config struct {
	// Proxy is the id of this proxy.
	Proxy string
	Log   *slog.Logger
	Mover Mover
	// Alive reports whether another proxy is alive.
	Alive func(ctx context.Context, proxy string) bool
	// Away reports whether a shard is known to have no primary: tables are not guarded meanwhile, and the log has said so.
	Away func(shard string) bool
	// LookedUp returns the tables with lookups, as far as this proxy has read schemas, by database.
	LookedUp func() map[string][]*catalog.Relation
	// Turn returns the databases whose turn it is, of those that want it.
	Turn func(databases []string, wants func(database string) bool) []string
}

// Keeper goes on with unfinished work on tables. Recover is called by one goroutine at a time.
type Keeper struct {
	cfg       Config
	unguarded pause.Pauses[string] // databases whose tables could not be guarded
}

// New returns a Keeper.
func New(cfg Config) *Keeper { return &Keeper{cfg: cfg} }

// Recover finishes or undoes the unfinished work of proxies that are gone.
func (k *Keeper) Recover(ctx context.Context, snap *directory.Snapshot) {
	k.resumeLookups(ctx)
	k.guard(ctx, snap)
	for i := range snap.Tables {
		t := snap.Tables[i]
		if t.State == directory.Active && t.IDs.Raised {
			k.settleIDs(ctx, t)
		}
		if t.State == directory.Active || k.cfg.Mover.Running(t.Job.ID) {
			continue
		}
		if t.Job.Proxy != k.cfg.Proxy && k.cfg.Alive(ctx, t.Job.Proxy) {
			continue
		}
		if err := k.cfg.Mover.Recover(ctx, t); err != nil && ctx.Err() == nil {
			k.cfg.Log.Warn("unfinished move of a table", "table", t.Schema+"."+t.Name, "err", err)
		}
	}
}

// resumeLookups goes on with lookups that were being made by proxies that are gone.
func (k *Keeper) resumeLookups(ctx context.Context) {
	for database, tables := range k.cfg.LookedUp() {
		for _, rel := range tables {
			for _, l := range rel.Lookups {
				if l.Public || l.Job == k.cfg.Proxy && k.cfg.Mover.Running("lookup "+l.Name) || l.Job != k.cfg.Proxy && k.cfg.Alive(ctx, l.Job) {
					continue
				}
				if err := k.cfg.Mover.ResumeLookup(ctx, database, rel.Name, l); err != nil && ctx.Err() == nil {
					k.cfg.Log.Warn("unfinished lookup", "lookup", l.Name, "err", err)
				}
			}
		}
	}
}

// guard makes sure that shards guard the keys of tables that another proxy declared, or
// that were declared before there were guards.
func (k *Keeper) guard(ctx context.Context, snap *directory.Snapshot) {
	if slices.ContainsFunc(snap.Shards, func(sh directory.Shard) bool { return k.cfg.Away(sh.Name) }) {
		return
	}
	now := time.Now()
	for _, db := range k.cfg.Turn(snap.Databases(), func(db string) bool {
		return k.unguarded.Due(db, now) && !k.cfg.Mover.Guarded(snap, db)
	}) {
		err := k.cfg.Mover.GuardTables(ctx, snap, db)
		if err == nil {
			k.unguarded.Done(db)
			continue
		}
		if news := k.unguarded.Failed(db, time.Now()); news && ctx.Err() == nil {
			k.cfg.Log.Warn("shard keys of tables with BEFORE triggers are not guarded", "database", db, "err", err)
		}
	}
}

// settleIDs finishes the raising of a limit that was left unfinished.
func (k *Keeper) settleIDs(ctx context.Context, t directory.Table) {
	if err := k.cfg.Mover.SettleIDs(ctx, t); err != nil && ctx.Err() == nil {
		k.cfg.Log.Warn("a shard still has an old constraint of routed ids", "table", t.Schema+"."+t.Name, "err", err)
	}
}
