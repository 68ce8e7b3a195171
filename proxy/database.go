package proxy

import (
	"context"
	"fmt"
	"strings"

	"weft/catalog"
	"weft/directory"
	"weft/parser"
	"weft/pgerr"
	"weft/pool"
)

// CREATE and DROP DATABASE go to every shard: the home shard decides, the others follow.

// beforeDatabase makes way for a command that needs a database to be unused: weft ends its own
// idle backends there.
func (u *utility) beforeDatabase(text string, f *parser.Facts) error {
	d := parser.DatabasesOf(text)
	if err := u.keepsDeclarations(d); err != nil {
		return err
	}
	for _, name := range d.Names {
		if owns, err := u.ownsDatabase(name); err != nil {
			return err
		} else if !owns {
			continue // the shard refuses the command, so no session has to leave
		}
		switch {
		case d.Force:
			if err := u.evict(name); err != nil {
				return err
			}
		case f.Effects&parser.DropsDatabase != 0:
			if err := u.awaitUnused("database", name); err != nil {
				return err
			}
		}
		u.vacate(name)
		if d.Force {
			u.awaitLeft(name)
		}
	}
	if len(d.Templates) > 0 {
		if may, err := u.askTrue("SELECT rolcreatedb OR rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user"); err != nil || !may {
			return err // the shard refuses the command
		}
	}
	for _, name := range d.Templates {
		if err := u.awaitUnused("source database", name); err != nil {
			return err
		}
		u.vacate(name)
	}
	return nil
}

// keepsDeclarations refuses a rename or a copy of a database that would leave its declared
// tables without their declarations.
func (u *utility) keepsDeclarations(d parser.Databases) error {
	snap := u.s.srv.cfg.Snapshot()
	for _, name := range d.Renamed {
		if t := snap.Declared(name); len(t) > 0 {
			return pgerr.New(pgerr.FeatureNotSupported, "database %q cannot be renamed: its table %q is declared", name, t[0].Name).
				WithHint("Take the declarations back first with weft.unshard_table, or dump the database into a new one.")
		}
	}
	for _, name := range d.Templates {
		if t := snap.Declared(name); len(t) > 0 {
			return pgerr.New(pgerr.FeatureNotSupported, "database %q cannot be copied: its table %q is declared", name, t[0].Name).
				WithHint("Dump the database into a new one.")
		}
	}
	return nil
}

// afterDatabase forgets what was declared in a dropped database. If DROP DATABASE could not
// forget it, the next CREATE DATABASE of that name does.
func (u *utility) afterDatabase(text, tag string) *pgerr.Error {
	if u.s.srv.cfg.Directory == nil || tag != "DROP DATABASE" && tag != "CREATE DATABASE" {
		return nil
	}
	for _, name := range parser.DatabasesOf(text).Names {
		if err := u.s.srv.mover.ForgetDatabase(u.s.srv.ctx, name); err != nil {
			e := *pgerr.From(err)
			e.Message = fmt.Sprintf("the declarations of tables in database %q could not be taken back: %s", name, e.Message)
			return e.WithHint("The command has been carried out. DROP the database, if it is there, and CREATE it anew before it is used.").WithCause(err)
		}
	}
	return nil
}

// vacate ends the idle backends in a database, also those of other proxies. That may take a
// moment: PostgreSQL waits for it.
func (u *utility) vacate(database string) {
	u.s.srv.leave(database)
	if u.s.srv.cfg.Directory == nil {
		return
	}
	ctx, cancel := context.WithTimeout(u.s.srv.ctx, leaving)
	defer cancel()
	_, err := u.s.srv.cfg.Directory.Update(ctx, func(snap *directory.Snapshot) (*directory.Snapshot, error) {
		if snap == nil {
			return nil, directory.ErrNoCluster
		}
		next := snap.Clone()
		next.Vacate(database)
		// The next database of this name has new sequences: values drawn in advance for this
		// database would be given twice.
		next.Sequences = counted(next.Sequences, database)
		return next, nil
	})
	if err != nil {
		u.s.log.Warn("other proxies may still be in a database", "database", database, "err", err)
	}
}

// leave ends this proxy's idle backends in a database.
func (s *Server) leave(database string) {
	s.pool.Retire(func(k pool.Key) bool { return k.Database == database })
	s.service.Leave(database)
}

// leaveVacated leaves the databases that another proxy needs to be unused.
func (k *keeper) leaveVacated(old, snap *directory.Snapshot) {
	if old == nil || old == snap {
		return
	}
	for name, n := range snap.Vacated {
		if n != old.Vacated[name] {
			k.s.leave(name)
		}
	}
}

// inUse is PostgreSQL's error for a database that n other sessions use.
func inUse(what, name string, n int) error {
	e := pgerr.New(pgerr.ObjectInUse, "%s %q is being accessed by other users", what, name)
	if n == 1 {
		return e.WithDetail("There is 1 other session using the database.")
	}
	return e.WithDetail("There are %d other sessions using the database.", n)
}

// onEveryShard repeats on the other shards what the home shard has done. If a shard fails, the
// client is told which shards have carried the command out.
func (u *utility) onEveryShard(text string) *pgerr.Error {
	snap := u.s.srv.cfg.Snapshot()
	done := []string{snap.Home}
	for i := range snap.Shards {
		shard := &snap.Shards[i]
		if shard.Name == snap.Home {
			continue
		}
		if err := u.onShard(u.s.srv.ctx, u.s.srv.pool.Shard(shard), text); err != nil {
			e := pgerr.From(err)
			return &pgerr.Error{
				Code: e.Code, Message: fmt.Sprintf("shard %q: %s", shard.Name, e.Message),
				Detail: fmt.Sprintf("It was carried out on %s only.", strings.Join(done, ", ")),
				Hint:   "Remove the cause, then run the command on the other shards themselves.",
			}
		}
		done = append(done, shard.Name)
	}
	return nil
}

// onShard runs a text on a shard as the session's user.
func (u *utility) onShard(ctx context.Context, sh *pool.Shard, text string) error {
	lane := sh.OpenLane(u.s.lane.Key())
	defer lane.CloseLane()
	c, err := lane.Acquire(ctx, pool.Want{Session: u.s.id, Underway: true})
	if err != nil {
		return err
	}
	if err := c.Apply(u.s.record.settings); err != nil {
		c.Discard()
		return err
	}
	_, err = c.Exec(text)
	// Whatever the text was, it may have changed the state of the backend.
	c.Terminate()
	return err
}

// learnEffects loads what functions of the database may do to sessions. The backend has the
// client's settings: with enable_seqscan off every plan would look expensive enough to be
// compiled, which takes seconds. So jit is off.
func (k *keeper) learnEffects(db *pool.Database, c *pool.Conn) error {
	rows, err := c.Ask("", "SET LOCAL client_encoding = 'UTF8'; SET LOCAL search_path = pg_catalog; SET LOCAL jit = off; "+catalog.EffectsQuery)
	if err != nil {
		return err
	}
	e := catalog.NewEffects(rows)
	if e.ReadsSequences {
		db.ReadsSequences.Store(true)
	}
	db.Effects.Store(e)
	return nil
}
