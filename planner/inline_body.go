package planner

import (
	"slices"
	"strconv"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"weft/catalog"
	"weft/datum"
	"weft/parser"
	"weft/plan"
)

// functionBody is the query of a function on its way into a statement.
type functionBody struct {
	query *pg.SelectStmt
	// rowOf is the relation whose rows the function returns, or nil.
	rowOf *catalog.Relation
	// oids are the types of the query's columns, 0 where they are not known.
	oids []uint32
	// visible are all names that may mean something in the query itself.
	visible map[string]bool
	// uses counts how often each parameter is used.
	uses []int
	// from makes the arguments, if they cannot stand in the query. alias is its name.
	from  *pg.Node
	given []*pg.Node // what stands for each parameter outside of the query
	// outside is set if an argument names what is around the call.
	outside bool
	inlined inlining
	// collated is set if something in the query may have a collation of its own.
	collated bool
}

// collatable reports whether values of a type may have a collation.
func collatable(oid uint32) bool {
	const firstUserOID = 16384
	return oid >= firstUserOID || slices.Contains([]datum.Type{datum.Text, datum.Varchar, datum.Bpchar, arrays[datum.Text], arrays[datum.Varchar], arrays[datum.Bpchar]}, datum.Type(oid))
}

// hasCollation reports whether a column of a relation has another collation than the database.
func hasCollation(rel *catalog.Relation) bool {
	return slices.ContainsFunc(rel.Columns, func(c catalog.Column) bool { return c.Collation.Name != "" })
}

// body reads the body of a function, and prepares it: tables have their schemas, calls in it are replaced, and constants are
// told by their values. The reason is returned if that is not possible.
func (in *inliner) body(f *catalog.Function, ins []parameter) (*functionBody, string) {
	d := f.SQL
	if slices.Contains(in.around, f) || len(in.around) >= maxInlined {
		return nil, "it calls itself"
	}
	path, ok := in.a.client.path, true
	if d.Standard && in.a.env.Schema.Live {
		path = []string{"pg_catalog"}
	} else if path, ok = settingPath(d.Settings, path); !ok {
		return nil, "its search_path depends on who calls it"
	}
	sel, why := readFunction(d, in.a.env.Options)
	if sel == nil {
		return nil, why
	}
	b := &functionBody{query: sel, visible: map[string]bool{}, uses: make([]int, len(ins))}
	node := selectNode(sel)
	if why := b.refusal(node); why != "" {
		return nil, why
	}
	embed(node)
	protected := false
	if why := b.qualify(in, node, path, &protected); why != "" {
		return nil, why
	}
	if protected && (d.Definer || in.stored) {
		return nil, "it reads a table with row-level security with the rights of another role"
	}
	if n := nameList(plainResult(d)); len(n) == 2 {
		if rel := in.a.env.Schema.Relation(catalog.Name{Schema: n[0], Name: n[1]}); rel != nil {
			if rel.Kind == catalog.Composite || d.Result < 16384 {
				return nil, "it returns rows of a composite type"
			}
			b.rowOf = rel
		}
	}
	b.see(in, node)
	if why := b.parameters(f, ins, node); why != "" {
		return nil, why
	}
	// The calls in the body are replaced as if the body were the client's text.
	inner := &inliner{root: node, a: &analysis{env: in.a.env, client: in.a.client, text: in.a.client, out: &plan.Plan{}, params: &params{}}, path: path, around: append(slices.Clone(in.around), f), stored: in.stored}
	inner.a.inlined.aliases = in.a.inlined.aliases
	inner.tree(node)
	in.a.inlined.aliases = inner.a.inlined.aliases
	if len(inner.a.inlined.why) > 0 {
		return nil, "it calls another function over sharded tables"
	}
	b.inlined = inner.a.inlined
	b.see(in, node)
	b.types(in, node)
	return b, ""
}

// plainResult returns the name of the type of a function's result.
func plainResult(d *catalog.SQLFunction) []*pg.Node {
	tree, err := parser.ParseTree(d.Head+" AS ''", parser.Options{})
	if err != nil {
		return nil
	}
	return tree.Statements[0].Stmt.GetCreateFunctionStmt().GetReturnType().GetNames()
}

