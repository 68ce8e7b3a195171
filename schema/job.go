package schema

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/quote"
)

// How a declaration dies, and what is where then.
//
//	step                                    dies after it: recovery finds
//	1 directory: Declaring, Job             no mark at home, phase Begun: the entry goes
//	2 all proxies hold back the table       the same
//	3 dial all shards, lock at home,        the same: open transactions end with
//	  look again, check the entry           their connections
//	4 shards: definition, rows, indexes;    the same
//	  home: DELETE what moved, the mark
//	5 directory: phase Filled               the same, after looking for tables to drop
//	6 shards: COMMIT, one by one            no mark: tables on the shards are dropped
//	                                        (no session could see them), the entry goes
//	7 home: COMMIT                          mark: all rows are where they belong;
//	                                        only 8 to 10 are missing, and are done
//	8 directory: phase Moved                the same, told by the phase alone
//	9 home: the mark goes                   the same
//	10 directory: Active                    nothing to do
//
// The mark is a constraint on the table itself, CHECK (true) NOT VALID, named
// after the job: a role that may move a table may add and drop the mark and needs no
// other right, no other role can forge it, and it commits, or is lost in a
// failover, together with the rows. If the mark were dropped only after step 10, that would
// need a lock that other users of the table could delay.
//
// A declaration commits on several shards without twopc.Driver: what the shards
// commit in step 6 can be neither seen nor missed before the mark is there, so
// nothing has to be prepared, and servers that cannot prepare take declarations.
//
// Taking a declaration back goes the same way with the roles exchanged: rows
// are copied into home, the mark and COMMIT at home decide, then the tables on
// the other shards are dropped, then the entry.
//
// Why a proxy that was believed dead cannot spoil a recovery: the recovery
// first writes its own name into the Job, then ends every backend that bears
// the job's name, on all shards, then takes the table's lock at home. The owner
// dials all its connections first, each bearing the job's name, then takes the
// lock, and then looks whether the entry is still its own. So either its
// connections are there to be ended, or it finds the entry taken. Recoveries
// exclude each other by an advisory lock at home.

// mark is the constraint that tells that a job has committed at home.
func mark(id string) string { return "weft job " + id }

// application returns the application_name of a job's connections.
func application(id string) string { return "weft job " + id }

// announce enters the table into the directory and waits until every proxy
// holds back statements that name it.
func (m *Mover) announce(ctx context.Context, t directory.Table) error {
	snap, err := m.cfg.Directory.Update(ctx, func(s *directory.Snapshot) (*directory.Snapshot, error) {
		if s == nil {
			return nil, directory.ErrNoCluster
		}
		old := s.Table(t.Database, t.Schema, t.Name)
		name := display(catalog.Name{Schema: t.Schema, Name: t.Name})
		switch {
		case old != nil && old.State != directory.Active:
			return nil, pgerr.New(pgerr.ObjectInUse, "%q is being %s", name, progress(old.State)).
				WithHint("Wait for it to end. If whoever did it is gone, weft finishes or undoes it by itself.")
		case old != nil && t.State == directory.Declaring:
			return nil, pgerr.New(pgerr.DuplicateObject, "%q is already declared: %s", name, describe(old))
		case old == nil && t.State == directory.Undeclaring:
			return nil, notDeclared(name)
		}
		if err := notWhileCarried(s, t.Database); err != nil {
			return nil, err
		}
		next := s.Clone()
		if old != nil {
			// The declaration may have changed since the first look.
			kept := *old
			kept.State, kept.Job = t.State, t.Job
			next.PutTable(kept)
			return next, nil
		}
		next.PutTable(t)
		return next, nil
	})
	if err != nil {
		return err
	}
	return m.cfg.Directory.Acknowledged(ctx, snap.Version)
}

func progress(s directory.TableState) string {
	if s == directory.Undeclaring {
		return "moved back to the home shard"
	}
	return "declared"
}

func notDeclared(name string) error {
	return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "%q is not a declared table", name).
		WithHint("It is on the home shard alone already.")
}

