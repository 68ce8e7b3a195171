package schema

import (
	"context"
	"errors"
	"slices"
	"strings"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/quote"
)

// Foreign keys without the shard key. A shard checks a foreign key among its own rows, so one of (owner) on (id) would hold
// only while both rows happen to be on one shard, and a move of the bucket of one of them would
// leave an orphan. With foreign_keys => 'shard' each foreign key gets the shard keys of both tables in front of
// its columns: PostgreSQL then checks that both rows have the same shard key, and rows of one key are in one bucket, which moves
// as a whole. The referenced table gets the unique constraint that this needs.

// InShard is the value of Request.Links for foreign keys that are kept inside shards.
const InShard = "shard"

// link is a foreign key that gets the shard key.
type link struct {
	was, now catalog.ForeignKey
	// here: the referenced rows are on the home shard, where the foreign key can be checked before anything moves.
	here bool
	// made is the name under which the new foreign key is there already, empty for none.
	made string
}

// links are the changes of home tables that let foreign keys contain the shard key.
type links struct {
	uniques []unique
	keyed   []link
	// inside: the changes are made in a transaction of all shards, so that declared tables can be changed too.
	inside bool
}

// unique is a constraint that a table gets.
type unique struct {
	table   catalog.Name
	columns []string
	index   string // made for the constraint; empty for none
	all     bool   // the table is declared, and every shard makes the constraint
}

// KeyLinks gives the foreign keys of tables that are about to be declared the shard keys, in a transaction of its own on the
// home shard. If rows reference rows of another shard key, or if the tables could not be declared then, nothing
// changes and the reason is returned. online says that the tables can be declared in no other way.
func (m *Mover) KeyLinks(ctx context.Context, reqs []Request, online bool, notice Notice) error {
	if !slices.ContainsFunc(reqs, func(r Request) bool { return r.Links == InShard }) {
		return nil
	}
	snap, err := m.load(ctx, reqs[0].Database)
	if err != nil {
		return err
	}
	s, err := open(ctx, m.cfg.Shards, snap.Home, reqs[0].Database, reqs[0].User, "weft")
	if err != nil {
		return err
	}
	defer s.close()
	k := &keying{Mover: m, ctx: ctx, s: s, snap: snap, reqs: reqs, online: online}
	if err := k.find(); err != nil || len(k.found.uniques)+len(k.found.keyed) == 0 {
		return m.ended(ctx, err)
	}
	if err := k.run(); err != nil {
		k.undo()
		return m.ended(ctx, k.named(err))
	}
	k.found.tell(notice)
	return nil
}

// keying is a change of foreign keys under way.
type keying struct {
	*Mover
	ctx    context.Context
	s      *session // of the home shard
	snap   *directory.Snapshot
	reqs   []Request
	online bool
	schema *catalog.Schema
	found  *links
	made   []string // statements that take back what prepare has made
}