// readFunction parses the body of a function that is one query.
func readFunction(d *catalog.SQLFunction, options parser.Options) (*pg.SelectStmt, string) {
	if !d.Standard {
		tree, err := parser.ParseTree(d.Body, options)
		if err != nil {
			return nil, "its body cannot be read"
		}
		if len(tree.Statements) != 1 || tree.Statements[0].Stmt.GetSelectStmt() == nil {
			return nil, "its body is not one SELECT"
		}
		return tree.Statements[0].Stmt.GetSelectStmt(), ""
	}
	tree, err := parser.ParseTree(d.Head+" "+d.Body, parser.Options{})
	if err != nil || len(tree.Statements) != 1 || d.Body == "" {
		return nil, "its body cannot be read"
	}
	body := tree.Statements[0].Stmt.GetCreateFunctionStmt().GetSqlBody()
	if r := body.GetReturnStmt(); r != nil {
		sel := newSelect()
		sel.TargetList = []*pg.Node{targetNode(r.Returnval, "")}
		return sel, ""
	}
	list := body.GetList().GetItems()
	if len(list) == 1 {
		list = list[0].GetList().GetItems()
	}
	if len(list) != 1 || list[0].GetSelectStmt() == nil {
		return nil, "its body is not one SELECT"
	}
	return list[0].GetSelectStmt(), ""
}

// refusal returns what in a body cannot stand in another statement.
func (b *functionBody) refusal(node *pg.Node) (why string) {
	parser.Walk(node, func(m any) bool {
		switch m := m.(type) {
		case *pg.IntoClause:
			why = "its body is not one SELECT"
		case *pg.LockingClause:
			why = "its query locks rows"
		case *pg.InsertStmt, *pg.UpdateStmt, *pg.DeleteStmt, *pg.MergeStmt:
			why = "its query changes rows"
		case *pg.SelectStmt:
			if len(m.ValuesLists) > 0 {
				why = "its query is VALUES"
			}
		}
		return why == ""
	})
	return why
}

// embed takes the positions out of a tree that is not of the client's text.
func embed(n *pg.Node) {
	unplaceAll(n.ProtoReflect())
	parser.Walk(n, func(m any) bool {
		if c, ok := m.(*pg.A_Const); ok {
			c.Location = embedded
		}
		return true
	})
}

func unplaceAll(m protoreflect.Message) {
	if f := m.Descriptor().Fields().ByName("location"); f != nil && f.Kind() == protoreflect.Int32Kind {
		m.Set(f, protoreflect.ValueOfInt32(-1))
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList() && f.Kind() == protoreflect.MessageKind:
			for i := range v.List().Len() {
				unplaceAll(v.List().Get(i).Message())
			}
		case f.Kind() == protoreflect.MessageKind && !f.IsMap():
			unplaceAll(v.Message())
		}
		return true
	})
}

// qualify gives tables and functions of a body their schemas.
func (b *functionBody) qualify(in *inliner, node *pg.Node, path []string, protected *bool) (why string) {
	ctes := map[string]bool{}
	parser.Walk(node, func(m any) bool {
		if c, ok := m.(*pg.CommonTableExpr); ok {
			ctes[c.Ctename] = true
		}
		return true
	})
	schema := in.a.env.Schema
	parser.Walk(node, func(m any) bool {
		switch m := m.(type) {
		case *pg.RangeVar:
			if m.Schemaname == "" && ctes[m.Relname] {
				if schema.Resolve(path, m.Relname) != nil {
					why = "its query has a WITH of the name of a table"
				}
				return true
			}
			if m.Schemaname == "" && in.a.env.Temporary[m.Relname] || isTemporary(m.Schemaname) {
				why = "it reads a temporary table"
				return false
			}
			rel := schema.Relation(catalog.Name{Schema: m.Schemaname, Name: m.Relname})
			if m.Schemaname == "" {
				rel = schema.Resolve(path, m.Relname)
			}
			if rel == nil {
				why = "table " + strconv.Quote(m.Relname) + " in its query does not exist"
				return false
			}
			in.a.env.asked.note(m.Relname)
			m.Schemaname = rel.Schema
			*protected = *protected || rel.RowSecurity || rel.Kind == catalog.View
		case *pg.FuncCall:
			names := nameList(m.Funcname)
			if len(names) != 1 || schema.Builtin(names[0]).Known {
				return true
			}
			for _, s := range path {
				if slices.ContainsFunc(schema.Functions(names[0]), func(u *catalog.Function) bool { return u.Schema == s }) {
					m.Funcname = []*pg.Node{pg.MakeStrNode(s), m.Funcname[0]}
					break
				}
			}
		}
		return why == ""
	})
	return why
}

