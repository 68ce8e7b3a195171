package planner

import (
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/parser"
)

// parameter is a parameter of a function in SQL.
type parameter struct {
	name     string
	typ      *pg.TypeName // without a length
	oid      uint32
	fallback *pg.Node // the default, or nil
}

// inlineCall is a call that is to be replaced.
type inlineCall struct {
	function *catalog.Function
	ins      []parameter
	outs     []parameter // the columns of the result, if they have names
	result   *pg.TypeName
	args     []*pg.Node // for each parameter, cast to its type
	body     *functionBody
}

// call looks at a call. It returns nil if the call is left alone.
func (in *inliner) call(f *pg.FuncCall) *inlineCall {
	users := in.wanted(f)
	if users == nil {
		return nil
	}
	names := nameList(f.Funcname)
	name := names[len(names)-1]
	c, why := in.resolve(f, users, len(names) == 1)
	if c == nil {
		in.leave(name, why)
		return nil
	}
	if c.body, why = in.body(c.function, c.ins); c.body == nil {
		in.leave(name, why)
		return nil
	}
	if c.body.collated && c.body.rowOf == nil && c.returnsText() {
		in.leave(name, "its query has strings with a collation of their own, and it returns strings")
		return nil
	}
	for _, arg := range c.args {
		in.tree(arg)
	}
	if why = c.body.bind(in, c); why != "" {
		in.leave(name, why)
		return nil
	}
	return c
}

// resolve finds the function that a call means, as far as numbers and names of arguments tell. Whether the types are right
// is what PostgreSQL says when it describes the client's text, or runs it.
func (in *inliner) resolve(f *pg.FuncCall, users []*catalog.Function, bare bool) (*inlineCall, string) {
	switch {
	case f.AggStar || f.AggDistinct || f.Over != nil || f.AggFilter != nil || len(f.AggOrder) > 0 || f.AggWithinGroup:
		return nil, "it is called like an aggregate"
	case f.FuncVariadic:
		return nil, "it is called with VARIADIC"
	case bare && in.a.env.Schema.Builtin(lastName(f.Funcname)).Known:
		return nil, "a built-in function has its name: write the schema"
	case len(in.a.client.path) > 0 && in.a.client.path[0] != "pg_catalog":
		return nil, "pg_catalog is behind other schemas in search_path"
	case in.a.inlined.count >= maxInlines:
		return nil, "there are too many calls in one statement"
	}
	var found *inlineCall
	why := "no function of that name takes these arguments"
	for _, u := range users {
		if u.SQL == nil || u.Kind != 'f' {
			if len(users) > 1 {
				return nil, "there are several functions of that name"
			}
			return nil, "it is not written in SQL"
		}
		c, not := newInlineCall(u)
		if c == nil {
			if len(users) > 1 {
				return nil, "there are several functions of that name"
			}
			return nil, not
		}
		if !c.accept(f) {
			continue
		}
		if found != nil {
			return nil, "several functions of that name take so many arguments"
		}
		found = c
	}
	if found == nil {
		return nil, why
	}
	for i := range found.ins {
		t := found.ins[i].typ
		if n := nameList(t.Names); in.a.env.Schema.Relation(catalog.Name{Schema: schemaOf(t.Names), Name: n[len(n)-1]}) != nil {
			return nil, "an argument is a row"
		}
		if p := found.args[i]; p != nil {
			found.args[i] = castAs(p, proto.Clone(t).(*pg.TypeName))
		}
	}
	strings := 0
	for _, p := range found.ins {
		if collatable(p.oid) {
			strings++
		}
	}
	for i, arg := range found.args {
		if why := in.unsuited(arg); why != "" {
			return nil, why
		}
		if collatable(found.ins[i].oid) && !constantArgument(arg) && (found.returnsText() || strings > 1) && in.collations() {
			return nil, "its result, or another argument, has the collation of an argument"
		}
	}
	if oid := found.function.SQL.Result; !found.function.SetReturning && oid >= 16384 && !in.enum(oid) {
		return nil, "its result is of a type that is neither built in nor an enum"
	}
	return found, ""
}

// returnsText reports whether the result of a function has values with a collation.
func (c *inlineCall) returnsText() bool {
	if len(c.outs) == 0 {
		return collatable(c.function.SQL.Result)
	}
	return slices.ContainsFunc(c.outs, func(p parameter) bool { return collatable(p.oid) })
}

