package planner

import (
	"strconv"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/datum"
	"weft/parser"
	"weft/plan"
)

// constant returns the source of a value that is the same for the whole statement and known before
// it runs. ok is false for all other nodes.
func (pr predicates) constant(n *pg.Node) (plan.Source, bool) {
	switch n := n.GetNode().(type) {
	case *pg.Node_AConst:
		return pr.literal(n.AConst)
	case *pg.Node_ParamRef:
		if n.ParamRef.Number < 1 || pr.l.a.text.stored {
			return plan.Source{}, false
		}
		i := int(n.ParamRef.Number) - 1
		return plan.Source{Kind: plan.Param, Index: i, Type: pr.l.a.params.declared(i)}, true
	case *pg.Node_TypeCast:
		return pr.cast(n.TypeCast)
	case *pg.Node_AExpr:
		return pr.arithmetic(n.AExpr)
	}
	return plan.Source{}, false
}

// literal finds the literal of the scan that belongs to a constant of the tree.
func (pr predicates) literal(c *pg.A_Const) (plan.Source, bool) {
	if c.Isnull {
		return plan.Source{Kind: plan.Null}, true
	}
	if pr.l.a.text.stored || c.Location == embedded {
		return storedConstant(c)
	}
	if c.GetBoolval() != nil || c.GetBsval() != nil {
		return plan.Source{}, false
	}
	i, negative, ok := pr.l.a.text.literalAt(c.Location)
	if !ok {
		return plan.Source{}, false
	}
	src := plan.Source{Kind: plan.Literal, Index: i, Negative: negative}
	switch pr.l.a.text.literals[i].Kind {
	case parser.String:
		src.Type = datum.Unknown
		if c.GetSval() == nil {
			return plan.Source{}, false
		}
	case parser.Int:
		src.Type = datum.Int4
	case parser.Int8:
		src.Type = datum.Int8
	case parser.Numeric:
		src.Type = datum.Numeric
	case parser.IntMin:
		src.Type = datum.Int8
		if src.Negative {
			src.Type = datum.Int4
		}
	case parser.Int8Min:
		src.Type = datum.Numeric
		if src.Negative {
			src.Type = datum.Int8
		}
	default:
		return plan.Source{}, false
	}
	return src, true
}

// storedConstant returns the source of a constant in a view's definition.
func storedConstant(c *pg.A_Const) (plan.Source, bool) {
	src := plan.Source{Kind: plan.Constant}
	switch v := c.Val.(type) {
	case *pg.A_Const_Sval:
		src.Text, src.Type = v.Sval.GetSval(), datum.Unknown
	case *pg.A_Const_Ival:
		src.Text, src.Type = strconv.Itoa(int(v.Ival.GetIval())), datum.Int4
	case *pg.A_Const_Fval:
		src.Text, src.Type = v.Fval.GetFval(), datum.Numeric
		if n, err := strconv.ParseInt(src.Text, 10, 64); err == nil {
			src.Type = datum.Int8
			if int64(int32(n)) == n {
				src.Type = datum.Int4
			}
		}
	default:
		return plan.Source{}, false
	}
	return src, true
}

// cast returns the source of value::type. A string is read as that type. A value of another type is
// converted, which is understood only where conversion keeps the value: between integers, and from
// text to text.
func (pr predicates) cast(c *pg.TypeCast) (plan.Source, bool) {
	t := pr.typeName(c.TypeName)
	if t == 0 {
		return plan.Source{}, false
	}
	src, ok := pr.constant(c.Arg)
	if !ok || src.Kind == plan.Null {
		return src, ok
	}
	switch {
	case src.Kind == plan.Computed && src.Expr.Func() == "":
		return src, class(t) == datum.Int8
	case src.Type == datum.Unknown || src.Type == 0:
		// '42'::bigint, or $1::bigint where the client declared no type: the
		// parameter then has this one.
		if src.Kind == plan.Param && c.Arg.GetParamRef() == nil {
			return plan.Source{}, false
		}
		src.Type = t
		return src, true
	case class(src.Type) == class(t) && class(t) != 0 && t != datum.Bpchar && (class(t) == datum.Int8 || class(t) == datum.Text || src.Type == t):
		return src, true
	case src.Type == datum.Int4 && t == datum.Numeric, src.Type == datum.Int8 && t == datum.Numeric:
		return src, true
	}
	return plan.Source{}, false
}

