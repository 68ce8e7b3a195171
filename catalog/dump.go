package catalog

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
	pgparser "github.com/pganalyze/pg_query_go/v6/parser"

	"weft/parser"
	"weft/quote"
)

// FromDump reads a schema from SQL: what pg_dump --schema-only writes, or
// statements written by hand. Types of PostgreSQL have their OIDs, all else has
// made-up ones from 16384 on. The version is 1.
//
// Statements that say nothing about a Schema are skipped. One that contradicts
// those before it (a column of an unknown type, a key on a table that is not
// there) is an error that names its line.
//
// Strings compare by the locale of CREATE DATABASE, which pg_dump --create
// writes; without it the default collation is not Bytewise and the encoding is
// UTF8. Built-in functions are those of PostgreSQL 15.
//
// A dump does not say what types a view's columns have: those that cannot be
// told from its text have the type 0.
func FromDump(sql string) (*Schema, error) {
	text := metaCommand.ReplaceAllStringFunc(sql, func(s string) string { return strings.Repeat(" ", len(s)) })
	tree, err := parser.Parse(text)
	if err != nil {
		if at := (*pgparser.Error)(nil); errors.As(err, &at) && at.Cursorpos > 0 {
			runes := []rune(text)
			return nil, fmt.Errorf("line %d: %w", 1+strings.Count(string(runes[:min(at.Cursorpos, len(runes))]), "\n"), err)
		}
		return nil, fmt.Errorf("read dump: %w", err)
	}
	d := newDump(tree.Version)
	for _, raw := range tree.Stmts {
		if err := d.statement(raw.Stmt); err != nil {
			return nil, fmt.Errorf("line %d: %w", line(text, int(raw.StmtLocation)), err)
		}
	}
	return d.finish(), nil
}

// metaCommand matches what pg_dump writes for psql.
var metaCommand = regexp.MustCompile(`(?m)^\\(restrict|unrestrict|connect|encoding|set|echo)\b.*$`)

// line is that of the statement that begins, after blanks and comments, at an
// offset.
func line(text string, i int) int {
	for i < len(text) {
		switch c := text[i]; {
		case c == ' ' || c >= '\t' && c <= '\r':
			i++
		case strings.HasPrefix(text[i:], "--"):
			end := strings.IndexByte(text[i:], '\n')
			if end < 0 {
				end = len(text) - i
			}
			i += end
		case strings.HasPrefix(text[i:], "/*") && endComment(text, i) > 0:
			i = endComment(text, i)
		default:
			return 1 + strings.Count(text[:i], "\n")
		}
	}
	return 1 + strings.Count(text, "\n")
}

// dump is a database in the making: it does what PostgreSQL does to its
// catalogs, as far as a Schema tells of it.
type dump struct {
	path      []string
	all       []*Relation
	relations map[Name]*Relation
	types     map[Name]*dumpType
	// byOID are the user's types.
	byOID          map[uint32]*dumpType
	collations     map[Name]collation
	bytewise       bool // the default collation
	encoding       string
	sources        []*source
	extensions     bool // types may come from one
	customEquality bool
	next           uint32
	version        int32 // of the trees that pg_query reads
}

func newDump(version int32) *dump {
	d := &dump{
		version:   version,
		path:      []string{"public"},
		relations: map[Name]*Relation{},
		types:     map[Name]*dumpType{},
		byOID:     map[uint32]*dumpType{},
		encoding:  "UTF8",
		collations: map[Name]collation{
			{"pg_catalog", "C"}:         {bytewise: true},
			{"pg_catalog", "POSIX"}:     {bytewise: true},
			{"pg_catalog", "ucs_basic"}: {bytewise: true},
		},
		next: 16384,
	}
	for _, r := range systemRelations() {
		d.all = append(d.all, r)
		d.relations[r.Name] = r
	}
	return d
}

func (d *dump) oid() uint32 {
	d.next++
	return d.next - 1
}

