package schema

import (
	"fmt"
	"math/bits"
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

// verdict holds what follows from a declaration that is allowed.
type verdict struct {
	table   directory.Table
	vindex  vindex.Vindex // nil for a reference table
	notices []*pgerr.Error
	// incoming are foreign keys of home tables on a table that is going to be sharded. A home table
	// that has rows loses them.
	incoming []catalog.ForeignKey
	// restored are the table's own foreign keys that were dropped when the table they reference was
	// sharded.
	restored []directory.ForeignKey
	// keyed are those of restored that get the shard keys.
	keyed []catalog.ForeignKey
}

// judgement holds what is known when a declaration is judged. All fields are values.
type judgement struct {
	snap   *directory.Snapshot
	schema *catalog.Schema
	def    *Definition
	// equal lists, by exclusion constraint, the columns that the constraint compares with =.
	equal map[string][]string
	req   *Request
	kind  directory.TableKind

	rel *catalog.Relation
	out verdict
}

// judge decides whether a declaration is allowed, or returns the reason why not.
func judge(j *judgement) (*verdict, error) {
	for _, step := range []func() error{j.table, j.key, j.ids, j.unique, j.outgoing, j.incoming, j.code} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return &j.out, nil
}

// refuse words a refusal.
func refuse(code, format string, args ...any) *pgerr.Error { return pgerr.New(code, format, args...) }

func (j *judgement) table() error {
	name := j.req.name()
	j.rel = j.schema.Relation(j.req.Table)
	if j.rel == nil {
		return refuse(pgerr.UndefinedTable, "relation %q does not exist", name)
	}
	switch j.rel.Kind {
	case catalog.Table, catalog.PartitionedTable:
	default:
		return refuse(pgerr.WrongObjectType, "%q is not a table", name).
			WithHint("Only tables can be declared. A view follows its tables by itself.")
	}
	switch {
	case j.rel.System() || j.req.Table.Schema == "weft":
		return refuse(pgerr.InsufficientPrivilege, "%q is a system table", name)
	case strings.HasPrefix(j.req.Table.Schema, "pg_temp"):
		return refuse(pgerr.WrongObjectType, "%q is a temporary table", name).WithHint("A temporary table lives in its session, on the home shard.")
	case j.rel.Parent != nil && j.rel.Inherited || len(j.rel.Children) > 0 && j.rel.Children[0].Inherited:
		return refuse(pgerr.FeatureNotSupported, "%q takes part in inheritance", name).WithHint("Only partitions by PARTITION BY can be declared with their table.")
	case j.rel.Parent != nil:
		return refuse(pgerr.WrongObjectType, "%q is a partition", name).WithHint("Declare %s: its partitions go with it.", display(j.rel.Parent.Name))
	case j.rel.Rules:
		return refuse(pgerr.FeatureNotSupported, "%q has rewrite rules", name).WithHint("A rule may send a statement's rows elsewhere: use a trigger instead, or drop the rule.")
	}
	if t := j.snap.Table(j.req.Database, j.req.Table.Schema, j.req.Table.Name); t != nil && t.Job.ID == "" {
		return refuse(pgerr.DuplicateObject, "%q is already declared: %s", name, describe(t)).WithHint("Take the declaration back first: SELECT weft.unshard_table(%s).", quote.Literal(name))
	}
	j.out.table = directory.Table{Database: j.req.Database, Schema: j.req.Table.Schema, Name: j.req.Table.Name, Kind: j.kind, Group: j.req.group, Links: j.req.Links}
	for i := range j.snap.Tables {
		t := &j.snap.Tables[i]
		for _, fk := range t.ForeignKeys {
			if t.Database == j.req.Database && fk.Schema == j.req.Table.Schema && fk.Table == j.req.Table.Name {
				j.out.restored = append(j.out.restored, fk)
			}
		}
	}
	return nil
}

func describe(t *directory.Table) string {
	if t.Kind == directory.Reference {
		return "a reference table"
	}
	var names []string
	for _, c := range t.Columns {
		names = append(names, c.Name)
	}
	return "sharded by " + strings.Join(names, ", ")
}

// key makes the vindex.
func (j *judgement) key() error {
	if j.kind == directory.Reference {
		return nil
	}
	if len(j.req.Columns) == 0 {
		return refuse(pgerr.InvalidParameterValue, "no key column is given for %q", j.req.name()).
			WithHint("Name the column that says where a row lives: SELECT weft.shard_table(%s, 'customer_id').", quote.Literal(j.req.name()))
	}
	t := &j.out.table
	t.Vindex = j.req.Vindex
	if t.Vindex.Kind == "" {
		t.Vindex.Kind = "hash"
		if len(j.req.Columns) > 1 {
			t.Vindex.Kind = "composite"
		}
	}
	if t.Vindex.Kind == "composite" && len(t.Vindex.Params) == 0 {
		t.Vindex.Params = map[string]any{"bits": defaultBits(len(j.req.Columns), directory.NumberingOf(j.snap).First)}
	}
	if t.Vindex.Lookup() && t.Vindex.Name == "" {
		return refuse(pgerr.InvalidParameterValue, "a %s needs a name", t.Vindex.Kind).
			WithHint("Entries are kept under it and tables with the same name are colocated: name => 'tenant_dir'.")
	}
	d := vindex.Declaration{Kind: t.Vindex.Kind, Params: t.Vindex.Params, Buckets: j.snap.BucketCount}
	for _, name := range j.req.Columns {
		c := j.rel.Column(name)
		if c == nil {
			return refuse(pgerr.UndefinedColumn, "column %q of relation %q does not exist", name, j.req.name())
		}
		if c.Generated {
			return refuse(pgerr.InvalidTableDefinition, "column %q is generated: it cannot be a shard key", name).
				WithHint("Its value is known only where the row is stored. Use the columns it is made from.")
		}
		if !c.NotNull {
			j.out.notices = append(j.out.notices, &pgerr.Error{
				Severity: pgerr.SeverityNotice, Code: "00000",
				Message: fmt.Sprintf("key column %q of %s may be NULL: all rows without a value are in bucket 0", name, j.req.name()),
				Hint:    fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s SET NOT NULL, if it always has a value.", j.req.name(), quote.Ident(name)),
			})
		}
		t.Columns = append(t.Columns, directory.Column{Name: name, Type: c.Base, TypeName: c.TypeName, Mod: c.Mod})
		d.Columns = append(d.Columns, vindex.Column{
			Name: name, Column: datum.Column{Type: datum.Type(c.Base), Mod: c.Mod}, TypeName: c.TypeName, Enum: c.Enum, Nondeterministic: c.Nondeterministic,
		})
	}
	v, err := vindex.New(d)
	if err != nil {
		return refuse(pgerr.InvalidTableDefinition, "%s cannot be sharded so: %s", j.req.name(), err).WithCause(err)
	}
	j.out.vindex = v
	return j.sameLookup(t)
}

// sameLookup refuses the name of a lookup that has values of another type or kind, in whatever
// database: names of lookups belong to the cluster.
func (j *judgement) sameLookup(t *directory.Table) error {
	if !t.Vindex.Lookup() {
		return nil
	}
	for _, other := range j.snap.Tables {
		if !other.Vindex.Lookup() || other.Vindex.Name != t.Vindex.Name {
			continue
		}
		if a, b := other.Columns[0], t.Columns[0]; other.Vindex.Kind != t.Vindex.Kind || a.Type != b.Type {
			return refuse(pgerr.InvalidParameterValue, "lookup %q is a %s of %s: it cannot be a %s of %s here",
				t.Vindex.Name, other.Vindex.Kind, a.TypeName, t.Vindex.Kind, b.TypeName).
				WithHint("Names of lookups are of the whole cluster. Give another: name => '%s_%s'.", t.Name, t.Columns[0].Name)
		}
	}
	return nil
}

// defaultBits shares the bits of a bucket's number among the columns of a composite key. The first
// column takes more bits: its rows are then on few shards.
func defaultBits(columns, buckets int) []any {
	n := bits.Len(uint(buckets)) - 1
	var out []any
	for i := columns; i > 1; i-- {
		take := max(1, (n+1)/2)
		out = append(out, take)
		n -= take
	}
	return out
}

// unique refuses constraints that no single shard can keep unique.
func (j *judgement) unique() error {
	if j.kind == directory.Reference {
		return nil
	}
	for _, rel := range tree(j.rel) {
		for i := range rel.Unique {
			if err := j.uniqueIndex(rel, &rel.Unique[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (j *judgement) uniqueIndex(rel *catalog.Relation, u *catalog.Unique) error {
	columns := u.Columns
	if u.Exclusion {
		columns = j.equal[u.Name]
	}
	var missing []string
	for _, k := range j.req.Columns {
		if !slices.Contains(columns, k) {
			missing = append(missing, k)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	what := "unique index"
	switch {
	case u.Exclusion:
		return refuse(pgerr.FeatureNotSupported, "exclusion constraint %q of %q does not compare the key column %q with =", u.Name, display(rel.Name), missing[0]).
			WithHint("A shard sees its own rows only: add \"%s WITH =\" to the constraint.", missing[0])
	case u.Primary:
		what = "primary key"
	}
	for _, name := range u.Columns {
		if c := rel.Column(name); c != nil && generated(c) {
			if rel == j.rel {
				j.out.notices = append(j.out.notices, &pgerr.Error{
					Severity: pgerr.SeverityNotice, Code: "00000",
					Message: fmt.Sprintf("%s %q does not contain the shard key: weft gives values of %s out uniquely over all shards, but an explicit value is checked on its own shard only until a unique lookup exists", what, u.Name, name),
					Hint:    fmt.Sprintf("If values are given explicitly: SELECT weft.create_lookup(%s, %s, is_unique => true).", quote.Literal(j.req.name()), quote.Literal(strings.Join(u.Columns, ", "))),
				})
			}
			return nil
		}
	}
	why := j.notLookedUp(rel, u)
	if why == "" {
		if rel == j.rel {
			j.out.notices = append(j.out.notices, &pgerr.Error{
				Severity: pgerr.SeverityNotice, Code: "00000",
				Message: fmt.Sprintf("%s %q does not contain the shard key: a lookup keeps its values unique over all shards", what, u.Name),
			})
		}
		return nil
	}
	of := strings.Join(u.Columns, ", ")
	if slices.Contains(u.Columns, "") {
		of = "an expression"
	}
	hint := j.generatedHint(rel, u)
	if hint == "" {
		hint = derivedHint(why)
	}
	return refuse(pgerr.FeatureNotSupported, "%s %q on (%s) of %q does not contain the shard key %q", what, u.Name, of, display(rel.Name), strings.Join(j.req.Columns, ", ")).
		WithDetail("Each shard checks its own rows only, so two shards could hold the same value.").
		WithHint("Add the key to the index, or drop it. A lookup could keep its values unique over all shards, but not %s.%s", why, hint)
}

// generatedHint tells how generated columns can have the values of an index that no lookup can keep unique.
func (j *judgement) generatedHint(rel *catalog.Relation, u *catalog.Unique) string {
	if _, computed := j.out.vindex.(vindex.Computed); !computed || rel != j.rel || u.Deferrable || u.NullsNotDistinct {
		return ""
	}
	index := catalog.Name{Schema: rel.Schema, Name: u.Name}
	for _, text := range j.def.After {
		after, made := strings.CutPrefix(text, "CREATE UNIQUE INDEX ")
		if made && (strings.HasPrefix(after, u.Name+" ON ") || strings.HasPrefix(after, quote.Ident(u.Name)+" ON ")) {
			if hint := planner.GeneratedHint(rel, text, "DROP INDEX "+index.SQL()); hint != "" {
				return " " + hint
			}
			return ""
		}
	}
	if slices.Contains(u.Columns, "") || u.Primary {
		return ""
	}
	if hint := planner.GeneratedHint(rel, planner.PlainUnique(rel.Name, u.Columns), "ALTER TABLE "+rel.SQL()+" DROP CONSTRAINT "+quote.Ident(u.Name)); hint != "" {
		return " " + hint
	}
	return ""
}

// notLookedUp returns the reason why no lookup can keep an index unique over all shards, or "". The index
// of a partition belongs to the index of its table.
func (j *judgement) notLookedUp(rel *catalog.Relation, u *catalog.Unique) string {
	if rel != j.rel && u.Derived != nil {
		if !u.Derived.Inherited {
			return "those of one partition alone"
		}
		return "" // the index of the table is judged by itself
	}
	if rel != j.rel {
		if !slices.ContainsFunc(j.rel.Unique, func(o catalog.Unique) bool { return !o.Partial && sameSet(o.Columns, u.Columns) }) {
			return "those of one partition alone"
		}
		return j.notLookedUp(j.rel, u)
	}
	switch _, computed := j.out.vindex.(vindex.Computed); {
	case !computed:
		return "in a table whose own places are looked up (vindex " + j.out.table.Vindex.Kind + ")"
	case u.Derived != nil:
		return notDerived(rel, u)
	case slices.Contains(u.Columns, ""):
		return "those of an expression"
	case u.Partial:
		return "those of a part of the table (WHERE)"
	case u.Deferrable:
		return "of a deferrable constraint"
	}
	for _, name := range u.Columns {
		switch c := rel.Column(name); {
		case c == nil:
			return "those of column " + name
		case c.Nondeterministic:
			return fmt.Sprintf("those of column %s, whose collation is nondeterministic", name)
		case !datum.Keyed(datum.Type(c.Base)) || c.Enum:
			return fmt.Sprintf("those of column %s, whose type %s cannot be looked up", name, c.TypeName)
		}
	}
	return ""
}

var randomUUID = regexp.MustCompile(`^\(?(?:[\w"]+\.)?(gen_random_uuid|uuid_generate_v1|uuid_generate_v1mc|uuid_generate_v4|uuidv4|uuidv7)\(\)\)?$`)

// generated reports whether the values of a column are made so that they never repeat.
func generated(c *catalog.Column) bool {
	return c.Identity != 0 || c.Sequence.Name != "" || randomUUID.MatchString(c.Default)
}

// tree returns a table and its partitions.
func tree(r *catalog.Relation) []*catalog.Relation {
	out := []*catalog.Relation{r}
	for _, c := range r.Children {
		out = append(out, tree(c)...)
	}
	return out
}

// colocated reports whether rows of two sharded tables with equal keys are on one shard.
func colocated(a, b *directory.Table) bool {
	return a.Group == b.Group && alike(a, b)
}

// alike reports whether rows of two sharded tables with equal keys are in the same bucket.
func alike(a, b *directory.Table) bool {
	return a.Kind == directory.Sharded && b.Kind == directory.Sharded && a.Vindex.Equal(&b.Vindex) &&
		slices.EqualFunc(a.Columns, b.Columns, func(x, y directory.Column) bool { return family(x.Type) == family(y.Type) })
}

// family groups the types whose equal values hash alike.
func family(oid uint32) datum.Type {
	switch t := datum.Type(oid); t {
	case datum.Int2, datum.Int4, datum.Int8:
		return datum.Int8
	case datum.Text, datum.Varchar, datum.Bpchar:
		return datum.Text
	default:
		return t
	}
}