// collations reports whether something in the schema or in the statement has another collation than the database.
func (in *inliner) collations() bool {
	for rel := range in.a.env.Schema.Relations() {
		if !rel.System() && hasCollation(rel) {
			return true
		}
	}
	found := false
	parser.Walk(in.root, func(m any) bool {
		_, is := m.(*pg.CollateClause)
		found = found || is
		return !found
	})
	return found
}

// enum reports whether a type is an enum that some column has.
func (in *inliner) enum(oid uint32) bool {
	for rel := range in.a.env.Schema.Relations() {
		if slices.ContainsFunc(rel.Columns, func(c catalog.Column) bool { return c.Enum && c.Type == oid && c.Base == oid }) {
			return true
		}
	}
	return false
}

// unsuited returns the reason why an argument cannot be moved into a query, or "".
func (in *inliner) unsuited(arg *pg.Node) (why string) {
	parser.Walk(arg, func(m any) bool {
		f, ok := m.(*pg.FuncCall)
		if !ok {
			return why == ""
		}
		names := nameList(f.Funcname)
		name := names[len(names)-1]
		users := in.a.env.Schema.Functions(name)
		t := in.a.env.Schema.Builtin(name)
		switch {
		case f.Over != nil || f.AggStar || t.Aggregate || slices.ContainsFunc(users, func(u *catalog.Function) bool { return u.Kind != 'f' }):
			why = "an argument is an aggregate or a window function: compute it in a subquery in FROM"
		case t.SetReturning && len(users) == 0 || slices.ContainsFunc(users, func(u *catalog.Function) bool { return u.SetReturning }):
			why = "an argument is a set: put it into FROM"
		case len(users) == 0 && (!t.Known || t.Volatility == 'v'):
			why = "an argument is volatile"
		}
		return why == ""
	})
	return why
}

// polymorphic are types that stand for others.
var polymorphic = set("anyelement", "anyarray", "anynonarray", "anyenum", "anyrange", "anymultirange", "anycompatible", "anycompatiblearray",
	"anycompatiblenonarray", "anycompatiblerange", "anycompatiblemultirange", "record", "any", "cstring", "internal", "trigger", "event_trigger", "void")

// newInlineCall reads the definition of a function. why says what speaks against replacing its calls.
func newInlineCall(f *catalog.Function) (c *inlineCall, why string) {
	tree, err := parser.ParseTree(f.SQL.Head+" AS ''", parser.Options{})
	if err != nil || len(tree.Statements) != 1 {
		return nil, "its definition cannot be read"
	}
	def := tree.Statements[0].Stmt.GetCreateFunctionStmt()
	if def == nil || len(def.Parameters) != len(f.SQL.Types) {
		return nil, "its definition cannot be read"
	}
	c = &inlineCall{function: f, result: plainType(def.ReturnType)}
	for i, n := range def.Parameters {
		p := n.GetFunctionParameter()
		t := plainType(p.ArgType)
		if polymorphic[lastName(t.GetNames())] && len(t.GetNames()) <= 2 {
			return nil, "it has an argument of any type"
		}
		x := parameter{name: p.Name, typ: t, oid: f.SQL.Types[i], fallback: p.Defexpr}
		switch p.Mode {
		case pg.FunctionParameterMode_FUNC_PARAM_VARIADIC:
			return nil, "it is VARIADIC"
		case pg.FunctionParameterMode_FUNC_PARAM_OUT, pg.FunctionParameterMode_FUNC_PARAM_TABLE:
			c.outs = append(c.outs, x)
		case pg.FunctionParameterMode_FUNC_PARAM_INOUT:
			c.ins, c.outs = append(c.ins, x), append(c.outs, x)
		default:
			c.ins = append(c.ins, x)
		}
	}
	if len(c.outs) < 2 && polymorphic[lastName(c.result.GetNames())] {
		return nil, "its result is " + lastName(c.result.Names)
	}
	return c, ""
}

// plainType returns a type without its length and without SETOF: arguments and results of functions have no length.
func plainType(t *pg.TypeName) *pg.TypeName {
	t = proto.Clone(t).(*pg.TypeName)
	t.Typmods, t.Setof, t.Typemod, t.Location = nil, false, -1, -1
	return t
}

