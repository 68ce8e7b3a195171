package planner

import (
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/datum"
	"weft/directory"
	"weft/parser"
	"weft/plan"
	"weft/vindex"
)

// createTable returns the route of CREATE TABLE. A new table is on the home shard until it is
// declared; a new partition of a declared table is where that table is.
func (df definitions) createTable(n *pg.CreateStmt) plan.Route {
	for _, p := range n.InhRelations {
		rel := df.a.commands().named(rangeVar(p.GetRangeVar()))
		t := df.a.declared(rel)
		switch {
		case t == nil:
		case n.Partbound != nil:
			return df.newPartition(n, rel, t)
		default:
			df.a.unsupported("Use PARTITION OF, or CREATE TABLE … (LIKE …).", "a table cannot inherit from declared table %q", t.Name)
			return plan.Refused
		}
	}
	df.homeLinks(&catalog.Relation{Name: catalog.Name{Schema: n.Relation.GetSchemaname(), Name: n.Relation.GetRelname()}}, slices.Concat(n.TableElts, n.Constraints))
	return df.a.commands().refusedOr(plan.Home)
}

// newPartition checks what a partition has beyond its table: all shards must keep that, too.
func (df definitions) newPartition(n *pg.CreateStmt, whole *catalog.Relation, t *table) plan.Route {
	r := df.a.commands().across(rangeVar(n.InhRelations[0].GetRangeVar()))
	if r != plan.Every {
		return r
	}
	part := &catalog.Relation{Name: catalog.Name{Schema: whole.Schema, Name: n.Relation.Relname}, Kind: catalog.Table, Columns: whole.Columns, Parent: whole}
	for _, e := range slices.Concat(n.TableElts, n.Constraints) {
		df.addColumn(part, t, e.GetColumnDef())
		if c := e.GetConstraint(); c != nil {
			df.constraint(part, t, c, nil, nil)
		}
	}
	return df.a.commands().refusedOr(r)
}

// createView returns the route of CREATE VIEW: a view is where the tables are that it reads.
func (df definitions) createView(n *pg.ViewStmt) plan.Route {
	df.a.top().query(n.Query.GetSelectStmt())
	df.a.instances = nil
	t := &df.a.touched
	temporary := n.View.Relpersistence == "t" || isTemporary(n.View.Schemaname) || df.a.readsTemporary(n.Query)
	if temporary {
		df.a.reach().called() // the catalog will not have the view
	}
	switch {
	case df.a.refused():
		return plan.Refused
	case temporary && len(t.sharded) > 0:
		df.a.unsupported("Create the view without TEMPORARY, or write its query where it is used.", "a temporary view of sharded table %q is not supported", t.sharded[0])
	case len(t.sharded) > 0 && len(t.home)+len(t.missing) > 0 && n.Replace && df.a.commands().placeOf(df.a.commands().named(rangeVar(n.View))) == onEvery:
		home := append(slices.Clone(t.home), names(t.missing)...)[0]
		df.a.unsupported("Drop the view, and create it anew.", "view %q is on all shards, and %q on the home shard alone", n.View.Relname, home)
	case len(t.home)+len(t.missing) > 0 || len(t.sharded)+len(t.reference) == 0 || temporary:
		return plan.Home
	default:
		return df.a.commands().everywhere()
	}
	return plan.Refused
}

// createFunction returns the route of CREATE FUNCTION: a function that mentions home tables stays
// with them.
func (df definitions) createFunction(n *pg.CreateFunctionStmt) plan.Route {
	r, _, _ := df.functionReads(n)
	if name := df.a.objects().homeType(typesOf(n)...); name != "" {
		r.home = name
	}
	if r.home != "" {
		df.a.why("the function mentions %s, which is on the home shard", r.home)
		return df.a.objects().replaced(n)
	}
	return df.a.commands().global()
}

