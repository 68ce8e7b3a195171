package schema

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/quote"
	"weft/vindex"
)

// How tables are declared while clients read and write them, and what is where when something dies:
//
//	step                                      dies after it: recovery finds
//	1 directory: Declaring, in a group of     phase Begun: the entries go, and the job
//	  their own that is all at home; the job
//	2 dial all shards; home: a lock that      the same
//	  keeps DDL out and nothing else
//	3 shards: definitions, empty              the same
//	4 directory: phase Filled                 tables on the shards are dropped, the entries go
//	5 shards: COMMIT, one by one              the same
//	6 directory: phase Moved                  only 7 is missing, and is done
//	7 directory: Active                       the job goes on: see package carrier
//
// No row moves in any of these steps, so it does not matter which proxy hears of them when: a proxy that
// knows the tables as undeclared and one that knows them as sharded, with everything at home, send their
// statements to the same place. The job carries rows only when all proxies have Active, and when all
// transactions that are older have ended.
//
// The home shard commits nothing. So what a declaration changes there cannot be done online: foreign
// keys of other tables that would have to go, ids that name their buckets.

// Online declares tables while clients use them, and takes declarations back. Its zero value is
// of no use.
type Online struct{ m *Mover }

// NewOnline returns what declares tables online for a Mover.
func NewOnline(m *Mover) *Online { return &Online{m} }

// onlinePages is how many pages a table must have to be declared online if nobody says how: a smaller
// one is copied in a moment.
const onlinePages = 1000

// Large reports whether a table is so large that it should be declared online.
func (o *Online) Large(ctx context.Context, req *Request) (bool, error) {
	snap, err := o.m.load(ctx, req.Database)
	if err != nil {
		return false, err
	}
	var pages int64
	for _, shard := range o.holders(snap, req) {
		s, err := open(ctx, o.m.cfg.Shards, shard, req.Database, req.User, "weft")
		if err != nil {
			return false, err
		}
		name := quote.Literal(req.Table.SQL())
		n, err := s.one("SELECT (coalesce(sum(pg_relation_size(relid)), 0) / current_setting('block_size')::int)::bigint FROM (SELECT to_regclass(" + name +
			")::oid AS relid UNION SELECT relid::oid FROM pg_partition_tree(to_regclass(" + name + "))) p")
		s.close()
		if err != nil {
			return false, err
		}
		pages += number(n)
	}
	return pages > onlinePages, nil
}

// holders are the shards that have rows of a table which would move.
func (o *Online) holders(snap *directory.Snapshot, req *Request) []string {
	if snap.Table(req.Database, req.Table.Schema, req.Table.Name) != nil {
		return others(snap)
	}
	return []string{snap.Home}
}

// errOffline is the cause of a refusal of something that can be done with the table locked.
var errOffline = errors.New("it cannot be done online")

// Offline reports whether an error says that something can be done, but not online.
func Offline(err error) bool { return errors.Is(err, errOffline) }