func (d *dump) finish() *Schema {
	for _, r := range d.all {
		for i := range r.Columns {
			d.belowDomain(r, &r.Columns[i])
		}
		// Indexes and sequences belong to whom their table belongs to; what
		// pg_dump says of sequences is the same.
		if table := d.relations[r.OwnedBy]; table != nil {
			r.Owner = table.Owner
		}
	}
	s := New(1, d.customEquality, d.all, nil)
	newConnection(d.sources, d.all).finish(s)
	s.Bytewise, s.Encoding = d.bytewise, d.encoding
	return s
}

func (d *dump) statement(n *pg_query.Node) error {
	switch s := n.GetNode().(type) {
	case *pg_query.Node_VariableSetStmt:
		d.set(s.VariableSetStmt)
	case *pg_query.Node_SelectStmt:
		d.setConfig(s.SelectStmt)
	case *pg_query.Node_CreateSchemaStmt:
		return d.createSchema(s.CreateSchemaStmt)
	case *pg_query.Node_CreatedbStmt:
		d.createDatabase(s.CreatedbStmt)
	case *pg_query.Node_CreateExtensionStmt:
		d.extensions = true
	case *pg_query.Node_CreateStmt:
		return d.createTable(s.CreateStmt, Table)
	case *pg_query.Node_CreateForeignTableStmt:
		return d.createTable(s.CreateForeignTableStmt.BaseStmt, ForeignTable)
	case *pg_query.Node_AlterTableStmt:
		return d.alterTable(s.AlterTableStmt)
	case *pg_query.Node_IndexStmt:
		return d.createIndex(s.IndexStmt)
	case *pg_query.Node_CreateSeqStmt:
		return d.createSequence(s.CreateSeqStmt)
	case *pg_query.Node_AlterSeqStmt:
		return d.alterSequence(s.AlterSeqStmt)
	case *pg_query.Node_ViewStmt:
		return d.createView(s.ViewStmt)
	case *pg_query.Node_CreateTableAsStmt:
		return d.createTableAs(s.CreateTableAsStmt)
	case *pg_query.Node_CreateEnumStmt:
		_, err := d.addType(s.CreateEnumStmt.TypeName, &dumpType{kind: 'e'})
		return err
	case *pg_query.Node_CreateRangeStmt:
		return d.createRange(s.CreateRangeStmt)
	case *pg_query.Node_CreateDomainStmt:
		return d.createDomain(s.CreateDomainStmt)
	case *pg_query.Node_AlterDomainStmt:
		return d.alterDomain(s.AlterDomainStmt)
	case *pg_query.Node_CompositeTypeStmt:
		return d.createComposite(s.CompositeTypeStmt)
	case *pg_query.Node_DefineStmt:
		return d.define(s.DefineStmt)
	case *pg_query.Node_CreateFunctionStmt:
		return d.createFunction(s.CreateFunctionStmt)
	case *pg_query.Node_CreateTrigStmt:
		return d.createTrigger(s.CreateTrigStmt)
	case *pg_query.Node_RuleStmt:
		return d.createRule(s.RuleStmt)
	case *pg_query.Node_RenameStmt:
		return d.rename(s.RenameStmt)
	case *pg_query.Node_AlterObjectSchemaStmt:
		return d.alterSchema(s.AlterObjectSchemaStmt)
	case *pg_query.Node_AlterOwnerStmt:
		d.alterOwner(s.AlterOwnerStmt)
	case *pg_query.Node_DropStmt:
		return d.drop(s.DropStmt)
	}
	return nil
}

func (d *dump) createSchema(s *pg_query.CreateSchemaStmt) error {
	if len(s.SchemaElts) == 0 {
		return nil
	}
	path := d.path
	d.path = append([]string{s.Schemaname}, path...)
	defer func() { d.path = path }()
	for _, n := range s.SchemaElts {
		if err := d.statement(n); err != nil {
			return err
		}
	}
	return nil
}

// set follows SET search_path.
func (d *dump) set(s *pg_query.VariableSetStmt) {
	if s.Name != "search_path" {
		return
	}
	d.path = nil
	for _, a := range s.Args {
		d.path = append(d.path, a.GetAConst().GetSval().GetSval())
	}
	if s.Kind != pg_query.VariableSetKind_VAR_SET_VALUE {
		d.path = []string{"public"}
	}
	d.path = slices.DeleteFunc(d.path, func(p string) bool { return p == "" || p == "$user" })
}