// functionReads returns what the body of a new function names, whether it runs SQL that is not in
// the body, and whether it may write.
func (df definitions) functionReads(n *pg.CreateFunctionStmt) (r reads, dynamic, changes bool) {
	language := "sql"
	for _, o := range n.Options {
		if d := o.GetDefElem(); d.GetDefname() == "language" {
			language = strings.ToLower(d.GetArg().GetString_().GetSval())
		}
	}
	for _, o := range n.Options {
		d := o.GetDefElem()
		if d.GetDefname() != "as" {
			continue
		}
		df.a.out.Exact = true
		for _, s := range nameList(d.Arg.GetList().GetItems()) {
			body, computed := df.a.commands().bodyOf(language, &pg.Node{Node: &pg.Node_CreateFunctionStmt{CreateFunctionStmt: n}}, s)
			r.add(body)
			if language == "plpgsql" {
				r.add(reads{home: df.a.objects().declares(s)})
			}
			dynamic, changes = dynamic || computed, changes || catalog.Changes(s)
		}
	}
	if n.SqlBody != nil {
		parser.Walk(n.SqlBody, func(m any) bool {
			switch m := m.(type) {
			case *pg.RangeVar:
				if rel := df.a.commands().named(rangeVar(m)); rel != nil && !rel.System() {
					r.add(df.relationReads(rel))
				}
			case *pg.InsertStmt, *pg.UpdateStmt, *pg.DeleteStmt, *pg.MergeStmt:
				changes = true
			}
			return true
		})
	}
	return r, dynamic, changes
}

// createIndex returns the route of CREATE INDEX: a unique index keeps values apart on each shard
// alone.
func (df definitions) createIndex(n *pg.IndexStmt) plan.Route {
	r := df.a.commands().across(rangeVar(n.Relation))
	if r != plan.Every {
		return r
	}
	if n.Unique {
		rel := df.a.commands().named(rangeVar(n.Relation))
		k := indexed(n)
		k.instead = func() string { return generatedHint(rel, n, "") }
		df.uniqueness(rel, df.a.declared(rel), k, nil)
	}
	if n.Concurrent {
		df.a.commands().alone(r)
		if rel := df.a.commands().named(rangeVar(n.Relation)); n.Idxname != "" {
			df.a.commands().change().Again = &plan.Again{
				Kind: plan.CreatesIndex, Name: plan.Name{Schema: rel.Schema, Table: n.Idxname}, Table: nameOf(rel.Name),
			}
		}
	}
	return df.a.commands().refusedOr(r)
}

// uniqueKey describes what a new index or constraint keeps unique.
type uniqueKey struct {
	what    string
	columns []string
	// beyond is the part that no lookup can keep unique, or "".
	beyond string
	// derived is set if a lookup has to be derived from the index, because the index has more than whole columns.
	derived bool
	// instead tells how a lookup can keep it unique nevertheless, or "". It may be nil.
	instead func() string
	// concurrently is set if the index is made outside of a transaction.
	concurrently bool
}

// indexed returns what a unique index keeps unique.
func indexed(n *pg.IndexStmt) uniqueKey {
	k := uniqueKey{what: "unique index", concurrently: n.Concurrent}
	for _, p := range n.IndexParams {
		e := p.GetIndexElem()
		k.columns = append(k.columns, e.GetName())
		switch {
		case len(e.GetCollation()) > 0:
			k.beyond = "a collation of its own"
		case len(e.GetOpclass()) > 0 && !slices.Contains([]string{"text_pattern_ops", "varchar_pattern_ops", "bpchar_pattern_ops"}, lastName(e.Opclass)):
			k.beyond = "an operator class of its own"
		}
	}
	k.derived = slices.Contains(k.columns, "") || n.NullsNotDistinct || !catalog.WholePredicate(n.WhereClause, k.columns)
	switch {
	case k.derived && n.Concurrent:
		k.beyond = "expressions, a part of the rows or NULLS NOT DISTINCT with CONCURRENTLY: leave it out"
	case n.Relation != nil && !n.Relation.Inh:
		k.beyond = "ONLY"
	}
	return k
}

