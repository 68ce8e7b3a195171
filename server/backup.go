package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"weft/backup"
	"weft/config"
	"weft/directory"
	"weft/pgerr"
	"weft/pool"
)

// ForBackup is a cluster as package backup sees it, from outside of a proxy.
type ForBackup struct {
	cfg    config.Config
	store  directory.Store
	shards *pool.Pool
}

// NewForBackup returns the cluster of a directory, whose shards are asked as the service user.
func NewForBackup(cfg config.Config, store directory.Store) (*ForBackup, error) {
	shards, err := pool.New(withService(poolConfig(cfg.Pool, cfg.Auth.Users, slog.New(slog.DiscardHandler)), cfg.Service))
	if err != nil {
		return nil, err
	}
	return &ForBackup{cfg: cfg, store: store, shards: shards}, nil
}

// Load implements backup.Cluster.
func (f *ForBackup) Load(ctx context.Context) (*directory.Snapshot, error) {
	if _, err := f.store.Load(ctx); err != nil { // watching waits for a cluster
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var snap *directory.Snapshot
	err := f.store.Watch(ctx, func(s *directory.Snapshot) {
		if snap == nil {
			snap = s
		}
		stop()
	})
	if snap != nil {
		return snap, nil
	}
	if err == nil {
		err = errors.New("the directory does not say what the cluster is")
	}
	return nil, err
}

// Dial implements backup.Cluster.
func (f *ForBackup) Dial(ctx context.Context, shard, database string) (backup.Conn, error) {
	snap, err := f.store.Load(ctx)
	if err != nil {
		return nil, err
	}
	spec, ok := snap.Shard(shard)
	if !ok {
		return nil, pgerr.New(pgerr.UndefinedObject, "there is no shard %q", shard)
	}
	return f.dial(ctx, spec, database)
}

func (f *ForBackup) dial(ctx context.Context, spec *directory.Shard, database string) (backup.Conn, error) {
	lane := f.shards.Shard(spec).OpenLane(pool.ServiceKey(database, f.cfg.Service.User))
	defer lane.CloseLane()
	c, err := lane.Dedicated(ctx)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Query runs a query on a maintenance database of a shard.
func (f *ForBackup) Query(ctx context.Context, spec *directory.Shard, sql string) ([][]string, error) {
	var err error
	for _, database := range maintenance {
		var c backup.Conn
		if c, err = f.dial(ctx, spec, database); err != nil {
			continue
		}
		defer c.Terminate()
		defer context.AfterFunc(ctx, c.Interrupt)()
		return c.Exec(sql)
	}
	return nil, fmt.Errorf("%s: %w", spec.Name, err)
}

// restoredQuery is what a server says of itself after its restore.
const restoredQuery = "SELECT r, s.system_identifier::text, CASE WHEN r THEN '' ELSE pg_catalog.pg_current_wal_lsn()::text END, CASE WHEN r THEN '' ELSE COALESCE(pg_catalog.pg_read_file('pg_wal/' || " +
	"pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8) || '.history', 0, 1000000, true), '') END " +
	"FROM pg_catalog.pg_is_in_recovery() r, pg_catalog.pg_control_system() s"

// Restored asks a server whether, and how, it was restored.
func (s *Servers) Restored(ctx context.Context, shard *directory.Shard, address string) (backup.Restored, error) {
	var c *pool.Conn
	var err error
	for _, db := range maintenance {
		if c, err = s.Dial(ctx, shard, address, db); err == nil {
			break
		}
	}
	if err != nil {
		return backup.Restored{}, err
	}
	defer c.Terminate()
	rows, err := exec(ctx, c, restoredQuery)
	if err != nil {
		return backup.Restored{}, fmt.Errorf("%s at %s: %w", shard.Name, address, err)
	}
	return backup.Restored{Shard: shard.Name, Address: address, InRecovery: rows[0][0] == "t", System: rows[0][1], LSN: rows[0][2], History: rows[0][3]}, nil
}

// Login returns the name and the password with which weft logs in to shards for itself.
func (f *ForBackup) Login() (user, password string) {
	u := f.shards.Config().Users[f.cfg.Service.User]
	return cmp.Or(u.ServerUser, f.cfg.Service.User), u.ServerPassword
}
