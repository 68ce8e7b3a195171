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
	"weft/vindex"
)

// declarations is a declaration of one or several tables that is under way.
type declarations struct {
	*Mover
	ctx    context.Context
	move   directory.Move
	reqs   []Request
	notice Notice

	snap   *directory.Snapshot
	first  *declaration // has the connections
	sights []*sight     // in the order of reqs
	order  []int        // indexes into reqs, referenced tables first
	each   []*declaration
}

// Declare declares tables as sharded and enters the job that carries their rows to their shards. The
// tables of all requests are in one database and asked for by one user.
func (o *Online) Declare(ctx context.Context, reqs []Request, move directory.Move, notice Notice) error {
	move.Group = move.ID
	d := &declarations{Mover: o.m, ctx: ctx, move: move, reqs: slices.Clone(reqs), notice: notice}
	for i := range d.reqs {
		d.reqs[i].group = move.Group
	}
	if err := d.consider(); err != nil {
		return o.m.ended(ctx, err)
	}
	tables := d.tables(directory.Declaring)
	o.m.run(move.ID, true)
	defer o.m.run(move.ID, false)
	if err := d.announce(tables); err != nil {
		return o.m.ended(ctx, o.m.withdraw(ctx, tables[0], err))
	}
	err := o.m.cfg.step("announced")
	if err == nil {
		err = d.make(tables)
	}
	if err != nil {
		return o.m.ended(ctx, o.m.conclude(ctx, tables[0], err))
	}
	return nil
}

// consider looks at the tables without any lock: most refusals come here.
func (d *declarations) consider() error {
	snap, err := d.load(d.ctx, d.reqs[0].Database)
	if err != nil {
		return err
	}
	if err := d.free(snap); err != nil {
		return err
	}
	facts, err := open(d.ctx, d.cfg.Shards, snap.Home, d.move.Database, d.reqs[0].User, "weft")
	if err != nil {
		return err
	}
	defer facts.close()
	if err := d.look(facts, facts, snap); err != nil {
		return d.orLocked(facts, snap, err)
	}
	for i := range d.reqs {
		if err := d.placed(facts, i); err != nil {
			return err
		}
		for _, n := range d.sights[i].verdict.notices {
			d.notice(n)
		}
		if err := foresee(facts, &d.reqs[i], &d.sights[i].verdict.table, len(snap.Shards), false, d.notice); err != nil {
			return err
		}
		as, err := d.entrust(d.ctx, facts, snap, &d.reqs[i], d.sights[i], d.notice)
		if err != nil {
			return err
		}
		d.reqs[i] = *as
		if as.User != d.reqs[0].User {
			return offline("Declare them one by one, or with online => false.", "%q and %q have code of different owners and cannot be declared together", d.reqs[0].name(), d.reqs[i].name())
		}
	}
	return nil
}

// look reads and judges all tables, each as if the others were declared already.
func (d *declarations) look(facts, reading *session, snap *directory.Snapshot) error {
	schema, err := catalog.Load(0, facts.Exec)
	if err != nil {
		return err
	}
	with := snap.Clone()
	for i := range d.reqs {
		j := &judgement{snap: snap, schema: schema, req: &d.reqs[i], kind: directory.Sharded}
		for _, step := range []func() error{j.table, j.key} {
			if err := step(); err != nil {
				return err
			}
		}
		with.PutTable(j.out.table)
	}
	d.snap, d.sights = with.For(d.move.Database), nil
	for i := range d.reqs {
		req := &d.reqs[i]
		alone := with.Clone()
		alone.DropTable(req.Database, req.Table.Schema, req.Table.Name)
		seen, err := d.Mover.look(facts, reading, alone.For(req.Database), req, directory.Sharded)
		if err != nil {
			return err
		}
		if err := online(req, seen.verdict); err != nil {
			return err
		}
		d.sights = append(d.sights, seen)
	}
	return d.sort()
}

