package fence

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/pool"
	"weft/schema"
)

// Backend is a backend of this proxy, as package pool has it.
type Backend interface {
	Process() pool.Process
	// Registered notes that another connection has registered the backend.
	Registered(epoch int64)
}

// Conn is a connection of the service user to a database of a shard.
type Conn interface {
	Exec(sql string) ([][]string, error)
	Terminate()
}

// Config is what a Registrar needs. All fields are required, except where it says otherwise.
type Config struct {
	// Proxy is the id of this proxy.
	Proxy    string
	Log      *slog.Logger
	Snapshot func() *directory.Snapshot
	// Epoch returns the epoch under which this proxy serves, 0 as long as it has none. Nil for a proxy
	// whose cluster never changes: its backends do not register.
	Epoch func() int64
	// Renewed waits until this proxy serves under another epoch than the one given, and reports whether it
	// does. Not needed without Epoch.
	Renewed func(ctx context.Context, epoch int64) bool
	// Live lists the proxies that the directory knows. Not needed without Epoch.
	Live func(context.Context) (directory.Live, error)
	// Own returns what proves this proxy's calls in a database of a shard, Disown forgets that for
	// all shards.
	Own    func(ctx context.Context, shard, database string) (*schema.Own, error)
	Disown func(database string)
	// Fence keeps proxies that are not in the list out of a database of some shards.
	Fence func(ctx context.Context, database string, shards []string, list func(context.Context) (directory.Live, error)) (directory.Live, error)
	// Dial opens a connection of the service user.
	Dial func(ctx context.Context, shard, database string) (Conn, error)
	// Unregistered lists the backends of a database that must register and have not.
	Unregistered func(database string) []Backend
	// Outdated lists the backends of a database that are registered under another epoch than the one given.
	Outdated func(database string, epoch int64) []Backend
	// Ghosts lists the backends of a shard that go on after their connection was closed.
	Ghosts func(shard string) []pool.Ghost
	// Retire closes idle backends whose keys match.
	Retire func(match func(pool.Key) bool)
	// Spawn runs f on a goroutine of its own, with a context that ends with this proxy.
	Spawn func(f func(context.Context))
}

// Registrar registers this proxy's backends with their databases. Its methods may be called by several
// goroutines.
type Registrar struct {
	cfg Config

	mu    sync.Mutex
	keys  map[place]*schema.Own
	asked map[place]time.Time // when a shard was last told that this proxy is alive
	tried map[place]time.Time // when backends were last registered under a new epoch
}

// place is a database of a shard.
type place struct{ shard, database string }

var _ pool.Registrar = (*Registrar)(nil)

// New returns a Registrar that has registered nothing.
func New(cfg Config) *Registrar {
	return &Registrar{cfg: cfg, keys: map[place]*schema.Own{}, asked: map[place]time.Time{}, tried: map[place]time.Time{}}
}

// registers reports whether the backends of a database register: those where rows can move.
func (r *Registrar) registers(snap *directory.Snapshot, database string) bool {
	return r.cfg.Epoch != nil && snap != nil && len(snap.Declared(database)) > 0
}

// Statement implements pool.Registrar.
func (r *Registrar) Statement(ctx context.Context, shard, database string, pid int32) (string, int64, error) {
	if !r.registers(r.cfg.Snapshot(), database) {
		return "", 0, nil
	}
	epoch := r.cfg.Epoch()
	if epoch == 0 {
		return "", 0, pgerr.New(pgerr.CannotConnectNow, "this proxy is not yet listed in the directory").WithHint("Try again.")
	}
	own, err := r.own(ctx, shard, database)
	if err != nil {
		return "", 0, err
	}
	return "SET LOCAL lock_timeout = 0; " + own.RegisterSQL(pid, r.cfg.Proxy, epoch), epoch, nil
}

// own returns what proves this proxy's calls in a database.
func (r *Registrar) own(ctx context.Context, shard, database string) (*schema.Own, error) {
	key := place{shard, database}
	r.mu.Lock()
	own := r.keys[key]
	r.mu.Unlock()
	if own != nil {
		return own, nil
	}
	own, err := r.cfg.Own(ctx, shard, database)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[key] = own
	return own, nil
}

// forget makes the next backend of a database ask for its key: another database may have its
// name now.
func (r *Registrar) forget(shard, database string) {
	r.mu.Lock()
	delete(r.keys, place{shard, database})
	r.mu.Unlock()
	r.cfg.Disown(database)
}

// renewal is how long a backend waits for a new epoch of this proxy when a shard keeps the old one out. A proxy
// that has stood still gets a new epoch at once.
const renewal = time.Second

// Failed implements pool.Registrar.
func (r *Registrar) Failed(ctx context.Context, shard, database string, epoch int64, e *pgerr.Error) error {
	switch e.Code {
	case pgerr.CannotConnectNow:
		r.appeal(shard, database)
		ctx, cancel := context.WithTimeout(ctx, renewal)
		defer cancel()
		if r.cfg.Renewed(ctx, epoch) {
			return nil
		}
		return pgerr.New(pgerr.CannotConnectNow, "shard %q keeps this proxy out: it was not listed in the directory, and rows may have moved since", shard).
			WithHint("The proxy serves again as soon as it has reached etcd. Try again, or connect to another proxy.").WithCause(e)
	case pgerr.InsufficientPrivilege, pgerr.UndefinedFunction, pgerr.UndefinedTable, pgerr.InvalidSchemaName:
		r.forget(shard, database)
		return nil
	}
	return e
}

const (
	// appealInterval is how often a shard is told that this proxy is alive.
	appealInterval = time.Second
	// appealTimeout bounds how long telling a shard may take.
	appealTimeout = 10 * time.Second
)

