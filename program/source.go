package program

import (
	"fmt"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
	"weft/pgerr"
)

// kind is what a program is.
type kind uint8

// The kinds of programs.
const (
	Function kind = iota
	Procedure
	Do
)

// ArgMode is the mode of an argument, as pg_proc.proargmodes has it.
type ArgMode byte

// The modes of arguments.
const (
	In       ArgMode = 'i'
	Out      ArgMode = 'o'
	InOut    ArgMode = 'b'
	Variadic ArgMode = 'v'
	Table    ArgMode = 't'
)

// Arg is an argument of a function.
type Arg struct {
	Name    string
	Mode    ArgMode
	Type    string // as SQL writes it
	Default string // an expression, or nothing
}

// takesValue reports whether a caller gives the argument a value.
func (a Arg) takesValue() bool { return a.Mode == In || a.Mode == InOut || a.Mode == Variadic }

// Source is a program before it is compiled: what pg_proc has of a function, or a DO.
type Source struct {
	Kind kind
	// Schema is empty, or the schema that a CONTEXT names, which is that of a function outside search_path.
	Schema, Name string
	Args         []Arg
	// Returns is the type that a function returns; empty for a procedure, a DO and RETURNS TABLE.
	Returns string
	Set     bool
	Strict  bool
	// SQL: the function is written in SQL, not in PL/pgSQL. Statements are those of a body that CREATE FUNCTION has parsed; nil: Body has them.
	SQL        bool
	Body       string
	Statements []string
	// Conflict is the setting plpgsql.variable_conflict.
	Conflict Conflict
	// Volatile, SecurityDefiner and Settings are for the caller: Run does not heed them.
	Volatile, SecurityDefiner bool
	Settings                  []string
}

// Program is a compiled program. It is never changed, and may be run by several sessions at once.
type Program struct {
	Source
	body *Block
	// script is the body of a function in SQL.
	script []*Expr
	vars   []*Var
	// args are the variables of the arguments, found is FOUND.
	args  []*Var
	found *Var
	// defaults are those of the arguments, nil where there is none.
	defaults []*Expr
	conflict Conflict
}

// Compile reads a program. An error has the SQLSTATE of PostgreSQL's own, or 0A000 for what Run cannot do.
func Compile(src Source) (p *Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*pgerr.Error)
			if !ok {
				panic(r)
			}
			p, err = nil, e
		}
	}()
	if err := src.check(); err != nil {
		return nil, err
	}
	r := &reader{text: src.Body, set: src.Set, conflict: src.Conflict}
	if !src.SQL {
		if r.toks, err = scan(src.Body); err != nil {
			return nil, err
		}
	}
	p = &Program{Source: src}
	label := src.Name
	if src.Kind == Do {
		label = "inline_code_block"
	}
	r.push(label, false)
	for i, a := range src.Args {
		var def *Expr
		if a.Default != "" {
			def = r.parsed(&Expr{Text: a.Default})
		}
		p.defaults = append(p.defaults, def)
		v := r.declare(&Var{Name: fmt.Sprintf("$%d", i+1), Type: r.argType(a)})
		if a.Name != "" {
			v.Name = a.Name
			r.add(a.Name, v)
		}
		p.args = append(p.args, v)
	}
	if src.SQL {
		p.found = r.declare(&Var{Name: "", Type: TypeName{Text: "boolean"}}) // no name in a body means this variable
		p.script = r.script(&src)
		p.vars, p.conflict = r.vars, UseColumn
		return p, nil
	}
	p.found = r.declare(&Var{Name: "found", Type: TypeName{Text: "boolean"}})
	r.options()
	p.body = r.block(r.label())
	r.accept(";")
	if r.peek().kind != 0 {
		r.fail()
	}
	p.vars, p.conflict = r.vars, r.conflict
	return p, nil
}

// argType reads the type of an argument.
func (r *reader) argType(a Arg) TypeName {
	toks, err := scan(a.Type)
	if err != nil {
		panic(err)
	}
	return r.typeOf(a.Type, toks[:len(toks)-1])
}

// check refuses what cannot be run.
func (s *Source) check() error {
	for _, t := range append([]string{s.Returns}, s.types()...) {
		name := strings.TrimPrefix(strings.TrimSuffix(lower(t), "[]"), "pg_catalog.")
		switch name {
		case "trigger", "event_trigger":
			return refuse("a trigger function")
		case "anyelement", "anyarray", "anynonarray", "anyenum", "anyrange", "anymultirange", "anycompatible", "anycompatiblearray",
			"anycompatiblenonarray", "anycompatiblerange", "anycompatiblemultirange", "any":
			return refuse("a polymorphic function").WithHint("Write the function with the types that it is called with.")
		}
	}
	return nil
}

func (s *Source) types() []string {
	out := make([]string, len(s.Args))
	for i, a := range s.Args {
		out[i] = a.Type
	}
	return out
}

// FromText returns the source of a CREATE FUNCTION, CREATE PROCEDURE or DO.
func FromText(text string) (Source, error) {
	tree, err := parser.Parse(text)
	if err != nil {
		return Source{}, pgerr.New(pgerr.SyntaxError, "%s", err.Error())
	}
	if len(tree.Stmts) != 1 {
		return Source{}, syntax("one CREATE FUNCTION or DO is expected")
	}
	switch n := tree.Stmts[0].Stmt.Node.(type) {
	case *pg_query.Node_CreateFunctionStmt:
		return fromCreate(n.CreateFunctionStmt)
	case *pg_query.Node_DoStmt:
		src := Source{Kind: Do, Volatile: true}
		for _, o := range n.DoStmt.Args {
			switch e := o.GetDefElem(); e.Defname {
			case "as":
				src.Body = e.Arg.GetString_().GetSval()
			case "language":
				if e.Arg.GetString_().GetSval() != "plpgsql" {
					return Source{}, refuse("this language")
				}
			}
		}
		return src, nil
	}
	return Source{}, syntax("one CREATE FUNCTION or DO is expected")
}

