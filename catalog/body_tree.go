package catalog

import (
	"strings"
	"sync"

	pg_query "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
)

// A body is parsed if possible. Then only names in the place of a table are taken for
// tables, and it is known which tables are written.

// reading is what parsing a body has found.
type reading struct {
	ok      bool   // the body could be parsed
	dynamic bool   // the body runs SQL that is not in its text
	reads   []Name // the schema may be empty
	writes  []Name
	calls   []string
	// operators are the names of the operators in the body.
	operators []string
	// notifies: the body has a NOTIFY. ddl: the body has commands on the schema.
	notifies, ddl bool
	texts         []string // the statements in the body
	targets       []string // the names that are assigned to
}

// readings keeps the readings of bodies: a schema is loaded again after each change,
// and most functions have not changed.
var readings struct {
	sync.Mutex
	byText map[string]*reading
}

// maxReadings bounds how many readings are kept.
const maxReadings = 10000

// Body is what parsing has found in the text of a function or of DO.
type Body struct {
	// Names are the relations that the body names. Schema is empty where the text has none.
	Names []Name
	// Dynamic says that the body runs SQL that is not in its text.
	Dynamic bool
	// Calls and Operators are the names of the functions and operators in the body.
	Calls, Operators []string
	// Writes are the relations that the body writes.
	Writes []Name
	// Notifies: the body has a NOTIFY. DDL: the body has commands on the schema.
	Notifies, DDL bool
	// Texts are the statements in the body.
	Texts []string
}

// ParseBody parses a body, and reports false if it cannot be parsed. create is a statement
// that makes a function of this body; only PL/pgSQL needs it.
func ParseBody(language, create, body string) (*Body, bool) {
	r := readTree(language, create, body)
	return &Body{
		Names: r.reads, Dynamic: r.dynamic, Calls: r.calls, Operators: r.operators, Writes: r.writes, Notifies: r.notifies, DDL: r.ddl, Texts: r.texts,
	}, r.ok
}

// readTree parses a function's body, unless it has been parsed before.
func readTree(language, create, body string) *reading {
	key := language + "\x00" + create + "\x00" + body
	readings.Lock()
	r := readings.byText[key]
	readings.Unlock()
	if r != nil {
		return r
	}
	r = parseBody(language, create, body)
	readings.Lock()
	if readings.byText == nil || len(readings.byText) >= maxReadings {
		readings.byText = map[string]*reading{}
	}
	readings.byText[key] = r
	readings.Unlock()
	return r
}

func parseBody(language, create, body string) *reading {
	r := &reading{}
	// Whether a backslash is an escape in strings depends on a setting at run time.
	if strings.Contains(body, `\'`) {
		return r
	}
	switch language {
	case "sql":
		r.ok = r.sql(body)
	case "plpgsql":
		list, err := parser.EmbeddedSQL(create)
		if err != nil || create == "" {
			return r
		}
		r.ok = true
		for _, e := range list {
			if e.Target != "" {
				r.targets = append(r.targets, lower(e.Target))
			}
			if e.Dynamic {
				r.run(e.SQL)
			} else if !r.sql(e.SQL) {
				r.ok = false
			}
		}
	}
	return r
}

// run reads the expression of an EXECUTE. If the expression is put together from
// constants, run notes what its text names; otherwise the body is dynamic.
func (r *reading) run(sql string) {
	tree, err := parser.Parse(sql)
	if err == nil && len(tree.Stmts) == 1 {
		if list := tree.Stmts[0].Stmt.GetSelectStmt().GetTargetList(); len(list) == 1 {
			if text, marked, ok := executed(list[0].GetResTarget().GetVal()); ok && r.told(text, marked) {
				return
			}
		}
	}
	r.dynamic = true
}

// told notes what a text that EXECUTE runs names. It reports false if it cannot read the
// text.
func (r *reading) told(text string, marked bool) bool {
	if marked {
		if tree, err := parser.Parse(text); err != nil || !markPlaced(tree) {
			return false
		}
	}
	return r.sql(text)
}

// sql notes what a text of SQL names. It reports false if the text cannot be parsed.
func (r *reading) sql(text string) bool {
	tree, err := parser.Parse(text)
	if err != nil {
		return false
	}
	r.texts = append(r.texts, text)
	for _, s := range tree.Stmts {
		r.ddl = r.ddl || changesSchema(s.Stmt)
		r.node(s.Stmt)
	}
	return true
}

