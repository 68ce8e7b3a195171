package parser

import (
	"strconv"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// Argument is a constant of an EXECUTE.
type Argument struct {
	Text string
	// Type is the name of its type without a schema, "_" before that of an array's elements. Empty: it is a string, or NULL,
	// and becomes what it is needed for.
	Type string
}

// Execution is an EXECUTE, alone or inside of EXPLAIN or CREATE TABLE AS.
type Execution struct {
	// Arguments are those of the EXECUTE if all of them are constants.
	Arguments []Argument
	// Count is how many arguments there are.
	Count int
	// Constant: all arguments are constants.
	Constant bool
	// MakesTable: it stands in CREATE TABLE AS. Empty: that makes the table WITH NO DATA.
	MakesTable, Empty bool
}

// ReadExecute reads a text that is an EXECUTE. ok is false for other texts.
func ReadExecute(text string, opt Options) (e Execution, ok bool) {
	tree, _, err := parse(text, opt)
	if err != nil || len(tree.Stmts) != 1 {
		return e, false
	}
	stmt := tree.Stmts[0].Stmt
	if x := stmt.GetExplainStmt(); x != nil {
		stmt = x.Query
	}
	if x := stmt.GetCreateTableAsStmt(); x != nil {
		stmt, e.MakesTable, e.Empty = x.Query, true, x.Into.GetSkipData()
	}
	n := stmt.GetExecuteStmt()
	if n == nil {
		return e, false
	}
	e.Count, e.Constant = len(n.Params), true
	for _, p := range n.Params {
		a, constant := constantArgument(p)
		if !constant {
			e.Arguments, e.Constant = nil, false
			return e, true
		}
		e.Arguments = append(e.Arguments, a)
	}
	return e, true
}

// constantArgument returns an argument that is a constant, with or without a cast.
func constantArgument(p *pg_query.Node) (a Argument, ok bool) {
	c := p
	if t := p.GetTypeCast(); t != nil {
		c = t.Arg
	}
	k := c.GetAConst()
	if k == nil {
		return a, false
	}
	sql, err := Deparse(&pg_query.Node{Node: &pg_query.Node_SelectStmt{SelectStmt: &pg_query.SelectStmt{
		TargetList:  []*pg_query.Node{{Node: &pg_query.Node_ResTarget{ResTarget: &pg_query.ResTarget{Val: p}}}},
		LimitOption: pg_query.LimitOption_LIMIT_OPTION_DEFAULT, Op: pg_query.SetOperation_SETOP_NONE,
	}}})
	sql, found := strings.CutPrefix(sql, "SELECT ")
	if err != nil || !found {
		return a, false
	}
	return Argument{Text: sql, Type: constantType(p.GetTypeCast(), k)}, true
}

// constantType returns the type of a constant, with the cast around it if there is one.
func constantType(cast *pg_query.TypeCast, k *pg_query.A_Const) string {
	switch {
	case cast != nil:
		names := cast.TypeName.GetNames()
		if len(names) == 0 {
			return "?"
		}
		name := names[len(names)-1].GetString_().GetSval()
		if len(cast.TypeName.GetArrayBounds()) > 0 {
			name = "_" + name
		}
		return name
	case k.GetIval() != nil:
		return "int4"
	case k.GetFval() != nil:
		return "numeric"
	case k.GetBoolval() != nil:
		return "bool"
	case k.GetBsval() != nil:
		return "bit"
	}
	return ""
}

// WithArguments puts arguments, of these types, into the places that a text has for them. ok is false if it has others.
func WithArguments(text string, opt Options, args []Argument, types []string) (out string, ok bool) {
	if len(args) != len(types) {
		return "", false
	}
	values := make([]string, len(args))
	for i, a := range args {
		values[i] = "(CAST(" + a.Text + " AS " + types[i] + "))"
	}
	return WithValues(text, opt, values)
}

// WithValues puts expressions into the places that a text has for parameters. ok is false if it has others.
func WithValues(text string, opt Options, values []string) (out string, ok bool) {
	tree, err := ParseTree(text, opt)
	if err != nil || len(tree.Statements) != 1 {
		return "", false
	}
	var edits Edits
	ok = true
	nameless := map[*pg_query.ParamRef]bool{}
	Walk(tree.Statements[0].Stmt, func(m any) bool {
		if t, is := m.(*pg_query.ResTarget); is && t.Name == "" && t.Val.GetParamRef() != nil {
			nameless[t.Val.GetParamRef()] = true
		}
		if odd(m) {
			ok = false
			return false
		}
		p, is := m.(*pg_query.ParamRef)
		if !is {
			return true
		}
		start := tree.Offset(p.Location)
		end := start + 1 + len(strconv.Itoa(int(p.Number)))
		if p.Number < 1 || int(p.Number) > len(values) || end > len(text) || text[start:end] != "$"+strconv.Itoa(int(p.Number)) {
			ok = false
			return false
		}
		e := Edit{Start: start, End: end, New: values[p.Number-1]}
		if nameless[p] {
			e.New += ` AS "?column?"` // and not the type's name
		}
		edits = edits.With(e)
		return true
	})
	return edits.Apply(text), ok
}

// odd reports whether a message is an unnamed column that would get another name when its parameter becomes a cast.
func odd(m any) bool {
	t, is := m.(*pg_query.ResTarget)
	if !is || t.Name != "" {
		return false
	}
	n, below := t.Val, false
	for {
		switch {
		case n.GetCollateClause() != nil:
			n, below = n.GetCollateClause().Arg, true
		case n.GetAIndirection() != nil:
			n, below = n.GetAIndirection().Arg, true
		default:
			return below && n.GetParamRef() != nil
		}
	}
}
