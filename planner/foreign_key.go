package planner

import (
	"regexp"
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/parser"
	"weft/quote"
)

// KeyedHint tells how a foreign key between sharded tables can contain the keys of both, from of the table that
// references and to of the other one: the statements to send. It returns "" if no foreign key can.
func KeyedHint(schema *catalog.Schema, fk *catalog.ForeignKey, from, to []string) string {
	keyed, ok := fk.Keyed(from, to)
	if !ok {
		return ""
	}
	hint := "Let it contain the shard key: "
	other := schema.Relation(fk.References)
	if other != nil && !other.HasUnique(keyed.RefColumns) {
		hint += "ALTER TABLE " + sqlName(fk.References) + " ADD UNIQUE (" + sqlNames(keyed.RefColumns) + "); "
	}
	hint += "ALTER TABLE " + sqlName(fk.Table) + " "
	if fk.Name != "" {
		hint += "DROP CONSTRAINT " + sqlNames([]string{fk.Name}) + ", "
	}
	hint += "ADD FOREIGN KEY (" + sqlNames(keyed.Columns) + ") REFERENCES " + sqlName(fk.References) + " (" + sqlNames(keyed.RefColumns) + ")"
	switch update, del, _ := keyed.Actions(); {
	case keyed.Definition == "":
	case del == catalog.SetNull || del == catalog.SetDefault:
		hint += " ON DELETE " + del.String() + " (" + sqlNames(fk.Columns) + ")"
	case del != catalog.NoAction:
		hint += " ON DELETE " + del.String()
	case update == catalog.Cascade:
		hint += " ON UPDATE CASCADE"
	}
	return hint + "."
}

// unkeyedHint tells what to do about a foreign key that cannot contain the shard keys of both tables.
const unkeyedHint = "Shard both tables by the column that they have in common (a tenant), and let the foreign key contain it; or declare the referenced table as a reference table; " +
	"or leave the foreign key out (in Django: db_constraint=False)."

// UnkeyedHint is KeyedHint, or what else can be done.
func UnkeyedHint(schema *catalog.Schema, fk *catalog.ForeignKey, from, to []string) string {
	if hint := KeyedHint(schema, fk, from, to); hint != "" {
		return hint
	}
	return unkeyedHint
}

// OptionHint is UnkeyedHint for a foreign key of a table that is about to be declared: it names the option with which weft
// changes the foreign key by itself.
func OptionHint(schema *catalog.Schema, fk *catalog.ForeignKey, from, to []string) string {
	if hint := KeyedHint(schema, fk, from, to); hint != "" {
		return hint + " With foreign_keys => 'shard' weft.shard_table does that by itself."
	}
	return unkeyedHint
}

var plainName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// sqlNames returns names as people write them: with quotes only where SQL needs them.
func sqlNames(list []string) string {
	out := make([]string, len(list))
	for i, n := range list {
		out[i] = n
		if !plainName.MatchString(n) || !isColumnName(n) {
			out[i] = quote.Ident(n)
		}
	}
	return strings.Join(out, ", ")
}

// isColumnName reports whether SQL takes a word for the name of a column and of a table.
func isColumnName(word string) bool {
	tree, err := parser.ParseTree("SELECT "+word+" FROM "+word, parser.Options{})
	return err == nil && len(tree.Statements) == 1 &&
		tree.Statements[0].Stmt.GetSelectStmt().GetTargetList()[0].GetResTarget().GetVal().GetColumnRef() != nil
}

// sqlName returns the name of a table as people write it: without the schema if that is public.
func sqlName(n catalog.Name) string {
	if n.Schema == "public" || n.Schema == "" {
		return sqlNames([]string{n.Name})
	}
	return sqlNames([]string{n.Schema}) + "." + sqlNames([]string{n.Name})
}

// linked returns the foreign key that a constraint makes. own are the columns of the definition that has the
// constraint in it.
func linked(rel, to *catalog.Relation, c *pg.Constraint, own []string) *catalog.ForeignKey {
	fk := &catalog.ForeignKey{Table: rel.Name, Columns: nameList(c.FkAttrs), References: to.Name, RefColumns: nameList(c.PkAttrs)}
	if len(fk.Columns) == 0 {
		fk.Columns = own
	}
	if i := slices.IndexFunc(to.Unique, func(u catalog.Unique) bool { return u.Primary }); len(fk.RefColumns) == 0 && i >= 0 {
		fk.RefColumns = to.Unique[i].Columns
	}
	return fk
}

// homeLinks refuses a table of the home shard that references a sharded table by other columns than its key: no
// declaration could keep the foreign key, and without one the table would take no writes. elements are the
// columns and constraints that the table gets.
func (df definitions) homeLinks(rel *catalog.Relation, elements []*pg.Node) {
	for _, e := range elements {
		if c := e.GetConstraint(); c != nil {
			df.homeLink(rel, c, nil)
		}
		for _, x := range e.GetColumnDef().GetConstraints() {
			df.homeLink(rel, x.GetConstraint(), []string{e.GetColumnDef().Colname})
		}
	}
}

func (df definitions) homeLink(rel *catalog.Relation, c *pg.Constraint, own []string) {
	if c.GetContype() != pg.ConstrType_CONSTR_FOREIGN {
		return
	}
	to := df.a.commands().named(rangeVar(c.Pktable))
	t := df.a.declared(to)
	if t == nil || t.Reference {
		return
	}
	fk := linked(rel, to, c, own)
	keys := keyNames(t)
	if len(fk.RefColumns) == 0 || !slices.ContainsFunc(keys, func(k string) bool { return !slices.Contains(fk.RefColumns, k) }) {
		return // declared by the columns that reference the key, the table is colocated
	}
	if t.links != "" {
		return // weft.shard_table(…, foreign_keys => 'shard') gives it the key
	}
	hint := "Let it contain the shard key of " + t.Name + ", in a column of " + rel.Name.Name + ": "
	if keyed, ok := fk.Keyed(keys, keys); ok {
		if !to.HasUnique(keyed.RefColumns) {
			hint += "ALTER TABLE " + sqlName(to.Name) + " ADD UNIQUE (" + sqlNames(keyed.RefColumns) + "); "
		}
		hint += "FOREIGN KEY (" + sqlNames(keyed.Columns) + ") REFERENCES " + sqlName(to.Name) + " (" + sqlNames(keyed.RefColumns) + "); then SELECT weft.shard_table('" +
			rel.Name.Name + "', '" + strings.Join(keys, ", ") + "')."
	} else {
		hint = unkeyedHint
	}
	df.a.unsupported(hint, "a foreign key of %q cannot reference sharded table %q by (%s): it does not contain the shard key %q",
		rel.Name.Name, t.Name, strings.Join(fk.RefColumns, ", "), strings.Join(keys, ", "))
}
