package schema

import (
	"context"
	"fmt"
	"time"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/vindex"
)

// When a client stores an id that names another bucket than its row's, the limit
// from which ids are trusted is raised, and the statement runs again.
//
//	step                                dies after it
//	1 directory: a higher limit,        proxies trust fewer ids than they could; the
//	  Raised                            constraints are stricter than they need be
//	2 all proxies have acknowledged     the same
//	3 each shard: its constraint is     the same for the shards that are left
//	  replaced
//	4 directory: not Raised             nothing to do
//
// So no proxy ever trusts an id that a constraint does not vouch for. Any proxy that
// finds the table Raised, at any time, goes on with step 2.
//
// The id itself is not known: PostgreSQL does not report it in a form to rely on. The limit
// grows by a factor, so that a table raises it a few times in its life at most; ids that are
// made from then on are above the limit and routed.

// idGrowth is the factor by which the limit grows.
const idGrowth = 64

// Each of raiseAttempts attempts waits raisePatience for the table's lock, and no longer because
// other sessions queue up behind it.
const (
	raisePatience = "1s"
	raiseAttempts = 5
)

// RaiseIDs raises the limit from which a table's ids are trusted, or goes on with
// a raise that was begun. raised says that the limit has been raised, for every
// proxy: then an error only tells that some shard still has the old constraint,
// and SettleIDs is to be called.
func (m *Mover) RaiseIDs(ctx context.Context, database string, table catalog.Name) (raised bool, err error) {
	snap, err := m.cfg.Directory.Update(ctx, func(s *directory.Snapshot) (*directory.Snapshot, error) {
		if s == nil {
			return nil, directory.ErrNoCluster
		}
		t := s.Table(database, table.Schema, table.Name)
		if t == nil || t.State != directory.Active || t.IDs.Column == "" {
			return nil, errSuperseded
		}
		if t.IDs.Raised || t.IDs.From == directory.NoID {
			return s, nil
		}
		next := s.Clone()
		own := *next.Table(database, table.Schema, table.Name)
		raiseLimit(&own.IDs, own.IDs.Of(s.BucketCount))
		next.PutTable(own)
		return next, nil
	})
	if err != nil {
		return false, err
	}
	if err := m.cfg.step("ids raised"); err != nil {
		return false, err
	}
	if err := m.cfg.Directory.Acknowledged(ctx, snap.Version); err != nil {
		return false, err
	}
	t := snap.Table(database, table.Schema, table.Name)
	if !t.IDs.Raised {
		return false, errSuperseded // there is no limit, and no constraint of weft's
	}
	return true, m.replaceRouting(ctx, snap, t)
}

// raiseLimit raises a limit.
func raiseLimit(ids *directory.RoutedIDs, buckets int) {
	ids.Raised = true
	if ids.From >= (lastID-int64(buckets))/idGrowth {
		ids.From = directory.NoID // Base stays, so that ids that weft makes are still unique
		return
	}
	ids.From *= idGrowth
	ids.Base = ids.From / int64(buckets)
}

// SettleIDs goes on with a raise that was left unfinished. It may be called again, and by several
// proxies at once.
func (m *Mover) SettleIDs(ctx context.Context, t directory.Table) error {
	snap, err := m.cfg.Directory.Load(ctx)
	if err != nil {
		return err
	}
	own := snap.Table(t.Database, t.Schema, t.Name)
	if own == nil || own.State != directory.Active || !own.IDs.Raised {
		return nil
	}
	if err := m.cfg.Directory.Acknowledged(ctx, snap.Version); err != nil {
		return err
	}
	return m.replaceRouting(ctx, snap, own)
}

// replaceRouting gives every shard the constraint of a limit that all proxies have acknowledged.
func (m *Mover) replaceRouting(ctx context.Context, snap *directory.Snapshot, t *directory.Table) error {
	v, err := t.NewVindex(snap.BucketCount)
	if err != nil {
		return err
	}
	if _, ok := v.(vindex.Computed); !ok {
		return fmt.Errorf("ids of %q are routed by a vindex that is not computed", t.Name)
	}
	texts := []string{dropRouting(catalog.Name{Schema: t.Schema, Name: t.Name})}
	added, err := routing(t, v, t.IDs.Of(snap.BucketCount))
	if err != nil {
		return err
	}
	for _, text := range added {
		// The old constraint is stricter, so no row needs to be checked.
		texts = append(texts, text+" NOT VALID")
	}
	for i := range snap.Shards {
		if err := m.replaceOn(ctx, snap.Shards[i].Name, t, texts); err != nil {
			return err
		}
		if err := m.cfg.step("ids replaced on " + snap.Shards[i].Name); err != nil {
			return err
		}
	}
	_, err = m.cfg.Directory.Update(ctx, func(s *directory.Snapshot) (*directory.Snapshot, error) {
		if s == nil {
			return nil, directory.ErrNoCluster
		}
		own := s.Table(t.Database, t.Schema, t.Name)
		if own == nil || own.IDs != t.IDs {
			return s, nil
		}
		next := s.Clone()
		settled := *next.Table(t.Database, t.Schema, t.Name)
		settled.IDs.Raised = false
		next.PutTable(settled)
		return next, nil
	})
	return err
}

// replaceOn replaces the constraint on one shard. A new declaration of the table, with a lower
// limit, needs the table's lock too: so replaceOn checks under that lock that the directory still
// has this limit.
func (m *Mover) replaceOn(ctx context.Context, shard string, t *directory.Table, texts []string) error {
	s, err := open(ctx, m.cfg.Shards, shard, t.Database, m.cfg.Service, "weft")
	if err != nil {
		return err
	}
	defer s.close()
	name := catalog.Name{Schema: t.Schema, Name: t.Name}.SQL()
	for attempt := 1; ; attempt++ {
		err := s.run("BEGIN", "SET LOCAL lock_timeout = '"+raisePatience+"'", "LOCK TABLE "+name+" IN ACCESS EXCLUSIVE MODE")
		if err == nil {
			break
		}
		if pgerr.From(err).Code != pgerr.LockNotAvailable || attempt == raiseAttempts {
			return err
		}
		if err := s.run("ROLLBACK"); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
	snap, err := m.cfg.Directory.Load(ctx)
	if err != nil {
		return err
	}
	own := snap.Table(t.Database, t.Schema, t.Name)
	if own == nil || own.State != directory.Active || own.IDs.From != t.IDs.From {
		return errSuperseded
	}
	return s.run(append(texts, "COMMIT")...)
}