func (k *keying) run() error {
	for _, step := range []func() error{k.rows, k.prepare, k.change, k.judge, func() error { return k.s.run("COMMIT") }} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// named names the rows that clients have written since rows has looked, if they are the reason for an error.
func (k *keying) named(err error) error {
	var e *pgerr.Error
	if !errors.As(err, &e) || e.Code != pgerr.ForeignKeyViolation || k.s.run("ROLLBACK") != nil {
		return err
	}
	if now := k.rows(); errors.As(now, &e) && e.Code == pgerr.ForeignKeyViolation {
		return now
	}
	return err
}

// find reads the tables and finds what has to change.
func (k *keying) find() error {
	schema, err := catalog.Load(0, k.s.Exec)
	if err != nil {
		return err
	}
	for i := range k.reqs {
		if schema.Relation(k.reqs[i].Table) == nil {
			return pgerr.New(pgerr.UndefinedTable, "relation %q does not exist", k.reqs[i].name())
		}
		if err := owner(k.s, &k.reqs[i]); err != nil {
			return err
		}
	}
	k.schema = schema
	k.found, err = findLinks(&links{}, schema, k.snap, k.reqs)
	return err
}

// rows refuses rows that the new foreign keys would not allow. It takes no lock: a row that is written afterwards makes change fail.
func (k *keying) rows() error {
	if err := k.s.run("BEGIN"); err != nil {
		return err
	}
	var found []offence
	for i := range k.found.keyed {
		if l := &k.found.keyed[i]; l.here && countable(k.schema, &l.now) {
			o, err := offenders(&l.now, []probe{{k.s, "true"}})
			if err != nil {
				return err
			}
			found = append(found, o...)
		}
	}
	if err := k.s.run("ROLLBACK"); err != nil {
		return err
	}
	return refuseOffences(found)
}

// change makes the unique constraints and changes the foreign keys, in a transaction that it leaves open.
func (k *keying) change() error {
	if err := k.lock("ACCESS EXCLUSIVE", k.tables()); err != nil {
		return err
	}
	for _, u := range k.found.uniques {
		add := " ADD UNIQUE (" + quote.Idents(u.columns) + ")"
		if u.index != "" {
			add = " ADD CONSTRAINT " + quote.Ident(u.index) + " UNIQUE USING INDEX " + quote.Ident(u.index)
		}
		if err := k.s.run("ALTER TABLE " + u.table.SQL() + add); err != nil {
			return err
		}
	}
	for i := range k.found.keyed {
		l := &k.found.keyed[i]
		alter, name := "ALTER TABLE "+l.was.Table.SQL(), quote.Ident(l.was.Name)
		statements := []string{alter + " DROP CONSTRAINT " + name + ", ADD CONSTRAINT " + name + " " + l.now.Definition}
		if l.made != "" {
			statements = []string{alter + " DROP CONSTRAINT " + name, alter + " RENAME CONSTRAINT " + quote.Ident(l.made) + " TO " + name}
		}
		if err := k.s.only(statements...); err != nil {
			return err
		}
	}
	return nil
}

// judge judges the declarations by what the transaction has changed: a refusal takes the changes back.
func (k *keying) judge() error {
	facts := &session{Conn: insideConn{k.s.Conn}, ctx: k.ctx, shard: k.s.shard}
	if !k.online {
		_, err := k.look(facts, k.s, k.snap, &k.reqs[0], directory.Sharded)
		return err
	}
	d := &declarations{Mover: k.Mover, ctx: k.ctx, move: directory.Move{Database: k.reqs[0].Database}, reqs: slices.Clone(k.reqs)}
	for i := range d.reqs {
		d.reqs[i].group = "links"
	}
	return d.look(facts, k.s, k.snap)
}

func (ls *links) tell(notice Notice) {
	for _, u := range ls.uniques {
		notice.tell("%s has a unique constraint on (%s) now, for foreign keys that contain the shard key", display(u.table), strings.Join(u.columns, ", "))
	}
	for i := range ls.keyed {
		tellKeyed(notice, &ls.keyed[i].now)
	}
}

func tellKeyed(notice Notice, fk *catalog.ForeignKey) {
	notice.tell("foreign key %q of %s contains the shard key now: (%s) references %s (%s)", fk.Name, display(fk.Table),
		strings.Join(fk.Columns, ", "), display(fk.References), strings.Join(fk.RefColumns, ", "))
}

// findLinks adds to out what has to change before tables are declared. What no foreign key can contain is left to the judge.
func findLinks(out *links, schema *catalog.Schema, snap *directory.Snapshot, reqs []Request) (*links, error) {
	key := func(n catalog.Name) (columns []string, declared bool) {
		for i := range reqs {
			if reqs[i].Table == n {
				return reqs[i].Columns, false
			}
		}
		if t := snap.Table(reqs[0].Database, n.Schema, n.Name); t != nil && t.Kind == directory.Sharded && t.State == directory.Active {
			return keyColumns(t), true
		}
		return nil, false
	}
	for i := range reqs {
		rel := schema.Relation(reqs[i].Table)
		if slices.ContainsFunc(reqs[i].Columns, func(c string) bool { return rel.Column(c) == nil }) {
			return &links{}, nil // the judge says so
		}
		out.referable(rel, reqs[i].Columns)
	}
	for i := range reqs {
		rel := schema.Relation(reqs[i].Table)
		for _, fk := range rel.ForeignKeys {
			to, declared := key(root(schema, fk.References))
			if len(to) == 0 || fk.Contains(reqs[i].Columns, to) {
				continue
			}
			now, ok := fk.Keyed(reqs[i].Columns, to)
			if !ok {
				continue
			}
			if err := out.add(schema, rel, link{was: fk, now: now, here: !declared}); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// referable gives a table the unique constraints that foreign keys on the table need when they contain its shard key.
func (ls *links) referable(rel *catalog.Relation, keys []string) {
	for _, fk := range rel.Referenced {
		columns := fk.RefColumns
		var all []string
		for _, k := range keys {
			if !slices.Contains(columns, k) {
				all = append(all, k)
			}
		}
		if all = append(all, columns...); len(all) > len(columns) && !rel.HasUnique(all) {
			ls.unique(rel.Name, all)
		}
	}
}

func (ls *links) unique(table catalog.Name, columns []string) {
	if !slices.ContainsFunc(ls.uniques, func(u unique) bool { return u.table == table && sameSet(u.columns, columns) }) {
		ls.uniques = append(ls.uniques, unique{table: table, columns: columns})
	}
}

// add notes a foreign key that is to contain the shard key.
func (ls *links) add(schema *catalog.Schema, rel *catalog.Relation, l link) error {
	for _, name := range l.now.Columns[:len(l.now.Columns)-len(l.was.Columns)] {
		if c := rel.Column(name); c == nil || !c.NotNull {
			return refuse(pgerr.InvalidForeignKey, "foreign key %q of %q cannot contain the key column %q, which may be NULL", l.was.Name, display(rel.Name), name).
				WithDetail("PostgreSQL does not check a foreign key of several columns if one of them is NULL.").
				WithHint("ALTER TABLE %s ALTER COLUMN %s SET NOT NULL, and declare the table again.", display(rel.Name), quote.Ident(name))
		}
	}
	other := schema.Relation(l.was.References)
	planned := slices.ContainsFunc(ls.uniques, func(u unique) bool { return u.table == l.was.References && sameSet(u.columns, l.now.RefColumns) })
	switch {
	case other == nil || planned || other.HasUnique(l.now.RefColumns):
	case l.here:
		ls.unique(l.was.References, l.now.RefColumns)
	case ls.inside:
		ls.uniques = append(ls.uniques, unique{table: l.was.References, columns: l.now.RefColumns, all: true})
	default:
		return refuse(pgerr.InvalidForeignKey, "foreign key %q of %q needs a unique constraint on (%s) of %q", l.was.Name, display(rel.Name),
			strings.Join(l.now.RefColumns, ", "), display(l.was.References)).
			WithHint("ALTER TABLE %s ADD UNIQUE (%s), and declare the table again.",
				display(l.was.References), quote.Idents(l.now.RefColumns))
	}
	ls.keyed = append(ls.keyed, l)
	return nil
}

// keyWaiting gives foreign keys that wait for the table's declaration the shard keys.
func (j *judgement) keyWaiting() error {
	if j.req.Links != InShard {
		return nil
	}
	for i, fk := range j.out.restored {
		parsed, err := parseForeignKey(fk)
		if err != nil {
			return err
		}
		to := j.declared(parsed.References)
		if to == nil || to.Kind != directory.Sharded || parsed.Contains(j.req.Columns, keyColumns(to)) {
			continue
		}
		now, ok := parsed.Keyed(j.req.Columns, keyColumns(to))
		if !ok {
			continue
		}
		if err := (&links{}).add(j.schema, j.rel, link{was: parsed, now: now}); err != nil {
			return err
		}
		j.out.restored[i].Definition = now.Definition
		j.out.keyed = append(j.out.keyed, now)
	}
	return nil
}

// checkKeyed refuses rows that foreign keys which wait for the declaration would not allow. The rows are on their shards by now, and
// still at home.
func (d *declaration) checkKeyed() error {
	var found []offence
	for i := range d.seen.verdict.keyed {
		if !countable(d.seen.judgement.schema, &d.seen.verdict.keyed[i]) {
			continue
		}
		probes := []probe{{d.home, "NOT (" + d.leaving() + ")"}}
		for _, s := range d.shards {
			probes = append(probes, probe{s, "true"})
		}
		o, err := offenders(&d.seen.verdict.keyed[i], probes)
		if err != nil {
			return err
		}
		found = append(found, o...)
	}
	if err := refuseOffences(found); err != nil {
		return err
	}
	for i := range d.seen.verdict.keyed {
		tellKeyed(d.notice, &d.seen.verdict.keyed[i])
	}
	return nil
}
