package catalog

import (
	"fmt"
	"slices"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"

	"weft/quote"
)

func (d *dump) createTable(s *pg_query.CreateStmt, kind RelationKind) error {
	if s.Relation.GetRelpersistence() == "t" {
		return nil // temporary tables are not in the schema
	}
	if s.Partspec != nil {
		kind = PartitionedTable
	}
	n, err := d.place(rangeName(s.Relation))
	if err != nil {
		return err
	}
	if s.IfNotExists && d.relations[n] != nil {
		return nil
	}
	r, err := d.add(n, kind)
	if err != nil {
		return err
	}
	if err := d.rowType(r); err != nil {
		return err
	}
	if s.OfTypename != nil {
		of, err := d.need(nameOf(s.OfTypename.Names))
		if err != nil {
			return err
		}
		d.copyColumns(r, of)
	}
	for _, p := range s.InhRelations {
		if err := d.inherit(r, p.GetRangeVar(), s.Partbound == nil); err != nil {
			return err
		}
	}
	for _, e := range s.TableElts {
		switch e := e.GetNode().(type) {
		case *pg_query.Node_ColumnDef:
			err = d.addColumn(r, e.ColumnDef)
		case *pg_query.Node_TableLikeClause:
			err = d.like(r, e.TableLikeClause)
		}
		if err != nil {
			return err
		}
	}
	// Constraints come after all columns, because a key may precede its columns in the text.
	for _, e := range s.TableElts {
		switch e := e.GetNode().(type) {
		case *pg_query.Node_ColumnDef:
			for _, c := range e.ColumnDef.Constraints {
				if err := d.constraint(r, c.GetConstraint(), e.ColumnDef.Colname); err != nil {
					return err
				}
			}
		case *pg_query.Node_Constraint:
			if err := d.constraint(r, e.Constraint, ""); err != nil {
				return err
			}
		}
	}
	if r.Parent != nil && !r.Inherited {
		return d.cloneIndexes(r.Parent, r)
	}
	return nil
}

// copyColumns adds to a table the columns of another table that it lacks.
func (d *dump) copyColumns(to, from *Relation) {
	for _, c := range from.Columns {
		if to.Column(c.Name) != nil {
			continue
		}
		c.Num = int16(len(to.Columns) + 1)
		to.Columns = append(to.Columns, c)
	}
}

// inherit makes r a child of a table: by INHERITS if inherited, else as a partition.
func (d *dump) inherit(r *Relation, parent *pg_query.RangeVar, inherited bool) error {
	p, err := d.need(rangeName(parent))
	if err != nil {
		return err
	}
	for above := p; above != nil; above = above.Parent {
		if above == r {
			return fmt.Errorf("%s would be above itself", r.quoted())
		}
	}
	if inherited == (p.Kind == PartitionedTable) {
		return fmt.Errorf("%s cannot be a child of %s in this way", r.quoted(), p.quoted())
	}
	p.Children = append(p.Children, r)
	if r.Parent == nil {
		r.Parent, r.Inherited = p, inherited
	}
	from := *p
	from.Columns = slices.Clone(p.Columns)
	for i := range from.Columns {
		// Identities are handed down neither to partitions nor to inheriting tables.
		if c := &from.Columns[i]; c.Identity != 0 {
			c.Identity, c.Sequence = 0, Name{}
		}
	}
	d.copyColumns(r, &from)
	return nil
}

// The options of LIKE, in the bits of TableLikeClause.
const (
	likeDefaults  = 1 << 3
	likeGenerated = 1 << 4
	likeIdentity  = 1 << 5
	likeIndexes   = 1 << 6
)

// like adds to r the columns of the table in LIKE, and what its options include.
func (d *dump) like(r *Relation, s *pg_query.TableLikeClause) error {
	of, err := d.need(rangeName(s.Relation))
	if err != nil {
		return err
	}
	for _, c := range of.Columns {
		if c.Generated && s.Options&likeGenerated == 0 || !c.Generated && s.Options&likeDefaults == 0 {
			c.Default, c.Generated = "", false
			if c.Identity == 0 {
				c.Sequence = Name{}
			}
		}
		identity := c.Identity
		if identity != 0 {
			c.Identity, c.Sequence = 0, Name{}
		}
		c.Num = int16(len(r.Columns) + 1)
		r.Columns = append(r.Columns, c)
		if identity != 0 && s.Options&likeIdentity != 0 {
			if err := d.identity(r, r.Column(c.Name), identity, nil); err != nil {
				return err
			}
		}
	}
	if s.Options&likeIndexes != 0 {
		return d.cloneIndexes(of, r)
	}
	return nil
}

