package planner

import (
	"fmt"
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/datum"
	"weft/parser"
	"weft/plan"
	"weft/quote"
	"weft/vindex"
)

// ON CONFLICT may look for a row by a lookup that is derived from an index. PostgreSQL computes what the new row has in the index: the home
// shard is asked for the items, over the values of the row, before the row is stored.

// choice says whether ON CONFLICT (…) chooses an index.
type choice uint8

const (
	notInferred choice = iota
	mayBeInferred
	inferred
)

// infersDerived reports whether an inference chooses the index that a lookup is derived from. The words of both are compared: what is written
// in another way may be chosen by PostgreSQL.
func infersDerived(n *pg.InferClause, k *catalog.Lookup) choice {
	if n == nil || n.Conname != "" {
		return notInferred
	}
	if k.Condition != "" && n.WhereClause == nil {
		return notInferred // PostgreSQL infers an index of a part of the rows only from a condition
	}
	var of, given inferable
	for _, item := range k.Items {
		of.add(expressionOf(item))
	}
	result := inferred
	for _, node := range n.IndexElems {
		e := node.GetIndexElem()
		if len(e.GetCollation()) > 0 || len(e.GetOpclass()) > 0 {
			result = mayBeInferred
		}
		if e.GetName() != "" {
			given.columns = append(given.columns, e.GetName())
		} else {
			given.add(e.GetExpr())
		}
	}
	if !sameSet(of.columns, given.columns) || !sameSet(of.used, given.used) {
		return notInferred
	}
	if !sameSet(of.expressions, given.expressions) {
		result = mayBeInferred
	}
	if k.Condition != "" && result == inferred {
		var known []string
		for _, c := range conjuncts(n.WhereClause) {
			known = append(known, wordsIn(c))
		}
		for _, c := range conjuncts(expressionOf(k.Condition)) {
			if !slices.Contains(known, wordsIn(c)) {
				return mayBeInferred
			}
		}
	}
	return result
}

// inferable are the items of an index, or of an inference.
type inferable struct {
	columns, expressions []string
	used                 []string // the columns in the expressions
}

// add notes an item.
func (in *inferable) add(n *pg.Node) {
	if names := nameList(n.GetColumnRef().GetFields()); len(names) == 1 {
		in.columns = append(in.columns, names[0])
		return
	}
	in.expressions = append(in.expressions, wordsIn(n))
	parser.Walk(n, func(m any) bool {
		if ref, ok := m.(*pg.ColumnRef); ok {
			in.used = append(in.used, nameList(ref.Fields)[len(ref.Fields)-1])
		}
		return true
	})
}

// sameSet reports whether two lists have the same names in them, however often.
func sameSet(a, b []string) bool {
	return slices.Equal(slices.Compact(slices.Sorted(slices.Values(a))), slices.Compact(slices.Sorted(slices.Values(b))))
}

// expressionOf parses an expression that PostgreSQL has written; nil if that fails.
func expressionOf(sql string) *pg.Node {
	tree, err := parser.Parse("SELECT " + sql)
	if err != nil || len(tree.Stmts) != 1 || len(tree.Stmts[0].Stmt.GetSelectStmt().GetTargetList()) != 1 {
		return nil
	}
	return tree.Stmts[0].Stmt.GetSelectStmt().TargetList[0].GetResTarget().Val
}

// wordsIn writes an expression without what PostgreSQL adds or changes when it stores one: casts, schemas, IN.
func wordsIn(n *pg.Node) string {
	if n == nil {
		return ""
	}
	n = proto.Clone(n).(*pg.Node)
	parser.Walk(n, func(m any) bool {
		node, ok := m.(*pg.Node)
		if !ok {
			return true
		}
		for node.GetTypeCast() != nil {
			node.Node = node.GetTypeCast().Arg.Node
		}
		if f := node.GetFuncCall(); f != nil && len(f.Funcname) == 2 && nameList(f.Funcname)[0] == "pg_catalog" {
			f.Funcname = f.Funcname[1:]
		}
		if ref := node.GetColumnRef(); ref != nil && len(ref.Fields) > 1 {
			ref.Fields = ref.Fields[len(ref.Fields)-1:]
		}
		if e := node.GetAExpr(); e != nil && e.Kind == pg.A_Expr_Kind_AEXPR_IN && lastName(e.Name) == "=" && e.Rexpr.GetList() != nil {
			e.Kind = pg.A_Expr_Kind_AEXPR_OP_ANY
			e.Rexpr = &pg.Node{Node: &pg.Node_AArrayExpr{AArrayExpr: &pg.A_ArrayExpr{Elements: e.Rexpr.GetList().Items}}}
		}
		return true
	})
	return expressionText(n)
}

// inference writes ON CONFLICT's words for the index that a lookup is derived from.
func inference(k *catalog.Lookup) string {
	var items []string
	for _, item := range k.Items {
		if !slices.ContainsFunc(k.Uses, func(name string) bool { return item == catalog.QuoteIdents([]string{name}) }) && !strings.HasSuffix(item, ")") {
			item = "(" + item + ")"
		}
		items = append(items, item)
	}
	out := "(" + strings.Join(items, ", ") + ")"
	if k.Condition != "" {
		out += " WHERE " + k.Condition
	}
	return out
}