// node notes what a statement names.
func (r *reading) node(n *pg_query.Node) {
	parser.Walk(n, func(m any) bool {
		r.operators = append(r.operators, OperatorNames(m)...)
		switch m := m.(type) {
		case *pg_query.InsertStmt:
			r.writes = append(r.writes, rangeName(m.Relation))
		case *pg_query.UpdateStmt:
			r.writes = append(r.writes, rangeName(m.Relation))
		case *pg_query.DeleteStmt:
			r.writes = append(r.writes, rangeName(m.Relation))
		case *pg_query.MergeStmt:
			r.writes = append(r.writes, rangeName(m.Relation))
		case *pg_query.TruncateStmt:
			for _, x := range m.Relations {
				r.writes = append(r.writes, rangeName(x.GetRangeVar()))
			}
		case *pg_query.RangeVar:
			r.reads = append(r.reads, rangeName(m))
		case *pg_query.FuncCall:
			r.calls = append(r.calls, lastName(m.Funcname))
			for _, a := range m.Args {
				r.constant(a)
			}
		case *pg_query.TypeCast:
			r.constant(m.Arg)
		case *pg_query.ColumnRef:
			// x.f may be a call of function f with row x.
			if names := stringsOf(m.Fields); len(names) > 1 {
				r.calls = append(r.calls, names[len(names)-1])
			}
		case *pg_query.NotifyStmt:
			r.notifies = true
		case *pg_query.ExecuteStmt, *pg_query.DoStmt:
			r.dynamic = true
		case *pg_query.CallStmt:
			r.calls = append(r.calls, lastName(m.Funccall.GetFuncname()))
		}
		return true
	})
}

// constant takes a string constant for the name of a relation, as in 'orders'::regclass
// and nextval('numbers').
func (r *reading) constant(n *pg_query.Node) {
	s := n.GetAConst().GetSval()
	if s == nil || len(s.Sval) > 2*nameLength {
		return
	}
	names := strings.Split(s.Sval, ".")
	for i := range names {
		if strings.HasPrefix(names[i], `"`) {
			names[i] = strings.Trim(names[i], `"`)
		} else {
			names[i] = lower(names[i])
		}
	}
	switch len(names) {
	case 1:
		r.reads = append(r.reads, Name{"", names[0]})
	case 2:
		r.reads = append(r.reads, Name{names[0], names[1]})
	}
}

func stringsOf(nodes []*pg_query.Node) []string {
	var out []string
	for _, n := range nodes {
		if s := n.GetString_(); s != nil {
			out = append(out, s.Sval)
		}
	}
	return out
}

// tree enters what parsing a body has found into its source.
func (v *vocabulary) tree(s *source, r *reading) {
	s.runs = s.runs || r.dynamic
	s.function.Parsed, s.function.Dynamic = !s.runs, r.dynamic
	s.function.Texts, s.function.Assigns, s.function.Body = r.texts, r.targets, s.body
	for _, n := range r.reads {
		s.mentions = append(s.mentions, v.named(n)...)
	}
	for _, n := range r.writes {
		s.writes = append(s.writes, v.named(n)...)
	}
	for _, call := range r.calls {
		if v.functions[call] != nil {
			s.calls = append(s.calls, call)
		}
		s.builtin(call)
	}
	s.operators = r.operators
	s.notifies, s.ddl = s.notifies || r.notifies, s.ddl || r.ddl
}

// named returns the relations that a name may mean under any search path.
func (v *vocabulary) named(n Name) []Name {
	var out []Name
	for _, r := range v.relations[cut(n.Name, nameLength-1)] {
		if n.Schema == "" || n.Schema == r.Schema {
			out = append(out, r)
		}
	}
	return out
}

// createText returns a statement that makes a PL/pgSQL function of this body: pg_query
// parses PL/pgSQL only inside such a statement.
func createText(kind, arguments, result, body string) string {
	tag := "$weft$"
	for strings.Contains(body, tag) {
		tag = tag[:len(tag)-1] + "x$"
	}
	if kind == "p" {
		return "CREATE PROCEDURE f(" + arguments + ") LANGUAGE plpgsql AS " + tag + body + tag
	}
	return "CREATE FUNCTION f(" + arguments + ") RETURNS " + result + " LANGUAGE plpgsql AS " + tag + body + tag
}