// accept gives the parameters the arguments of a call, and reports whether they fit by number and name.
func (c *inlineCall) accept(f *pg.FuncCall) bool {
	c.args = make([]*pg.Node, len(c.ins))
	for i, arg := range f.Args {
		at := i
		if named := arg.GetNamedArgExpr(); named != nil {
			at = slices.IndexFunc(c.ins, func(p parameter) bool { return p.name == named.Name })
			arg = named.Arg
		}
		if at < 0 || at >= len(c.ins) || c.args[at] != nil {
			return false
		}
		c.args[at] = proto.Clone(arg).(*pg.Node)
	}
	for i, p := range c.ins {
		if c.args[i] == nil {
			if p.fallback == nil {
				return false
			}
			c.args[i] = proto.Clone(p.fallback).(*pg.Node)
			embed(c.args[i])
		}
	}
	return true
}

// scalar returns the expression that takes the place of the call.
func (c *inlineCall) scalar(in *inliner) (n *pg.Node, why string) {
	switch {
	case c.function.SetReturning:
		return nil, "it returns a set: call it in FROM"
	case len(c.outs) > 1 || c.body.rowOf != nil:
		return nil, "it returns a row: call it in FROM"
	}
	sel := c.body.query
	if !c.body.first(in) {
		return nil, "the LIMIT of its query is not a constant"
	}
	if c.body.columns() != 1 {
		return nil, "the number of columns of its query is not known"
	}
	out := castAs(sublink(sel), c.result)
	if c.function.SQL.Strict {
		if test := c.body.missing(pg.BoolExprType_OR_EXPR, pg.NullTestType_IS_NULL); test != nil {
			out = &pg.Node{Node: &pg.Node_CaseExpr{CaseExpr: &pg.CaseExpr{
				Args:      []*pg.Node{{Node: &pg.Node_CaseWhen{CaseWhen: &pg.CaseWhen{Expr: test, Result: castAs(nullNode(), proto.Clone(c.result).(*pg.TypeName)), Location: -1}}}},
				Defresult: out, Location: -1,
			}}}
		}
	}
	if c.body.from == nil {
		return out, ""
	}
	whole := newSelect()
	whole.TargetList = []*pg.Node{targetNode(out, "")}
	whole.FromClause = []*pg.Node{c.body.from}
	return sublink(whole), ""
}

// rows returns the item of FROM that takes the place of the call.
func (c *inlineCall) rows(in *inliner, rf *pg.RangeFunction) (n *pg.Node, why string) {
	if !c.function.SetReturning {
		return c.row(in, rf)
	}
	names, types, oids, why := c.shape(rf)
	if why != "" {
		return nil, why
	}
	const rows = "weft_rows"
	alias := &pg.Alias{Aliasname: rows}
	outer := newSelect()
	same := true
	for i, name := range names {
		alias.Colnames = append(alias.Colnames, pg.MakeStrNode(name))
		column := nameNode(rows, name)
		if oids[i] == 0 || c.body.oids[i] != oids[i] {
			column, same = castAs(column, types[i]), false
		}
		outer.TargetList = append(outer.TargetList, targetNode(column, name))
	}
	var test *pg.Node
	if c.function.SQL.Strict {
		test = c.body.missing(pg.BoolExprType_AND_EXPR, pg.NullTestType_IS_NOT_NULL)
	}
	sel, lateral := c.body.query, c.body.outside
	if !same || test != nil || c.body.from != nil {
		item := &pg.RangeSubselect{Subquery: selectNode(sel), Alias: alias, Lateral: c.body.from != nil}
		outer.WhereClause = test
		if c.body.from != nil {
			outer.FromClause = append(outer.FromClause, c.body.from)
		}
		outer.FromClause = append(outer.FromClause, &pg.Node{Node: &pg.Node_RangeSubselect{RangeSubselect: item}})
		sel = outer
	}
	shown := &pg.Alias{Aliasname: c.function.Name.Name}
	if rf.Alias != nil {
		shown.Aliasname, shown.Colnames = rf.Alias.Aliasname, rf.Alias.Colnames
	}
	if len(shown.Colnames) > len(names) {
		return nil, "it has fewer columns than its alias names"
	}
	for _, name := range names[len(shown.Colnames):] {
		shown.Colnames = append(shown.Colnames, pg.MakeStrNode(name))
	}
	return &pg.Node{Node: &pg.Node_RangeSubselect{RangeSubselect: &pg.RangeSubselect{Subquery: selectNode(sel), Alias: shown, Lateral: lateral || rf.Lateral}}}, ""
}