// fromCreate reads a CREATE FUNCTION or CREATE PROCEDURE.
func fromCreate(c *pg_query.CreateFunctionStmt) (Source, error) {
	src := Source{Volatile: true}
	if c.IsProcedure {
		src.Kind = Procedure
	}
	names := c.Funcname
	src.Name = names[len(names)-1].GetString_().GetSval()
	if len(names) > 1 {
		src.Schema = names[len(names)-2].GetString_().GetSval()
	}
	for _, p := range c.Parameters {
		f := p.GetFunctionParameter()
		a := Arg{Name: f.Name, Mode: In}
		switch f.Mode {
		case pg_query.FunctionParameterMode_FUNC_PARAM_OUT:
			a.Mode = Out
		case pg_query.FunctionParameterMode_FUNC_PARAM_INOUT:
			a.Mode = InOut
		case pg_query.FunctionParameterMode_FUNC_PARAM_VARIADIC:
			a.Mode = Variadic
		case pg_query.FunctionParameterMode_FUNC_PARAM_TABLE:
			a.Mode, src.Set = Table, true
		}
		var err error
		if a.Type, err = signatureType(f.ArgType); err != nil {
			return src, err
		}
		if f.Defexpr != nil {
			if a.Default, err = writtenExpr(f.Defexpr); err != nil {
				return src, err
			}
		}
		src.Args = append(src.Args, a)
	}
	if c.ReturnType != nil {
		src.Set = src.Set || c.ReturnType.Setof
		var err error
		if src.Returns, err = signatureType(c.ReturnType); err != nil {
			return src, err
		}
	}
	if err := src.options(c.Options); err != nil {
		return src, err
	}
	return src, src.parsedBody(c.SqlBody)
}

// parsedBody reads a body that is not a string: RETURN, or BEGIN ATOMIC.
func (s *Source) parsedBody(body *pg_query.Node) error {
	if body == nil {
		return nil
	}
	s.Statements = []string{}
	var add func(n *pg_query.Node) error
	add = func(n *pg_query.Node) error {
		if l := n.GetList(); l != nil {
			for _, item := range l.Items {
				if err := add(item); err != nil {
					return err
				}
			}
			return nil
		}
		if r := n.GetReturnStmt(); r != nil {
			n = selectOf(r.Returnval)
		}
		text, err := parser.Deparse(n)
		s.Statements = append(s.Statements, text)
		return err
	}
	return add(body)
}

// options reads what stands behind the arguments of a function.
func (s *Source) options(list []*pg_query.Node) error {
	for _, o := range list {
		switch e := o.GetDefElem(); e.Defname {
		case "as":
			s.Body = e.Arg.GetList().Items[0].GetString_().GetSval()
		case "language":
			switch e.Arg.GetString_().GetSval() {
			case "plpgsql":
			case "sql":
				s.SQL = true
			default:
				return refuse("this language")
			}
		case "volatility":
			s.Volatile = e.Arg.GetString_().GetSval() == "volatile"
		case "strict":
			s.Strict = e.Arg.GetBoolean().GetBoolval()
		case "security":
			s.SecurityDefiner = e.Arg.GetBoolean().GetBoolval()
		case "set":
			s.Settings = append(s.Settings, e.Arg.GetVariableSetStmt().GetName())
		}
	}
	return nil
}

// signatureType writes the type of an argument or a result as SQL. PostgreSQL heeds no length there, not even that of 1 which CHARACTER and BIT have where
// none is written.
func signatureType(t *pg_query.TypeName) (string, error) {
	if len(t.Names) == 2 && t.Names[0].GetString_().GetSval() == "pg_catalog" && len(t.Typmods) > 0 {
		switch name := t.Names[1].GetString_().GetSval(); name {
		case "bpchar", "bit":
			return `"` + name + `"` + strings.Repeat("[]", len(t.ArrayBounds)), nil
		}
	}
	return writtenType(t)
}

// writtenType writes a type as SQL.
func writtenType(t *pg_query.TypeName) (string, error) {
	if t.PctType {
		var names []string
		for _, n := range t.Names {
			names = append(names, n.GetString_().GetSval())
		}
		return strings.Join(names, ".") + "%TYPE", nil
	}
	t.Setof = false
	text, err := writtenExpr(&pg_query.Node{Node: &pg_query.Node_TypeCast{TypeCast: &pg_query.TypeCast{
		Arg:      &pg_query.Node{Node: &pg_query.Node_AConst{AConst: &pg_query.A_Const{Isnull: true}}},
		TypeName: t,
	}}})
	return strings.TrimPrefix(text, "NULL::"), err
}

// writtenExpr writes an expression as SQL.
func writtenExpr(n *pg_query.Node) (string, error) {
	sql, err := parser.Deparse(selectOf(n))
	return strings.TrimPrefix(sql, "SELECT "), err
}

// selectOf is SELECT n.
func selectOf(n *pg_query.Node) *pg_query.Node {
	return &pg_query.Node{Node: &pg_query.Node_SelectStmt{SelectStmt: &pg_query.SelectStmt{
		TargetList:  []*pg_query.Node{pg_query.MakeResTargetNodeWithVal(n, 0)},
		LimitOption: pg_query.LimitOption_LIMIT_OPTION_DEFAULT,
		Op:          pg_query.SetOperation_SETOP_NONE,
	}}}
}
