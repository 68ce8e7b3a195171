package catalog

import (
	"fmt"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// dumpType is a type of the user or of an extension.
type dumpType struct {
	name       Name
	kind       byte // pg_type.typtype: b, c, d, e, m, r
	oid, array uint32
	// base and the fields below are set for domains only.
	base      typeRef
	notNull   bool
	def       string
	sequence  Name
	collation Name
}

// typeRef is a type with its modifier, and with the text that format_type writes
// for both.
type typeRef struct {
	oid     uint32
	mod     int32
	display string
}

// addType gives a new type its name and OIDs. The type may replace a shell type
// (kind 0) of that name.
func (d *dump) addType(nodes []*pg_query.Node, t *dumpType) (*dumpType, error) {
	n, err := d.place(nameOf(nodes))
	if err != nil {
		return nil, err
	}
	if old := d.types[n]; old != nil && old.kind != 0 {
		return nil, fmt.Errorf("type %s already exists", n.quoted())
	}
	t.name, t.oid, t.array = n, d.oid(), d.oid()
	d.types[n] = t
	d.byOID[t.oid] = t
	return t, nil
}

// resolve finds the type that a statement names.
func (d *dump) resolve(t *pg_query.TypeName) (typeRef, error) {
	if t == nil {
		return typeRef{}, fmt.Errorf("a type is missing")
	}
	if t.PctType {
		return d.columnType(t)
	}
	n := nameOf(t.Names)
	ref := typeRef{mod: -1}
	var array uint32
	if b, ok := builtinTypes[n.Name]; ok && (n.Schema == "" || n.Schema == "pg_catalog") {
		ref.oid, array = b.oid, b.array
		var err error
		if ref.mod, err = modifier(n.Name, t.Typmods); err != nil {
			return ref, err
		}
		ref.display = displayType(n.Name, b, ref.mod, t.Typmods)
	} else {
		u := d.findType(n)
		if u == nil && d.extensions {
			// The type may belong to an extension, whose types a dump does not list.
			name := n
			if name.Schema == "" {
				name.Schema = "public"
			}
			u = &dumpType{name: name, kind: 'b', oid: d.oid(), array: d.oid()}
			d.types[name], d.byOID[u.oid] = u, u
		}
		if u == nil {
			return ref, fmt.Errorf("type %s does not exist", n.quoted())
		}
		ref.oid, array, ref.display = u.oid, u.array, u.name.quoted()
	}
	if len(t.ArrayBounds) > 0 {
		ref.oid, ref.display = array, ref.display+"[]"
	}
	return ref, nil
}

// columnType resolves table.column%TYPE.
func (d *dump) columnType(t *pg_query.TypeName) (typeRef, error) {
	r, err := d.need(nameOf(t.Names[:len(t.Names)-1]))
	if err != nil {
		return typeRef{}, err
	}
	c := r.Column(lastName(t.Names))
	if c == nil {
		return typeRef{}, fmt.Errorf("column %s of %s does not exist", quoteIdent(lastName(t.Names)), r.quoted())
	}
	return typeRef{c.Type, c.Mod, c.TypeName}, nil
}

func (d *dump) findType(n Name) *dumpType {
	if n.Schema != "" {
		return d.types[n]
	}
	for _, schema := range d.path {
		if t := d.types[Name{schema, n.Name}]; t != nil {
			return t
		}
	}
	return nil
}

// modifier computes pg_attribute.atttypmod from the modifiers of a built-in type,
// -1 for none.
func modifier(name string, mods []*pg_query.Node) (int32, error) {
	var n []int32
	for _, m := range mods {
		c := m.GetAConst()
		if c.GetIval() == nil {
			return -1, fmt.Errorf("type %s: a modifier that is no integer", name)
		}
		n = append(n, c.GetIval().GetIval())
	}
	if len(n) == 0 {
		return -1, nil
	}
	switch name {
	case "varchar", "bpchar":
		return n[0] + 4, nil
	case "numeric":
		scale := int32(0)
		if len(n) > 1 {
			scale = n[1]
		}
		return (n[0]<<16 | scale&0x7ff) + 4, nil
	case "interval":
		precision := int32(0xffff)
		if len(n) > 1 {
			precision = n[1]
		}
		if n[0] == fullRange && precision == 0xffff {
			return -1, nil
		}
		return precision | n[0]<<16, nil
	case "bit", "varbit", "time", "timetz", "timestamp", "timestamptz":
		return n[0], nil
	}
	return -1, fmt.Errorf("type %s takes no modifier", name)
}

// fullRange is the field mask of an interval type that names no fields.
const fullRange = 0x7fff

// intervalFields has the SQL for each field mask that an interval type may have.
var intervalFields = map[int32]string{
	1 << 2: "year", 1 << 1: "month", 1 << 3: "day", 1 << 10: "hour", 1 << 11: "minute", 1 << 12: "second",
	1<<2 | 1<<1: "year to month", 1<<3 | 1<<10: "day to hour", 1<<3 | 1<<10 | 1<<11: "day to minute",
	1<<3 | 1<<10 | 1<<11 | 1<<12: "day to second", 1<<10 | 1<<11: "hour to minute",
	1<<10 | 1<<11 | 1<<12: "hour to second", 1<<11 | 1<<12: "minute to second",
}

// displayType writes a built-in type with its modifiers as format_type does.
func displayType(name string, b builtin, mod int32, mods []*pg_query.Node) string {
	show := b.display
	if show == "" {
		show = name
	}
	if mod < 0 {
		if name == "bpchar" {
			return name
		}
		return show
	}
	args := make([]string, len(mods))
	for i, m := range mods {
		args[i] = fmt.Sprint(m.GetAConst().GetIval().GetIval())
	}
	switch name {
	case "numeric":
		if len(args) == 1 {
			args = append(args, "0")
		}
	case "interval":
		if fields := intervalFields[mods[0].GetAConst().GetIval().GetIval()]; fields != "" {
			show += " " + fields
		}
		if args = args[1:]; len(args) == 0 {
			return show
		}
	}
	// timestamp(3) with time zone: the modifier follows the first word.
	if first, rest, ok := strings.Cut(show, " "); ok && strings.HasPrefix(name, "time") {
		return fmt.Sprintf("%s(%s) %s", first, strings.Join(args, ","), rest)
	}
	return fmt.Sprintf("%s(%s)", show, strings.Join(args, ","))
}

// createRange makes a range type and the multirange that goes with it.
func (d *dump) createRange(s *pg_query.CreateRangeStmt) error {
	t, err := d.addType(s.TypeName, &dumpType{kind: 'r'})
	if err != nil {
		return err
	}
	multi := Name{t.name.Schema, t.name.Name + "_multirange"}
	if before, after, ok := strings.Cut(t.name.Name, "range"); ok {
		multi.Name = before + "multirange" + after
	}
	multi.Name = cut(multi.Name, nameLength-1)
	for _, p := range s.Params {
		if e := p.GetDefElem(); e.GetDefname() == "multirange_type_name" {
			given := nameOf(e.GetArg().GetTypeName().GetNames())
			if multi.Name = given.Name; given.Schema != "" {
				multi.Schema = given.Schema
			}
		}
	}
	if d.types[multi] != nil {
		return fmt.Errorf("type %s already exists", multi.quoted())
	}
	m := &dumpType{name: multi, kind: 'm', oid: d.oid(), array: d.oid()}
	d.types[multi], d.byOID[m.oid] = m, m
	return nil
}

func (d *dump) createDomain(s *pg_query.CreateDomainStmt) error {
	base, err := d.resolve(s.TypeName)
	if err != nil {
		return err
	}
	t, err := d.addType(s.Domainname, &dumpType{kind: 'd', base: base})
	if err != nil {
		return err
	}
	if s.CollClause != nil {
		t.collation = d.collation(s.CollClause)
	}
	for _, n := range s.Constraints {
		switch c := n.GetConstraint(); c.GetContype() {
		case pg_query.ConstrType_CONSTR_NOTNULL:
			t.notNull = true
		case pg_query.ConstrType_CONSTR_DEFAULT:
			if t.def, t.sequence, err = d.defaultText(c.RawExpr, base); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *dump) alterDomain(s *pg_query.AlterDomainStmt) error {
	t := d.findType(nameOf(s.TypeName))
	if t == nil {
		return fmt.Errorf("type %s does not exist", nameOf(s.TypeName).quoted())
	}
	var err error
	switch s.Subtype {
	case "T":
		t.def, t.sequence = "", Name{}
		if s.Def != nil {
			t.def, t.sequence, err = d.defaultText(s.Def, t.base)
		}
	case "N":
		t.notNull = false
	case "O":
		t.notNull = true
	}
	return err
}

func (d *dump) createComposite(s *pg_query.CompositeTypeStmt) error {
	r, err := d.add(rangeName(s.Typevar), Composite)
	if err != nil {
		return err
	}
	for _, n := range s.Coldeflist {
		if err := d.addColumn(r, n.GetColumnDef()); err != nil {
			return err
		}
	}
	return d.rowType(r)
}

// rowType makes the composite type of a relation's rows.
func (d *dump) rowType(r *Relation) error {
	if d.types[r.Name] != nil {
		return fmt.Errorf("type %s already exists", r.quoted())
	}
	t := &dumpType{name: r.Name, kind: 'c', oid: d.oid(), array: d.oid()}
	d.types[r.Name], d.byOID[t.oid] = t, t
	return nil
}

// belowDomain fills in what a column takes from its domain: base type, modifier,
// NOT NULL, default and collation. loader.finish does the same for Load.
func (d *dump) belowDomain(r *Relation, c *Column) {
	c.Base = c.Type
	if name := builtinTypes["name"]; (c.Type == name.oid || c.Type == name.array) && c.Collation == (Name{}) {
		c.Collation = Name{"pg_catalog", "C"} // only type name has a collation of its own
	}
	table := r.Kind != View && r.Kind != MaterializedView && r.Kind != Composite
	for t := d.byOID[c.Base]; t != nil; t = d.byOID[c.Base] {
		c.Enum = t.kind == 'e'
		if t.kind != 'd' {
			break
		}
		if c.Mod < 0 {
			c.Mod = t.base.mod
		}
		c.NotNull = c.NotNull || t.notNull && table
		c.DomainNotNull = c.DomainNotNull || t.notNull
		if c.Default == "" && table && !c.Generated && c.Identity == 0 {
			c.Default, c.Sequence = t.def, t.sequence
		}
		if c.Collation == (Name{}) {
			c.Collation = t.collation
		}
		c.Base = t.base.oid
	}
	coll := d.collations[c.Collation]
	c.Nondeterministic, c.Bytewise = coll.nondeterministic, coll.bytewise
	if c.Collation == (Name{}) {
		c.Bytewise = d.bytewise && collatable(c.Base)
	}
}
