package catalog

import (
	"maps"
	"slices"
	"strconv"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// scope is the items of a FROM clause with their columns.
type scope []scopeItem

type scopeItem struct {
	name    string
	columns []Column
}

// outputs returns the columns of a query. A column has type 0 if the text of the
// query does not show its type.
func (d *dump) outputs(sel *pg_query.SelectStmt, ctes map[string][]Column) []Column {
	if sel == nil {
		return nil
	}
	if sel.WithClause != nil {
		ctes = maps.Clone(ctes)
		if ctes == nil {
			ctes = map[string][]Column{}
		}
		for _, n := range sel.WithClause.Ctes {
			c := n.GetCommonTableExpr()
			// The first arm of a recursive WITH query names its columns, and does not
			// read the WITH query itself.
			columns := d.outputs(c.GetCtequery().GetSelectStmt(), ctes)
			ctes[c.GetCtename()] = renamed(columns, c.GetAliascolnames())
		}
	}
	if sel.Larg != nil {
		return d.outputs(sel.Larg, ctes)
	}
	if len(sel.ValuesLists) > 0 {
		return d.values(sel.ValuesLists[0].GetList().GetItems())
	}
	var from scope
	for _, n := range sel.FromClause {
		from = append(from, d.fromItem(n, ctes)...)
	}
	var out []Column
	for _, n := range sel.TargetList {
		t := n.GetResTarget()
		if ref := t.GetVal().GetColumnRef(); ref != nil && isStar(ref) {
			out = append(out, from.star(ref)...)
			continue
		}
		c := d.typeOf(t.GetVal(), from)
		c.Name = t.GetName()
		if c.Name == "" {
			c.Name = columnName(t.GetVal())
		}
		out = append(out, c)
	}
	return out
}

func (d *dump) values(items []*pg_query.Node) []Column {
	var out []Column
	for i, n := range items {
		c := d.typeOf(n, nil)
		c.Name = "column" + strconv.Itoa(i+1)
		out = append(out, c)
	}
	return out
}

func renamed(columns []Column, aliases []*pg_query.Node) []Column {
	columns = slices.Clone(columns)
	for i, a := range aliases {
		if i < len(columns) {
			columns[i].Name = a.GetString_().GetSval()
		}
	}
	return columns
}

// fromItem returns what an item of FROM adds to the scope: one entry for a table
// or subquery, several for a join.
func (d *dump) fromItem(n *pg_query.Node, ctes map[string][]Column) scope {
	switch f := n.GetNode().(type) {
	case *pg_query.Node_RangeVar:
		var columns []Column
		if r := d.find(rangeName(f.RangeVar)); r != nil {
			columns = r.Columns
		}
		if f.RangeVar.Schemaname == "" && ctes[f.RangeVar.Relname] != nil {
			columns = ctes[f.RangeVar.Relname]
		}
		name := f.RangeVar.Relname
		if a := f.RangeVar.Alias; a != nil {
			name, columns = a.Aliasname, renamed(columns, a.Colnames)
		}
		return scope{{name, columns}}
	case *pg_query.Node_RangeSubselect:
		columns := d.outputs(f.RangeSubselect.Subquery.GetSelectStmt(), ctes)
		return scope{{f.RangeSubselect.Alias.GetAliasname(), renamed(columns, f.RangeSubselect.Alias.GetColnames())}}
	case *pg_query.Node_JoinExpr:
		left, right := d.fromItem(f.JoinExpr.Larg, ctes), d.fromItem(f.JoinExpr.Rarg, ctes)
		for _, u := range f.JoinExpr.UsingClause {
			// A column in USING appears once.
			for i := range right {
				right[i].columns = slices.DeleteFunc(slices.Clone(right[i].columns), func(c Column) bool {
					return c.Name == u.GetString_().GetSval()
				})
			}
		}
		return append(left, right...)
	}
	return nil
}

func isStar(ref *pg_query.ColumnRef) bool {
	return len(ref.Fields) > 0 && ref.Fields[len(ref.Fields)-1].GetAStar() != nil
}

func (s scope) star(ref *pg_query.ColumnRef) []Column {
	var out []Column
	for _, item := range s {
		if len(ref.Fields) == 1 || ref.Fields[len(ref.Fields)-2].GetString_().GetSval() == item.name {
			for _, c := range item.columns {
				out = append(out, asOutput(c))
			}
		}
	}
	return out
}

// asOutput returns a column as the output of a query has it: without constraints
// and default.
func asOutput(c Column) Column {
	return Column{Name: c.Name, Type: c.Type, Base: c.Base, TypeName: c.TypeName, Mod: c.Mod, Enum: c.Enum, Collation: c.Collation, Nondeterministic: c.Nondeterministic}
}

func (s scope) column(ref *pg_query.ColumnRef) (Column, bool) {
	name := lastName(ref.Fields)
	for _, item := range s {
		if len(ref.Fields) > 1 && ref.Fields[len(ref.Fields)-2].GetString_().GetSval() != item.name {
			continue
		}
		for _, c := range item.columns {
			if c.Name == name {
				return asOutput(c), true
			}
		}
	}
	return Column{}, false
}

// typeOf returns an expression's type, in a Column without a name. Type is 0 if
// the type is not known.
func (d *dump) typeOf(n *pg_query.Node, from scope) Column {
	unknown := Column{Mod: -1}
	known := func(name string) Column {
		b := builtinTypes[name]
		display := b.display
		if display == "" {
			display = name
		}
		return Column{Type: b.oid, Base: b.oid, TypeName: display, Mod: -1}
	}
	switch e := n.GetNode().(type) {
	case *pg_query.Node_ColumnRef:
		if c, ok := from.column(e.ColumnRef); ok {
			return c
		}
	case *pg_query.Node_TypeCast:
		if t, err := d.resolve(e.TypeCast.TypeName); err == nil {
			return Column{Type: t.oid, Base: t.oid, TypeName: t.display, Mod: t.mod}
		}
	case *pg_query.Node_AConst:
		switch {
		case e.AConst.GetIval() != nil:
			return known("int4")
		case e.AConst.GetSval() != nil:
			return known("text")
		case e.AConst.GetBoolval() != nil:
			return known("bool")
		}
	case *pg_query.Node_BoolExpr, *pg_query.Node_NullTest, *pg_query.Node_BooleanTest:
		return known("bool")
	case *pg_query.Node_FuncCall:
		switch lastName(e.FuncCall.Funcname) {
		case "count", "row_number", "rank":
			return known("int8")
		case "lower", "upper", "string_agg", "concat":
			return known("text")
		case "now":
			return known("timestamptz")
		case "sum":
			return d.sum(e.FuncCall, from, known)
		case "min", "max":
			if len(e.FuncCall.Args) == 1 {
				c := d.typeOf(e.FuncCall.Args[0], from)
				c.Mod = -1
				if b, ok := builtinByOID(c.Type); ok {
					c.TypeName = b
				}
				return c
			}
		}
	}
	return unknown
}

// sum returns the type of sum(x), which depends on the type of x.
func (d *dump) sum(f *pg_query.FuncCall, from scope, known func(string) Column) Column {
	if len(f.Args) == 1 {
		switch d.typeOf(f.Args[0], from).Type {
		case builtinTypes["int2"].oid, builtinTypes["int4"].oid:
			return known("int8")
		case builtinTypes["int8"].oid, builtinTypes["numeric"].oid:
			return known("numeric")
		case builtinTypes["float8"].oid:
			return known("float8")
		}
	}
	return Column{Mod: -1}
}

// columnName returns the name that PostgreSQL gives to an output column without an
// alias.
func columnName(n *pg_query.Node) string {
	switch e := n.GetNode().(type) {
	case *pg_query.Node_ColumnRef:
		if name := lastName(e.ColumnRef.Fields); name != "" {
			return name
		}
	case *pg_query.Node_FuncCall:
		return lastName(e.FuncCall.Funcname)
	case *pg_query.Node_TypeCast:
		if name := columnName(e.TypeCast.Arg); name != "?column?" {
			return name
		}
		return lastName(e.TypeCast.TypeName.GetNames())
	case *pg_query.Node_CollateClause:
		return columnName(e.CollateClause.Arg)
	case *pg_query.Node_AIndirection:
		if name := lastName(e.AIndirection.Indirection); name != "" {
			return name
		}
		return columnName(e.AIndirection.Arg)
	case *pg_query.Node_CaseExpr:
		if name := columnName(e.CaseExpr.Defresult); name != "?column?" {
			return name
		}
		return "case"
	case *pg_query.Node_CoalesceExpr:
		return "coalesce"
	case *pg_query.Node_MinMaxExpr:
		if e.MinMaxExpr.Op == pg_query.MinMaxOp_IS_LEAST {
			return "least"
		}
		return "greatest"
	case *pg_query.Node_AArrayExpr:
		return "array"
	case *pg_query.Node_RowExpr:
		return "row"
	case *pg_query.Node_AExpr:
		if e.AExpr.Kind == pg_query.A_Expr_Kind_AEXPR_NULLIF {
			return "nullif"
		}
	case *pg_query.Node_SubLink:
		switch e.SubLink.SubLinkType {
		case pg_query.SubLinkType_EXISTS_SUBLINK:
			return "exists"
		case pg_query.SubLinkType_ARRAY_SUBLINK:
			return "array"
		case pg_query.SubLinkType_EXPR_SUBLINK:
			if t := e.SubLink.Subselect.GetSelectStmt().GetTargetList(); len(t) > 0 {
				if name := t[0].GetResTarget().GetName(); name != "" {
					return name
				}
				return columnName(t[0].GetResTarget().GetVal())
			}
		}
	}
	return "?column?"
}