// typeName returns the built-in type that a name means, or 0 if the type does not matter here or
// has modifiers.
func (pr predicates) typeName(n *pg.TypeName) datum.Type {
	if n == nil || n.Setof || n.PctType || len(n.ArrayBounds) > 0 {
		return 0
	}
	names := nameList(n.Names)
	switch {
	case len(n.Typmods) > 0:
		return 0
	case len(names) == 2 && names[0] == "pg_catalog":
		return typeNames[names[1]]
	case len(names) == 1 && len(pr.l.a.text.path) > 0 && pr.l.a.text.path[0] == "pg_catalog":
		// No other schema's type of that name comes first.
		return typeNames[names[0]]
	}
	return 0
}

// typeNames are the built-in types by their names in parse trees.
var typeNames = map[string]datum.Type{
	"int2": datum.Int2, "int4": datum.Int4, "int8": datum.Int8,
	"text": datum.Text, "varchar": datum.Varchar, "uuid": datum.UUID, "date": datum.Date,
	"timestamp": datum.Timestamp, "timestamptz": datum.Timestamptz, "numeric": datum.Numeric,
	"float4": datum.Float4, "float8": datum.Float8,
}

// arithmetic returns the source of + - * of integers.
func (pr predicates) arithmetic(e *pg.A_Expr) (plan.Source, bool) {
	names := nameList(e.Name)
	if e.Kind != pg.A_Expr_Kind_AEXPR_OP || len(names) != 1 || len(names[0]) != 1 || !strings.Contains("+-*", names[0]) {
		return plan.Source{}, false
	}
	right, ok := pr.integer(e.Rexpr)
	if !ok {
		return plan.Source{}, false
	}
	if e.Lexpr == nil {
		switch {
		case names[0] == "+" && right.Kind != plan.Computed:
			return right, true
		case names[0] == "-" && right.Kind == plan.Literal:
			right.Negative = !right.Negative
			return right, true
		}
		return plan.Source{}, false
	}
	left, ok := pr.integer(e.Lexpr)
	if !ok {
		return plan.Source{}, false
	}
	t := datum.Int4
	if left.Type == datum.Int8 || right.Type == datum.Int8 {
		t = datum.Int8
	}
	return plan.Source{Kind: plan.Computed, Type: t, Expr: &plan.Expr{Op: names[0][0], Left: left, Right: right}}, true
}

// cased returns the source of lower(…) or upper(…) of a constant text.
func (pr predicates) cased(n *pg.Node) (plan.Source, bool) {
	op, arg := pr.l.a.reach().changesCase(n.GetFuncCall())
	if op == 0 {
		return plan.Source{}, false
	}
	src, ok := pr.constant(arg)
	switch {
	case !ok || src.Kind != plan.Literal && src.Kind != plan.Param:
		return plan.Source{}, false
	case src.Type != 0 && src.Type != datum.Unknown && src.Type != datum.Text && src.Type != datum.Varchar:
		return plan.Source{}, false
	}
	return plan.Source{Kind: plan.Computed, Type: datum.Text, Expr: &plan.Expr{Op: op, Left: src}}, true
}

// changesCase returns the operation and the argument of a call of PostgreSQL's own lower and upper;
// 0 for other calls.
func (re reach) changesCase(f *pg.FuncCall) (op byte, arg *pg.Node) {
	if len(f.GetArgs()) != 1 || f.AggStar || f.AggDistinct || f.FuncVariadic || f.Over != nil || f.AggFilter != nil || len(f.AggOrder) > 0 || re.a.text.stored || re.a.env.Schema == nil {
		return 0, nil
	}
	names := nameList(f.Funcname)
	name := names[len(names)-1]
	switch {
	case len(names) > 1 && schemaOf(f.Funcname) != "pg_catalog", len(re.userFunctions(schemaOf(f.Funcname), name)) > 0:
		return 0, nil
	case name == "lower":
		return plan.Lower, f.Args[0]
	case name == "upper":
		return plan.Upper, f.Args[0]
	}
	return 0, nil
}

