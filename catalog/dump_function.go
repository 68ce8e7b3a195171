package catalog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/parser"
)

func (d *dump) createFunction(s *pg_query.CreateFunctionStmt) error {
	n, err := d.place(nameOf(s.Funcname))
	if err != nil {
		return err
	}
	f := &Function{Name: n, Volatility: 'v', Kind: 'f', SetReturning: s.ReturnType.GetSetof()}
	if s.IsProcedure {
		f.Kind = 'p'
	}
	src := &source{function: f, language: "sql"}
	for _, o := range s.Options {
		e := o.GetDefElem()
		switch e.GetDefname() {
		case "language":
			src.language = lower(e.GetArg().GetString_().GetSval())
		case "window":
			f.Kind = 'w'
		case "volatility":
			if v := e.GetArg().GetString_().GetSval(); v != "" {
				src.function.Volatility = v[0]
			}
		case "as":
			src.body = lastName(e.GetArg().GetList().GetItems())
		case "security":
			f.Definer = e.GetArg().GetBoolean().GetBoolval()
		case "set":
			f.Sets = true
		}
	}
	if src.language == "plpgsql" {
		if sql, err := parser.Deparse(&pg_query.Node{Node: &pg_query.Node_CreateFunctionStmt{CreateFunctionStmt: s}}); err == nil {
			src.create, f.Create = sql, sql
		}
	}
	for _, p := range s.Parameters { // the defaults of parameters run with the function
		d.readTree(src, p)
	}
	if s.SqlBody != nil {
		src.parsed = true
		d.readTree(src, s.SqlBody)
	}
	if s.Replace {
		// Without comparing arguments it is not known which function of this name is
		// replaced, so only functions with the same body go. A replaced function that
		// stays in sources does no harm.
		d.sources = slices.DeleteFunc(d.sources, func(o *source) bool { return o.function.Name == n && o.body == src.body && !src.parsed })
	}
	if src.language == "sql" && f.Kind == 'f' {
		f.SQL = d.sqlFunction(s, src.body)
	}
	d.sources = append(d.sources, src)
	return nil
}

// sqlFunction returns the definition of a function in SQL, or nil if it has types that are not known.
func (d *dump) sqlFunction(s *pg_query.CreateFunctionStmt, body string) *SQLFunction {
	out := &SQLFunction{Body: body, Public: true}
	head := proto.Clone(s).(*pg_query.CreateFunctionStmt)
	head.SqlBody = nil
	head.Options = slices.DeleteFunc(head.Options, func(o *pg_query.Node) bool { return o.GetDefElem().GetDefname() != "language" })
	if len(head.Options) == 0 {
		head.Options = []*pg_query.Node{pg_query.MakeSimpleDefElemNode("language", pg_query.MakeStrNode("sql"), -1)}
	}
	if head.ReturnType == nil { // OUT parameters alone
		head.ReturnType = &pg_query.TypeName{Names: []*pg_query.Node{pg_query.MakeStrNode("record")}, Typemod: -1}
	}
	for _, p := range head.Parameters {
		oid, ok := d.spelled(p.GetFunctionParameter().ArgType)
		if !ok {
			return nil
		}
		out.Types = append(out.Types, oid)
	}
	ok := false
	if out.Result, ok = d.spelled(head.ReturnType); !ok {
		return nil
	}
	for _, o := range s.Options {
		e := o.GetDefElem()
		switch e.GetDefname() {
		case "strict":
			out.Strict = e.GetArg().GetBoolean().GetBoolval()
		case "security":
			out.Definer = e.GetArg().GetBoolean().GetBoolval()
		case "set":
			out.Settings = append(out.Settings, e.GetArg().GetVariableSetStmt().GetName()+"=\"")
		}
	}
	sql, err := parser.Deparse(&pg_query.Node{Node: &pg_query.Node_CreateFunctionStmt{CreateFunctionStmt: head}})
	if err != nil {
		return nil
	}
	if out.Head = sql; s.SqlBody != nil {
		out.Standard = true
		whole := proto.Clone(head).(*pg_query.CreateFunctionStmt)
		whole.SqlBody = s.SqlBody
		sql, err := parser.Deparse(&pg_query.Node{Node: &pg_query.Node_CreateFunctionStmt{CreateFunctionStmt: whole}})
		if err != nil || !strings.HasPrefix(sql, out.Head) {
			return nil
		}
		out.Body = sql[len(out.Head):]
	}
	return out
}

// spelled gives the name of a type its schema, and returns its OID.
func (d *dump) spelled(t *pg_query.TypeName) (oid uint32, ok bool) {
	const someOID = 1<<32 - 1
	n := nameOf(t.GetNames())
	if r := d.find(n); r != nil && len(t.GetArrayBounds()) == 0 {
		t.Names = []*pg_query.Node{pg_query.MakeStrNode(r.Schema), pg_query.MakeStrNode(r.Name.Name)}
		return someOID, true
	}
	if n.Name == "record" || n.Name == "void" {
		return 0, true
	}
	ref, err := d.resolve(t)
	if err != nil {
		return 0, false
	}
	if u := d.findType(n); u != nil {
		t.Names = []*pg_query.Node{pg_query.MakeStrNode(u.name.Schema), pg_query.MakeStrNode(u.name.Name)}
	}
	return ref.oid, true
}