// row returns the item of FROM for a function that returns one value.
func (c *inlineCall) row(in *inliner, rf *pg.RangeFunction) (n *pg.Node, why string) {
	value, why := c.scalar(in)
	if value == nil {
		return nil, why
	}
	alias := &pg.Alias{Aliasname: c.function.Name.Name}
	if rf.Alias != nil {
		alias = proto.Clone(rf.Alias).(*pg.Alias)
	}
	name := alias.Aliasname
	if len(c.outs) > 0 && c.outs[0].name != "" {
		name = c.outs[0].name
	}
	sel := newSelect()
	sel.TargetList = []*pg.Node{targetNode(value, name)}
	if len(alias.Colnames) == 0 {
		alias.Colnames = []*pg.Node{pg.MakeStrNode(name)}
	}
	return &pg.Node{Node: &pg.Node_RangeSubselect{RangeSubselect: &pg.RangeSubselect{Subquery: selectNode(sel), Alias: alias, Lateral: c.body.outside || rf.Lateral}}}, ""
}

// shape returns the columns that a call in FROM has: names, types, and the types' OIDs, 0 for types that are cast to in any case.
func (c *inlineCall) shape(rf *pg.RangeFunction) (names []string, types []*pg.TypeName, oids []uint32, why string) {
	switch rel := c.body.rowOf; {
	case rel != nil:
		for i := range rel.Columns {
			names, types, oids = append(names, rel.Columns[i].Name), append(types, nil), append(oids, rel.Columns[i].Type)
		}
	case len(c.outs) > 0:
		for i, p := range c.outs {
			if p.name == "" {
				return nil, nil, nil, "a column of its result has no name"
			}
			if slices.ContainsFunc(c.outs[:i], func(o parameter) bool { return o.name == p.name }) {
				return nil, nil, nil, "two columns of its result have one name"
			}
			names, types, oids = append(names, p.name), append(types, p.typ), append(oids, p.oid)
		}
	default:
		name := c.function.Name.Name
		if rf.Alias != nil {
			name = rf.Alias.Aliasname
		}
		names, types, oids = []string{name}, []*pg.TypeName{c.result}, []uint32{c.function.SQL.Result}
	}
	if c.body.columns() != len(names) || len(c.body.oids) != len(names) {
		return nil, nil, nil, "the columns of its query are not known"
	}
	for i := range names {
		if types[i] == nil && c.body.oids[i] != oids[i] {
			return nil, nil, nil, "a column of its query has another type than its result"
		}
	}
	return names, types, oids, ""
}

func sublink(sel *pg.SelectStmt) *pg.Node {
	return &pg.Node{Node: &pg.Node_SubLink{SubLink: &pg.SubLink{SubLinkType: pg.SubLinkType_EXPR_SUBLINK, Subselect: selectNode(sel), Location: -1}}}
}

func nullNode() *pg.Node {
	return &pg.Node{Node: &pg.Node_AConst{AConst: &pg.A_Const{Isnull: true, Location: -1}}}
}

// settingPath returns the search path that SET clauses give a function. ok is false if it cannot be told.
func settingPath(settings []string, path []string) (out []string, ok bool) {
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		if name != "search_path" {
			continue
		}
		path = nil
		for _, part := range strings.Split(value, ",") {
			part = strings.TrimSpace(part)
			quoted := len(part) > 1 && part[0] == '"'
			if quoted {
				part = strings.ReplaceAll(part[1:len(part)-1], `""`, `"`)
			}
			switch {
			case part == "$user" || strings.Contains(part, `"`):
				return nil, false
			case part == "" || part == "pg_temp":
			case quoted:
				path = append(path, part)
			default:
				path = append(path, strings.ToLower(part))
			}
		}
		if !slices.Contains(path, "pg_catalog") {
			path = append([]string{"pg_catalog"}, path...)
		}
	}
	return path, true
}
