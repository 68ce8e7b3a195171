package own

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"weft/directory"
	"weft/proxy/pause"
	"weft/schema"
)

// installTimeout bounds how long making weft's own tables may take: another session may
// hold a lock.
const installTimeout = 10 * time.Second

// Config is what Tables need. All fields are required.
type Config struct {
	Log *slog.Logger
	// Install makes the tables in a database of a shard, unless they are there.
	Install func(ctx context.Context, shard, database string) (*schema.Own, error)
	// Unable is told of a shard whose server does not prepare transactions.
	Unable func(shard string)
	// Turn returns the databases whose turn it is, of those that want it.
	Turn func(databases []string, wants func(database string) bool) []string
}

// Tables remembers weft's own tables on the shards, by database. Its methods may be called by several
// goroutines.
type Tables struct {
	cfg    Config
	pauses pause.Pauses[place] // databases that could not be brought up to date

	mu    sync.Mutex
	known map[place]*schema.Own
	fresh map[place]bool // databases that this proxy has brought up to date
}

// place is a database of a shard.
type place struct{ shard, database string }

// New returns Tables that know of no database.
func New(cfg Config) *Tables {
	return &Tables{cfg: cfg, known: map[place]*schema.Own{}, fresh: map[place]bool{}}
}

// Ensure makes sure that a shard has weft's own tables in a database.
func (t *Tables) Ensure(ctx context.Context, shard, database string) (*schema.Own, error) {
	key := place{shard, database}
	t.mu.Lock()
	own := t.known[key]
	t.mu.Unlock()
	if own != nil {
		return own, nil
	}
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	own, err := t.cfg.Install(ctx, shard, database)
	if err != nil {
		return nil, err
	}
	if own.MaxPrepared == 0 {
		// Asked again next time: the server may have been restarted with more.
		t.cfg.Unable(shard)
		return own, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known[key] = own
	return own, nil
}

// Install is Ensure for callers that do not need what was found.
func (t *Tables) Install(ctx context.Context, shard, database string) error {
	_, err := t.Ensure(ctx, shard, database)
	return err
}

// Forget forgets the tables of a database: another database may have its name now.
func (t *Tables) Forget(database string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.known {
		if key.database == database {
			delete(t.known, key)
			delete(t.fresh, key)
		}
	}
}

// ForgetAll forgets the tables of all databases: databases have come or gone.
func (t *Tables) ForgetAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.known)
	clear(t.fresh)
}

// Refresh brings schema weft of the databases of a shard up to date, each once.
func (t *Tables) Refresh(ctx context.Context, snap *directory.Snapshot, shard string) {
	now := time.Now()
	for _, database := range t.cfg.Turn(snap.Databases(), func(database string) bool {
		key := place{shard, database}
		return !t.isFresh(key) && t.pauses.Due(key, now)
	}) {
		key := place{shard, database}
		if _, err := t.Ensure(ctx, shard, database); err != nil {
			if news := t.pauses.Failed(key, time.Now()); news && ctx.Err() == nil {
				t.cfg.Log.Warn("schema weft could not be brought up to date", "shard", shard, "database", database, "err", err)
			}
			continue
		}
		t.refreshed(key)
		t.pauses.Done(key)
	}
}

// isFresh reports whether this proxy has brought a database up to date.
func (t *Tables) isFresh(key place) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fresh[key]
}

// refreshed notes that a database is up to date.
func (t *Tables) refreshed(key place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fresh[key] = true
}