// see collects the names that may mean something in the query. A name "*" stands for names that are not known.
func (b *functionBody) see(in *inliner, node *pg.Node) {
	add := func(names ...string) {
		for _, n := range names {
			b.visible[n] = true
		}
	}
	for name := range systemColumns {
		add(name)
	}
	parser.Walk(node, func(m any) bool {
		switch m := m.(type) {
		case *pg.RangeVar:
			add(m.Relname)
			if rel := in.a.env.Schema.Relation(catalog.Name{Schema: m.Schemaname, Name: m.Relname}); rel != nil {
				b.collated = b.collated || hasCollation(rel)
				if len(rel.Columns) == 0 {
					add("*")
				}
				for i := range rel.Columns {
					add(rel.Columns[i].Name)
				}
			}
		case *pg.CollateClause:
			b.collated = true
		case *pg.RangeFunction, *pg.RangeTableFunc:
			add("*")
		case *pg.Alias:
			add(m.Aliasname)
			add(nameList(m.Colnames)...)
		case *pg.CommonTableExpr:
			add(m.Ctename)
			add(nameList(m.Aliascolnames)...)
		case *pg.ResTarget:
			add(m.Name, figureName(m.Val))
		}
		return true
	})
}

// parameters makes $1, $2, … of the names of parameters, as PostgreSQL finds them: what is a column is not a parameter.
func (b *functionBody) parameters(f *catalog.Function, ins []parameter, node *pg.Node) (why string) {
	index := func(name string) int {
		return slices.IndexFunc(ins, func(p parameter) bool { return p.name == name && name != "" })
	}
	walkNodes(node, func(m *pg.Node) bool {
		if p := m.GetParamRef(); p != nil {
			if p.Number < 1 || int(p.Number) > len(ins) {
				why = "there is no parameter $" + strconv.Itoa(int(p.Number))
				return false
			}
			b.uses[p.Number-1]++
			return false
		}
		ref := m.GetColumnRef()
		if ref == nil {
			return why == ""
		}
		names := nameList(ref.Fields)
		at := -1
		switch {
		case len(names) != len(ref.Fields):
		case len(names) == 1:
			if at = index(names[0]); at >= 0 && (b.visible[names[0]] || b.visible["*"]) {
				why = strconv.Quote(names[0]) + " in its query is an argument, and may be a column: write $" + strconv.Itoa(at+1)
			}
		case len(names) == 2 && names[0] == f.Name.Name:
			if at = index(names[1]); at >= 0 && b.visible[names[0]] {
				why = strconv.Quote(names[0]) + " in its query is the function, and may be a table: write $" + strconv.Itoa(at+1)
			}
		}
		if at >= 0 && why == "" {
			b.uses[at]++
			m.Node = &pg.Node_ParamRef{ParamRef: &pg.ParamRef{Number: int32(at + 1), Location: -1}}
		}
		return false
	})
	return why
}

// types finds the types of the query's columns. The parameters stand as NULLs.
func (b *functionBody) types(in *inliner, node *pg.Node) {
	n := proto.Clone(node).(*pg.Node)
	walkNodes(n, func(m *pg.Node) bool {
		if m.GetParamRef() != nil {
			m.Node = nullNode().Node
			return false
		}
		return true
	})
	look := in.a.gatherer().probing(in.a.client)
	cols, opaque := look.top().query(n.GetSelectStmt())
	if opaque || look.refused() {
		return
	}
	for _, o := range cols {
		oid := uint32(o.column.declared)
		if o.column.stored == nil {
			oid = 0
		}
		b.oids = append(b.oids, oid)
	}
}

// columns returns how many columns the query has, or -1.
func (b *functionBody) columns() int {
	if b.oids != nil {
		return len(b.oids)
	}
	sel := b.query
	for sel.Larg != nil {
		sel = sel.Larg
	}
	for _, t := range sel.TargetList {
		if isStar(t.GetResTarget().GetVal()) || isFieldStar(t.GetResTarget().GetVal()) {
			return -1
		}
	}
	return len(sel.TargetList)
}

// first makes the query yield at most one row, the first, as a function does that returns no set. It reports false if that is not possible.
func (b *functionBody) first(in *inliner) bool {
	sel := b.query
	if n := sel.LimitCount; n != nil {
		i := n.GetAConst().GetIval()
		if i == nil || sel.LimitOption == pg.LimitOption_LIMIT_OPTION_WITH_TIES {
			return false
		}
		if i.Ival < 1 {
			return true // no row, or an error
		}
	}
	if !b.single(in) {
		sel.LimitCount, sel.LimitOption = intNode(1), pg.LimitOption_LIMIT_OPTION_COUNT
	}
	return true
}

