package schema

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"weft/catalog"
	"weft/datum"
	"weft/directory"
	"weft/pgerr"
	"weft/planner"
	"weft/quote"
	"weft/vindex"
)

// LookupRequest asks for a lookup table on columns of a sharded table.
type LookupRequest struct {
	Request
	// Name is the name of the lookup and of its table in schema weft. Empty: a name is made from
	// those of table and columns.
	Name string
	// Unique makes the lookup keep the columns' values unique over all shards.
	Unique bool
	// Index is a unique index that is going to be made. Errors name it.
	Index string
	// From is the unique index that the lookup is derived from, because the index has more than whole columns. The request has no
	// Columns then.
	From string
}

// lookupSpec holds everything that is needed to make a lookup and to compare it with its table.
type lookupSpec struct {
	name     string
	database string
	table    catalog.Name
	columns  []string
	types    []string // of the entries' columns
	keys     []string
	unique   bool
	index    string // the unique index of the table that the lookup stands for
	idSQL    string // over k1, k2, …
	bucket   string // over v1, v2, …: the number that directory.Numbering has for an entry
	known    *catalog.Lookup
	// derived describes the index that the lookup is derived from, nil if it has columns.
	derived *derivation
}

var lookupNamePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_$.\-]{0,49}$`)

// judgeLookup decides whether a lookup is allowed, or returns the reason why not.
func judgeLookup(schema *catalog.Schema, snap *directory.Snapshot, req *LookupRequest) (*lookupSpec, error) {
	name := req.name()
	rel := schema.Relation(req.Table)
	if rel == nil {
		return nil, refuse(pgerr.UndefinedTable, "relation %q does not exist", name)
	}
	t := snap.Table(req.Database, req.Table.Schema, req.Table.Name)
	if t == nil || t.Kind != directory.Sharded {
		return nil, refuse(pgerr.WrongObjectType, "%q is not a sharded table", name).WithHint("Only the rows of a sharded table have to be looked for.")
	}
	v, err := t.NewVindex(snap.BucketCount)
	if err != nil {
		return nil, err
	}
	computed, ok := v.(vindex.Computed)
	if !ok {
		return nil, refuse(pgerr.FeatureNotSupported, "%q is sharded by a %s, and a lookup table cannot follow its entries", name, v.Kind()).
			WithHint("Lookup tables need a shard key that a shard can compute a row's place from: hash, composite, range, list.")
	}
	spec := &lookupSpec{database: req.Database, table: req.Table, columns: req.Columns, unique: req.Unique, name: req.Name, index: req.Index}
	columns, err := spec.items(rel, req)
	if err != nil {
		return nil, err
	}
	first := directory.NumberingOf(snap).First
	placement, err := vindex.LookupTable(columns, first)
	if err != nil {
		hint := "Make the lookup of other columns, or change the type of the column."
		if instead := planner.GeneratedHint(rel, planner.PlainUnique(rel.Name, req.Columns), ""); instead != "" && req.Unique {
			hint += " " + instead
		}
		return nil, refuse(pgerr.FeatureNotSupported, "%s cannot have a lookup on (%s): %s", name, strings.Join(req.Columns, ", "), err).WithCause(err).WithHint("%s", hint)
	}
	var ks, vs []string
	for i, c := range t.Columns {
		spec.keys, ks = append(spec.keys, c.Name), append(ks, fmt.Sprintf("k%d", i+1))
	}
	if spec.derived == nil && !slices.ContainsFunc(spec.keys, func(k string) bool { return !slices.Contains(req.Columns, k) }) {
		return nil, refuse(pgerr.InvalidParameterValue, "(%s) contains the shard key of %q, which needs no lookup", strings.Join(req.Columns, ", "), name)
	}
	for i := range columns {
		vs = append(vs, fmt.Sprintf("v%d", i+1))
	}
	spec.idSQL = computed.SQL(ks)
	if spec.bucket, err = vindex.BucketSQL(placement, vs, first); err != nil {
		return nil, err
	}
	for _, u := range rel.Unique {
		if spec.derived == nil && req.Unique && !u.Partial && !u.Exclusion && !u.Deferrable && !u.NullsNotDistinct && sameSet(u.Columns, req.Columns) {
			spec.index = u.Name
		}
	}
	return spec, spec.identify(schema, rel)
}

// items returns the columns of the entries, and notes their types.
func (l *lookupSpec) items(rel *catalog.Relation, req *LookupRequest) ([]vindex.Column, error) {
	if req.From != "" {
		return l.derive(rel, req)
	}
	var columns []vindex.Column
	for _, n := range req.Columns {
		c := rel.Column(n)
		if c == nil {
			return nil, refuse(pgerr.UndefinedColumn, "column %q of relation %q does not exist", n, req.name())
		}
		columns = append(columns, vindex.Column{
			Name: n, Column: datum.Column{Type: datum.Type(c.Base), Mod: -1}, TypeName: c.TypeName, Enum: c.Enum, Nondeterministic: c.Nondeterministic,
		})
		l.types = append(l.types, vindex.LookupType(datum.Type(c.Base)))
	}
	return columns, nil
}

// identify gives the lookup its name, and finds out whether the lookup exists.
func (l *lookupSpec) identify(schema *catalog.Schema, rel *catalog.Relation) error {
	for i := range rel.Lookups {
		if k := &rel.Lookups[i]; k.Name == l.name {
			l.known = k
			return nil
		}
	}
	for i := range rel.Lookups {
		k := &rel.Lookups[i]
		if l.derived != nil || k.Shape != "" {
			if l.derived == nil || k.Shape != l.derived.shape {
				continue
			}
		}
		if slices.Equal(k.Columns, l.columns) || l.unique && k.Unique && sameSet(k.Columns, l.columns) {
			if l.name == "" {
				l.name = k.Name
			}
			l.known = k
			return nil
		}
	}
	if l.name == "" {
		base := lookupName(l.table, l.columns)
		if l.derived != nil {
			base = lookupName(l.table, l.derived.uses)
		}
		l.name = base
		for i := 2; schema.Relation(catalog.Name{Schema: "weft", Name: l.name}) != nil; i++ {
			l.name = fmt.Sprintf("%s_%d", base, i)
		}
	}
	if !lookupNamePattern.MatchString(l.name) {
		return refuse(pgerr.InvalidParameterValue, "%q must start with a letter and hold only letters, digits and _ $ . - (50 at most)", l.name)
	}
	if schema.Relation(catalog.Name{Schema: "weft", Name: l.name}) != nil {
		return refuse(pgerr.DuplicateObject, "weft has a table called %q already", l.name).WithHint("Give the lookup another name: name => '…'.")
	}
	return nil
}

// lookupName makes a name of letters and digits.
func lookupName(table catalog.Name, columns []string) string {
	var parts []string
	if table.Schema != "public" {
		parts = append(parts, table.Schema)
	}
	parts = append(append(parts, table.Name), columns...)
	b := []byte(strings.Join(parts, "_"))
	for i, c := range b {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') {
			b[i] = '_'
		}
	}
	if len(b) == 0 || b[0] >= '0' && b[0] <= '9' {
		b = append([]byte("l"), b...)
	}
	return string(b[:min(len(b), 45)]) // leaves room for a number
}

// list returns the columns of the lookup, or the items of its index.
func (l *lookupSpec) list() string {
	if l.derived != nil {
		return strings.Join(l.derived.shown, ", ")
	}
	return strings.Join(l.columns, ", ")
}

func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

// entries returns the query that makes the entries of rows: bucket:id:value…, as triggers write
// them. from is the FROM item that yields the rows.
func (l *lookupSpec) entries(from string) string {
	var columns, values, known []string
	for i := range l.types {
		columns = append(columns, fmt.Sprintf("%s AS v%d", l.value(i), i+1))
		values = append(values, fmt.Sprintf("encode(convert_to(v%d::text, getdatabaseencoding()), 'hex')", i+1))
		known = append(known, fmt.Sprintf("v%d IS NOT NULL", i+1))
	}
	for i, k := range l.keys {
		columns = append(columns, fmt.Sprintf("r.%s AS k%d", quote.Ident(k), i+1))
	}
	if l.derived != nil && l.derived.condition != "" {
		from += " WHERE (" + l.derived.condition + ")"
	}
	return fmt.Sprintf("SELECT (%s)::text || ':' || (%s)::text || ':' || %s AS e FROM (SELECT %s FROM %s) x WHERE %s",
		l.bucket, l.idSQL, strings.Join(values, " || ':' || "), strings.Join(columns, ", "), from, strings.Join(known, " AND "))
}

// parse returns the query that reads entries: e, id, v1, …
func (l *lookupSpec) parse(entries []string) string {
	var values []string
	for i, t := range l.types {
		values = append(values, fmt.Sprintf("convert_from(decode(split_part(e, ':', %d), 'hex'), getdatabaseencoding())::%s AS v%d", i+3, t, i+1))
	}
	return fmt.Sprintf("(SELECT e, split_part(e, ':', 2)::int8 AS id, %s FROM unnest(string_to_array(%s, ',')) e)", strings.Join(values, ", "), quote.Literal(strings.Join(entries, ",")))
}

// own returns the name of the lookup's table.
func (l *lookupSpec) own() string { return "weft." + quote.Ident(l.name) }

func (l *lookupSpec) stored() string {
	var values []string
	for i := range l.types {
		values = append(values, fmt.Sprintf("encode(convert_to(t.v%d::text, getdatabaseencoding()), 'hex')", i+1))
	}
	return fmt.Sprintf("(%s)::text || ':' || t.id::text || ':' || %s", l.bucket, strings.Join(values, " || ':' || "))
}

// vs lists the columns of the values.
func (l *lookupSpec) vs() string {
	var out []string
	for i := range l.types {
		out = append(out, fmt.Sprintf("v%d", i+1))
	}
	return strings.Join(out, ", ")
}

// same returns the condition that a row t of the lookup's table has the values of a parsed entry e.
func (l *lookupSpec) same() string {
	var out []string
	for i := range l.types {
		out = append(out, fmt.Sprintf("t.v%d = e.v%d", i+1, i+1))
	}
	return strings.Join(out, " AND ")
}

// value returns the SQL of value i of a row r of the sharded table. Bare names of columns in the items of an index are those of r.
func (l *lookupSpec) value(i int) string {
	if l.derived != nil {
		return fmt.Sprintf("(%s)::%s", l.derived.values[i], l.types[i])
	}
	return fmt.Sprintf("r.%s::%s", quote.Ident(l.columns[i]), l.types[i])
}

// rows returns the FROM item r of the sharded table, with what matches needs.
func (l *lookupSpec) rows() string {
	if l.derived == nil {
		return l.table.SQL() + " r"
	}
	var values []string
	for i := range l.types {
		values = append(values, fmt.Sprintf("%s AS w%d", l.value(i), i+1))
	}
	return l.table.SQL() + " r CROSS JOIN LATERAL (SELECT " + strings.Join(values, ", ") + ") w"
}

// matches returns the condition that a row r of the sharded table has the values of a parsed
// entry e.
func (l *lookupSpec) matches() string {
	var out []string
	for i := range l.types {
		of := fmt.Sprintf("w.w%d", i+1)
		if l.derived == nil {
			of = "r." + quote.Ident(l.columns[i])
		}
		out = append(out, fmt.Sprintf("%s = e.v%d", of, i+1))
	}
	return strings.Join(out, " AND ")
}
