package schema

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/quote"
)

// A shard joins with everything that the others have alike: roles, databases, types and functions,
// declared tables, views of them, the rows of reference tables. All of it is read from the home
// shard and made while nobody looks: no proxy knows the shard yet. Whoever goes on after a death
// begins anew, with databases made anew: a comment tells those that weft has made for a shard that
// has not joined.

// CheckJoin refuses a server that cannot become the shard of that name.
func (m *Mover) CheckJoin(ctx context.Context, snap *directory.Snapshot, shard string) error {
	j, err := m.newJoin(ctx, snap, shard)
	if err != nil {
		return m.ended(ctx, err)
	}
	defer j.close()
	for _, step := range []func() error{j.checkServer, j.checkOther, j.checkEmpty, j.checkDatabases} {
		if err := step(); err != nil {
			return m.ended(ctx, err)
		}
	}
	return nil
}

// join makes a server ready to become a shard.
type join struct {
	*Mover
	ctx   context.Context
	snap  *directory.Snapshot
	shard string
	home  *session // in the maintenance database
	there *session // in the maintenance database of the new server
}

func (m *Mover) newJoin(ctx context.Context, snap *directory.Snapshot, shard string) (*join, error) {
	j := &join{Mover: m, ctx: ctx, snap: snap, shard: shard}
	var err error
	if j.home, err = j.open(snap.Home, maintenance); err != nil {
		return nil, err
	}
	if j.there, err = j.open(shard, maintenance); err != nil {
		j.close()
		return nil, err
	}
	return j, nil
}

func (j *join) open(shard, database string) (*session, error) {
	return open(j.ctx, j.cfg.Shards, shard, database, j.cfg.Service, "weft join "+j.shard)
}

func (j *join) close() {
	j.home.close()
	j.there.close()
}

