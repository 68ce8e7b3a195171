package schema

import (
	"context"
	"fmt"
	"strings"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/quote"
)

// Unshard takes a declaration back: all rows come home and the table leaves the
// other shards.
func (m *Mover) Unshard(ctx context.Context, req Request, notice Notice) error {
	snap, err := m.load(ctx, req.Database)
	if err != nil {
		return err
	}
	t := snap.Table(req.Database, req.Table.Schema, req.Table.Name)
	if t == nil {
		return notDeclared(req.name())
	}
	home, err := open(ctx, m.cfg.Shards, snap.Home, req.Database, req.User, "weft")
	if err != nil {
		return err
	}
	defer home.close()
	as := &req
	if _, err = m.mayLeave(home, home, snap, &req); err == nil {
		as, err = m.leaveAs(ctx, home, snap, &req, notice)
	}
	if err != nil {
		return m.ended(ctx, err)
	}
	own := *t
	own.State, own.Job = directory.Undeclaring, m.newJob(as)
	defer m.run(own.Job.ID, false)
	if err := m.announce(ctx, own); err != nil {
		return m.ended(ctx, m.withdraw(ctx, own, err))
	}
	err = m.cfg.step("announced")
	if err == nil {
		u := &homecoming{declaration: declaration{Mover: m, ctx: ctx, req: as, table: own, notice: notice}}
		err = u.move()
	}
	if err != nil {
		return m.ended(ctx, m.conclude(ctx, own, err))
	}
	return nil
}

// leaveAs returns the request with the role as which the rows come home.
func (m *Mover) leaveAs(ctx context.Context, home *session, snap *directory.Snapshot, req *Request, notice Notice) (*Request, error) {
	def, err := readDefinition(home, req.Table)
	if err != nil {
		return nil, err
	}
	return m.entrust(ctx, home, snap, req, &sight{def: def}, notice)
}

// mayLeave refuses to bring home a table that declared tables depend on, and returns the table as
// the home shard has it.
func (m *Mover) mayLeave(facts, reading *session, snap *directory.Snapshot, req *Request) (*catalog.Relation, error) {
	schema, err := catalog.Load(0, facts.Exec)
	if err != nil {
		return nil, err
	}
	rel := schema.Relation(req.Table)
	if rel == nil {
		return nil, pgerr.New(pgerr.UndefinedTable, "relation %q does not exist", req.name())
	}
	if err := owner(reading, req); err != nil {
		return nil, err
	}
	for _, r := range tree(rel) {
		for _, fk := range r.Referenced {
			if fk.Table == req.Table {
				continue
			}
			if from := snap.Table(req.Database, fk.Table.Schema, fk.Table.Name); from != nil {
				return nil, pgerr.New(pgerr.ObjectInUse, "%q cannot go home: foreign key %q of %q references it", req.name(), fk.Name, display(fk.Table)).
					WithHint("Take back the other declaration first: SELECT weft.unshard_table(%s).", quote.Literal(display(fk.Table)))
			}
		}
	}
	return rel, nil
}

// homecoming is a declaration that is being taken back.
type homecoming struct {
	declaration
	rel *catalog.Relation
	// released are the table's foreign keys on sharded tables, by the referenced table.
	released map[catalog.Name][]directory.ForeignKey
}

// move does everything from dialling to the last entry in the directory.
func (u *homecoming) move() error {
	defer u.close()
	for _, s := range []struct {
		name string
		run  func() error
	}{
		{"dialled", u.dial},
		{"locked", u.lock},
		{"released", u.release},
		{"copied", u.collect},
		{"restored", u.restore},
		{"filled", u.note},
		{"home committed", func() error { return u.home.run("COMMIT") }},
	} {
		if err := s.run(); err != nil {
			return err
		}
		if err := u.cfg.step(s.name); err != nil {
			return err
		}
	}
	// The locks of these transactions would keep the tables from being dropped.
	for _, s := range u.shards {
		if err := s.run("ROLLBACK"); err != nil {
			return err
		}
	}
	if err := u.home.run("BEGIN"); err != nil {
		return err
	}
	return u.finish(u.ctx, u.home, u.snap, &u.table)
}