// appeal tells a shard that keeps this proxy out who is alive, if this proxy is. That is so where
// the directory was restored from a backup and gives epochs that it has given before.
func (r *Registrar) appeal(shard, database string) {
	key := place{shard, database}
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.asked[key]) < appealInterval {
		return
	}
	r.asked[key] = time.Now()
	r.cfg.Spawn(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, appealTimeout)
		defer cancel()
		_, err := r.cfg.Fence(ctx, database, []string{shard}, func(ctx context.Context) (directory.Live, error) {
			live, err := r.cfg.Live(ctx)
			if err == nil && !live.Has(r.cfg.Proxy, r.cfg.Epoch()) {
				err = pgerr.New(pgerr.CannotConnectNow, "this proxy is not listed in the directory")
			}
			return live, err
		})
		if err != nil && ctx.Err() == nil {
			r.cfg.Log.Warn("a shard keeps this proxy out", "shard", shard, "database", database, "epoch", r.cfg.Epoch(), "err", err)
		}
	})
}

const (
	// renewInterval is how often backends of a shard are registered under a new epoch, if that fails.
	renewInterval = 2 * time.Second
	// renewTimeout bounds how long registering them may take.
	renewTimeout = 10 * time.Second
)

// Renew registers backends under the epoch of this proxy that are registered under an older one, which the next fence would end.
// A proxy gets another epoch when etcd has been away for longer than its lease. Renew does not wait for shards.
func (r *Registrar) Renew(snap *directory.Snapshot) {
	if r.cfg.Epoch == nil {
		return
	}
	epoch := r.cfg.Epoch()
	for _, database := range snap.Databases() {
		if !r.registers(snap, database) {
			continue
		}
		for shard, list := range byShard(r.cfg.Outdated(database, epoch)) {
			r.renewOn(place{shard, database}, epoch, list)
		}
	}
}

// byShard sorts backends by their shard.
func byShard(list []Backend) map[string][]Backend {
	out := map[string][]Backend{}
	for _, b := range list {
		shard := b.Process().Shard
		out[shard] = append(out[shard], b)
	}
	return out
}

// renewOn begins to register the backends of a database of one shard under a new epoch, unless that was tried a moment ago.
func (r *Registrar) renewOn(at place, epoch int64, list []Backend) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.tried[at]) < renewInterval {
		return
	}
	r.tried[at] = time.Now().Add(renewTimeout)
	r.cfg.Spawn(func(ctx context.Context) {
		wait, cancel := context.WithTimeout(ctx, renewTimeout)
		defer cancel()
		err := r.readmit(wait, at, epoch, list)
		r.mu.Lock()
		r.tried[at] = time.Now()
		if err == nil {
			delete(r.tried, at)
		}
		r.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			r.cfg.Log.Warn("backends could not be registered under a new epoch", "shard", at.shard, "database", at.database, "epoch", epoch, "err", err)
		}
	})
}

// readmit registers the backends of a database of one shard under a new epoch. The shard does not take those that a fence keeps out: rows
// may have moved since, and the fence ends them. Idle ones are closed.
func (r *Registrar) readmit(ctx context.Context, at place, epoch int64, list []Backend) error {
	if _, err := r.own(ctx, at.shard, at.database); err != nil {
		return err
	}
	c, err := r.cfg.Dial(ctx, at.shard, at.database)
	if err != nil {
		return err
	}
	defer c.Terminate()
	rows, err := c.Exec(schema.ReadmitSQL(r.cfg.Proxy, epoch))
	if err != nil {
		return err
	}
	for _, b := range list {
		b.Registered(epoch)
	}
	if n := len(rows); n > 0 && rows[n-1][0] != "0" {
		r.cfg.Retire(func(k pool.Key) bool { return k.Database == at.database })
	}
	return nil
}

// Complete reports whether all backends of a database are registered that must be, and none goes on
// after its connection was closed.
func (r *Registrar) Complete(snap *directory.Snapshot, database string) bool {
	if !r.registers(snap, database) {
		return true
	}
	for i := range snap.Shards {
		if slices.ContainsFunc(r.cfg.Ghosts(snap.Shards[i].Name), func(g pool.Ghost) bool { return g.Database == database }) {
			return false
		}
	}
	return len(r.cfg.Unregistered(database)) == 0
}

// Enroll registers the backends of databases with jobs that were opened before tables were
// declared there.
func (r *Registrar) Enroll(ctx context.Context, snap *directory.Snapshot) {
	for i := range snap.Moves {
		database := snap.Moves[i].Database
		if !r.registers(snap, database) {
			continue
		}
		for shard, list := range byShard(r.cfg.Unregistered(database)) {
			if err := r.enrollOn(ctx, shard, database, list); err != nil && ctx.Err() == nil {
				r.cfg.Log.Warn("backends could not be registered", "shard", shard, "database", database, "err", err)
			}
		}
	}
}

// enrollOn registers backends of a database of one shard.
func (r *Registrar) enrollOn(ctx context.Context, shard, database string, list []Backend) error {
	epoch := r.cfg.Epoch()
	if _, err := r.own(ctx, shard, database); err != nil {
		return err
	}
	c, err := r.cfg.Dial(ctx, shard, database)
	if err != nil {
		return err
	}
	defer c.Terminate()
	var pids []int32
	var began []int64
	for _, b := range list {
		p := b.Process()
		pids, began = append(pids, p.PID), append(began, p.Started)
	}
	if _, err := c.Exec(schema.EnrollSQL(r.cfg.Proxy, epoch, pids, began)); err != nil {
		return err
	}
	for _, b := range list {
		b.Registered(epoch)
	}
	return nil
}
