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

// Routed ids: a generated id names the bucket of its row in its low bits, so that
// a statement that knows nothing but the id goes to one shard. What was there
// before, and what clients choose themselves, names nothing. So ids are trusted
// from a limit on that lies above all that were there, and a constraint on every
// shard keeps all from there on to the truth: PostgreSQL itself does not take a
// row whose id names another bucket.

// firstID is the least limit. Numbers that people and fixtures choose are below
// it, and of those that a double holds exactly it takes one in two million.
const firstID = 1 << 32

// lastID is the largest limit: beyond, ids would leave what a double (and so
// JavaScript) holds exactly.
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

// idColumn is the column that was named, else the one of the primary key that is
// generated.
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

// routeIDs chooses the limit, with nobody else at the table.
func (d *declaration) routeIDs() error {
	ids := &d.seen.verdict.table.IDs
	if ids.Column == "" {
		return nil
	}
	largest, err := d.home.one("SELECT coalesce(max(" + quote.Ident(ids.Column) + "), 0) FROM " + d.req.Table.SQL())
	if err != nil {
		return err
	}
	if !limitIDs(ids, number(largest), d.snap.BucketCount) {
		d.warn(fmt.Sprintf("%s has an id of %s: ids above it would not be exact in a double, so none is routed", d.req.name(), largest), "")
	}
	d.routing, err = routing(&d.seen.verdict.table, d.seen.verdict.vindex, d.snap.BucketCount)
	return err
}

// limitIDs trusts ids above one. It reports false if that leaves none.
func limitIDs(ids *directory.RoutedIDs, above int64, buckets int) bool {
	if above >= lastID-int64(buckets) {
		ids.From = directory.NoID
		return false
	}
	ids.From = max(firstID, (max(above, 0)/int64(buckets)+1)*int64(buckets))
	ids.Base = ids.From / int64(buckets)
	return true
}

// routing are the statements that keep a table's ids to the truth.
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
