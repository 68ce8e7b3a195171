package schema

import (
	"encoding/json"
	"fmt"
	"slices"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/quote"
)

// DDL on a sharded table may need a new lookup (a unique constraint that single shards cannot
// keep), or change the rows that a lookup must know (a partition that comes or goes). The lookup
// follows on all shards in the transaction of the command: both happen, or neither does. No session
// can write the table meanwhile.

// LookupStep is a change of a lookup that every shard makes.
type LookupStep struct {
	// Do is "make" for a new lookup, "anew" to make all its entries again, "add" or "take" for the
	// entries of the rows of a table that becomes a partition or stops being one.
	Do   string `json:"do"`
	Name string `json:"name"`
	// Table is the table whose rows get or lose entries.
	Table   string   `json:"table"`
	Columns []string `json:"columns,omitempty"`
	Keys    []string `json:"keys,omitempty"`
	Types   []string `json:"types,omitempty"`
	Index   string   `json:"index,omitempty"`
	ID      string   `json:"id,omitempty"`
	Bucket  string   `json:"bucket,omitempty"`

	spec *lookupSpec
}

// FollowSQL does a step. Its parameters are the step's text and the proof of the call "follow" with
// this text.
const FollowSQL = "SELECT weft.lookup_follow($1, $2)"

// Text is the step as FollowSQL takes it.
func (l *LookupStep) Text() (string, error) {
	text, err := json.Marshal(l)
	return string(text), err
}

// Duplicated returns the error of PostgreSQL for a unique index over a value that is there twice.
func (l *LookupStep) Duplicated(value string) error { return l.spec.duplicated([]string{value}) }

// UniqueSteps returns the steps that make the lookups which the unique indexes of a table need and
// lack.
func UniqueSteps(schema *catalog.Schema, snap *directory.Snapshot, database string, table catalog.Name) ([]*LookupStep, error) {
	rel, t := schema.Relation(table), snap.Table(database, table.Schema, table.Name)
	if rel == nil || t == nil || t.Kind != directory.Sharded {
		return nil, nil
	}
	var out []*LookupStep
	taken := map[string]bool{}
	for _, u := range needLookups(rel, t) {
		req := lookupFor(Request{Database: database, Table: table}, u)
		spec, err := judgeLookup(schema, snap, &req)
		if err != nil {
			return nil, err
		}
		if k := spec.known; k != nil {
			if !k.Unique || !k.Public {
				return nil, pgerr.New(pgerr.ObjectInUse, "(%s) of %q has a lookup that is not unique, or not complete: %s", spec.list(), req.name(), k.Name).
					WithHint("Drop it first: SELECT weft.drop_lookup(%s, %s).", quote.Literal(req.name()), quote.Literal(spec.list()))
			}
			continue
		}
		if spec.index == "" {
			return nil, refuse(pgerr.FeatureNotSupported, "no lookup can keep (%s) of sharded table %q unique over all shards", spec.list(), req.name()).
				WithHint("A lookup keeps an index unique, but not a deferrable constraint.")
		}
		for base, i := spec.name, 2; taken[spec.name]; i++ {
			spec.name = fmt.Sprintf("%s_%d", base, i)
		}
		taken[spec.name] = true
		out = append(out, &LookupStep{
			Do: "make", Name: spec.name, Table: table.SQL(), Columns: spec.columns, Keys: spec.keys, Types: spec.types,
			Index: catalog.Name{Schema: table.Schema, Name: spec.index}.SQL(), ID: spec.idSQL, Bucket: spec.bucket, spec: spec,
		})
	}
	return out, nil
}

// PartSteps returns the steps that bring the rows of a partition into the lookups of its table, or
// take them out.
func PartSteps(schema *catalog.Schema, table, part catalog.Name, take bool) []*LookupStep {
	do := "add"
	if take {
		do = "take"
	}
	return steps(schema, table, part, do, nil)
}

// AnewSteps returns the steps that make all entries of the lookups on one of these columns again.
func AnewSteps(schema *catalog.Schema, table catalog.Name, columns []string) []*LookupStep {
	return steps(schema, table, table, "anew", columns)
}

func steps(schema *catalog.Schema, table, source catalog.Name, do string, columns []string) []*LookupStep {
	var out []*LookupStep
	for rel := schema.Relation(table); rel != nil; rel = rel.Parent {
		for i := range rel.Lookups {
			l := &rel.Lookups[i]
			if columns != nil && !slices.ContainsFunc(columns, l.About) {
				continue
			}
			index := l.Index
			if index == "" {
				index = l.Name
			}
			spec := &lookupSpec{table: rel.Name, columns: l.Columns, index: index, derived: derivedOf(l)}
			out = append(out, &LookupStep{Do: do, Name: l.Name, Table: source.SQL(), spec: spec})
		}
	}
	return out
}