// databases are those with declared tables.
func (j *join) databases() []string {
	var out []string
	for i := range j.snap.Tables {
		if d := j.snap.Tables[i].Database; !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// EquipShard makes on a server that is to join everything that shards have alike.
func (m *Mover) EquipShard(ctx context.Context, snap *directory.Snapshot, shard string) error {
	j, err := m.newJoin(ctx, snap, shard)
	if err != nil {
		return m.ended(ctx, err)
	}
	defer j.close()
	for _, database := range j.databases() {
		for _, t := range snap.Declared(database) {
			if t.State != directory.Active {
				return pgerr.New(pgerr.ObjectInUse, "%q is being %s", t.Schema+"."+t.Name, progress(t.State)).WithHint("Wait for it to end.")
			}
		}
		if err := j.equip(database); err != nil {
			return m.ended(ctx, fmt.Errorf("database %s: %w", database, err))
		}
		if err := m.cfg.step("equipped " + database); err != nil {
			return err
		}
	}
	return nil
}

// equip makes one database.
func (j *join) equip(database string) error {
	home, err := j.open(j.snap.Home, database)
	if err != nil {
		return err
	}
	defer home.close()
	req := &Request{Database: database, User: j.cfg.Service}
	d := &declaration{
		Mover: j.Mover, ctx: j.ctx, req: req, snap: j.snap.For(database), home: home,
		notice: func(e *pgerr.Error) {
			j.cfg.Log.Info("a shard joins", "shard", j.shard, "database", database, "notice", e.Message)
		},
	}
	if err := j.makeDatabase(d); err != nil {
		return err
	}
	s, err := j.open(j.shard, database)
	if err != nil {
		return err
	}
	defer s.close()
	d.shards = []*session{s}
	tables, err := j.makeTables(d, s)
	if err != nil {
		return err
	}
	for _, t := range tables {
		if t.reference {
			if _, err := j.fill(home, database, t.def); err != nil {
				return err
			}
		}
	}
	if err := j.complete(d, s, tables); err != nil {
		return err
	}
	if _, err := Install(j.ctx, j.cfg.Shards, j.snap.Cluster, j.shard, database, j.cfg.Service); err != nil {
		return err
	}
	if err := j.makeLookups(home, s); err != nil {
		return err
	}
	return j.makeGuards(database)
}

// makeDatabase makes the database anew, unless the server has an empty one.
func (j *join) makeDatabase(d *declaration) error {
	name := quote.Ident(d.req.Database)
	comment, err := j.there.one("SELECT coalesce(shobj_description(oid, 'pg_database'), '') FROM pg_database WHERE datname = " + quote.Literal(d.req.Database))
	if err != nil {
		return err
	}
	if comment == j.unjoined() {
		from := j.there
		if d.req.Database == maintenance {
			if from, err = j.open(j.shard, "template1"); err != nil {
				return err
			}
			defer from.close()
			j.there.close()
		}
		if err := from.run("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			return err
		}
		if err := d.makeDatabase(from); err != nil {
			return err
		}
		if d.req.Database == maintenance {
			if j.there, err = j.open(j.shard, maintenance); err != nil {
				return err
			}
		}
	} else if err := d.makeDatabase(j.there); err != nil {
		return err
	}
	return j.there.run("COMMENT ON DATABASE " + name + " IS " + quote.Literal(j.unjoined()))
}

// joining is a declared table on its way to the new server.
type joining struct {
	def       *Definition
	reference bool
}

// makeTables makes the roles and the tables, without what belongs after the rows.
func (j *join) makeTables(d *declaration, s *session) ([]*joining, error) {
	var tables []*joining
	for _, t := range d.snap.Declared(d.req.Database) {
		def, err := readDefinition(d.home, catalog.Name{Schema: t.Schema, Name: t.Name})
		if err != nil {
			return nil, err
		}
		tables = append(tables, &joining{def, t.Kind == directory.Reference})
	}
	if err := s.run("BEGIN"); err != nil {
		return nil, err
	}
	if err := d.bringRoles(s); err != nil {
		return nil, err
	}
	if err := d.bringRights(s); err != nil {
		return nil, err
	}
	err := inAnyOrder(s, tables, func(t *joining) error { return t.def.apply(s) })
	if err != nil {
		return nil, err
	}
	return tables, s.run("COMMIT")
}

// inAnyOrder does something with each item, in a transaction. What fails because of something that
// is missing is tried again after the others, as long as any succeeds.
func inAnyOrder[T any](s *session, items []T, do func(T) error) error {
	const point = `"\x01j"`
	for left := items; len(left) > 0; {
		var later []T
		var failed error
		for _, item := range left {
			if err := s.run("SAVEPOINT " + point); err != nil {
				return err
			}
			err := do(item)
			if err == nil {
				if err := s.run("RELEASE " + point); err != nil {
					return err
				}
				continue
			}
			if !missingSomething(err) {
				return err
			}
			if err := s.run("ROLLBACK TO "+point, "RELEASE "+point); err != nil {
				return err
			}
			later, failed = append(later, item), err
		}
		if len(later) == len(left) {
			return failed
		}
		left = later
	}
	return nil
}

// missingSomething reports whether an error says that something does not exist, or has no unique
// index that a foreign key needs.
func missingSomething(err error) bool {
	var e *pgerr.Error
	if !errors.As(err, &e) {
		return false
	}
	return slices.Contains([]string{pgerr.UndefinedTable, pgerr.UndefinedObject, pgerr.UndefinedFunction, pgerr.UndefinedColumn, pgerr.InvalidForeignKey, "3F000"}, e.Code)
}

// complete makes what belongs after the rows, the views, and what else users have made.
func (j *join) complete(d *declaration, s *session, tables []*joining) error {
	schema, err := catalog.Load(0, d.home.Exec)
	if err != nil {
		return err
	}
	if err := s.run("BEGIN"); err != nil {
		return err
	}
	var after []string
	for _, t := range tables {
		after = append(after, t.def.After...)
	}
	if err := inAnyOrder(s, after, func(sql string) error { return s.only(sql) }); err != nil {
		return err
	}
	for _, t := range tables {
		d.req.Table = t.def.Name
		d.seen = &sight{judgement: &judgement{snap: d.snap, schema: schema, def: t.def, req: d.req}, def: t.def}
		views, err := d.copiedViews()
		if err != nil {
			return err
		}
		if err := applyObjects(s, views); err != nil {
			return err
		}
	}
	if d.seen != nil {
		if err := d.bring(); err != nil {
			return err
		}
	}
	return s.run("COMMIT")
}

// makeLookups makes the lookup tables, which are empty: the shard has no buckets.
func (j *join) makeLookups(home, s *session) error {
	found, err := home.one("SELECT to_regclass('weft.lookup')")
	if err != nil || found == "" {
		return err
	}
	if err := installLookups(s); err != nil {
		return err
	}
	rows, err := home.Exec(`SELECT state, name, format('SELECT weft.lookup_add(%L, %L::regclass, %L::text[], %L::text[], %L::text[], %L::bool, coalesce(to_regclass(%L)::oid, 0), %L, %L, %L, '''')',
  name, owner::regclass, names[1:cardinality(columns)], names[cardinality(columns)+1:], types, single, CASE WHEN index <> 0 THEN index::regclass::text END, state, id_sql, bucket_sql) FROM weft.lookup ORDER BY name`)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r[0] != "public" {
			return pgerr.New(pgerr.ObjectInUse, "lookup %q is being made or dropped", r[1]).WithHint("Wait for it to end.")
		}
		if err := s.run("BEGIN", r[2], "SELECT weft.lookup_make("+quote.Literal(r[1])+")", "COMMIT"); err != nil {
			return err
		}
	}
	return nil
}

// makeGuards tells the server by which columns tables are sharded.
func (j *join) makeGuards(database string) error {
	var calls []string
	for _, t := range j.snap.Declared(database) {
		if guardable(t) {
			calls = append(calls, guardCall(&t))
		}
	}
	_, err := j.guard(j.ctx, &directory.Snapshot{Shards: []directory.Shard{{Name: j.shard}}}, database, calls)
	return err
}

// JoinShard says on the server that it has joined: its databases are no longer made anew.
func (m *Mover) JoinShard(ctx context.Context, snap *directory.Snapshot, shard string) error {
	j := &join{Mover: m, ctx: ctx, snap: snap, shard: shard}
	s, err := j.open(shard, maintenance)
	if err != nil {
		return err
	}
	defer s.close()
	for _, database := range j.databases() {
		comment, err := s.one("SELECT coalesce(shobj_description(oid, 'pg_database'), '') FROM pg_database WHERE datname = " + quote.Literal(database))
		if err == nil && comment == j.unjoined() {
			err = s.run("COMMENT ON DATABASE " + quote.Ident(database) + " IS NULL")
		}
		if err != nil {
			return err
		}
	}
	return nil
}