// change updates the directory's entry of a job, if the entry still belongs to that job.
func (m *Mover) change(ctx context.Context, t *directory.Table, fn func(next *directory.Snapshot, own directory.Table)) (*directory.Snapshot, error) {
	return m.cfg.Directory.Update(ctx, func(s *directory.Snapshot) (*directory.Snapshot, error) {
		if s == nil {
			return nil, directory.ErrNoCluster
		}
		own := s.Table(t.Database, t.Schema, t.Name)
		if own == nil || own.Job.ID != t.Job.ID || own.Job.Proxy != t.Job.Proxy {
			return nil, errSuperseded
		}
		next := s.Clone()
		fn(next, *next.Table(t.Database, t.Schema, t.Name))
		return next, nil
	})
}

// phase notes how far a job has come.
func (m *Mover) phase(ctx context.Context, t *directory.Table, p directory.JobPhase, fn func(next *directory.Snapshot, own *directory.Table)) error {
	_, err := m.change(ctx, t, func(next *directory.Snapshot, own directory.Table) {
		own.Job.Phase = p
		if fn != nil {
			fn(next, &own)
		}
		next.PutTable(own)
	})
	return err
}

// undoTime bounds how long weft undoes a job that its caller gave up. The caller's own patience
// must not matter here.
const undoTime = time.Minute

