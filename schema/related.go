package schema

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"weft/catalog"
	"weft/pgerr"
	"weft/planner"
)

// Related returns the request and one for each table that foreign keys tie to its table, in either
// direction, and tells which they are: they are declared together, by the columns that reference the key. A
// table that is declared already is left alone.
func (o *Online) Related(ctx context.Context, req Request, notice Notice) ([]Request, error) {
	snap, err := o.m.load(ctx, req.Database)
	if err != nil {
		return nil, err
	}
	facts, err := open(ctx, o.m.cfg.Shards, snap.Home, req.Database, req.User, "weft")
	if err != nil {
		return nil, err
	}
	defer facts.close()
	schema, err := catalog.Load(0, facts.Exec)
	if err != nil {
		return nil, o.m.ended(ctx, err)
	}
	return related(schema, req, func(n catalog.Name) bool { return snap.Table(req.Database, n.Schema, n.Name) != nil }, notice)
}

// related is Related by what is known.
func related(schema *catalog.Schema, req Request, declared func(catalog.Name) bool, notice Notice) ([]Request, error) {
	out := []Request{req}
	at := map[catalog.Name]int{req.Table: 0}
	for i := 0; i < len(out); i++ {
		rel := schema.Relation(out[i].Table)
		if rel == nil {
			return nil, pgerr.New(pgerr.UndefinedTable, "relation %q does not exist", out[i].name())
		}
		for _, r := range tree(rel) {
			for k, fk := range slices.Concat(r.ForeignKeys, r.Referenced) {
				mine, other, theirs := fk.Columns, root(schema, fk.References), fk.RefColumns
				if k >= len(r.ForeignKeys) {
					mine, other, theirs = fk.RefColumns, root(schema, fk.Table), fk.Columns
				}
				if other == out[i].Table || declared(other) {
					continue
				}
				var columns []string
				for _, c := range out[i].Columns {
					if k := slices.Index(mine, c); k >= 0 && k < len(theirs) {
						columns = append(columns, theirs[k])
					}
				}
				if len(columns) != len(out[i].Columns) && req.Links == InShard && hasColumns(schema, other, out[i].Columns) {
					columns = out[i].Columns // the foreign key gets the key: see KeyLinks
				}
				if len(columns) != len(out[i].Columns) {
					return nil, pgerr.New(pgerr.InvalidForeignKey, "foreign key %q ties %q and %q by other columns than the shard key %s of %q", fk.Name, display(fk.Table), display(fk.References),
						strings.Join(out[i].Columns, ", "), out[i].name()).
						WithHint("%s", relatedHint(schema, &fk, out[i].Columns))
				}
				if k, known := at[other]; known {
					if !slices.Equal(out[k].Columns, columns) {
						return nil, pgerr.New(pgerr.InvalidForeignKey, "foreign keys tie %q to the others by %s and by %s", display(other), strings.Join(out[k].Columns, ", "), strings.Join(columns, ", ")).
							WithHint("Only one of them can be the shard key: drop the other foreign key, or declare one of the tables as a reference table first.")
					}
					continue
				}
				next := req
				next.Table, next.Columns, next.IDs, next.IDColumn = other, columns, "", ""
				at[other] = len(out)
				out = append(out, next)
				notice.tell("%s is declared too, by %s: foreign key %q ties it to %s", display(other), strings.Join(columns, ", "), fk.Name, out[i].name())
			}
		}
	}
	return out, nil
}

// hasColumns reports whether a table has columns of these names.
func hasColumns(schema *catalog.Schema, table catalog.Name, names []string) bool {
	rel := schema.Relation(table)
	return rel != nil && !slices.ContainsFunc(names, func(n string) bool { return rel.Column(n) == nil })
}

// relatedHint tells how a foreign key can contain the shard key, if both tables have columns of its names.
func relatedHint(schema *catalog.Schema, fk *catalog.ForeignKey, keys []string) string {
	for _, n := range []catalog.Name{fk.Table, fk.References} {
		if !hasColumns(schema, n, keys) {
			return fmt.Sprintf("Declare %s as a reference table first, or leave the foreign key out. To shard both, both need the shard key (%s), and the foreign key must contain it.",
				display(fk.References), strings.Join(keys, ", "))
		}
	}
	return planner.OptionHint(schema, fk, keys, keys)
}

// root returns the table that a partition is a part of, or the name itself.
func root(schema *catalog.Schema, name catalog.Name) catalog.Name {
	rel := schema.Relation(name)
	for rel != nil && rel.Parent != nil {
		rel = rel.Parent
	}
	if rel == nil {
		return name
	}
	return rel.Name
}
