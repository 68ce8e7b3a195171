package catalog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// constraint applies a constraint of a table, or of one of its columns.
func (d *dump) constraint(r *Relation, s *pg_query.Constraint, column string) error {
	var c *Column
	if column != "" {
		if c = r.Column(column); c == nil {
			return fmt.Errorf("column %s of %s does not exist", quoteIdent(column), r.quoted())
		}
	}
	var err error
	switch s.GetContype() {
	case pg_query.ConstrType_CONSTR_NOTNULL, pg_query.ConstrType_CONSTR_DEFAULT, pg_query.ConstrType_CONSTR_GENERATED, pg_query.ConstrType_CONSTR_IDENTITY:
		if c == nil {
			return fmt.Errorf("a constraint of no column")
		}
	}
	switch s.GetContype() {
	case pg_query.ConstrType_CONSTR_NOTNULL:
		c.NotNull = true
	case pg_query.ConstrType_CONSTR_DEFAULT:
		c.Default, c.Sequence, err = d.defaultText(s.RawExpr, typeRef{c.Type, c.Mod, c.TypeName})
	case pg_query.ConstrType_CONSTR_GENERATED:
		c.Generated = true
		c.Default, err = d.deparse(s.RawExpr)
	case pg_query.ConstrType_CONSTR_IDENTITY:
		if s.GeneratedWhen == "" {
			return fmt.Errorf("column %s: an identity of no kind", quoteIdent(column))
		}
		return d.identity(r, c, s.GeneratedWhen[0], s.Options)
	case pg_query.ConstrType_CONSTR_PRIMARY, pg_query.ConstrType_CONSTR_UNIQUE, pg_query.ConstrType_CONSTR_EXCLUSION:
		return d.uniqueConstraint(r, s, column)
	case pg_query.ConstrType_CONSTR_FOREIGN:
		return d.foreignKey(r, s, column)
	}
	return err
}

func (d *dump) uniqueConstraint(r *Relation, s *pg_query.Constraint, column string) error {
	u := Unique{Name: s.Conname, Primary: s.Contype == pg_query.ConstrType_CONSTR_PRIMARY, Deferrable: s.Deferrable, NullsNotDistinct: s.NullsNotDistinct}
	if s.Indexname != "" { // USING INDEX
		for i := range r.Unique {
			if old := &r.Unique[i]; old.Name == s.Indexname {
				old.Primary = u.Primary
				for _, name := range old.Columns {
					if c := r.Column(name); c != nil {
						c.NotNull = c.NotNull || u.Primary
					}
				}
				return d.renameIndex(r, old, s.Conname)
			}
		}
		return fmt.Errorf("index %s of %s does not exist", quoteIdent(s.Indexname), r.quoted())
	}
	suffix := "key"
	switch {
	case column != "":
		u.Columns = []string{column}
	case s.Contype == pg_query.ConstrType_CONSTR_EXCLUSION:
		suffix, u.Exclusion, u.Partial = "excl", true, s.WhereClause != nil
		for _, e := range s.Exclusions {
			items := e.GetList().GetItems()
			if len(items) == 0 {
				return fmt.Errorf("an exclusion without a column")
			}
			u.Columns = append(u.Columns, items[0].GetIndexElem().GetName())
		}
	default:
		for _, k := range s.Keys {
			u.Columns = append(u.Columns, k.GetString_().GetSval())
		}
	}
	for _, name := range u.Columns {
		c := r.Column(name)
		if name != "" && c == nil {
			return fmt.Errorf("column %s of %s does not exist", quoteIdent(name), r.quoted())
		}
		if c != nil && u.Primary {
			c.NotNull = true
		}
	}
	if u.Primary && slices.ContainsFunc(r.Unique, func(o Unique) bool { return o.Primary }) {
		return fmt.Errorf("%s has a primary key already", r.quoted())
	}
	if u.Primary {
		suffix = "pkey"
	}
	return d.addUnique(r, u, suffix)
}