// orLocked returns the reason why the tables cannot be declared. If only their group is in the way, which keeps their rows apart from
// those of other tables for a while, they can be declared with the tables locked.
func (d *declarations) orLocked(facts *session, snap *directory.Snapshot, reason error) error {
	if Offline(reason) {
		return reason
	}
	merged := *d
	merged.reqs = slices.Clone(d.reqs)
	for i := range merged.reqs {
		merged.reqs[i].group = ""
	}
	if err := merged.look(facts, facts, snap); err != nil && !Offline(err) {
		return reason
	}
	e := pgerr.From(reason)
	return offline(lockedHint, "%q cannot be declared online, while its rows are apart from those of other sharded tables: %s", d.reqs[0].name(), e.Message)
}

// lockedHint says what to do instead of declaring online, or taking a declaration back online.
const lockedHint = "Use online => false: the table is locked while its rows are copied."

// online refuses what cannot be declared online.
func online(req *Request, v *verdict) error {
	if _, ok := v.vindex.(vindex.Computed); !ok {
		return offline(lockedHint, "%q cannot be declared online: where its rows belong is looked up", req.name())
	}
	if v.table.IDs.Column != "" {
		return offline(lockedHint, "%q cannot be declared online with routed ids", req.name())
	}
	if len(v.restored) > 0 {
		return offline(lockedHint, "%q cannot be declared online: its foreign key %q is off until it is declared", req.name(), v.restored[0].Name)
	}
	if len(v.incoming) > 0 {
		fk := v.incoming[0]
		return offline("Declare both together, with cascade => true or weft.shard_tables. With online => false the foreign key is taken off until the other table is declared.",
			"%q cannot be declared online alone: foreign key %q of %q references it", req.name(), fk.Name, display(fk.Table))
	}
	return nil
}

// sort orders the tables so that each comes after those that it references.
func (d *declarations) sort() error {
	at := map[catalog.Name]int{}
	for i := range d.reqs {
		at[d.reqs[i].Table] = i
	}
	d.order = nil
	state := make([]int, len(d.reqs))
	var visit func(i int) error
	visit = func(i int) error {
		switch state[i] {
		case 1:
			return pgerr.New(pgerr.FeatureNotSupported, "foreign keys tie %q and others in a circle, and they cannot be declared together", d.reqs[i].name()).
				WithHint("Drop one of the foreign keys, and add it again when the tables are declared.")
		case 2:
			return nil
		}
		state[i] = 1
		for _, rel := range tree(d.sights[i].judgement.rel) {
			for _, fk := range rel.ForeignKeys {
				if to, ok := at[fk.References]; ok && to != i {
					if err := visit(to); err != nil {
						return err
					}
				}
			}
		}
		state[i] = 2
		d.order = append(d.order, i)
		return nil
	}
	for i := range d.reqs {
		if err := visit(i); err != nil {
			return err
		}
	}
	return nil
}

// placed refuses a table with rows that the vindex has no place for.
func (d *declarations) placed(s *session, i int) error {
	return unplaced(s, &d.sights[i].verdict.table, d.snap.BucketCount)
}

// unplaced refuses a table with rows that its vindex has no place for.
func unplaced(s *session, t *directory.Table, buckets int) error {
	if t.Vindex.Kind == "hash" {
		return nil // has a place for every value
	}
	v, err := t.NewVindex(buckets)
	if err != nil {
		return err
	}
	computed, ok := v.(vindex.Computed)
	if !ok {
		return nil
	}
	var columns []string
	for _, c := range t.Columns {
		columns = append(columns, quote.Ident(c.Name))
	}
	bucket, err := vindex.BucketSQL(computed, columns, buckets)
	if err != nil {
		return err
	}
	name := catalog.Name{Schema: t.Schema, Name: t.Name}
	n, err := s.one("SELECT count(*) FROM " + name.SQL() + " WHERE (" + bucket + ") IS NULL")
	if err == nil && n != "0" {
		err = pgerr.New(pgerr.InvalidParameterValue, "%s rows of %q have a key that the vindex has no place for", n, display(name)).
			WithHint("Give the vindex a zone for all other values, or change the rows.")
	}
	return err
}