// integer returns the source of a constant that is an int4 or int8 in every context.
func (pr predicates) integer(n *pg.Node) (plan.Source, bool) {
	src, ok := pr.constant(n)
	if !ok || src.Type != datum.Int4 && src.Type != datum.Int8 {
		return plan.Source{}, false
	}
	return src, true
}

// array returns the values of a constant array: ARRAY[…], '{…}' or a parameter.
func (pr predicates) array(n *pg.Node) (plan.Set, bool) {
	var element datum.Type
	if c := n.GetTypeCast(); c != nil {
		t := c.TypeName
		if t == nil || len(t.ArrayBounds) == 0 || t.Setof || t.PctType {
			return nil, false
		}
		element = pr.typeName(&pg.TypeName{Names: t.Names, Typmods: t.Typmods})
		if element == 0 {
			return nil, false
		}
		n = c.Arg
	}
	switch v := n.GetNode().(type) {
	case *pg.Node_AArrayExpr:
		set := plan.Set{}
		for _, e := range v.AArrayExpr.Elements {
			if element != 0 {
				e = castTo(e, element)
			}
			src, ok := pr.constant(e)
			if !ok {
				return nil, false
			}
			if src.Kind != plan.Null {
				set = append(set, src)
			}
		}
		return set, true
	case *pg.Node_AConst:
		src, ok := pr.literal(v.AConst)
		switch {
		case !ok:
			return nil, false
		case src.Kind == plan.Null:
			return plan.Set{}, true
		case src.Kind != plan.Literal || src.Type != datum.Unknown:
			return nil, false
		}
		src.Kind, src.Type = plan.Array, datum.Unknown
		if element != 0 {
			src.Type = element
		}
		return plan.Set{src}, true
	case *pg.Node_ParamRef:
		if v.ParamRef.Number < 1 || pr.l.a.text.stored {
			return nil, false
		}
		i := int(v.ParamRef.Number) - 1
		src := plan.Source{Kind: plan.ParamArray, Index: i}
		if t := pr.l.a.params.declared(i); t != 0 {
			if src.Type = elementOf(t); src.Type == 0 {
				return nil, false
			}
			if element != 0 && class(element) != class(src.Type) {
				return nil, false
			}
		} else if element != 0 {
			src.Type = element
		}
		return plan.Set{src}, true
	}
	return nil, false
}

// castTo returns the node value::type.
func castTo(n *pg.Node, t datum.Type) *pg.Node {
	for name, typ := range typeNames {
		if typ == t {
			return &pg.Node{Node: &pg.Node_TypeCast{TypeCast: &pg.TypeCast{
				Arg: n, TypeName: &pg.TypeName{Names: []*pg.Node{pg.MakeStrNode("pg_catalog"), pg.MakeStrNode(name)}},
			}}}
		}
	}
	return n
}

// arrays are the array types of the types that matter.
var arrays = map[datum.Type]datum.Type{
	datum.Int2: 1005, datum.Int4: 1007, datum.Int8: 1016, datum.Text: 1009, datum.Varchar: 1015, datum.Bpchar: 1014,
	datum.UUID: 2951, datum.Date: 1182, datum.Timestamp: 1115, datum.Timestamptz: 1185, datum.Numeric: 1231,
	datum.Float4: 1021, datum.Float8: 1022,
}

func elementOf(array datum.Type) datum.Type {
	for e, a := range arrays {
		if a == array {
			return e
		}
	}
	return 0
}

// outputType is the type of a constant in a target list: a string becomes text.
func outputType(src plan.Source) datum.Type {
	if src.Type == datum.Unknown {
		return datum.Text
	}
	return src.Type
}

func columnNumber(i int) string { return "column" + strconv.Itoa(i+1) }