// readTree notes the relations and functions that a parsed body, or the default of
// a parameter, names.
func (d *dump) readTree(src *source, n *pg_query.Node) {
	parser.Walk(n, func(m any) bool {
		switch m := m.(type) {
		case *pg_query.RangeVar:
			if r := d.find(rangeName(m)); r != nil && !r.System() {
				src.mentions = append(src.mentions, r.Name)
			}
		case *pg_query.FuncCall:
			name := lastName(m.Funcname)
			src.calls = append(src.calls, name)
			src.runs = src.runs || slices.Contains(runners, name)
		}
		return true
	})
}

// define follows CREATE AGGREGATE, CREATE OPERATOR, CREATE COLLATION and CREATE TYPE.
func (d *dump) define(s *pg_query.DefineStmt) error {
	switch s.Kind {
	case pg_query.ObjectType_OBJECT_TYPE:
		_, err := d.addType(s.Defnames, &dumpType{kind: kindOf(s)})
		return err
	case pg_query.ObjectType_OBJECT_COLLATION:
		return d.createCollation(s)
	case pg_query.ObjectType_OBJECT_AGGREGATE:
		n, err := d.place(nameOf(s.Defnames))
		if err != nil {
			return err
		}
		src := &source{function: &Function{Name: n, Volatility: 'i', Kind: 'a'}, aggregate: true}
		for _, o := range s.Definition {
			if t := o.GetDefElem().GetArg().GetTypeName(); t != nil {
				src.calls = append(src.calls, lastName(t.Names))
			}
		}
		d.sources = append(d.sources, src)
	case pg_query.ObjectType_OBJECT_OPERATOR:
		if lastName(s.Defnames) == "=" {
			d.customEquality = d.customEquality || d.isBuiltin(defined(s, "leftarg")) && d.isBuiltin(defined(s, "rightarg"))
		}
	}
	return nil
}

// kindOf returns the kind of the type that CREATE TYPE makes: b, or 0 for a shell
// type, which a later CREATE TYPE defines.
func kindOf(s *pg_query.DefineStmt) byte {
	if len(s.Definition) == 0 {
		return 0
	}
	return 'b'
}

// defined returns the value of an option of a CREATE statement, or nil.
func defined(s *pg_query.DefineStmt, name string) *pg_query.Node {
	for _, o := range s.Definition {
		if e := o.GetDefElem(); e.GetDefname() == name {
			return e.GetArg()
		}
	}
	return nil
}

func (d *dump) isBuiltin(n *pg_query.Node) bool {
	t, err := d.resolve(n.GetTypeName())
	return err == nil && t.oid < 16384
}

// The time and the events of a trigger, in the bits of PostgreSQL's pg_trigger.h.
const (
	before    = 1 << 1
	inserts   = 1 << 2
	updates   = 1 << 4
	truncates = 1 << 5
)

func (d *dump) createTrigger(s *pg_query.CreateTrigStmt) error {
	r, err := d.need(rangeName(s.Relation))
	if err != nil {
		return err
	}
	f := nameOf(s.Funcname)
	if f.Schema == "" {
		for _, src := range d.sources {
			if src.function.Name.Name == f.Name && slices.Contains(d.path, src.function.Schema) {
				f = src.function.Name
				break
			}
		}
	}
	if f.Schema == "" {
		f.Schema = "pg_catalog" // suppress_redundant_updates_trigger and the like
	}
	t := Trigger{
		Name: s.Trigname, Function: f, Truncate: s.Events&truncates != 0,
		Changes: s.Row && s.Timing&before != 0 && s.Events&(inserts|updates) != 0,
	}
	if !s.Row {
		t.Statement = Events(s.Events) & onAny
	}
	for i, n := range s.Columns {
		if c := r.Column(n.GetString_().GetSval()); c != nil {
			if i > 0 {
				t.Of += " "
			}
			t.Of += strconv.Itoa(int(c.Num))
		}
	}
	if i := slices.IndexFunc(r.Triggers, func(o Trigger) bool { return o.Name == t.Name }); i >= 0 {
		if !s.Replace {
			return fmt.Errorf("trigger %s of %s already exists", quoteIdent(t.Name), r.quoted())
		}
		r.Triggers[i] = t
		return nil
	}
	r.Triggers = append(r.Triggers, t)
	return nil
}

func (d *dump) createRule(s *pg_query.RuleStmt) error {
	r, err := d.need(rangeName(s.Relation))
	if err != nil {
		return err
	}
	if s.Rulename == "_RETURN" {
		return nil
	}
	r.Rules = true
	for _, n := range append([]*pg_query.Node{s.WhereClause}, s.Actions...) {
		parser.Walk(n, func(m any) bool {
			switch m := m.(type) {
			case *pg_query.RangeVar:
				if named := d.find(rangeName(m)); named != nil && named != r {
					r.RuleTables = append(r.RuleTables, named.Name)
				}
			case *pg_query.FuncCall:
				if names := stringsOf(m.Funcname); len(names) == 2 && names[0] != "pg_catalog" {
					r.RuleFunctions = append(r.RuleFunctions, Name{names[0], names[1]})
				}
			}
			return true
		})
	}
	for _, list := range []*[]Name{&r.RuleTables, &r.RuleFunctions} {
		slices.SortFunc(*list, Name.compare)
		*list = slices.Compact(*list)
	}
	return nil
}