// tables returns the declarations, in the order of reqs.
func (d *declarations) tables(state directory.TableState) []directory.Table {
	var out []directory.Table
	for _, seen := range d.sights {
		t := seen.verdict.table
		t.State, t.Job = state, directory.Job{ID: d.move.ID, Proxy: d.cfg.Proxy, User: d.reqs[0].User}
		out = append(out, t)
	}
	return out
}

// announce enters the tables and the job into the directory.
func (d *declarations) announce(tables []directory.Table) error {
	snap, err := d.cfg.Directory.Update(d.ctx, func(s *directory.Snapshot) (*directory.Snapshot, error) {
		if s == nil {
			return nil, directory.ErrNoCluster
		}
		for i := range tables {
			t := &tables[i]
			name := display(catalog.Name{Schema: t.Schema, Name: t.Name})
			switch old := s.Table(t.Database, t.Schema, t.Name); {
			case old == nil:
			case old.State != directory.Active:
				return nil, pgerr.New(pgerr.ObjectInUse, "%q is being %s", name, progress(old.State)).
					WithHint("Wait for it to end. If whoever did it is gone, weft finishes or undoes it by itself.")
			default:
				return nil, pgerr.New(pgerr.DuplicateObject, "%q is already declared: %s", name, describe(old))
			}
		}
		if err := d.free(s); err != nil {
			return nil, err
		}
		if err := notWhileJoining(s); err != nil {
			return nil, err
		}
		next := s.Clone()
		directory.BeginDeclare(next, d.move, tables)
		return next, nil
	})
	if err != nil {
		return err
	}
	return d.cfg.Directory.Acknowledged(d.ctx, snap.Version)
}

// free refuses to declare while a job carries rows of the database. A declaration that follows another job has an entry
// already, which must be this proxy's and not paused.
func (d *declarations) free(snap *directory.Snapshot) error {
	m := snap.FindMove(d.move.ID)
	switch {
	case d.move.Then == nil:
		return notWhileCarried(snap, d.move.Database)
	case m == nil || !m.Declares() || m.Proxy != d.cfg.Proxy || m.State != directory.MovePreparing:
		return pgerr.New(pgerr.ObjectInUse, "job %s has been paused or cancelled, or is another proxy's", d.move.ID)
	}
	return nil
}

// notWhileJoining refuses to change what a shard that is being made ready gets.
func notWhileJoining(snap *directory.Snapshot) error {
	if m := snap.Joining(); m != nil {
		return pgerr.New(pgerr.ObjectInUse, "shard %q is being made ready to join", m.Shard).WithHint("Wait for it with weft.wait_move('%s').", m.ID)
	}
	return nil
}

// make makes the tables on the other shards, and declares them.
func (d *declarations) make(tables []directory.Table) error {
	d.first = &declaration{Mover: d.Mover, ctx: d.ctx, req: &d.reqs[0], kind: directory.Sharded, table: tables[0], notice: d.notice}
	defer d.first.close()
	for _, s := range []struct {
		name string
		run  func() error
	}{
		{"dialled", d.first.dial},
		{"locked", d.lock},
		{"defined", d.define},
		{"indexed", d.index},
		{"filled", func() error { return d.phase(directory.Filled) }},
		{"shards committed", d.first.commitShards},
		{"moved", func() error { return d.phase(directory.Moved) }},
	} {
		if err := s.run(); err != nil {
			return err
		}
		if err := d.cfg.step(s.name); err != nil {
			return err
		}
	}
	return NewOnline(d.Mover).finish(d.ctx, d.snap, &tables[0])
}