// serials has the integer type behind each serial pseudo-type.
var serials = map[string]string{
	"smallserial": "int2", "serial2": "int2",
	"serial": "int4", "serial4": "int4",
	"bigserial": "int8", "serial8": "int8",
}

func (d *dump) addColumn(r *Relation, def *pg_query.ColumnDef) error {
	if def.TypeName == nil { // a typed table or a partition adds to a column that it has already
		if r.Column(def.Colname) == nil {
			return fmt.Errorf("column %s of %s does not exist", quoteIdent(def.Colname), r.quoted())
		}
		return nil
	}
	c := Column{Name: def.Colname, Num: int16(len(r.Columns) + 1), Mod: -1, NotNull: def.IsNotNull}
	serial := ""
	if len(def.TypeName.GetNames()) == 1 && len(def.TypeName.GetArrayBounds()) == 0 {
		serial = serials[lastName(def.TypeName.Names)]
	}
	if serial != "" {
		b := builtinTypes[serial]
		c.Type, c.TypeName, c.NotNull = b.oid, b.display, true
	} else {
		t, err := d.resolve(def.TypeName)
		if err != nil {
			return fmt.Errorf("column %s: %w", quoteIdent(def.Colname), err)
		}
		c.Type, c.Mod, c.TypeName = t.oid, t.mod, t.display
	}
	if def.CollClause != nil {
		c.Collation = d.collation(def.CollClause)
	}
	old := r.Column(c.Name)
	switch {
	case old == nil:
		r.Columns = append(r.Columns, c)
		old = &r.Columns[len(r.Columns)-1]
	case r.Parent == nil:
		return fmt.Errorf("column %s of %s already exists", quoteIdent(c.Name), r.quoted())
	default: // an inherited column that is repeated
		old.NotNull = old.NotNull || c.NotNull
	}
	if serial != "" {
		seq, err := d.add(Name{r.Schema, d.freeName(r.Schema, r.Name.Name, c.Name, "seq")}, Sequence)
		if err != nil {
			return err
		}
		seq.OwnedBy, seq.OwnedColumn = r.Name, c.Name
		old.Default, old.Sequence = nextval(seq.Name), seq.Name
	}
	return nil
}

// nextval writes the default of a column that draws from a sequence.
func nextval(seq Name) string {
	return "nextval('" + quote.Double(seq.quoted()) + "'::regclass)"
}

// identity makes a column an identity, with a sequence that the column owns.
func (d *dump) identity(r *Relation, c *Column, kind byte, options []*pg_query.Node) error {
	n := Name{r.Schema, ""}
	for _, o := range options {
		if e := o.GetDefElem(); e.GetDefname() == "sequence_name" {
			n = nameOf(e.GetArg().GetList().GetItems())
		}
	}
	if n.Name == "" {
		n.Name = d.freeName(r.Schema, r.Name.Name, c.Name, "seq")
	}
	if n.Schema == "" {
		n.Schema = r.Schema
	}
	seq, err := d.add(n, Sequence)
	if err != nil {
		return err
	}
	seq.OwnedBy, seq.OwnedColumn = r.Name, c.Name
	c.Identity, c.Sequence, c.NotNull = kind, seq.Name, true
	return nil
}

// defaultText writes a default as PostgreSQL does. If the default is nextval of a
// sequence and nothing else, it also returns the sequence.
func (d *dump) defaultText(expr *pg_query.Node, t typeRef) (string, Name, error) {
	if c := expr.GetAConst(); c != nil {
		if c.Isnull {
			return "", Name{}, nil
		}
		// PostgreSQL writes a string literal with the type that it has given to it.
		if s := c.GetSval(); s != nil && t.display != "" {
			display := t.display
			if b, ok := builtinByOID(t.oid); ok {
				display = b
			}
			return strings.TrimSpace(quote.Literal(s.Sval)) + "::" + display, Name{}, nil
		}
	}
	if name, ok := drawn(expr); ok {
		seq, err := d.need(ParseName(name))
		if err != nil {
			return "", Name{}, err
		}
		return nextval(seq.Name), seq.Name, nil
	}
	text, err := d.deparse(expr)
	return text, Name{}, err
}

