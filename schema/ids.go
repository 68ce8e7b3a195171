package schema

import (
	"fmt"
	"slices"

	"weft/catalog"
	"weft/datum"
	"weft/directory"
	"weft/pgerr"
	"weft/quote"
	"weft/vindex"
)

// Routed ids: a generated id names the bucket of its row in its low bits, so that a statement that
// knows only the id goes to one shard. Ids from before the declaration, and ids that clients
// choose, name no bucket. So ids are trusted from a limit on, which lies above all ids that were
// there, and a constraint on every shard keeps the ids from there on true: PostgreSQL itself
// refuses a row whose id names another bucket.

// firstID is the least limit. Numbers that people and fixtures choose are below it, and it uses up
// one in two million of the integers that a double holds exactly.
const firstID = 1 << 32

// lastID is the largest limit: larger ids are not exact in a double, and so not in JavaScript.
const lastID = 1 << 53

// ids finds the column of routed ids.
func (j *judgement) ids() error {
	switch {
	case j.req.IDs == "" && j.req.IDColumn == "":
		return nil
	case j.req.IDs != "routed":
		return refuse(pgerr.InvalidParameterValue, "ids can be 'routed', not %q", j.req.IDs)
	}
	if _, ok := j.out.vindex.(vindex.Computed); !ok {
		return refuse(pgerr.FeatureNotSupported, "ids of %q cannot be routed: where its rows are is looked up", j.req.name()).
			WithHint("A constraint must be able to tell a row's bucket, so routed ids need a vindex that is computed, such as hash.")
	}
	c, err := j.idColumn()
	if err != nil {
		return err
	}
	switch {
	case slices.Contains(j.req.Columns, c.Name):
		return refuse(pgerr.InvalidTableDefinition, "column %q is part of the shard key: it needs no routing", c.Name)
	case c.Sequence.Name == "":
		return refuse(pgerr.InvalidTableDefinition, "column %q draws no values from a sequence, so weft cannot make routed ids for it", c.Name).
			WithHint("Make it bigserial or GENERATED … AS IDENTITY.")
	case c.Base != uint32(datum.Int8) || c.Type != c.Base:
		return refuse(pgerr.InvalidTableDefinition, "column %q is of type %s, and routed ids are of type bigint", c.Name, c.TypeName).
			WithHint("ALTER TABLE %s ALTER COLUMN %s TYPE bigint.", j.req.name(), quote.Ident(c.Name))
	}
	j.out.table.IDs = directory.RoutedIDs{Column: c.Name, From: directory.NoID}
	return nil
}

// idColumn returns the column that the declaration names, or else the generated column of the
// primary key.
func (j *judgement) idColumn() (*catalog.Column, error) {
	if name := j.req.IDColumn; name != "" {
		if c := j.rel.Column(name); c != nil {
			return c, nil
		}
		return nil, refuse(pgerr.UndefinedColumn, "column %q of relation %q does not exist", name, j.req.name())
	}
	for _, u := range j.rel.Unique {
		for _, name := range u.Columns {
			if c := j.rel.Column(name); u.Primary && c != nil && c.Sequence.Name != "" && !slices.Contains(j.req.Columns, name) {
				return c, nil
			}
		}
	}
	return nil, refuse(pgerr.InvalidTableDefinition, "the primary key of %q has no generated column whose ids could be routed", j.req.name()).
		WithHint("Name the column: ids => 'routed', ids_column => '…'.")
}

// routeIDs chooses the limit while the table is locked.
func (d *declaration) routeIDs() error {
	ids := &d.seen.verdict.table.IDs
	if ids.Column == "" {
		return nil
	}
	largest, err := d.home.one("SELECT coalesce(max(" + quote.Ident(ids.Column) + "), 0) FROM " + d.req.Table.SQL())
	if err != nil {
		return err
	}
	if !limitIDs(ids, number(largest), ids.Of(d.snap.BucketCount)) {
		d.warn(fmt.Sprintf("%s has an id of %s: ids above it would not be exact in a double, so none is routed", d.req.name(), largest), "")
	}
	d.routing, err = routing(&d.seen.verdict.table, d.seen.verdict.vindex, ids.Of(d.snap.BucketCount))
	return err
}

// limitIDs trusts the ids above a number. It reports false if no ids are left.
func limitIDs(ids *directory.RoutedIDs, above int64, buckets int) bool {
	if above >= lastID-int64(buckets) {
		ids.From = directory.NoID
		return false
	}
	ids.From = max(firstID, (max(above, 0)/int64(buckets)+1)*int64(buckets))
	ids.Base = ids.From / int64(buckets)
	return true
}

// routing returns the statements that keep a table's ids true.
func routing(t *directory.Table, v vindex.Vindex, buckets int) ([]string, error) {
	computed, ok := v.(vindex.Computed)
	if !ok || t.IDs.From == directory.NoID {
		return nil, nil
	}
	var columns []string
	for _, c := range t.Columns {
		columns = append(columns, quote.Ident(c.Name))
	}
	bucket, err := vindex.BucketSQL(computed, columns, buckets)
	if err != nil {
		return nil, err
	}
	id := quote.Ident(t.IDs.Column)
	// A key without a place gives NULL, which a CHECK would take for true.
	return []string{fmt.Sprintf("ALTER TABLE %s ADD CONSTRAINT %s CHECK (%s < %d OR coalesce((%s & %d) = (%s), false))",
		catalog.Name{Schema: t.Schema, Name: t.Name}.SQL(), directory.IDConstraint, id, t.IDs.From, id, buckets-1, bucket)}, nil
}

func dropRouting(table catalog.Name) string {
	return "ALTER TABLE " + table.SQL() + " DROP CONSTRAINT IF EXISTS " + directory.IDConstraint
}
