package flow

import (
	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
	"weft/program"
)

// collect notes all assignments of a block.
func (r *reader) collect(s program.Stmt) {
	switch s := s.(type) {
	case *program.Block:
		for _, v := range s.Vars {
			if v.Default != nil {
				r.set(v, nil, v.Default)
				r.sure[v] = true
			} else if v.Cursor != nil {
				r.set(v, nil, nil)
			}
		}
		r.collectAll(s.Body)
		r.set(s.SQLState, nil, nil)
		r.set(s.SQLErrm, nil, nil)
		for _, h := range s.Handlers {
			r.collectAll(h.Body)
		}
	case *program.Assign:
		e := s.Expr
		if len(s.Target.Subscripts) > 0 {
			e = nil
		}
		r.target(s.Target, e)
	case *program.If:
		for _, a := range s.Arms {
			r.collectAll(a.Body)
		}
		r.collectAll(s.Else)
	case *program.Case:
		for _, a := range s.Arms {
			r.collectAll(a.Body)
		}
		r.collectAll(s.Else)
	case *program.Loop:
		r.collectAll(s.Body)
	case *program.ForInt:
		r.set(s.Var, nil, nil)
		r.collectAll(s.Body)
	case *program.ForQuery:
		r.into(s.Into, nil)
		r.collectAll(s.Body)
	case *program.ForCursor:
		r.set(s.Var, nil, nil)
		r.collectAll(s.Body)
	case *program.Foreach:
		r.into(s.Into, nil)
		r.collectAll(s.Body)
	case *program.SQL:
		r.into(s.Into, s.Query)
	case *program.Execute:
		r.into(s.Into, nil)
	case *program.Fetch:
		r.into(s.Into, nil)
	case *program.Diagnostics:
		for _, i := range s.Items {
			r.target(i.Target, nil)
		}
	case *program.Exit:
		r.jumps = r.jumps || s.Label != ""
	case *program.Call:
		r.arguments(s.Query)
	}
}

func (r *reader) collectAll(list []program.Stmt) {
	for _, s := range list {
		r.collect(s)
	}
}

// set notes an assignment of an expression, or of a value that is not known.
func (r *reader) set(v *program.Var, field []string, e *program.Expr) {
	if v == nil {
		return
	}
	s := set{v: v, field: field}
	if e != nil {
		if list := selected(e); len(list) == 1 {
			s.expr, s.find = list[0], e.Find
		}
	}
	r.sets = append(r.sets, s)
}

func (r *reader) target(t *program.Target, e *program.Expr) {
	v, field := t.Find()
	r.set(v, field, e)
}

// into notes the assignments of INTO. Those of a SELECT of expressions alone are known.
func (r *reader) into(in *program.Into, query *program.Expr) {
	if in == nil {
		return
	}
	var list []*pg.Node
	if query != nil {
		if list = selected(query); len(list) != len(in.Targets) {
			list = nil
		}
	}
	for i, t := range in.Targets {
		v, field := t.Find()
		s := set{v: v, field: field, spread: true}
		if list != nil && r.typeOf(v) != "record" {
			s.expr, s.find = list[i], query.Find
		}
		r.sets = append(r.sets, s)
	}
}

// selected returns the expressions of a SELECT of nothing else.
func selected(e *program.Expr) []*pg.Node {
	tree, err := parser.Parse(e.SQL())
	if err != nil || len(tree.Stmts) != 1 {
		return nil
	}
	s := tree.Stmts[0].Stmt.GetSelectStmt()
	if s == nil || s.Op != pg.SetOperation_SETOP_NONE || len(s.FromClause) > 0 || s.WhereClause != nil || s.HavingClause != nil || len(s.GroupClause) > 0 ||
		s.LimitCount != nil || s.LimitOffset != nil || s.WithClause != nil || s.IntoClause != nil {
		return nil
	}
	var out []*pg.Node
	for _, t := range s.TargetList {
		out = append(out, t.GetResTarget().GetVal())
	}
	return out
}

// arguments takes every variable that CALL is given for changed: which arguments are INOUT the text does not say.
func (r *reader) arguments(e *program.Expr) {
	tree, err := parser.Parse(e.SQL())
	if err != nil {
		return
	}
	parser.Walk(tree, func(m any) bool {
		if c, ok := m.(*pg.ColumnRef); ok {
			if list := stringsOf(c.Fields); len(list) > 0 {
				if v, n := e.Find(list); v != nil {
					r.set(v, list[n:], nil)
				}
			}
		}
		return true
	})
}