// builtinByOID writes the built-in type, or array of one, that has this OID,
// without a modifier.
func builtinByOID(oid uint32) (string, bool) {
	if oid == 0 {
		return "", false
	}
	for name, b := range builtinTypes {
		show := b.display
		if show == "" || name == "bpchar" {
			show = name
		}
		switch oid {
		case b.oid:
			return show, true
		case b.array:
			return show + "[]", true
		}
	}
	return "", false
}

// drawn recognises nextval('…') and nextval('…'::regclass), and returns the string.
func drawn(expr *pg_query.Node) (string, bool) {
	f := expr.GetFuncCall()
	if f == nil || len(f.Args) != 1 || lastName(f.Funcname) != "nextval" || len(f.Funcname) > 1 && nameOf(f.Funcname).Schema != "pg_catalog" {
		return "", false
	}
	arg := f.Args[0]
	if cast := arg.GetTypeCast(); cast != nil {
		if lastName(cast.GetTypeName().GetNames()) != "regclass" {
			return "", false
		}
		arg = cast.Arg
	}
	s := arg.GetAConst().GetSval()
	return s.GetSval(), s != nil
}

// ParseName reads a name as regclass does. Schema is empty if the text has no schema.
func ParseName(text string) Name {
	var parts []string
	var part strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			end := endQuoted(text, i, '"')
			if end < 0 {
				end = len(text)
			}
			part.WriteString(strings.ReplaceAll(strings.Trim(text[i:end], `"`), `""`, `"`))
			i = end - 1
		case '.':
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteString(lower(string(c)))
		}
	}
	n := Name{Name: part.String()}
	if len(parts) > 0 {
		n.Schema = parts[len(parts)-1]
	}
	return n
}

// deparse writes an expression. The tree of expr comes from parser.Parse, so it is
// not too deep for pg_query.Deparse.
func (d *dump) deparse(expr *pg_query.Node) (string, error) {
	text, err := d.deparseQuery(&pg_query.Node{Node: &pg_query.Node_SelectStmt{SelectStmt: &pg_query.SelectStmt{
		TargetList:  []*pg_query.Node{{Node: &pg_query.Node_ResTarget{ResTarget: &pg_query.ResTarget{Val: expr}}}},
		LimitOption: pg_query.LimitOption_LIMIT_OPTION_DEFAULT,
		Op:          pg_query.SetOperation_SETOP_NONE,
	}}})
	return strings.TrimPrefix(text, "SELECT "), err
}

func (d *dump) deparseQuery(n *pg_query.Node) (string, error) {
	return pg_query.Deparse(&pg_query.ParseResult{Version: d.version, Stmts: []*pg_query.RawStmt{{Stmt: n}}})
}

func (d *dump) createSequence(s *pg_query.CreateSeqStmt) error {
	n, err := d.place(rangeName(s.Sequence))
	if err != nil {
		return err
	}
	if s.IfNotExists && d.relations[n] != nil {
		return nil
	}
	seq, err := d.add(n, Sequence)
	if err != nil {
		return err
	}
	return d.ownedBy(seq, s.Options)
}

func (d *dump) alterSequence(s *pg_query.AlterSeqStmt) error {
	seq, err := d.need(rangeName(s.Sequence))
	if err != nil {
		return err
	}
	return d.ownedBy(seq, s.Options)
}

// ownedBy follows OWNED BY among the options of a sequence.
func (d *dump) ownedBy(seq *Relation, options []*pg_query.Node) error {
	for _, o := range options {
		e := o.GetDefElem()
		if e.GetDefname() != "owned_by" {
			continue
		}
		names := e.GetArg().GetList().GetItems()
		if len(names) < 2 { // OWNED BY NONE
			seq.OwnedBy, seq.OwnedColumn = Name{}, ""
			continue
		}
		r, err := d.need(nameOf(names[:len(names)-1]))
		if err != nil {
			return err
		}
		if r.Column(lastName(names)) == nil {
			return fmt.Errorf("column %s of %s does not exist", quoteIdent(lastName(names)), r.quoted())
		}
		seq.OwnedBy, seq.OwnedColumn = r.Name, lastName(names)
	}
	return nil
}