// setConfig follows SELECT pg_catalog.set_config('search_path', ”, false),
// which pg_dump writes.
func (d *dump) setConfig(s *pg_query.SelectStmt) {
	if len(s.TargetList) != 1 {
		return
	}
	f := s.TargetList[0].GetResTarget().GetVal().GetFuncCall()
	if f == nil || lastName(f.Funcname) != "set_config" || len(f.Args) < 2 {
		return
	}
	if f.Args[0].GetAConst().GetSval().GetSval() != "search_path" {
		return
	}
	d.path = nil
	for p := range strings.SplitSeq(f.Args[1].GetAConst().GetSval().GetSval(), ",") {
		if p = strings.Trim(strings.TrimSpace(p), `"`); p != "" && p != "$user" {
			d.path = append(d.path, p)
		}
	}
}

// nameOf reads a qualified name; the schema is empty if it has none.
func nameOf(nodes []*pg_query.Node) Name {
	var n Name
	if len(nodes) > 1 {
		n.Schema = nodes[len(nodes)-2].GetString_().GetSval()
	}
	n.Name = lastName(nodes)
	return n
}

func lastName(nodes []*pg_query.Node) string {
	if len(nodes) == 0 {
		return ""
	}
	return nodes[len(nodes)-1].GetString_().GetSval()
}

func rangeName(v *pg_query.RangeVar) Name { return Name{v.GetSchemaname(), v.GetRelname()} }

// place gives a new object's name its schema.
func (d *dump) place(n Name) (Name, error) {
	if n.Schema == "" {
		if len(d.path) == 0 {
			return n, fmt.Errorf("no schema is selected to create %s in", quoteIdent(n.Name))
		}
		n.Schema = d.path[0]
	}
	return n, nil
}

// find returns the relation that a name means, or nil.
func (d *dump) find(n Name) *Relation {
	if n.Schema != "" {
		return d.relations[n]
	}
	if r := d.relations[Name{"pg_catalog", n.Name}]; r != nil {
		return r
	}
	for _, schema := range d.path {
		if r := d.relations[Name{schema, n.Name}]; r != nil {
			return r
		}
	}
	return nil
}

// need is find for what must be there.
func (d *dump) need(n Name) (*Relation, error) {
	if r := d.find(n); r != nil {
		return r, nil
	}
	return nil, fmt.Errorf("relation %s does not exist", n.quoted())
}

// add puts a new relation in its place.
func (d *dump) add(n Name, kind RelationKind) (*Relation, error) {
	n, err := d.place(n)
	if err != nil {
		return nil, err
	}
	if d.relations[n] != nil {
		return nil, fmt.Errorf("relation %s already exists", n.quoted())
	}
	r := &Relation{Name: n, Kind: kind, OID: d.oid()}
	d.all = append(d.all, r)
	d.relations[n] = r
	return r, nil
}

func (d *dump) remove(r *Relation) {
	delete(d.relations, r.Name)
	d.all = slices.DeleteFunc(d.all, func(o *Relation) bool { return o == r })
}

func (n Name) quoted() string {
	if n.Schema == "" {
		return quoteIdent(n.Name)
	}
	return quoteIdent(n.Schema) + "." + quoteIdent(n.Name)
}

var plainIdent = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// QuoteIdents writes names as PostgreSQL's messages do: quoted only if they must be.
func QuoteIdents(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = quoteIdent(n)
	}
	return strings.Join(out, ", ")
}

// quoteIdent writes a name as PostgreSQL does: quoted only if it must be.
func quoteIdent(s string) string {
	if plainIdent.MatchString(s) && !keyword(s) {
		return s
	}
	return quote.Ident(s)
}

// keyword reports whether a word cannot be a name without quotes. The lexer
// asked here does not recurse.
func keyword(s string) bool {
	scan, err := pg_query.Scan(s)
	if err != nil || len(scan.Tokens) != 1 {
		return true
	}
	kind := scan.Tokens[0].KeywordKind
	return kind != pg_query.KeywordKind_NO_KEYWORD && kind != pg_query.KeywordKind_UNRESERVED_KEYWORD
}