// uniqueness makes sure that a new index keeps values apart on all shards. An index does so by
// itself if it contains the shard key, or a column whose values weft or chance makes unique.
// Otherwise the table gets a lookup, or the index is refused.
func (df definitions) uniqueness(rel *catalog.Relation, t *table, k uniqueKey, added map[string]bool) {
	if t == nil || t.Reference {
		return
	}
	all := true
	for _, key := range t.keys {
		all = all && slices.Contains(k.columns, key.Name)
	}
	if all {
		return
	}
	for _, name := range k.columns {
		if added[name] {
			return
		}
		if c := findColumn(rel, name); c != nil && (drawsFrom(c) || randomUUID(c)) {
			return
		}
	}
	if k.beyond == "" && !k.derived && slices.ContainsFunc(rel.Lookups, func(l catalog.Lookup) bool { return l.Unique && l.Public && sameNames(l.Columns, k.columns) }) {
		if !k.concurrently { // the existing lookup keeps it, unless the same text drops that
			df.a.commands().change().Lookups = append(df.a.commands().change().Lookups, plan.LookupChange{Kind: plan.Uniques, Table: nameOf(rel.Name), Columns: k.columns})
		}
		return
	}
	if rel.Parent != nil && k.beyond == "" {
		k.beyond = "a partition by itself"
	}
	_, computed := t.Vindex.(vindex.Computed)
	if !computed && k.beyond == "" {
		k.beyond = "columns of tables whose shard key is a lookup itself"
	}
	if k.beyond == "" {
		df.a.commands().change().Lookups = append(df.a.commands().change().Lookups, plan.LookupChange{Kind: plan.Uniques, Table: nameOf(rel.Name), Columns: expressions(k.columns)})
		return
	}
	hint := "Add " + t.keys[0].Name + " to its columns. A lookup keeps columns unique over all shards, but not " + k.beyond + "."
	if k.instead != nil && computed {
		if instead := k.instead(); instead != "" {
			hint += " " + instead
		}
	}
	df.a.unsupported(hint,
		"one shard alone cannot keep a %s on (%s) of sharded table %q", k.what, strings.Join(expressions(k.columns), ", "), rel.Name.Name)
}

// expressions gives names to the unnamed items in a list of columns.
func expressions(columns []string) []string {
	out := slices.Clone(columns)
	for i, c := range out {
		if c == "" {
			out[i] = "an expression"
		}
	}
	return out
}

// alterTable checks what ALTER TABLE does to a declared table.
func (df definitions) alterTable(n *pg.AlterTableStmt) plan.Route {
	switch n.Objtype {
	case pg.ObjectType_OBJECT_TYPE:
		return df.a.commands().global()
	}
	for _, c := range n.Cmds {
		if d := c.GetAlterTableCmd().GetDef().GetPartitionCmd(); d != nil {
			return df.partition(n, c.GetAlterTableCmd().GetSubtype(), d)
		}
	}
	df.a.objects().enablesPolicies(n)
	rel := df.a.commands().named(rangeVar(n.Relation))
	t := df.a.declared(rel)
	r := df.a.commands().refusedOr(df.a.commands().across(rangeVar(n.Relation)))
	if r == plan.Home && rel != nil && t == nil {
		for _, c := range n.Cmds {
			df.homeLinks(rel, []*pg.Node{c.GetAlterTableCmd().GetDef()})
		}
		return df.a.commands().refusedOr(r)
	}
	if r != plan.Every || t == nil || rel.Kind == catalog.Index || rel.Kind == catalog.PartitionedIndex {
		return r
	}
	for _, c := range n.Cmds {
		df.alterCommand(rel, t, c.GetAlterTableCmd())
	}
	df.a.clock().fillTimes(n, rel)
	return df.a.commands().refusedOr(r)
}

func (df definitions) alterCommand(rel *catalog.Relation, t *table, c *pg.AlterTableCmd) {
	switch c.GetSubtype() {
	case pg.AlterTableType_AT_DropConstraint:
		df.keepsIDs(t, c.Name)
	case pg.AlterTableType_AT_DropColumn:
		if routesBy(t, c.Name) {
			df.a.unsupported("Undeclare the table first: SELECT weft.unshard_table('"+t.Name+"').", "column %q has the routed ids of %q and cannot be dropped", c.Name, t.Name)
		}
		if isKey(t, c.Name) {
			df.a.unsupported("Undeclare the table first: SELECT weft.unshard_table('"+t.Name+"').", "column %q is the shard key of %q and cannot be dropped", c.Name, t.Name)
		}
	case pg.AlterTableType_AT_AlterColumnType:
		if df.hasType(rel, c) {
			return
		}
		df.a.objects().retypesIdentity(rel, c.Name)
		df.fills(rel, t, c.Name, c.Def.GetColumnDef().GetRawDefault(), false)
		if routesBy(t, c.Name) {
			df.a.unsupported("Undeclare the table first: SELECT weft.unshard_table('"+t.Name+"').", "column %q has the routed ids of %q and cannot change its type", c.Name, t.Name)
		}
		if isKey(t, c.Name) {
			if to := df.retyped(rel, t, c); to != nil {
				df.a.commands().change().Types = append(df.a.commands().change().Types, *to)
			} else {
				df.a.unsupported("Undeclare the table first: SELECT weft.unshard_table('"+t.Name+"').",
					"column %q is the shard key of %q and cannot get this type: rows might belong to other shards then", c.Name, t.Name)
			}
		}
		if slices.ContainsFunc(rel.Lookups, func(l catalog.Lookup) bool { return l.About(c.Name) }) {
			df.a.commands().change().Lookups = append(df.a.commands().change().Lookups, plan.LookupChange{Kind: plan.Rewritten, Table: nameOf(rel.Name), Columns: []string{c.Name}})
		}
	case pg.AlterTableType_AT_ColumnDefault:
		df.a.objects().drawsNow(c.Def)
	case pg.AlterTableType_AT_AddConstraint:
		df.constraint(rel, t, c.Def.GetConstraint(), nil, nil)
	case pg.AlterTableType_AT_AddColumn:
		df.addColumn(rel, t, c.Def.GetColumnDef())
	case pg.AlterTableType_AT_AddInherit, pg.AlterTableType_AT_DropInherit, pg.AlterTableType_AT_AddOf:
		df.a.unsupported("Take its declaration back first: SELECT weft.unshard_table('"+t.Name+"').", "what declared table %q inherits from cannot be changed", t.Name)
	}
}