// lock keeps DDL on the tables out until all proxies know them as declared, and judges again.
func (d *declarations) lock() error {
	home := d.first.home
	if err := home.run("BEGIN", fmt.Sprintf("SET LOCAL lock_timeout = %d", max(1, d.reqs[0].lockTimeout().Milliseconds()))); err != nil {
		return err
	}
	for i := range d.reqs {
		err := home.run("LOCK TABLE " + d.reqs[i].Table.SQL() + " IN SHARE UPDATE EXCLUSIVE MODE")
		var e *pgerr.Error
		if errors.As(err, &e) && e.Code == pgerr.LockNotAvailable && e.Hint == "" {
			return e.WithHint("A transaction that changes %s, or VACUUM, is still going on after %s. Wait for it, or SET lock_timeout to wait longer.",
				d.reqs[i].name(), d.reqs[i].lockTimeout().Round(time.Millisecond))
		}
		if err != nil {
			return err
		}
	}
	snap, err := d.load(d.ctx, d.move.Database)
	if err != nil {
		return err
	}
	if err := d.mine(snap); err != nil {
		return err
	}
	if err := d.look(d.first.facts, home, snap); err != nil {
		return err
	}
	for i := range d.reqs {
		if err := stillTrusted(&d.reqs[i], d.sights[i].def); err != nil {
			return err
		}
		for _, n := range d.sights[i].verdict.notices {
			d.notice(n)
		}
	}
	return nil
}

// mine reports errSuperseded unless the entries of all tables belong to this job and this proxy.
func (d *declarations) mine(snap *directory.Snapshot) error {
	list := directory.Grouped(snap, d.move.Database, d.move.Group)
	if len(list) != len(d.reqs) || slices.ContainsFunc(list, func(t directory.Table) bool { return t.Job.ID != d.move.ID || t.Job.Proxy != d.cfg.Proxy }) {
		return errSuperseded
	}
	return nil
}

// define makes the tables on the other shards, empty and without indexes.
func (d *declarations) define() error {
	for _, s := range d.first.shards {
		if err := s.run("BEGIN", fmt.Sprintf("SET LOCAL lock_timeout = %d", max(1, d.reqs[0].lockTimeout().Milliseconds()))); err != nil {
			return err
		}
	}
	d.each = nil
	for _, i := range d.order {
		one := &declaration{
			Mover: d.Mover, ctx: d.ctx, req: &d.reqs[i], kind: directory.Sharded, table: d.sights[i].verdict.table, notice: d.notice,
			snap: d.snap, home: d.first.home, facts: d.first.facts, shards: d.first.shards, seen: d.sights[i],
		}
		for _, s := range one.shards {
			if err := one.bringRoles(s); err != nil {
				return err
			}
			if err := one.seen.def.apply(s); err != nil {
				return err
			}
		}
		d.each = append(d.each, one)
	}
	return nil
}

// index makes indexes, foreign keys, triggers and views on the other shards.
func (d *declarations) index() error {
	for _, one := range d.each {
		if err := one.index(); err != nil {
			return err
		}
		if err := one.bring(); err != nil {
			return err
		}
	}
	for _, one := range d.each { // a view may need several of the tables
		views, err := one.copiedViews()
		if err != nil {
			return err
		}
		for _, s := range one.shards {
			if err := applyObjects(s, views); err != nil {
				return err
			}
		}
	}
	return nil
}

// phase notes how far the declaration has come.
func (d *declarations) phase(p directory.JobPhase) error {
	_, err := d.cfg.Directory.Update(d.ctx, func(s *directory.Snapshot) (*directory.Snapshot, error) {
		if s == nil {
			return nil, directory.ErrNoCluster
		}
		if err := d.mine(s); err != nil {
			return nil, err
		}
		next := s.Clone()
		for _, seen := range d.sights {
			t := seen.verdict.table // as the look under the lock has seen it
			own := next.Table(t.Database, t.Schema, t.Name)
			t.State, t.Job = own.State, own.Job
			t.Job.Phase = p
			next.PutTable(t)
		}
		return next, nil
	})
	return err
}