// offline words such a refusal.
func offline(hint, format string, args ...any) error {
	return pgerr.New(pgerr.FeatureNotSupported, format, args...).WithHint("%s", hint).WithCause(errOffline)
}

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
	if err := notWhileCarried(snap, d.move.Database); err != nil {
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
		if err := notWhileCarried(s, d.move.Database); err != nil {
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

// finish declares the tables of a group whose tables all shards have.
func (o *Online) finish(ctx context.Context, snap *directory.Snapshot, t *directory.Table) error {
	list := directory.Grouped(snap, t.Database, t.Group)
	for i := range list {
		if err := o.m.followGuard(ctx, snap, &list[i]); err != nil {
			return err
		}
	}
	done, err := o.m.cfg.Directory.Update(ctx, func(s *directory.Snapshot) (*directory.Snapshot, error) {
		if s == nil {
			return nil, directory.ErrNoCluster
		}
		next := s.Clone()
		for _, own := range directory.Grouped(next, t.Database, t.Group) {
			if own.State != directory.Declaring || own.Job.ID != t.Job.ID || own.Job.Proxy != o.m.cfg.Proxy {
				return nil, errSuperseded
			}
			own.State, own.Job = directory.Active, directory.Job{}
			next.PutTable(own)
		}
		if next.Schemas == nil {
			next.Schemas = map[string]int64{}
		}
		next.Schemas[t.Database]++
		return next, nil
	})
	if err != nil {
		return err
	}
	if err := o.m.cfg.step("active"); err != nil {
		return err
	}
	// The job carries nothing before all proxies have said that they know.
	return o.m.cfg.Directory.Acknowledged(ctx, done.Version)
}

// undo takes back a declaration that is not in force: the job goes with it.
func (o *Online) undo(ctx context.Context, snap *directory.Snapshot, t *directory.Table) error {
	list := directory.Grouped(snap, t.Database, t.Group)
	if t.Job.Phase == directory.Filled {
		for i := range list {
			list[i].Job = t.Job
			if err := o.m.dropTwins(ctx, snap, &list[i]); err != nil {
				return err
			}
		}
	}
	if err := o.m.cfg.step("undone"); err != nil {
		return err
	}
	_, err := o.m.change(ctx, t, func(next *directory.Snapshot, own directory.Table) {
		directory.Disband(next, own.Database, own.Group)
		next.EndMove(own.Job.ID)
	})
	return err
}

// Prepare makes sure, before the first round of a job whose tables will be declared, that nothing has come
// between that the declaration would have refused, and makes the lookups that keep columns unique without
// the key. No transaction is left that knew the tables as undeclared. A job that has taken the rows home and was cancelled
// then may have dropped the lookups.
func (o *Online) Prepare(ctx context.Context, snap *directory.Snapshot, move directory.Move) error {
	snap = snap.For(move.Database)
	home, err := open(ctx, o.m.cfg.Shards, snap.Home, move.Database, o.m.cfg.Service, MoveApplication(move.ID))
	if err != nil {
		return err
	}
	defer home.close()
	if slices.Equal(directory.PlacesIn(snap).Of(move.Group), directory.AtHome(snap)) {
		if err := o.unchanged(ctx, home, snap, &move); err != nil {
			return err
		}
	}
	schema, err := catalog.Load(0, home.Exec)
	if err != nil {
		return err
	}
	for _, t := range directory.Grouped(snap, move.Database, move.Group) {
		if err := o.lookups(ctx, schema, snap, &move, &t); err != nil {
			return err
		}
	}
	return nil
}

// unchanged refuses tables that have been changed on the home shard alone since they were declared, that
// tables of the home shard reference, or that have rows without a place.
func (o *Online) unchanged(ctx context.Context, home *session, snap *directory.Snapshot, move *directory.Move) error {
	schema, err := catalog.Load(0, home.Exec)
	if err != nil {
		return err
	}
	again := "Take the declaration back with weft.cancel_move('" + move.ID + "'), and declare it again."
	for _, t := range directory.Grouped(snap, move.Database, move.Group) {
		name := catalog.Name{Schema: t.Schema, Name: t.Name}
		rel := schema.Relation(name)
		if rel == nil {
			return pgerr.New(pgerr.UndefinedTable, "%q was dropped while it was being declared", display(name)).WithHint("%s", again)
		}
		for _, r := range tree(rel) {
			for _, fk := range r.Referenced {
				if from := schema.Relation(fk.Table); from != nil && !declaredBeside(snap, &t, from) {
					return pgerr.New(pgerr.ObjectInUse, "foreign key %q of %q references %q, and was made while that was being declared", fk.Name, display(fk.Table), display(name)).WithHint("%s", again)
				}
			}
		}
		if err := unplaced(home, &t, snap.BucketCount); err != nil {
			return err
		}
		want, err := readDefinition(home, name)
		if err != nil {
			return err
		}
		for _, shard := range others(snap) {
			s, err := open(ctx, o.m.cfg.Shards, shard, move.Database, o.m.cfg.Service, MoveApplication(move.ID))
			if err != nil {
				return err
			}
			got, err := readDefinition(s, name)
			s.close()
			if err != nil {
				return err
			}
			if line := differs(want, got); line != "" {
				return pgerr.New(pgerr.ObjectInUse, "%q was changed while it was being declared", display(name)).WithDetail("Only one of home and %s has: %s", shard, line).WithHint("%s", again)
			}
		}
	}
	return nil
}

// declaredBeside reports whether a table that references another is declared in the same group, itself or as
// a partition.
func declaredBeside(snap *directory.Snapshot, t *directory.Table, from *catalog.Relation) bool {
	for r := from; r != nil; r = r.Parent {
		if d := snap.Table(t.Database, r.Schema, r.Name.Name); d != nil && d.Group == t.Group {
			return true
		}
	}
	return false
}

// differs returns a statement that only one of two definitions has, "" if there is none. Indexes of jobs
// do not count.
func differs(a, b *Definition) string {
	statements := func(d *Definition) []string {
		return slices.DeleteFunc(slices.Concat(d.Before, d.After), func(s string) bool { return strings.Contains(s, `"weft move `) })
	}
	x, y := statements(a), statements(b)
	for _, pair := range [][2][]string{{x, y}, {y, x}} {
		for _, s := range pair[0] {
			if !slices.Contains(pair[1], s) {
				return s
			}
		}
	}
	return ""
}

// lookups makes the lookups that a table's unique indexes need.
func (o *Online) lookups(ctx context.Context, schema *catalog.Schema, snap *directory.Snapshot, move *directory.Move, t *directory.Table) error {
	name := catalog.Name{Schema: t.Schema, Name: t.Name}
	rel := schema.Relation(name)
	if rel == nil {
		return nil
	}
	for _, columns := range needLookups(rel, t) {
		req := LookupRequest{Request: Request{Database: t.Database, User: o.m.cfg.Service, Table: name, Columns: columns}, Unique: true}
		spec, err := judgeLookup(schema, snap, &req)
		if err != nil {
			return err
		}
		if spec.known != nil && spec.known.Public {
			continue
		}
		if err := o.m.buildLookup(ctx, move.ID, snap, spec, &req.Request, func(*pgerr.Error) {}); err != nil {
			return err
		}
	}
	return nil
}

// Dissolve takes the declarations of a job's tables back. All their rows are at home, and clients use
// them: nobody needs the tables on the other shards any more. It may be called again.
func (o *Online) Dissolve(ctx context.Context, snap *directory.Snapshot, move directory.Move) error {
	list := directory.Grouped(snap, move.Database, move.Group)
	if len(list) == 0 {
		return nil
	}
	if !slices.ContainsFunc(list, func(t directory.Table) bool { return t.State == directory.Undeclaring }) {
		if err := o.dropLookups(ctx, snap, list); err != nil {
			return err
		}
	}
	next, err := o.m.cfg.Directory.Update(ctx, func(s *directory.Snapshot) (*directory.Snapshot, error) {
		if s == nil {
			return nil, directory.ErrNoCluster
		}
		if m := s.FindMove(move.ID); m == nil || !m.GoesHome() || m.Proxy != o.m.cfg.Proxy {
			return nil, errSuperseded // it was cancelled, or has got another proxy
		}
		next := s.Clone()
		if !directory.Arrived(next, next.FindMove(move.ID)) {
			return nil, errors.New("some rows are not at home")
		}
		for _, t := range directory.Grouped(next, move.Database, move.Group) {
			t.State, t.Job = directory.Undeclaring, directory.Job{ID: move.ID, Proxy: o.m.cfg.Proxy, User: o.m.cfg.Service, Phase: directory.Moved}
			next.PutTable(t)
		}
		return next, nil
	})
	if err != nil {
		return err
	}
	if err := o.m.cfg.Directory.Acknowledged(ctx, next.Version); err != nil {
		return err
	}
	if err := o.m.cfg.step("undeclaring"); err != nil {
		return err
	}
	list = directory.Grouped(next, move.Database, move.Group)
	for i := range list {
		if err := o.m.dropTwins(ctx, next, &list[i]); err != nil {
			return err
		}
		if err := o.m.followGuard(ctx, next, &list[i]); err != nil {
			return err
		}
		if err := o.unroute(ctx, next, &list[i]); err != nil {
			return err
		}
	}
	_, err = o.m.cfg.Directory.Update(ctx, func(s *directory.Snapshot) (*directory.Snapshot, error) {
		if s == nil {
			return nil, directory.ErrNoCluster
		}
		next := s.Clone()
		directory.Disband(next, move.Database, move.Group)
		if next.Schemas == nil {
			next.Schemas = map[string]int64{}
		}
		next.Schemas[move.Database]++
		return next, nil
	})
	if err != nil {
		return err
	}
	for i := range list {
		o.m.forgetEntries(ctx, &list[i])
	}
	return nil
}

// dropLookups drops the lookups of tables whose rows are all at home: the home shard itself keeps
// columns unique.
func (o *Online) dropLookups(ctx context.Context, snap *directory.Snapshot, list []directory.Table) error {
	home, err := open(ctx, o.m.cfg.Shards, snap.Home, list[0].Database, o.m.cfg.Service, "weft")
	if err != nil {
		return err
	}
	defer home.close()
	schema, err := catalog.Load(0, home.Exec)
	if err != nil {
		return err
	}
	for _, t := range list {
		rel := schema.Relation(catalog.Name{Schema: t.Schema, Name: t.Name})
		if rel == nil {
			continue
		}
		for _, l := range rel.Lookups {
			if err := o.m.removeLookup(ctx, snap, t.Database, l.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// unroute takes the constraint of routed ids off the home table.
func (o *Online) unroute(ctx context.Context, snap *directory.Snapshot, t *directory.Table) error {
	if t.IDs.Column == "" {
		return nil
	}
	home, err := open(ctx, o.m.cfg.Shards, snap.Home, t.Database, o.m.cfg.Service, "weft")
	if err != nil {
		return err
	}
	defer home.close()
	return home.run("SET lock_timeout = '1s'", dropRouting(catalog.Name{Schema: t.Schema, Name: t.Name}))
}
