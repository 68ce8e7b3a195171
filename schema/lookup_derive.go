package schema

import (
	"fmt"
	"slices"
	"strings"

	"weft/catalog"
	"weft/datum"
	"weft/pgerr"
	"weft/quote"
	"weft/vindex"
)

// A unique index may have expressions, or a part of the rows. A lookup that is derived from such an index keeps the same values unique over all
// shards: each shard reads the SQL of the items and of the predicate from its own index (schema/sql/lookup_index.sql). No statement is routed by
// such a lookup.

// derivation describes the index that a lookup is derived from.
type derivation struct {
	shape, condition string
	uses             []string
	values, shown    []string // empty before the lookup is declared
}

// derive judges the index that a lookup is to be derived from, and returns the columns of the entries.
func (l *lookupSpec) derive(rel *catalog.Relation, req *LookupRequest) ([]vindex.Column, error) {
	at := slices.IndexFunc(rel.Unique, func(u catalog.Unique) bool { return u.Name == req.From && u.Derived != nil })
	if at < 0 {
		return nil, refuse(pgerr.UndefinedObject, "%q has no unique index %q that a lookup can be derived from", req.name(), req.From)
	}
	u := &rel.Unique[at]
	if why := notDerived(rel, u); why != "" {
		return nil, refuse(pgerr.FeatureNotSupported, "no lookup can keep unique index %q of sharded table %q unique over all shards", u.Name, req.name()).
			WithHint("Add the shard key to the index. A lookup keeps an index unique, but not %s.%s", why, derivedHint(why))
	}
	l.index = u.Name
	l.derived = &derivation{shape: u.Derived.Shape, uses: u.Derived.Uses, shown: u.Derived.Items}
	var columns []vindex.Column
	for i, oid := range u.Derived.Types {
		t := vindex.EntryType(datum.Type(oid))
		columns = append(columns, vindex.Column{Name: fmt.Sprintf("v%d", i+1), Column: datum.Column{Type: t, Mod: -1}, TypeName: t.String()})
		l.types = append(l.types, vindex.LookupType(t))
	}
	for i := range rel.Lookups {
		if k := &rel.Lookups[i]; k.Shape == l.derived.shape || k.Name == req.Name && k.Shape != "" {
			l.derived = derivedOf(k)
		}
	}
	return columns, nil
}

// notDerived returns the reason why no lookup can be derived from an index, or "".
func notDerived(rel *catalog.Relation, u *catalog.Unique) string {
	switch {
	case u.Deferrable:
		return "a deferrable constraint"
	case u.Derived.Cause != "":
		return u.Derived.Cause
	}
	for i, t := range u.Derived.Types {
		if datum.Keyed(vindex.EntryType(datum.Type(t))) {
			continue
		}
		if name := u.Columns[i]; name != "" {
			of := ""
			if c := rel.Column(name); c != nil {
				of = " " + c.TypeName
			}
			return fmt.Sprintf("column %s, whose type%s cannot be looked up", name, of)
		}
		return "an expression whose type cannot be looked up"
	}
	return ""
}

// derivedHint tells what to do about a function that the functions of a lookup must not call.
func derivedHint(why string) string {
	if !strings.HasPrefix(why, "what calls") {
		return ""
	}
	return " PostgreSQL computes a stored generated column as the role that writes the row, and a lookup keeps a plain unique index on that column: " +
		"ALTER TABLE … ADD COLUMN … GENERATED ALWAYS AS (…) STORED."
}

// derivedOf describes the index of an existing lookup, nil if the lookup has columns.
func derivedOf(l *catalog.Lookup) *derivation {
	if l.Shape == "" {
		return nil
	}
	return &derivation{shape: l.Shape, condition: l.Condition, uses: l.Uses, values: l.Values, shown: l.Items}
}

// derivedFrom returns the index that a lookup is derived from, "" if the lookup has columns.
func derivedFrom(l *catalog.Lookup) string {
	if l.Shape == "" {
		return ""
	}
	return l.Index
}

// read reads what a shard has derived from its index.
func (d *derivation) read(s *session, lookup string) error {
	rows, err := s.Exec("SELECT u.item, u.shown, k.condition FROM weft.lookup k, unnest(k.items, k.shown) WITH ORDINALITY u(item, shown, i) WHERE k.name = " + quote.Literal(lookup) + " ORDER BY u.i")
	if err != nil {
		return err
	}
	d.values, d.shown = nil, nil
	for _, r := range rows {
		d.values, d.shown, d.condition = append(d.values, r[0]), append(d.shown, r[1]), r[2]
	}
	return nil
}