// addUnique adds a unique constraint, makes its index, and makes up a name if the
// constraint has none.
func (d *dump) addUnique(r *Relation, u Unique, suffix string) error {
	if u.Name == "" {
		middle := strings.Join(u.Columns, "_")
		if u.Primary {
			middle = ""
		}
		u.Name = d.freeName(r.Schema, r.Name.Name, middle, suffix)
	}
	if err := d.addIndex(r, u.Name); err != nil {
		return err
	}
	r.Unique = append(r.Unique, u)
	return nil
}

func (d *dump) addIndex(r *Relation, name string) error {
	kind := Index
	if r.Kind == PartitionedTable {
		kind = PartitionedIndex
	}
	index, err := d.add(Name{r.Schema, name}, kind)
	if err != nil {
		return err
	}
	index.OwnedBy = r.Name
	return nil
}

func (d *dump) renameIndex(r *Relation, u *Unique, name string) error {
	if name == "" || name == u.Name {
		return nil
	}
	to := Name{r.Schema, name}
	if d.relations[to] != nil {
		return fmt.Errorf("relation %s already exists", to.quoted())
	}
	if index := d.relations[Name{r.Schema, u.Name}]; index != nil {
		delete(d.relations, index.Name)
		index.Name = to
		d.relations[to] = index
	}
	u.Name = name
	return nil
}

// cloneIndexes gives a partition, or a table made LIKE another, the unique indexes
// that it lacks.
func (d *dump) cloneIndexes(from, to *Relation) error {
	for _, u := range from.Unique {
		has := func(o Unique) bool { return slices.Equal(o.Columns, u.Columns) && o.Primary == u.Primary }
		if slices.ContainsFunc(to.Unique, has) {
			continue
		}
		suffix := "key"
		if u.Primary {
			suffix = "pkey"
		}
		u.Name = ""
		if err := d.addUnique(to, u, suffix); err != nil {
			return err
		}
	}
	return nil
}

func (d *dump) createIndex(s *pg_query.IndexStmt) error {
	r, err := d.need(rangeName(s.Relation))
	if err != nil {
		return err
	}
	if s.IfNotExists && d.relations[Name{r.Schema, s.Idxname}] != nil {
		return nil
	}
	u := Unique{Name: s.Idxname, NullsNotDistinct: s.NullsNotDistinct}
	middle := []string{}
	for _, p := range s.IndexParams {
		e := p.GetIndexElem()
		if e.GetName() != "" && r.Column(e.GetName()) == nil {
			return fmt.Errorf("column %s of %s does not exist", quoteIdent(e.GetName()), r.quoted())
		}
		u.Columns = append(u.Columns, e.GetName())
		switch f := e.GetExpr().GetFuncCall(); {
		case e.GetName() != "":
			middle = append(middle, e.GetName())
		case f != nil:
			middle = append(middle, lastName(f.Funcname))
		default:
			middle = append(middle, "expr")
		}
	}
	u.Partial = !WholePredicate(s.WhereClause, u.Columns)
	if u.Name == "" {
		u.Name = d.freeName(r.Schema, r.Name.Name, strings.Join(middle, "_"), "idx")
	}
	if err := d.addIndex(r, u.Name); err != nil {
		return err
	}
	if s.Unique {
		r.Unique = append(r.Unique, u)
	}
	if s.Relation.GetInh() {
		return d.toPartitions(r, func(p *Relation) error { return d.cloneIndexes(r, p) })
	}
	return nil
}

// toPartitions calls do for every partition below a table, at all levels.
func (d *dump) toPartitions(r *Relation, do func(*Relation) error) error {
	for _, p := range r.Children {
		if p.Inherited {
			continue
		}
		if err := do(p); err != nil {
			return err
		}
		if err := d.toPartitions(p, do); err != nil {
			return err
		}
	}
	return nil
}