// mixes reports whether an item of the index that a lookup is derived from is made of a column and others. A new value of the column alone
// then makes another item than that of the excluded row.
func mixes(k *catalog.Lookup, column string) bool {
	return slices.ContainsFunc(k.Items, func(item string) bool {
		n := expressionOf(item)
		return n == nil || mixesIn(n, column)
	})
}

func mixesIn(n *pg.Node, column string) bool {
	has, others := false, false
	parser.Walk(n, func(m any) bool {
		if ref, ok := m.(*pg.ColumnRef); ok {
			is := nameList(ref.Fields)[len(ref.Fields)-1] == column
			has, others = has || is, others || !is
		}
		return true
	})
	return has && others
}

// derivedKey returns what a row of an INSERT stores in a lookup that is derived from an index, or nil if that is unknown.
func (mo modification) derivedKey(tg *target, cols []*catalog.Column, items []*pg.Node, k *catalog.Lookup) *plan.LookupKey {
	types := derivedTypes(tg.rel, k)
	if len(types) == 0 || len(types) != len(k.Values) {
		return nil
	}
	var from plan.Text
	for i, name := range k.Uses {
		c := tg.rel.Column(name)
		if c == nil || c.Generated || c.Identity != 0 || c.Sequence.Name != "" {
			return nil
		}
		var value *pg.Node
		if at := slices.Index(cols, c); at >= 0 && at < len(items) {
			value = items[at]
		}
		text := mo.fixedText(c, value)
		if len(text) == 0 {
			return nil
		}
		if i > 0 {
			from = append(from, sqlPart(", "))
		}
		from = append(append(append(from, sqlPart("CAST(")), text...), sqlPart(fmt.Sprintf(" AS %s) AS %s", c.TypeName, quote.Ident(name))))
	}
	out := newLookupKey(tg, k)
	var columns []vindex.Column
	for i, t := range types {
		columns = append(columns, vindex.Column{Name: fmt.Sprintf("v%d", i+1), Column: datum.Column{Type: t, Mod: -1}, TypeName: t.String()})
		text := append(plan.Text{sqlPart(fmt.Sprintf("(SELECT (%s)::pg_catalog.%s FROM (SELECT ", k.Values[i], vindex.LookupType(t)))}, from...)
		end := ") r)"
		if k.Condition != "" {
			end = ") r WHERE (" + k.Condition + "))"
		}
		out.Items = append(out.Items, append(text, sqlPart(end)))
	}
	var err error
	if out.Vindex, err = vindex.LookupTable(columns, tg.table.entries); err != nil {
		return nil
	}
	return out
}

// derivedTypes returns the types of the entries of a lookup that is derived from an index.
func derivedTypes(rel *catalog.Relation, k *catalog.Lookup) (types []datum.Type) {
	for r := rel; r != nil; r = r.Parent {
		for i := range r.Unique {
			d := r.Unique[i].Derived
			if d == nil || d.Shape != k.Shape {
				continue
			}
			for _, oid := range d.Types {
				types = append(types, vindex.EntryType(datum.Type(oid)))
			}
			return types
		}
	}
	return nil
}

// fixedText writes the value that a row gets in a column, if it has the same meaning wherever it is evaluated: a constant or a parameter,
// perhaps cast, or in another case. Nil stands for the default.
func (mo modification) fixedText(c *catalog.Column, value *pg.Node) plan.Text {
	switch {
	case value != nil && value.GetSetToDefault() == nil:
		if mo.l.a.text.stored || !sameAnywhere(value) {
			return nil
		}
		sel := newSelect()
		sel.TargetList = []*pg.Node{targetNode(value, "")}
		text, err := mo.l.a.gatherer().render(selectNode(sel))
		if err != nil || len(text) == 0 {
			return nil
		}
		if text[0].SQL = strings.TrimPrefix(text[0].SQL, "SELECT "); text[0].SQL == "" {
			text = text[1:]
		}
		return text
	case c.Default == "":
		return plan.Text{sqlPart("NULL")}
	}
	known := false
	mo.l.a.writes().withDefault(c, func(n *pg.Node) { known = sameAnywhere(n) })
	if !known {
		return nil
	}
	return plan.Text{sqlPart(c.Default)}
}

// sameAnywhere reports whether an expression is a constant or a parameter, perhaps cast, or in another case.
func sameAnywhere(n *pg.Node) bool {
	switch n := n.GetNode().(type) {
	case *pg.Node_AConst, *pg.Node_ParamRef:
		return true
	case *pg.Node_TypeCast:
		return sameAnywhere(n.TypeCast.Arg)
	case *pg.Node_FuncCall:
		f := n.FuncCall
		return len(f.Args) == 1 && slices.Contains([]string{"lower", "upper", "btrim"}, lastName(f.Funcname)) && sameAnywhere(f.Args[0]) && f.Over == nil && f.AggFilter == nil
	}
	return false
}