// conclude ends a job that has failed or may have failed: it finishes the job if the home shard
// committed, and undoes it if not. It returns nil if the job was finished after all.
func (m *Mover) conclude(ctx context.Context, t directory.Table, failed error) error {
	if errors.Is(failed, errSuperseded) {
		return pgerr.New(pgerr.ObjectInUse, "%q: another proxy has taken over, believing this one dead", t.Name).WithCause(failed)
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer stop()
	committed, err := m.resolve(ctx, t)
	switch {
	case err != nil:
		m.cfg.Log.Warn("a table is left halfway, to be recovered", "database", t.Database, "schema", t.Schema, "table", t.Name, "err", err)
		e := *pgerr.From(failed)
		return e.WithHint("Undoing it failed too (%s): statements that name the table wait until weft can finish or undo it, which it tries again by itself.", err)
	case committed:
		return nil
	}
	return failed
}

// withdraw ends a job that was not announced to all proxies, whether its entry was made or not.
func (m *Mover) withdraw(ctx context.Context, t directory.Table, failed error) error {
	if err := m.conclude(ctx, t, failed); err != nil {
		return err
	}
	return failed // the entry belongs to another job
}

// Recover finishes or undoes a job with a table that was begun by a proxy that is gone, or by this
// proxy without success. It leaves alone a table that is Active and a job that runs in this
// process. It may be called again, and by several proxies at once.
func (m *Mover) Recover(ctx context.Context, t directory.Table) error {
	if t.State == directory.Active || m.Running(t.Job.ID) {
		return nil
	}
	if t.Group != "" && t.State == directory.Undeclaring {
		return nil // the job that has carried the rows home goes on with it
	}
	_, err := m.resolve(ctx, t)
	if errors.Is(err, errSuperseded) {
		return nil // another proxy works on the job, or the job is done
	}
	return err
}

// resolve asks the home shard whether a job has committed, and then finishes or undoes the job.
func (m *Mover) resolve(ctx context.Context, t directory.Table) (committed bool, err error) {
	snap, own, err := m.takeOver(ctx, t)
	if err != nil {
		return false, err
	}
	if own == nil {
		return over(snap, &t), nil
	}
	home, err := open(ctx, m.cfg.Shards, snap.Home, own.Database, own.Job.User, "weft recovery")
	if err != nil {
		return false, err
	}
	defer home.close()
	if err := home.run("BEGIN", fmt.Sprintf("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", quote.Literal("weft job "+own.Job.ID))); err != nil {
		return false, err
	}
	// The previous holder of the lock may have ended the job.
	if snap, err = m.cfg.Directory.Load(ctx); err != nil {
		return false, err
	}
	now := snap.Table(own.Database, own.Schema, own.Name)
	if now == nil || now.Job.ID != own.Job.ID {
		return over(snap, &t), nil
	}
	own = now
	if err := m.endBackends(ctx, home, snap, own); err != nil {
		return false, err
	}
	committed, err = m.marked(home, own)
	if err != nil {
		return false, err
	}
	if committed {
		return true, m.finish(ctx, home, snap, own)
	}
	return false, m.undo(ctx, home, snap, own)
}

// over reports whether a job that is not in the directory any more has reached its end; if not, it
// never began.
func over(snap *directory.Snapshot, t *directory.Table) bool {
	now := snap.Table(t.Database, t.Schema, t.Name)
	if t.State == directory.Undeclaring {
		return now == nil
	}
	return now != nil && now.State == directory.Active
}

// takeOver makes a job this proxy's. own is nil if there is nothing to do.
func (m *Mover) takeOver(ctx context.Context, t directory.Table) (*directory.Snapshot, *directory.Table, error) {
	snap, err := m.cfg.Directory.Update(ctx, func(s *directory.Snapshot) (*directory.Snapshot, error) {
		if s == nil {
			return nil, directory.ErrNoCluster
		}
		own := s.Table(t.Database, t.Schema, t.Name)
		if own == nil || own.Job.ID != t.Job.ID || own.Job.Proxy == m.cfg.Proxy {
			return s, nil
		}
		next := s.Clone()
		mine := *next.Table(t.Database, t.Schema, t.Name)
		mine.Job.Proxy = m.cfg.Proxy
		next.PutTable(mine)
		for _, other := range directory.Grouped(next, t.Database, mine.Group) {
			other.Job.Proxy = m.cfg.Proxy
			next.PutTable(other)
		}
		return next, nil
	})
	if err != nil {
		return nil, nil, err
	}
	own := snap.Table(t.Database, t.Schema, t.Name)
	if own == nil || own.Job.ID != t.Job.ID || own.State == directory.Active {
		return snap, nil, nil
	}
	return snap, own, nil
}

// endBackends ends the job's backends on all shards. A shard that does not answer matters only if
// something there must be undone or finished.
func (m *Mover) endBackends(ctx context.Context, home *session, snap *directory.Snapshot, t *directory.Table) error {
	end := "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = " + quote.Literal(application(t.Job.ID))
	if err := home.run(end); err != nil {
		return err
	}
	for _, shard := range others(snap) {
		s, err := open(ctx, m.cfg.Shards, shard, t.Database, t.Job.User, "weft recovery")
		if err == nil {
			err = s.run(end)
			s.close()
		}
		if err != nil && t.Job.Phase != directory.Begun {
			return err
		}
	}
	return nil
}

// marked reports whether the job has committed at home. If it may have, the home session holds the
// table's lock afterwards, provided that the table still exists.
func (m *Mover) marked(home *session, t *directory.Table) (bool, error) {
	if t.Group != "" {
		return t.Job.Phase == directory.Moved, nil // home commits nothing, see Online
	}
	if t.Job.Phase == directory.Begun {
		// The home shard commits only after Filled is noted, and from now on only this proxy can
		// note it. So the job can be undone even while another session locks the table, which may
		// be why the job failed.
		return false, nil
	}
	name := catalog.Name{Schema: t.Schema, Name: t.Name}.SQL()
	there, err := home.one("SELECT to_regclass(" + quote.Literal(name) + ")")
	if err != nil {
		return false, err
	}
	if there == "" { // dropped behind weft's back
		return t.Job.Phase == directory.Moved, nil
	}
	if err := home.run("SET LOCAL lock_timeout = '10s'", "LOCK TABLE "+name+" IN ACCESS EXCLUSIVE MODE", "SET LOCAL lock_timeout = 0"); err != nil {
		return false, err
	}
	found, err := home.one("SELECT count(*) FROM pg_constraint WHERE conrelid = " + quote.Literal(name) + "::regclass AND conname = " + quote.Literal(mark(t.Job.ID)))
	if err != nil {
		return false, err
	}
	return found != "0" || t.Job.Phase == directory.Moved, nil
}

// finish does the steps that follow the commit at home. home is in a transaction that holds the
// table's lock.
func (m *Mover) finish(ctx context.Context, home *session, snap *directory.Snapshot, t *directory.Table) error {
	if t.Group != "" {
		return NewOnline(m).finish(ctx, snap, t)
	}
	if err := m.phase(ctx, t, directory.Moved, nil); err != nil {
		return err
	}
	if err := m.cfg.step("moved"); err != nil {
		return err
	}
	if t.State == directory.Undeclaring {
		if err := m.dropTwins(ctx, snap, t); err != nil {
			return err
		}
	}
	name := catalog.Name{Schema: t.Schema, Name: t.Name}.SQL()
	if err := home.run("ALTER TABLE IF EXISTS "+name+" DROP CONSTRAINT IF EXISTS "+quote.Ident(mark(t.Job.ID)), "COMMIT"); err != nil {
		return err
	}
	if err := m.cfg.step("unmarked"); err != nil {
		return err
	}
	if err := m.followGuard(ctx, snap, t); err != nil {
		return err
	}
	if err := m.followLookups(ctx, snap, t); err != nil {
		return err
	}
	done, err := m.change(ctx, t, func(next *directory.Snapshot, own directory.Table) {
		if own.State == directory.Undeclaring {
			next.DropTable(own.Database, own.Schema, own.Name)
		} else {
			own.State, own.Job = directory.Active, directory.Job{}
			forgetForeignKeys(next, &own)
			next.PutTable(own)
		}
		if next.Schemas == nil {
			next.Schemas = map[string]int64{}
		}
		next.Schemas[own.Database]++
	})
	if err != nil {
		return err
	}
	if err := m.cfg.step("active"); err != nil {
		return err
	}
	// The job is done. A proxy that acknowledges later than this sees it a moment later.
	if err := m.cfg.Directory.Acknowledged(ctx, done.Version); err != nil {
		m.cfg.Log.Warn("not every proxy knows a declaration yet", "database", t.Database, "table", t.Name, "err", err)
	}
	if t.State == directory.Undeclaring {
		m.forgetEntries(ctx, t)
	}
	return nil
}

// forgetForeignKeys removes a table's own foreign keys from the lists of foreign keys that wait for
// a declaration: they are in force now.
func forgetForeignKeys(next *directory.Snapshot, own *directory.Table) {
	for i := range next.Tables {
		t := &next.Tables[i]
		if t.Database == own.Database {
			t.ForeignKeys = slices.DeleteFunc(t.ForeignKeys, func(fk directory.ForeignKey) bool {
				return fk.Schema == own.Schema && fk.Table == own.Name
			})
		}
	}
}

// undo takes back a job that has not committed at home.
func (m *Mover) undo(ctx context.Context, home *session, snap *directory.Snapshot, t *directory.Table) error {
	if t.Group != "" {
		return NewOnline(m).undo(ctx, snap, t)
	}
	if t.State == directory.Declaring && t.Job.Phase == directory.Filled {
		if err := m.dropTwins(ctx, snap, t); err != nil {
			return err
		}
	}
	if err := m.cfg.step("undone"); err != nil {
		return err
	}
	_, err := m.change(ctx, t, func(next *directory.Snapshot, own directory.Table) {
		if own.State == directory.Declaring {
			next.DropTable(own.Database, own.Schema, own.Name)
			return
		}
		own.State, own.Job = directory.Active, directory.Job{}
		forgetForeignKeys(next, &own)
		next.PutTable(own)
	})
	if err != nil {
		return err
	}
	if t.State == directory.Declaring {
		m.forgetEntries(ctx, t)
	}
	return home.run("ROLLBACK")
}

// dropTwins drops the table on the other shards, and the views that were copied there because of
// it.
func (m *Mover) dropTwins(ctx context.Context, snap *directory.Snapshot, t *directory.Table) error {
	name := catalog.Name{Schema: t.Schema, Name: t.Name}.SQL()
	for _, shard := range others(snap) {
		s, err := open(ctx, m.cfg.Shards, shard, t.Database, t.Job.User, "weft recovery")
		if err != nil {
			return err
		}
		err = s.run("SET lock_timeout = '10s'", "DROP TABLE IF EXISTS "+name+" CASCADE")
		s.close()
		if err != nil {
			return err
		}
		if err := m.cfg.step("dropped on " + shard); err != nil {
			return err
		}
	}
	return nil
}