func (d *dump) foreignKey(r *Relation, s *pg_query.Constraint, column string) error {
	to, err := d.need(rangeName(s.Pktable))
	if err != nil {
		return err
	}
	fk := ForeignKey{Name: s.Conname, Table: r.Name, References: to.Name}
	if column != "" {
		fk.Columns = []string{column}
	}
	for _, a := range s.FkAttrs {
		fk.Columns = append(fk.Columns, a.GetString_().GetSval())
	}
	for _, a := range s.PkAttrs {
		fk.RefColumns = append(fk.RefColumns, a.GetString_().GetSval())
	}
	if fk.RefColumns == nil {
		i := slices.IndexFunc(to.Unique, func(u Unique) bool { return u.Primary })
		if i < 0 {
			return fmt.Errorf("%s has no primary key to reference", to.quoted())
		}
		fk.RefColumns = slices.Clone(to.Unique[i].Columns)
	}
	if len(fk.Columns) != len(fk.RefColumns) {
		return fmt.Errorf("a foreign key of %d columns on %d", len(fk.Columns), len(fk.RefColumns))
	}
	for i := range fk.Columns {
		if r.Column(fk.Columns[i]) == nil {
			return fmt.Errorf("column %s of %s does not exist", quoteIdent(fk.Columns[i]), r.quoted())
		}
		if to.Column(fk.RefColumns[i]) == nil {
			return fmt.Errorf("column %s of %s does not exist", quoteIdent(fk.RefColumns[i]), to.quoted())
		}
	}
	taken := func(name string) bool {
		return slices.ContainsFunc(r.ForeignKeys, func(o ForeignKey) bool { return o.Name == name })
	}
	if fk.Name == "" {
		fk.Name = freeName(r.Name.Name, strings.Join(fk.Columns, "_"), "fkey", taken)
	}
	if taken(fk.Name) {
		return fmt.Errorf("constraint %s of %s already exists", quoteIdent(fk.Name), r.quoted())
	}
	fk.Definition = definition(fk, s)
	r.ForeignKeys = append(r.ForeignKeys, fk)
	return nil
}

// keyActions has the SQL for the actions of a foreign key other than NO ACTION, by
// the letter that pg_query uses.
var keyActions = map[string]string{"r": "RESTRICT", "c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT"}

// definition writes a foreign key as pg_get_constraintdef does.
func definition(fk ForeignKey, s *pg_query.Constraint) string {
	list := func(names []string) string {
		quoted := make([]string, len(names))
		for i, n := range names {
			quoted[i] = quoteIdent(n)
		}
		return "(" + strings.Join(quoted, ", ") + ")"
	}
	text := "FOREIGN KEY " + list(fk.Columns) + " REFERENCES " + fk.References.quoted() + list(fk.RefColumns)
	if s.FkMatchtype == "f" {
		text += " MATCH FULL"
	}
	if a := keyActions[s.FkUpdAction]; a != "" {
		text += " ON UPDATE " + a
	}
	if a := keyActions[s.FkDelAction]; a != "" {
		text += " ON DELETE " + a
		if len(s.FkDelSetCols) > 0 {
			var names []string
			for _, n := range s.FkDelSetCols {
				names = append(names, n.GetString_().GetSval())
			}
			text += " " + list(names)
		}
	}
	if s.Deferrable {
		text += " DEFERRABLE"
	}
	if s.Initdeferred {
		text += " INITIALLY DEFERRED"
	}
	if s.SkipValidation && !s.InitiallyValid {
		text += " NOT VALID"
	}
	return text
}

// freeName makes up a relation's name as PostgreSQL does: a name that is not taken
// yet in the schema.
func (d *dump) freeName(schema, table, middle, suffix string) string {
	return freeName(table, middle, suffix, func(name string) bool { return d.relations[Name{schema, name}] != nil })
}

// freeName makes up a name that is not taken.
func freeName(table, middle, suffix string, taken func(string) bool) string {
	for i := 0; ; i++ {
		end := suffix
		if i > 0 {
			end += strconv.Itoa(i)
		}
		if name := joinName(table, middle, end); !taken(name) {
			return name
		}
	}
}

// joinName joins the parts of a name. It cuts the longer of table and middle until
// the name fits into nameLength.
func joinName(table, middle, suffix string) string {
	room := nameLength - 1 - len(suffix) - 1
	if middle != "" {
		room--
	}
	a, b := len(table), len(middle)
	for a+b > room {
		if a > b {
			a--
		} else {
			b--
		}
	}
	table, middle = cut(table, a), cut(middle, b)
	if middle != "" {
		table += "_" + middle
	}
	return table + "_" + suffix
}
