package schema

import (
	"fmt"
	"strings"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/planner"
	"weft/quote"
)

// empty deletes from home the rows that other shards hold now, and marks the table, in the
// transaction that commits last.
func (d *declaration) empty() error {
	if err := d.releaseForeignKeys(); err != nil {
		return err
	}
	if d.kind == directory.Sharded && d.moving > 0 {
		if err := d.deleteMoved(); err != nil {
			return err
		}
	}
	if err := d.home.run(d.forced...); err != nil {
		return err
	}
	if err := d.home.run(d.routing...); err != nil {
		return err
	}
	for _, fk := range d.seen.verdict.restored {
		if err := d.home.run(restore(fk)); err != nil {
			return err
		}
	}
	return d.home.run("SET CONSTRAINTS ALL IMMEDIATE", addMark(d.req.Table, d.table.Job.ID))
}

func addMark(table catalog.Name, id string) string {
	return "ALTER TABLE " + table.SQL() + " ADD CONSTRAINT " + quote.Ident(mark(id)) + " CHECK (true) NOT VALID"
}

// deleteMoved deletes the moved rows with the user's triggers off: to the user nothing is deleted,
// the rows are elsewhere.
func (d *declaration) deleteMoved() error {
	on, err := quietTriggers(d.home, d.req.Table)
	if err != nil {
		return err
	}
	n, err := d.home.one("WITH gone AS (DELETE FROM " + d.req.Table.SQL() + " WHERE " + d.leaving() + " RETURNING 1) SELECT count(*) FROM gone")
	if err != nil {
		return err
	}
	if number(n) != d.moving {
		return fmt.Errorf("%s rows left the home shard, %d were copied", n, d.moving)
	}
	return d.home.run(on...)
}

// exempt switches off policies that bind the table's owner, which would hide rows, and returns the
// statements that switch them on again.
func exempt(s *session, table catalog.Name) ([]string, error) {
	rows, err := s.Exec(`SELECT c.oid::regclass FROM pg_class c WHERE relforcerowsecurity AND oid IN (SELECT ` + quote.Literal(table.SQL()) + `::regclass UNION ALL SELECT relid FROM pg_partition_tree(` + quote.Literal(table.SQL()) + `))`)
	if err != nil {
		return nil, err
	}
	var again []string
	for _, r := range rows {
		if err := s.run("ALTER TABLE " + r[0] + " NO FORCE ROW LEVEL SECURITY"); err != nil {
			return nil, err
		}
		again = append(again, "ALTER TABLE "+r[0]+" FORCE ROW LEVEL SECURITY")
	}
	return again, nil
}

// quietTriggers switches the user's triggers off and returns the statements that put them back as
// they were.
func quietTriggers(s *session, table catalog.Name) ([]string, error) {
	rows, err := s.Exec(`SELECT format('ALTER TABLE %s DISABLE TRIGGER %I', tgrelid::regclass, tgname), format('ALTER TABLE %s %s TRIGGER %I', tgrelid::regclass,
  CASE tgenabled WHEN 'O' THEN 'ENABLE' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE ALWAYS' END, tgname)
FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D' AND tgrelid IN (SELECT ` + quote.Literal(table.SQL()) + `::regclass UNION SELECT relid FROM pg_partition_tree(` + quote.Literal(table.SQL()) + `))
ORDER BY tgparentid <> 0, tgrelid::regclass::text, tgname`)
	if err != nil {
		return nil, err
	}
	// Without weft.quiet, lookups would enable their triggers again at once.
	if err := s.run("SET LOCAL weft.quiet = on"); err != nil {
		return nil, err
	}
	var on []string
	for _, r := range rows {
		if err := s.run(r[0]); err != nil {
			return nil, err
		}
		on = append(on, r[1])
	}
	return append(on, "SET LOCAL weft.quiet = off"), nil
}

// releaseForeignKeys drops the foreign keys of home tables that have rows: the rows they reference
// are about to leave. An empty table keeps its foreign keys.
func (d *declaration) releaseForeignKeys() error {
	for _, fk := range d.seen.verdict.incoming {
		name := fk.Table.SQL()
		if err := d.home.run("LOCK TABLE " + name + " IN SHARE ROW EXCLUSIVE MODE"); err != nil {
			return err
		}
		rows, err := d.home.one("SELECT EXISTS (SELECT FROM " + name + ")")
		if err != nil {
			return err
		}
		if rows != "t" {
			continue
		}
		definition, err := d.home.one("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = " + quote.Literal(name) + "::regclass AND conname = " + quote.Literal(fk.Name))
		if err != nil {
			return err
		}
		if definition == "" {
			continue // dropped meanwhile: only the declared table stays locked
		}
		if err := d.home.run("ALTER TABLE " + name + " DROP CONSTRAINT " + quote.Ident(fk.Name)); err != nil {
			return err
		}
		d.dropped = append(d.dropped, directory.ForeignKey{Schema: fk.Table.Schema, Table: fk.Table.Name, Name: fk.Name, Definition: definition})
		d.notice(&pgerr.Error{
			Severity: pgerr.SeverityNotice, Code: "00000",
			Message: fmt.Sprintf("foreign key %q of %s is taken off, because the rows it references leave the home shard; writes that it would check are refused until %s is declared too, which brings it back",
				fk.Name, display(fk.Table), display(fk.Table)),
			Hint: d.next(fk),
		})
	}
	return nil
}

// next suggests how to declare the table that references this one.
func (d *declaration) next(fk catalog.ForeignKey) string {
	var key []string
	for _, c := range d.seen.verdict.table.Columns {
		for i, ref := range fk.RefColumns {
			if ref == c.Name {
				key = append(key, fk.Columns[i])
			}
		}
	}
	if len(key) != len(d.seen.verdict.table.Columns) {
		keys := keyColumns(&d.seen.verdict.table)
		if _, ok := fk.Keyed(keys, keys); ok && d.req.Links == InShard && hasColumns(d.seen.judgement.schema, fk.Table, keys) {
			return fmt.Sprintf("SELECT weft.shard_table(%s, %s, foreign_keys => 'shard');", quote.Literal(display(fk.Table)), quote.Literal(strings.Join(keys, ", ")))
		}
		return fmt.Sprintf("The foreign key does not contain the shard key of %s: %s cannot be sharded beside it before it does. ", d.req.name(), display(fk.Table)) +
			planner.OptionHint(d.seen.judgement.schema, &fk, keys, keys)
	}
	return fmt.Sprintf("SELECT weft.shard_table(%s, %s);", quote.Literal(display(fk.Table)), quote.Literal(strings.Join(key, ", ")))
}
