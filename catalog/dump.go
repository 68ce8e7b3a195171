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

// FromDump reads a schema from SQL: the output of pg_dump --schema-only, or
// statements written by hand. Built-in types have PostgreSQL's OIDs; types and
// relations of the user get made-up OIDs from 16384 on. The version is 1.
//
// Statements that do not change anything in a Schema are skipped. A statement
// that contradicts earlier ones (a column of an unknown type, a key on a missing
// table) is an error that names the line of the statement.
//
// Strings compare by the locale of CREATE DATABASE, which pg_dump --create
// writes. Without CREATE DATABASE the default collation is not Bytewise and the
// encoding is UTF8. Built-in functions are those of PostgreSQL 15.
//
// A dump does not list the types of a view's columns: a column has type 0 if the
// view's query does not show its type.
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

// metaCommand matches the psql commands that pg_dump writes.
var metaCommand = regexp.MustCompile(`(?m)^\\(restrict|unrestrict|connect|encoding|set|echo)\b.*$`)

// line returns the number of the line on which the statement at offset i begins,
// after blanks and comments.
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

// dump is the schema under construction while FromDump applies statements. Each
// statement changes it as PostgreSQL would change its catalogs, as far as a
// Schema shows the change.
type dump struct {
	path      []string // search_path
	all       []*Relation
	relations map[Name]*Relation
	types     map[Name]*dumpType
	// byOID are the user's types.
	byOID          map[uint32]*dumpType
	collations     map[Name]collation
	bytewise       bool // the default collation is Bytewise
	encoding       string
	sources        []*source
	extensions     bool // there is an extension, which may define unknown types
	customEquality bool
	next           uint32 // the next OID to give out
	version        int32  // the version of pg_query's parse trees
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

// finish makes the Schema, once all statements are applied.
func (d *dump) finish() *Schema {
	for _, r := range d.all {
		for i := range r.Columns {
			d.belowDomain(r, &r.Columns[i])
		}
		// An index or an owned sequence has the owner of its table. pg_dump names
		// the same owner for the sequence.
		if table := d.relations[r.OwnedBy]; table != nil {
			r.Owner = table.Owner
		}
	}
	s := New(1, d.customEquality, d.all, nil)
	newConnection(d.sources, d.all).finish(s)
	s.Bytewise, s.Encoding = d.bytewise, d.encoding
	return s
}

// statement applies one statement to the schema.
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

// setConfig follows the SELECT of pg_catalog.set_config that pg_dump writes to
// empty search_path.
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

// nameOf reads a qualified name. Schema is empty if the name has no schema.
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

// place qualifies the name of a new object: by default with the first schema of
// search_path.
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

// need is find for a relation that must exist.
func (d *dump) need(n Name) (*Relation, error) {
	if r := d.find(n); r != nil {
		return r, nil
	}
	return nil, fmt.Errorf("relation %s does not exist", n.quoted())
}

// add makes a new relation, which must not exist yet.
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

// QuoteIdents lists names as PostgreSQL's messages do: a name has quotes only if it needs them.
func QuoteIdents(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = quoteIdent(n)
	}
	return strings.Join(out, ", ")
}

// quoteIdent writes a name as PostgreSQL does: with quotes only if the name needs them.
func quoteIdent(s string) string {
	if plainIdent.MatchString(s) && !keyword(s) {
		return s
	}
	return quote.Ident(s)
}

// keyword reports whether a word needs quotes to be a name. pg_query.Scan is safe
// for any text: the lexer does not recurse, unlike the parser.
func keyword(s string) bool {
	scan, err := pg_query.Scan(s)
	if err != nil || len(scan.Tokens) != 1 {
		return true
	}
	kind := scan.Tokens[0].KeywordKind
	return kind != pg_query.KeywordKind_NO_KEYWORD && kind != pg_query.KeywordKind_UNRESERVED_KEYWORD
}
