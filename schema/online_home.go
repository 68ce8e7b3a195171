package schema

import (
	"context"
	"slices"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/planner"
	"weft/quote"
)

// Undeclare enters the job that carries the rows of sharded tables home and takes their declarations back, while
// clients use them. The tables of all requests are in one database and asked for by one user.
func (o *Online) Undeclare(ctx context.Context, reqs []Request, move directory.Move) error {
	move.Group = move.ID
	snap, err := o.m.load(ctx, move.Database)
	if err != nil {
		return err
	}
	home, err := open(ctx, o.m.cfg.Shards, snap.Home, move.Database, reqs[0].User, "weft")
	if err != nil {
		return err
	}
	defer home.close()
	schema, err := catalog.Load(0, home.Exec)
	if err != nil {
		return o.m.ended(ctx, err)
	}
	for i := range reqs {
		if err := owner(home, &reqs[i]); err != nil {
			return o.m.ended(ctx, err)
		}
	}
	if err := apart(schema, snap, reqs, move); err != nil {
		return err
	}
	next, err := o.m.cfg.Directory.Update(ctx, func(s *directory.Snapshot) (*directory.Snapshot, error) {
		if s == nil {
			return nil, directory.ErrNoCluster
		}
		if err := notWhileCarried(s, move.Database); err != nil {
			return nil, err
		}
		if err := notWhileJoining(s); err != nil {
			return nil, err
		}
		var tables []directory.Table
		for i := range reqs {
			t, err := mayGoHome(schema, s, &reqs[i], reqs)
			if err != nil {
				return nil, err
			}
			tables = append(tables, *t)
		}
		next := s.Clone()
		directory.BeginUndeclare(next, move, tables)
		return next, nil
	})
	if err != nil {
		return err
	}
	return o.m.cfg.Directory.Acknowledged(ctx, next.Version)
}

// apart refuses tables whose code, such as triggers, needs rows of tables that stay, or the other way round: statements would be
// refused while the rows are apart.
func apart(schema *catalog.Schema, snap *directory.Snapshot, reqs []Request, move directory.Move) error {
	next := snap.Clone()
	for i := range reqs {
		if t := next.Table(reqs[i].Database, reqs[i].Table.Schema, reqs[i].Table.Name); t != nil {
			own := *t
			own.Group = move.Group
			next.PutTable(own)
		}
	}
	for _, t := range next.Declared(move.Database) {
		was := snap.Table(t.Database, t.Schema, t.Name)
		now := planner.Obstacles(schema, next, t)
		if len(now) > len(planner.Obstacles(schema, snap, *was)) {
			return offline(lockedHint, "%q cannot go home online, while its rows are apart from those of other sharded tables: %s", reqs[0].name(), now[0].Message)
		}
	}
	return nil
}

// mayGoHome refuses a table that cannot go home online together with the tables of some requests.
func mayGoHome(schema *catalog.Schema, snap *directory.Snapshot, req *Request, all []Request) (*directory.Table, error) {
	t := snap.Table(req.Database, req.Table.Schema, req.Table.Name)
	switch {
	case t == nil:
		return nil, notDeclared(req.name())
	case t.State != directory.Active:
		return nil, pgerr.New(pgerr.ObjectInUse, "%q is being %s", req.name(), progress(t.State)).WithHint("Wait for it to end.")
	case t.Kind != directory.Sharded:
		return nil, offline(lockedHint, "%q is a reference table: all its rows are at home already", req.name())
	case len(t.ForeignKeys) > 0:
		return nil, offline(lockedHint, "%q cannot go home online: foreign key %q is off until it is there", req.name(), t.ForeignKeys[0].Name)
	}
	rel := schema.Relation(req.Table)
	if rel == nil {
		return nil, pgerr.New(pgerr.UndefinedTable, "relation %q does not exist", req.name())
	}
	together := func(n catalog.Name) bool {
		n = root(schema, n)
		return slices.ContainsFunc(all, func(r Request) bool { return r.Table == n })
	}
	for _, r := range tree(rel) {
		for _, fk := range r.Referenced {
			from := root(schema, fk.Table)
			if !together(from) && snap.Table(req.Database, from.Schema, from.Name) != nil {
				return nil, pgerr.New(pgerr.ObjectInUse, "%q cannot go home: foreign key %q of %q references it", req.name(), fk.Name, display(fk.Table)).
					WithHint("Take both declarations back, with cascade => true; or the other one first: SELECT weft.unshard_table(%s).", quote.Literal(display(fk.Table)))
			}
		}
		for _, fk := range r.ForeignKeys {
			to := root(schema, fk.References)
			if d := snap.Table(req.Database, to.Schema, to.Name); d != nil && d.Kind == directory.Sharded && !together(to) {
				return nil, offline("Take both declarations back together, with cascade => true. With online => false the foreign key is taken off.",
					"%q cannot go home online alone: its foreign key %q references %q", req.name(), fk.Name, display(fk.References))
			}
		}
	}
	return t, nil
}

// RelatedDeclared returns the request and one for each sharded table that foreign keys tie to its table, and
// tells which they are.
func (o *Online) RelatedDeclared(ctx context.Context, req Request, notice Notice) ([]Request, error) {
	snap, err := o.m.load(ctx, req.Database)
	if err != nil {
		return nil, err
	}
	home, err := open(ctx, o.m.cfg.Shards, snap.Home, req.Database, req.User, "weft")
	if err != nil {
		return nil, err
	}
	defer home.close()
	schema, err := catalog.Load(0, home.Exec)
	if err != nil {
		return nil, o.m.ended(ctx, err)
	}
	out := []Request{req}
	for i := 0; i < len(out); i++ {
		rel := schema.Relation(out[i].Table)
		if rel == nil {
			continue
		}
		for _, r := range tree(rel) {
			for k, fk := range slices.Concat(r.ForeignKeys, r.Referenced) {
				other := root(schema, fk.References)
				if k >= len(r.ForeignKeys) {
					other = root(schema, fk.Table)
				}
				t := snap.Table(req.Database, other.Schema, other.Name)
				if t == nil || t.Kind != directory.Sharded || slices.ContainsFunc(out, func(x Request) bool { return x.Table == other }) {
					continue
				}
				next := req
				next.Table = other
				out = append(out, next)
				notice.tell("%s goes home too: foreign key %q ties it to %s", display(other), fk.Name, out[i].name())
			}
		}
	}
	return out, nil
}