// lock takes the table's lock everywhere, home first.
func (u *homecoming) lock() error {
	err := lockTable(u.home, u.req)
	if err != nil {
		return err
	}
	if u.snap, err = u.load(u.ctx, u.req.Database); err != nil {
		return err
	}
	own := u.snap.Table(u.table.Database, u.table.Schema, u.table.Name)
	if own == nil || own.Job.ID != u.table.Job.ID || own.Job.Proxy != u.table.Job.Proxy {
		return errSuperseded
	}
	if u.rel, err = u.mayLeave(u.facts, u.home, u.snap, u.req); err != nil {
		return err
	}
	def, err := readDefinition(u.home, u.req.Table)
	if err == nil {
		err = stillTrusted(u.req, def)
	}
	if err != nil {
		return err
	}
	for _, s := range u.shards {
		if err := lockTable(s, u.req); err != nil {
			return err
		}
		if _, err := exempt(s, u.req.Table); err != nil { // the transaction is rolled back later
			return err
		}
	}
	u.forced, err = exempt(u.home, u.req.Table)
	return err
}

// release drops the foreign keys that a home table cannot have: those on sharded tables. The
// directory keeps them with the table that they reference.
func (u *homecoming) release() error {
	u.released = map[catalog.Name][]directory.ForeignKey{}
	for _, r := range tree(u.rel) {
		for _, fk := range r.ForeignKeys {
			to := u.snap.Table(u.req.Database, fk.References.Schema, fk.References.Name)
			if to == nil || to.Kind == directory.Reference || fk.References == u.req.Table {
				continue
			}
			name := fk.Table.SQL()
			definition, err := u.home.one("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = " + quote.Literal(name) + "::regclass AND conname = " + quote.Literal(fk.Name))
			if err != nil {
				return err
			}
			if err := u.home.run("ALTER TABLE " + name + " DROP CONSTRAINT " + quote.Ident(fk.Name)); err != nil {
				return err
			}
			u.released[fk.References] = append(u.released[fk.References], directory.ForeignKey{Schema: fk.Table.Schema, Table: fk.Table.Name, Name: fk.Name, Definition: definition})
			u.notice.tell("foreign key %q on %s is taken off, because the rows it references are on other shards; writes that it would check are refused until both tables are declared again", fk.Name, display(fk.References))
		}
	}
	return nil
}

// collect copies the rows of the other shards into home, one shard after the other. A reference
// table has all its rows at home already.
func (u *homecoming) collect() error {
	if u.table.Kind == directory.Reference {
		return nil
	}
	columns := u.columns()
	var total int64
	for _, s := range u.shards {
		n, err := s.one("SELECT count(*) FROM " + u.req.Table.SQL())
		if err != nil {
			return err
		}
		total += number(n)
	}
	u.notice.tell("%s: %d rows will move to the home shard", u.req.name(), total)
	on, err := quietTriggers(u.home, u.req.Table)
	if err != nil {
		return err
	}
	var done int64
	for _, s := range u.shards {
		base := done
		w := &splitter{all: true, progress: func(n int64) { u.notice.tell("%s: %d of %d rows copied", u.req.name(), base+n, total) }}
		query := "SELECT " + strings.Join(columns, ", ") + " FROM " + u.req.Table.SQL()
		taken, err := copyRows(s, query, []*session{u.home}, u.req.Table.SQL()+columnList(columns), w)
		if err != nil {
			return err
		}
		done += taken[u.home.shard]
	}
	if done != total {
		return fmt.Errorf("the home shard took %d rows of %d", done, total)
	}
	return u.home.run(on...)
}

// columns returns the quoted columns that hold data.
func (u *homecoming) columns() []string {
	var out []string
	for _, c := range u.rel.Columns {
		if !c.Generated {
			out = append(out, quote.Ident(c.Name))
		}
	}
	return out
}

// restore brings back the foreign keys that were dropped when the table was declared, and marks the
// table.
func (u *homecoming) restore() error {
	own := u.snap.Table(u.table.Database, u.table.Schema, u.table.Name)
	for _, fk := range own.ForeignKeys {
		there, err := u.home.one("SELECT to_regclass(" + quote.Literal(catalog.Name{Schema: fk.Schema, Name: fk.Table}.SQL()) + ")")
		if err != nil {
			return err
		}
		if there == "" {
			continue // dropped meanwhile
		}
		if err := u.home.run(restore(fk)); err != nil {
			return err
		}
	}
	if err := u.home.run(u.forced...); err != nil {
		return err
	}
	if own.IDs.Column != "" {
		if err := u.home.run(dropRouting(u.req.Table)); err != nil {
			return err
		}
	}
	return u.home.run("SET CONSTRAINTS ALL IMMEDIATE", addMark(u.req.Table, u.table.Job.ID))
}

// note enters the foreign keys that wait into the directory, before they are dropped for good.
func (u *homecoming) note() error {
	return u.phase(u.ctx, &u.table, directory.Filled, func(next *directory.Snapshot, _ *directory.Table) {
		for name, list := range u.released {
			if t := next.Table(u.req.Database, name.Schema, name.Name); t != nil {
				t.ForeignKeys = append(t.ForeignKeys, list...)
			}
		}
	})
}
