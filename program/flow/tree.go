package flow

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
)

// Tree returns the statement with a parameter in the place of every expression that is a key column of the trigger's row:
// $1 for the first key column and so on. Other parameters of the statement have numbers behind those. strict leaves values
// that may be NULL as they are. Tree reports false for a text that it cannot read.
func (s *Statement) Tree(strict bool) (*pg.Node, bool) {
	tree, err := parser.Parse(s.SQL)
	if err != nil || len(tree.Stmts) != 1 {
		return nil, false
	}
	n := tree.Stmts[0].Stmt
	ok := true
	parser.Walk(n, func(m any) bool {
		switch m := m.(type) {
		case *pg.SelectStmt:
			m.TargetList = s.expand(m.TargetList)
			for _, l := range m.ValuesLists {
				if list := l.GetList(); list != nil {
					list.Items = s.expand(list.Items)
				}
			}
		case *pg.Node:
			return s.replace(m, strict, &ok)
		}
		return true
	})
	return n, ok
}

// replace puts a parameter into the place of a node, and reports whether the nodes below are to be looked at.
func (s *Statement) replace(m *pg.Node, strict bool, ok *bool) bool {
	switch e := m.Node.(type) {
	case *pg.Node_ColumnRef, *pg.Node_AIndirection, *pg.Node_CoalesceExpr, *pg.Node_CaseExpr, *pg.Node_TypeCast, *pg.Node_AExpr, *pg.Node_AConst:
	case *pg.Node_ParamRef:
		if !s.place.dynamic || int(e.ParamRef.Number) > len(s.place.params) {
			*ok = false
			return false
		}
	default:
		return true
	}
	v := s.r.eval(m, &s.place)
	if v.kind == key && (!strict || s.place.live&^v.filled == 0) {
		m.Node = &pg.Node_ParamRef{ParamRef: &pg.ParamRef{Number: int32(v.at + 1)}}
		return false
	}
	if p := m.GetParamRef(); p != nil {
		p.Number += int32(len(s.r.trigger.Keys))
	}
	if c := m.GetAConst().GetSval(); c != nil && strings.Contains(c.Sval, mark) {
		*ok = *ok && (v.kind == key || c.Sval == anything)
		m.Node = &pg.Node_ParamRef{ParamRef: &pg.ParamRef{Number: int32(len(s.r.trigger.Keys) + len(s.place.params) + 1)}}
		return false
	}
	return true
}

// expand puts the columns of the trigger's row into the place of row.* in a list.
func (s *Statement) expand(list []*pg.Node) []*pg.Node {
	var out []*pg.Node
	for _, n := range list {
		e := n
		if t := n.GetResTarget(); t != nil {
			e = t.Val
		}
		of := starred(e)
		if of == nil || s.r.trigger.Columns == nil || s.r.eval(of, &s.place).kind != row {
			out = append(out, n)
			continue
		}
		for _, c := range s.r.trigger.Columns {
			field := &pg.Node{Node: &pg.Node_AIndirection{AIndirection: &pg.A_Indirection{Arg: of, Indirection: []*pg.Node{pg.MakeStrNode(c)}}}}
			if s.r.field(value{kind: row}, c).kind != key {
				field = &pg.Node{Node: &pg.Node_AConst{AConst: &pg.A_Const{Isnull: true}}}
			}
			if n.GetResTarget() != nil {
				field = pg.MakeResTargetNodeWithVal(field, 0)
			}
			out = append(out, field)
		}
	}
	return out
}

// starred returns x of an expression x.*, or nil.
func starred(n *pg.Node) *pg.Node {
	if c := n.GetColumnRef(); c != nil && len(c.Fields) > 1 && c.Fields[len(c.Fields)-1].GetAStar() != nil {
		return &pg.Node{Node: &pg.Node_ColumnRef{ColumnRef: &pg.ColumnRef{Fields: c.Fields[:len(c.Fields)-1]}}}
	}
	if i := n.GetAIndirection(); i != nil && len(i.Indirection) == 1 && i.Indirection[0].GetAStar() != nil {
		return i.Arg
	}
	return nil
}
