package schema

import (
	"context"
	"errors"
	"slices"
	"strings"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
)

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
	for _, u := range needLookups(rel, t) {
		req := lookupFor(Request{Database: t.Database, User: o.m.cfg.Service, Table: name}, u)
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
