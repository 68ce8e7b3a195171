package schema

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"weft/catalog"
	"weft/directory"
	"weft/quote"
)

// MatchReferences makes the copies of reference tables on a server that is to join equal to those
// of the home shard, and keeps them from changing until release is called. The caller holds writes
// over several shards. What is left of them on the home shard, such as prepared transactions, is
// waited for.
func (m *Mover) MatchReferences(ctx context.Context, snap *directory.Snapshot, shard string) (release func(), err error) {
	j := &join{Mover: m, ctx: ctx, snap: snap, shard: shard}
	var held []*session
	release = func() {
		for _, s := range held {
			s.close()
		}
	}
	for _, database := range j.databases() {
		home, err := j.open(snap.Home, database)
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, home)
		if err := j.match(home, database); err != nil {
			release()
			return nil, m.ended(ctx, fmt.Errorf("database %s: %w", database, err))
		}
	}
	return release, nil
}

// match makes the copies of one database equal, in a transaction on home that stays open.
func (j *join) match(home *session, database string) error {
	if err := home.run("BEGIN"); err != nil {
		return err
	}
	var tables []catalog.Name
	for _, t := range j.snap.Declared(database) {
		if t.Kind == directory.Reference {
			tables = append(tables, catalog.Name{Schema: t.Schema, Name: t.Name})
		}
	}
	if len(tables) == 0 {
		return nil
	}
	var names []string
	for _, t := range tables {
		names = append(names, t.SQL())
	}
	if err := home.run("LOCK TABLE " + strings.Join(names, ", ") + " IN SHARE ROW EXCLUSIVE MODE"); err != nil {
		return err
	}
	s, err := j.open(j.shard, database)
	if err != nil {
		return err
	}
	defer s.close()
	for _, t := range tables {
		same, err := sameRows(home, s, t)
		if err != nil {
			return err
		}
		if same {
			continue
		}
		def, err := readDefinition(home, t)
		if err != nil {
			return err
		}
		if _, err := j.fill(home, database, def); err != nil {
			return err
		}
		if same, err = sameRows(home, s, t); err != nil || !same {
			return errors.Join(err, fmt.Errorf("the copy of %s differs from the home shard's after it was made anew", t.SQL()))
		}
	}
	return nil
}

// sameRows reports whether two shards have the same rows of a table.
func sameRows(a, b *session, table catalog.Name) (bool, error) {
	columns, err := a.one("SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = " + quote.Literal(table.SQL()) + "::regclass AND attnum > 0 AND NOT attisdropped")
	if err != nil {
		return false, err
	}
	// The sum of two halves of each row's hash is the same for the same rows in any order.
	query := "SELECT count(*) || ' ' || coalesce(sum(('x' || left(h, 15))::bit(60)::bigint), 0)::text || ' ' || coalesce(sum(('x' || right(h, 15))::bit(60)::bigint), 0)::text FROM (SELECT md5(ROW(" +
		columns + ")::text) h FROM " + table.SQL() + ") q"
	x, err := a.one(query)
	if err != nil {
		return false, err
	}
	y, err := b.one(query)
	return x == y, err
}

// fill copies the rows of a reference table to the new server. It runs as the table's owner there
// if storing the rows runs code that nobody else should run.
func (j *join) fill(home *session, database string, def *Definition) (int64, error) {
	user := j.cfg.Service
	if def.steward != "" {
		user = def.steward
	}
	s, err := open(j.ctx, j.cfg.Shards, j.shard, database, user, "weft join "+j.shard)
	if err != nil {
		return 0, err
	}
	defer s.close()
	name := def.Name.SQL()
	if err := s.run("BEGIN"); err != nil {
		return 0, err
	}
	forced, err := exempt(s, def.Name)
	if err != nil {
		return 0, err
	}
	on, err := quietTriggers(s, def.Name)
	if err != nil {
		return 0, err
	}
	if err := s.run("DELETE FROM " + name); err != nil {
		return 0, err
	}
	split := &splitter{all: true, progress: func(int64) {}}
	taken, err := copyRows(home, "SELECT "+strings.Join(def.Columns, ", ")+" FROM "+name, []*session{s}, name+columnList(def.Columns), split)
	if err != nil {
		return 0, err
	}
	if err := s.run(append(append(on, forced...), "COMMIT")...); err != nil {
		return 0, err
	}
	return taken[j.shard], s.run("ANALYZE " + name)
}
