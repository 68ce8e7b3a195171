package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"weft/backup"
	"weft/console"
	"weft/directory"
	"weft/pgerr"
	"weft/proxy/points"
	"weft/quote"
)

// newPoints returns what knows the backup points.
func newPoints(s *Server) *points.Board {
	return points.New(points.Config{Log: s.log, Store: s.cfg.Keeps.Points, Archived: s.keeper.lastArchived})
}

// lastArchived asks a shard for the last WAL file that it has archived.
func (k *keeper) lastArchived(ctx context.Context, shard string) (string, error) {
	databases := k.s.cfg.Snapshot().Databases()
	if len(databases) == 0 {
		return "", errors.New("no table is declared")
	}
	rows, err := k.s.askService(ctx, shard, databases[0], backup.LastArchived)
	if err != nil {
		return "", err
	}
	return rows[0][0], nil
}

// Backups implements console.Source.
func (a adminSource) Backups(ctx context.Context) []console.Backup {
	list, err := a.srv.keeper.points.List(ctx)
	if err != nil {
		a.srv.log.Warn("the backup points cannot be listed", "err", err)
	}
	var out []console.Backup
	for i := range list {
		p := &list[i]
		lsn := map[string]string{}
		for _, k := range p.Marks {
			lsn[k.Shard] = k.LSN
		}
		text, _ := json.Marshal(lsn) // strings always have a form
		b := console.Backup{
			Name: p.Name, At: p.At, Age: max(0, time.Since(p.At).Seconds()), Strict: p.Strict, Size: int64(p.Size), Took: p.Took.Seconds() * 1e3, Waited: p.Waited.Seconds() * 1e3, LSN: string(text),
		}
		if usable, known := backup.Usable(p); known {
			b.Usable = &usable
		}
		out = append(out, b)
	}
	return out
}

// pointCluster is the cluster as package backup sees it.
type pointCluster struct{ srv *Server }

// Load implements backup.Cluster.
func (c pointCluster) Load(ctx context.Context) (*directory.Snapshot, error) {
	snap, err := c.srv.cfg.Directory.Load(ctx)
	if err != nil {
		return nil, err
	}
	return c.srv.cfg.Current.Reach(ctx, snap.Version) // with the entries of lookups
}

// Dial implements backup.Cluster.
func (c pointCluster) Dial(ctx context.Context, shard, database string) (backup.Conn, error) {
	return c.srv.dialService(ctx, shard, database)
}

// pointCall is weft.restore_point.
type pointCall struct{ s *Session }

// run makes a backup point. The same roles may that may call pg_create_restore_point on the home shard.
func (c pointCall) run(ctx context.Context, args map[string]string) ([][]string, error) {
	srv := c.s.srv
	store := srv.cfg.Keeps.Points
	if store == nil || srv.cfg.Directory == nil || srv.cfg.Current == nil {
		return nil, pgerr.New(pgerr.FeatureNotSupported, "this proxy has no directory that keeps backup points").
			WithHint("Use weft backup point, with the etcd of the cluster in weft.yaml.")
	}
	if !c.may(ctx) {
		return nil, pgerr.New(pgerr.InsufficientPrivilege, "permission denied for function restore_point").
			WithHint("Superusers, admin_users and roles with EXECUTE on pg_create_restore_point(text) may make backup points.")
	}
	strict := false
	if text, given := args["strict"]; given {
		var err error
		if strict, err = strconv.ParseBool(text); err != nil {
			return nil, pgerr.New(pgerr.InvalidParameterValue, "strict is true or false, not %q", text)
		}
	}
	book := backup.Book{
		Maker:  backup.Maker{Cluster: pointCluster{srv}, Directory: srv.cfg.Directory, Strict: strict},
		Points: store, Owner: fmt.Sprintf("weft.restore_point of user %s on proxy %s", c.s.login.user, srv.cfg.Proxy),
	}
	made, err := book.Make(ctx, args["name"])
	if err != nil {
		return nil, pointError(err)
	}
	srv.log.Info("a backup point was made", "point", made.Name, "user", c.s.login.user, "strict", strict, "held", made.Held)
	c.switchWAL(ctx, made)
	return [][]string{{made.Name}}, nil
}

// may reports whether the client may make restore points, by PostgreSQL's own rule.
func (c pointCall) may(ctx context.Context) bool {
	if c.s.srv.isAdmin(c.s.login.user) {
		return true
	}
	role := c.s.lane.Role()
	if role == "" {
		role = c.s.lane.LoginRole()
	}
	rows, err := c.s.srv.askService(ctx, c.s.srv.cfg.Snapshot().Home, c.s.db.Name,
		"SELECT pg_catalog.has_function_privilege("+quote.Literal(role)+", 'pg_catalog.pg_create_restore_point(text)', 'EXECUTE')")
	return err == nil && rows[0][0] == "t"
}

// switchWAL makes each shard begin a new WAL file, so that the one with the point can be archived.
func (c pointCall) switchWAL(ctx context.Context, m *backup.Manifest) {
	databases := c.s.srv.cfg.Snapshot().Databases()
	for _, k := range m.Marks {
		if len(databases) == 0 {
			return
		}
		if _, err := c.s.srv.askService(ctx, k.Shard, databases[0], "SELECT pg_catalog.pg_switch_wal()"); err != nil {
			c.s.srv.log.Warn("a shard archives a backup point later: its WAL file was not switched", "shard", k.Shard, "err", err)
		}
	}
}

// pointError is an error of package backup as a client is told it.
func pointError(err error) error {
	var busy *backup.BusyError
	switch {
	case errors.Is(err, backup.ErrName):
		return pgerr.New(pgerr.InvalidParameterValue, "%s", err.Error())
	case errors.Is(err, backup.ErrTaken):
		return pgerr.New("42710", "%s", err.Error())
	case errors.Is(err, directory.ErrPointUnderWay):
		return pgerr.New(pgerr.ObjectInUse, "%s", err.Error())
	case errors.Is(err, directory.ErrOldProxy):
		return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "%s", err.Error())
	case errors.As(err, &busy):
		return pgerr.New(pgerr.LockNotAvailable, "no backup point was made: %s", err.Error()).WithHint("Try again.")
	}
	return err
}