// hasType reports whether a column already has the type that ALTER gives it, with its modifier:
// ORMs that bring tables up to date set the types of all columns.
func (df definitions) hasType(rel *catalog.Relation, c *pg.AlterTableCmd) bool {
	def := c.Def.GetColumnDef()
	if def == nil || def.RawDefault != nil || def.CollClause != nil { // USING, COLLATE
		return false
	}
	i := slices.IndexFunc(rel.Columns, func(col catalog.Column) bool { return col.Name == c.Name })
	if i < 0 || rel.Columns[i].Type != rel.Columns[i].Base || rel.Columns[i].Collation != (catalog.Name{}) {
		return false
	}
	mod := int32(-1)
	plain := proto.Clone(def.TypeName).(*pg.TypeName)
	if m := plain.Typmods; len(m) == 1 && m[0].GetAConst().GetIval() != nil {
		mod, plain.Typmods = m[0].GetAConst().GetIval().Ival+4, nil // varchar(n)
	}
	t := (&level{a: df.a}).predicates().typeName(plain)
	return t != 0 && t == datum.Type(rel.Columns[i].Type) && mod == rel.Columns[i].Mod && (mod < 0 || t == datum.Varchar)
}

// keepsIDs refuses changes to the constraint that routing by id relies on.
func (df definitions) keepsIDs(t *table, constraint string) {
	if t.IDs != nil && constraint == directory.IDConstraint {
		df.a.unsupported("It goes with the declaration: SELECT weft.unshard_table('"+t.Name+"').",
			"constraint %q of %q keeps its routed ids to the truth", constraint, t.Name)
	}
}

// routesBy reports whether a column has the table's routed ids.
func routesBy(t *table, name string) bool { return t.IDs != nil && t.IDs.Column == name }

// addColumn checks the constraints of a new column.
func (df definitions) addColumn(rel *catalog.Relation, t *table, d *pg.ColumnDef) {
	if d == nil {
		return
	}
	added := map[string]bool{}
	numbered, value := false, (*pg.Node)(nil)
	if names := nameList(d.TypeName.GetNames()); len(names) > 0 && strings.Contains(names[len(names)-1], "serial") {
		added[d.Colname], numbered = true, true
	}
	for _, n := range d.Constraints {
		c := n.GetConstraint()
		switch c.GetContype() {
		case pg.ConstrType_CONSTR_IDENTITY:
			added[d.Colname], numbered = true, true
		case pg.ConstrType_CONSTR_DEFAULT:
			value = c.RawExpr
			df.a.objects().drawsNow(value)
			if f := c.RawExpr.GetFuncCall(); f != nil {
				names := nameList(f.Funcname)
				name := names[len(names)-1]
				added[d.Colname] = added[d.Colname] || name == "gen_random_uuid" || name == "uuid_generate_v4" || name == "nextval"
			}
		}
	}
	for _, n := range d.Constraints {
		df.constraint(rel, t, n.GetConstraint(), []string{d.Colname}, added)
	}
	if !slices.ContainsFunc(rel.Columns, func(col catalog.Column) bool { return col.Name == d.Colname }) { // a second column is an error, or IF NOT EXISTS
		df.fills(rel, t, d.Colname, value, numbered)
	}
}