// single reports whether the query yields one row at most: it has no FROM, or aggregates all rows.
func (b *functionBody) single(in *inliner) bool {
	sel := b.query
	if sel.Op != pg.SetOperation_SETOP_NONE || len(sel.GroupClause) > 0 {
		return false
	}
	one := len(sel.FromClause) == 0
	sets := false
	for _, n := range sel.TargetList {
		walkLevel(n, func(m any) {
			f, ok := m.(*pg.FuncCall)
			if !ok {
				return
			}
			name := lastName(f.Funcname)
			t := in.a.env.Schema.Builtin(name)
			users := in.a.env.Schema.Functions(name)
			one = one || t.Aggregate && f.Over == nil && len(users) == 0
			sets = sets || t.SetReturning || !t.Known && !slices.ContainsFunc(users, func(u *catalog.Function) bool { return !u.SetReturning })
		})
	}
	return one && !sets
}

// bind puts the arguments into the query. An argument that would mean something else there is computed outside.
func (b *functionBody) bind(in *inliner, c *inlineCall) (why string) {
	made := newSelect()
	alias := ""
	for i, arg := range c.args {
		n := arg
		switch {
		case constantArgument(arg):
		case b.foreign(arg):
			b.outside = true
		default:
			if b.uses[i] == 0 && !c.function.SQL.Strict {
				return "an argument is an expression that its query does not use"
			}
			if alias == "" {
				alias = in.alias()
			}
			column := "p" + strconv.Itoa(i+1)
			made.TargetList = append(made.TargetList, targetNode(arg, column))
			n = nameNode(alias, column)
			b.outside = true
		}
		b.given = append(b.given, n)
	}
	if alias != "" {
		b.from = &pg.Node{Node: &pg.Node_RangeSubselect{RangeSubselect: &pg.RangeSubselect{Subquery: selectNode(made), Alias: &pg.Alias{Aliasname: alias}}}}
	}
	walkNodes(selectNode(b.query), func(m *pg.Node) bool {
		if p := m.GetParamRef(); p != nil {
			m.Node = proto.Clone(b.given[p.Number-1]).(*pg.Node).Node
			return false
		}
		return true
	})
	return ""
}

// constantArgument reports whether an argument is made of constants and parameters of the statement alone.
func constantArgument(n *pg.Node) bool {
	switch v := n.GetNode().(type) {
	case *pg.Node_AConst, *pg.Node_ParamRef:
		return true
	case *pg.Node_TypeCast:
		return constantArgument(v.TypeCast.Arg)
	case *pg.Node_AExpr:
		name := nameList(v.AExpr.Name)
		return v.AExpr.Kind == pg.A_Expr_Kind_AEXPR_OP && len(name) == 1 && (name[0] == "+" || name[0] == "-" || name[0] == "*") &&
			(v.AExpr.Lexpr == nil || constantArgument(v.AExpr.Lexpr)) && constantArgument(v.AExpr.Rexpr)
	}
	return false
}

// foreign reports whether an argument is a column around the call, and its name means nothing in the query.
func (b *functionBody) foreign(n *pg.Node) bool {
	if c := n.GetTypeCast(); c != nil {
		return b.foreign(c.Arg)
	}
	names := nameList(n.GetColumnRef().GetFields())
	return len(names) > 0 && len(names) <= 2 && len(names) == len(n.GetColumnRef().Fields) && !b.visible[names[0]] && !b.visible["*"]
}

// missing returns a condition on whether arguments are NULL, or nil if none can be.
func (b *functionBody) missing(how pg.BoolExprType, test pg.NullTestType) *pg.Node {
	var tests []*pg.Node
	for _, arg := range b.given {
		inner := arg
		for inner.GetTypeCast() != nil {
			inner = inner.GetTypeCast().Arg
		}
		if c := inner.GetAConst(); c != nil && !c.Isnull {
			continue
		}
		tests = append(tests, &pg.Node{Node: &pg.Node_NullTest{NullTest: &pg.NullTest{Arg: proto.Clone(arg).(*pg.Node), Nulltesttype: test, Location: -1}}})
	}
	if len(tests) < 2 {
		if len(tests) == 0 {
			return nil
		}
		return tests[0]
	}
	return &pg.Node{Node: &pg.Node_BoolExpr{BoolExpr: &pg.BoolExpr{Boolop: how, Args: tests, Location: -1}}}
}
