package schema

import (
	"context"
	"slices"
	"strings"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/quote"
)

// Rekey judges, before any row moves, whether a sharded table can get another key online: its rows go home, and from
// there to where the new key says. It returns the requests that declare it, and with cascade the tables that foreign keys tie
// to it, by the new key.
func (o *Online) Rekey(ctx context.Context, req Request, cascade bool, notice Notice) ([]Request, error) {
	snap, err := o.m.load(ctx, req.Database)
	if err != nil {
		return nil, err
	}
	if err := notWhileCarried(snap, req.Database); err != nil {
		return nil, err
	}
	home, err := open(ctx, o.m.cfg.Shards, snap.Home, req.Database, req.User, "weft")
	if err != nil {
		return nil, err
	}
	defer home.close()
	reqs, err := o.rekey(ctx, home, snap, req, cascade, notice)
	return reqs, o.m.ended(ctx, err)
}

// rekey is Rekey by what is known.
func (o *Online) rekey(ctx context.Context, home *session, snap *directory.Snapshot, req Request, cascade bool, notice Notice) ([]Request, error) {
	t := snap.Table(req.Database, req.Table.Schema, req.Table.Name)
	switch {
	case t == nil:
		return nil, notDeclared(req.name())
	case t.Kind != directory.Sharded:
		return nil, pgerr.New(pgerr.WrongObjectType, "%q is a reference table, which has no shard key", req.name()).
			WithHint("Take its declaration back, and declare it as sharded: SELECT weft.unshard_table(%s).", quote.Literal(req.name()))
	}
	schema, err := catalog.Load(0, home.Exec)
	if err != nil {
		return nil, err
	}
	reqs := []Request{req}
	if cascade {
		reference := func(n catalog.Name) bool {
			d := snap.Table(req.Database, n.Schema, n.Name)
			return d != nil && d.Kind == directory.Reference
		}
		if reqs, err = related(schema, req, reference, notice); err != nil {
			return nil, err
		}
	}
	after := snap.Clone()
	for i := range reqs {
		if err := owner(home, &reqs[i]); err != nil {
			return nil, err
		}
		after.DropTable(reqs[i].Database, reqs[i].Table.Schema, reqs[i].Table.Name)
	}
	quiet := func(*pgerr.Error) {}
	d := &declarations{Mover: o.m, ctx: ctx, move: directory.Move{Database: req.Database, Group: "rekey"}, reqs: slices.Clone(reqs), notice: quiet}
	for i := range d.reqs {
		d.reqs[i].group = d.move.Group
	}
	if err := d.look(home, home, after); err != nil {
		return nil, d.orLocked(home, after, err)
	}
	if err := apart(schema, snap, reqs, d.move); err != nil {
		return nil, err
	}
	for i := range reqs {
		was, err := mayGoHome(schema, snap, &reqs[i], reqs)
		if err != nil {
			return nil, err
		}
		if now := &d.sights[i].verdict.table; slices.Equal(was.Columns, now.Columns) && was.Vindex.Equal(&now.Vindex) {
			return nil, pgerr.New(pgerr.DuplicateObject, "%q is %s already", reqs[i].name(), describe(was)).WithHint("Name another key than %s.", strings.Join(reqs[i].Columns, ", "))
		}
	}
	return reqs, nil
}

// Then describes the declarations of some requests, for a job that follows another one.
func Then(job string, reqs []Request) *directory.Then {
	out := &directory.Then{Job: job, User: reqs[0].User}
	for i := range reqs {
		r := &reqs[i]
		out.Tables = append(out.Tables, directory.ThenTable{Schema: r.Table.Schema, Name: r.Table.Name, Columns: r.Columns, Vindex: r.Vindex})
	}
	return out
}

// DeclareThen declares the tables of a job that follows another one. The job is one that carries rows then.
func (o *Online) DeclareThen(ctx context.Context, move directory.Move) error {
	var reqs []Request
	for _, t := range move.Then.Tables {
		reqs = append(reqs, Request{Database: move.Database, User: move.Then.User, Table: catalog.Name{Schema: t.Schema, Name: t.Name}, Columns: t.Columns, Vindex: t.Vindex})
	}
	return o.Declare(ctx, reqs, move, func(e *pgerr.Error) {
		o.m.cfg.Log.Info("a table gets another key", "job", move.ID, "database", move.Database, "notice", e.Message)
	})
}
