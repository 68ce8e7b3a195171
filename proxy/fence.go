package proxy

import (
	"context"
	"slices"
	"sync"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/pool"
	"weft/schema"
)

// fences registers this proxy's backends with their databases, so that they can be ended there
// when this proxy no longer hears of changes: see package schema. It is the pool's Registrar.
type fences struct {
	s *Server

	mu    sync.Mutex
	keys  map[ownKey]*schema.Own
	asked map[ownKey]time.Time // when a shard was last told that this proxy is alive
	epoch int64                // the epoch under which idle backends are registered
}

// registers reports whether the backends of a database register: those where rows can move.
func (f *fences) registers(snap *directory.Snapshot, database string) bool {
	return f.s.cfg.Directory != nil && f.s.cfg.Current != nil && snap != nil && len(snap.Declared(database)) > 0
}

// Statement implements pool.Registrar.
func (f *fences) Statement(ctx context.Context, shard, database string, pid int32) (string, int64, error) {
	if !f.registers(f.s.cfg.Snapshot(), database) {
		return "", 0, nil
	}
	epoch := f.s.cfg.Current.Epoch()
	if epoch == 0 {
		return "", 0, pgerr.New(pgerr.CannotConnectNow, "this proxy is not yet listed in the directory").WithHint("Try again.")
	}
	own, err := f.own(ctx, shard, database)
	if err != nil {
		return "", 0, err
	}
	return "SET LOCAL lock_timeout = 0; " + own.RegisterSQL(pid, f.s.cfg.Proxy, epoch), epoch, nil
}

// own returns what proves this proxy's calls in a database.
func (f *fences) own(ctx context.Context, shard, database string) (*schema.Own, error) {
	key := ownKey{shard, database}
	f.mu.Lock()
	own := f.keys[key]
	f.mu.Unlock()
	if own != nil {
		return own, nil
	}
	own, err := f.s.keeper.own(ctx, shard, database)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keys == nil {
		f.keys = map[ownKey]*schema.Own{}
	}
	f.keys[key] = own
	return own, nil
}

// forget makes the next backend of a database ask for its key: another database may have its
// name now.
func (f *fences) forget(shard, database string) {
	f.mu.Lock()
	delete(f.keys, ownKey{shard, database})
	f.mu.Unlock()
	f.s.keeper.disown(database)
}

// Failed implements pool.Registrar.
func (f *fences) Failed(shard, database string, e *pgerr.Error) error {
	switch e.Code {
	case pgerr.CannotConnectNow:
		f.appeal(shard, database)
		return pgerr.New(pgerr.CannotConnectNow, "shard %q keeps this proxy out: it was not listed in the directory, and rows may have moved since", shard).
			WithHint("The proxy serves again as soon as it has reached etcd. Try again, or connect to another proxy.").WithCause(e)
	case pgerr.InsufficientPrivilege, pgerr.UndefinedFunction, pgerr.UndefinedTable, pgerr.InvalidSchemaName:
		f.forget(shard, database)
		return nil
	}
	return e
}

// appealInterval is how often a shard is told that this proxy is alive.
const appealInterval = time.Second

// appeal tells a shard that keeps this proxy out who is alive, if this proxy is. That is so where
// the directory was restored from a backup and gives epochs that it has given before.
func (f *fences) appeal(shard, database string) {
	key := ownKey{shard, database}
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.asked[key]) < appealInterval {
		return
	}
	if f.asked == nil {
		f.asked = map[ownKey]time.Time{}
	}
	f.asked[key] = time.Now()
	f.s.crew.Go(f.s.guarded("fence", func() {
		ctx, cancel := context.WithTimeout(f.s.ctx, installTimeout)
		defer cancel()
		_, err := f.s.mover.Fence(ctx, database, []string{shard}, func(ctx context.Context) (directory.Live, error) {
			live, err := f.s.cfg.Directory.Live(ctx)
			if err == nil && !live.Has(f.s.cfg.Proxy, f.s.cfg.Current.Epoch()) {
				err = pgerr.New(pgerr.CannotConnectNow, "this proxy is not listed in the directory")
			}
			return live, err
		})
		if err != nil && ctx.Err() == nil {
			f.s.log.Warn("a shard keeps this proxy out", "shard", shard, "database", database, "epoch", f.s.cfg.Current.Epoch(), "err", err)
		}
	}))
}

// renew closes idle backends that are registered under an older epoch, which the next fence would
// end.
func (f *fences) renew(snap *directory.Snapshot) {
	if f.s.cfg.Current == nil {
		return
	}
	epoch := f.s.cfg.Current.Epoch()
	f.mu.Lock()
	was := f.epoch
	f.epoch = epoch
	f.mu.Unlock()
	if was != 0 && was != epoch {
		f.s.pool.Retire(func(k pool.Key) bool { return f.registers(snap, k.Database) })
	}
}

// complete reports whether all backends of a database are registered that must be, and none goes on
// after its connection was closed.
func (f *fences) complete(snap *directory.Snapshot, database string) bool {
	if !f.registers(snap, database) {
		return true
	}
	for i := range snap.Shards {
		if slices.ContainsFunc(f.s.pool.Ghosts(snap.Shards[i].Name), func(g pool.Ghost) bool { return g.Database == database }) {
			return false
		}
	}
	return len(f.s.pool.Unregistered(database)) == 0
}

// enroll registers the backends of databases with jobs that were opened before tables were
// declared there.
func (f *fences) enroll(ctx context.Context, snap *directory.Snapshot) {
	for i := range snap.Moves {
		database := snap.Moves[i].Database
		if !f.registers(snap, database) {
			continue
		}
		byShard := map[string][]*pool.Conn{}
		for _, c := range f.s.pool.Unregistered(database) {
			byShard[c.Shard()] = append(byShard[c.Shard()], c)
		}
		for shard, list := range byShard {
			if err := f.enrollOn(ctx, shard, database, list); err != nil && ctx.Err() == nil {
				f.s.log.Warn("backends could not be registered", "shard", shard, "database", database, "err", err)
			}
		}
	}
}

func (f *fences) enrollOn(ctx context.Context, shard, database string, list []*pool.Conn) error {
	epoch := f.s.cfg.Current.Epoch()
	if _, err := f.own(ctx, shard, database); err != nil {
		return err
	}
	c, err := f.s.dialSpare(ctx, shard, database, f.s.cfg.ServiceUser)
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
	if _, err := c.Exec(schema.EnrollSQL(f.s.cfg.Proxy, epoch, pids, began)); err != nil {
		return err
	}
	for _, b := range list {
		b.Registered(epoch)
	}
	return nil
}