// fills notes a column that gets a value in existing rows, if each shard would make its own value:
// the copies of a reference table would differ, and several shards would give the same numbers.
// numbered is set if the column has a sequence of its own.
func (df definitions) fills(rel *catalog.Relation, t *table, column string, value *pg.Node, numbered bool) {
	switch {
	case numbered || value != nil && calls(value, "nextval"):
	case value == nil || !t.Reference || df.a.copying().steadiness(value) != 'v':
		return
	}
	f := plan.Filling{Table: nameOf(rel.Name), Column: column, Copy: t.Reference, Own: numbered && !t.Reference}
	if key := (&copier{a: df.a, rel: rel}).identity(&changes{}); t.Reference && !slices.Contains(key, column) {
		f.Key = key
	}
	df.a.commands().change().Fills = append(df.a.commands().change().Fills, f)
}

// calls reports whether an expression calls a function of that name.
func calls(n *pg.Node, name string) bool {
	found := false
	parser.Walk(n, func(m any) bool {
		if f, ok := m.(*pg.FuncCall); ok {
			names := nameList(f.Funcname)
			found = found || names[len(names)-1] == name
		}
		return !found
	})
	return found
}

// constraint checks a constraint that a declared table gets.
func (df definitions) constraint(rel *catalog.Relation, t *table, c *pg.Constraint, own []string, added map[string]bool) {
	columns := nameList(c.GetKeys())
	if len(columns) == 0 {
		columns = own
	}
	switch c.GetContype() {
	case pg.ConstrType_CONSTR_PRIMARY, pg.ConstrType_CONSTR_UNIQUE:
		k := uniqueKey{what: "unique constraint", columns: columns}
		if c.Contype == pg.ConstrType_CONSTR_PRIMARY {
			k.what = "primary key"
		}
		if c.Indexname != "" { // USING INDEX: the index was checked when it was made
			for _, u := range rel.Unique {
				if u.Name == c.Indexname {
					k.columns = u.Columns
				}
			}
		}
		switch {
		case c.Deferrable:
			k.beyond = "deferrable constraints"
		case c.NullsNotDistinct:
			k.derived = true
		case c.Indexname != "":
			return
		}
		df.uniqueness(rel, t, k, added)
	case pg.ConstrType_CONSTR_EXCLUSION:
		df.exclusion(rel, t, c)
	case pg.ConstrType_CONSTR_FOREIGN:
		df.foreignKey(rel, t, c, own)
	}
}

// exclusion checks an exclusion constraint: it must compare the shard key with =.
func (df definitions) exclusion(rel *catalog.Relation, t *table, c *pg.Constraint) {
	var columns []string
	for _, e := range c.Exclusions {
		items := e.GetList().GetItems()
		if len(items) == 2 && isEquality(items[1].GetList().GetItems()) {
			columns = append(columns, items[0].GetIndexElem().GetName())
		}
	}
	df.uniqueness(rel, t, uniqueKey{what: "constraint by =", columns: columns, beyond: "exclusion constraints"}, nil)
}

// foreignKey refuses a foreign key that would cross shards.
func (df definitions) foreignKey(rel *catalog.Relation, t *table, c *pg.Constraint, own []string) {
	to := df.a.commands().named(rangeVar(c.Pktable))
	if to == nil {
		return // the server will say so
	}
	other := df.a.declared(to)
	if other != nil {
		df.a.reach().rekeying(rel, t, c, own, !other.Reference)
	}
	switch {
	case other == nil:
		df.a.unsupported(df.a.reachHint(to.Name.Name), "a foreign key of declared table %q cannot reference %q, which is on the home shard alone", rel.Name.Name, to.Name.Name)
		return
	case other.Reference:
		return
	case t.Reference:
		df.a.unsupported("A reference table can reference reference tables only: shard "+rel.Name.Name+" too, or leave the foreign key out.", "a foreign key of reference table %q cannot reference sharded table %q", rel.Name.Name, to.Name.Name)
		return
	}
	fk := linked(rel, to, c, own)
	from, keys := keyNames(t), keyNames(other)
	if !colocated(t, other) {
		df.a.unsupported("Declare both with the same vindex and key type.", "a foreign key of %q would cross shards: %q is not colocated with it", rel.Name.Name, to.Name.Name)
		return
	}
	if len(fk.RefColumns) > 0 && !fk.Contains(from, keys) {
		df.a.unsupported(UnkeyedHint(df.a.env.Schema, fk, from, keys),
			"a foreign key of %q would cross shards: it does not match the shard key (%s) with that of %q (%s)", rel.Name.Name, strings.Join(from, ", "), to.Name.Name, strings.Join(keys, ", "))
	}
}
