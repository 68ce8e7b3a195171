package flow

import (
	"maps"
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
	"weft/program"
)

// walker goes through a function in the order in which its statements run.
type walker struct {
	r *reader
	// live are the events in which the next statement may run.
	live Events
	// assigned are the events in which a variable is certainly not NULL at the next statement.
	assigned map[*program.Var]Events
}

func (w *walker) copy() *walker {
	return &walker{r: w.r, live: w.live, assigned: maps.Clone(w.assigned)}
}

func (w *walker) place(find func(names []string) (*program.Var, int)) place {
	return place{find: find, live: w.live, assigned: w.assigned}
}

// merge makes w what is true behind some branches.
func (w *walker) merge(branches ...*walker) {
	live, assigned := Events(0), map[*program.Var]Events{}
	for _, b := range branches {
		live |= b.live
	}
	for _, b := range branches {
		for v := range b.assigned {
			if _, done := assigned[v]; done {
				continue
			}
			e := all
			for _, o := range branches {
				e &= o.assigned[v] | ^o.live
			}
			assigned[v] = e & all
		}
	}
	w.live, w.assigned = live, assigned
}

func (w *walker) body(list []program.Stmt) {
	for _, s := range list {
		if w.live == 0 {
			return
		}
		w.statement(s)
	}
}

func (w *walker) block(b *program.Block) {
	for _, v := range b.Vars {
		delete(w.assigned, v)
		if v.Default != nil {
			w.expr(v.Default, v.Line)
			w.assign(v, v.Default)
		}
		if v.Cursor != nil {
			w.expr(v.Cursor.Query, v.Line)
		}
	}
	before := w.copy()
	w.body(b.Body)
	if len(b.Handlers) == 0 {
		return
	}
	// An error may come before any assignment of the block, or after one that has made a variable NULL.
	caught := before
	for v := range caught.assigned {
		if w.changes(b.Body, v) {
			delete(caught.assigned, v)
		}
	}
	branches := []*walker{w.copy()}
	for _, h := range b.Handlers {
		c := caught.copy()
		c.body(h.Body)
		branches = append(branches, c)
	}
	w.merge(branches...)
}

// changes reports whether statements may assign to a variable.
func (w *walker) changes(list []program.Stmt, v *program.Var) bool {
	probe := &reader{trigger: w.r.trigger, fixed: w.r.fixed, sure: map[*program.Var]bool{}}
	probe.collectAll(list)
	for _, s := range probe.sets {
		if s.v == v {
			return true
		}
	}
	return false
}

// assign notes whether an assignment leaves a variable NULL.
func (w *walker) assign(v *program.Var, e *program.Expr) {
	if v == nil {
		return
	}
	filled := Events(0)
	if e != nil {
		if list := selected(e); len(list) == 1 {
			p := w.place(e.Find)
			filled = w.r.eval(list[0], &p).filled
		}
	}
	if w.r.jumps {
		filled = 0
	}
	w.assigned[v] = filled
}

// forget notes that INTO or a loop may have made variables NULL.
func (w *walker) forget(in *program.Into) {
	if in == nil {
		return
	}
	for _, t := range in.Targets {
		if v, field := t.Find(); len(field) == 0 {
			w.assigned[v] = 0
		}
	}
}

func (w *walker) statement(s program.Stmt) {
	line := program.LineOf(s)
	switch s := s.(type) {
	case *program.Block:
		w.block(s)
	case *program.Assign:
		w.expr(s.Expr, line)
		for _, x := range s.Target.Subscripts {
			w.expr(x, line)
		}
		if v, field := s.Target.Find(); len(field) == 0 {
			w.assign(v, s.Expr)
		}
	case *program.If:
		w.branches(s.Arms, s.Else, true)
	case *program.Case:
		w.expr(s.Test, line)
		if s.Test != nil {
			if list := selected(s.Test); len(list) == 1 {
				p := w.place(s.Test.Find)
				w.r.tested[s.Var] = w.r.isOp(list[0], &p)
			}
		}
		w.branches(s.Arms, s.Else, s.HasElse)
	case *program.SQL:
		w.expr(s.Query, line)
		w.into(s.Into, s.Query)
	case *program.Execute:
		w.execute(s.Query, s.Using, line)
		w.forget(s.Into)
	case *program.Perform:
		w.expr(s.Query, line)
	case *program.Call:
		w.expr(s.Query, line)
		clear(w.assigned)
	case *program.Return:
		w.expr(s.Expr, line)
		w.live = 0
	case *program.Exit:
		w.expr(s.When, line)
	case *program.Raise:
		w.raise(s, line)
	case *program.Assert:
		w.expr(s.Cond, line)
		w.expr(s.Message, line)
	case *program.Diagnostics:
		for _, i := range s.Items {
			if v, field := i.Target.Find(); len(field) == 0 {
				w.assigned[v] = 0
			}
		}
	case *program.ReturnNext:
		w.expr(s.Expr, line)
	case *program.ReturnQuery:
		w.expr(s.Query, line)
		w.execute(s.Dynamic, s.Using, line)
	default:
		w.loops(s, line)
	}
}

// loops goes through loops and cursors.
func (w *walker) loops(s program.Stmt, line int) {
	switch s := s.(type) {
	case *program.Loop:
		w.expr(s.Cond, line)
		w.loop(s.Body, nil)
	case *program.ForInt:
		w.expr(s.Lower, line)
		w.expr(s.Upper, line)
		w.expr(s.Step, line)
		w.loop(s.Body, nil)
	case *program.ForQuery:
		w.expr(s.Query, line)
		w.execute(s.Dynamic, s.Using, line)
		w.loop(s.Body, s.Into)
	case *program.ForCursor:
		for _, a := range s.Args {
			w.expr(a.Expr, line)
		}
		w.loop(s.Body, nil)
	case *program.Foreach:
		w.expr(s.Array, line)
		w.loop(s.Body, s.Into)
	case *program.Open:
		w.expr(s.Query, line)
		w.execute(s.Dynamic, s.Using, line)
		for _, a := range s.Args {
			w.expr(a.Expr, line)
		}
	case *program.Fetch:
		w.expr(s.Count, line)
		w.forget(s.Into)
	}
}

// loop goes through the body of a loop, which may run any number of times.
func (w *walker) loop(body []program.Stmt, in *program.Into) {
	w.forget(in)
	for v := range w.assigned {
		if w.changes(body, v) {
			w.assigned[v] = 0
		}
	}
	before := w.copy()
	w.body(body)
	w.live, w.assigned = before.live, before.assigned
}

// branches goes through the arms of IF or CASE.
func (w *walker) branches(arms []program.Arm, other []program.Stmt, falls bool) {
	rest := w.copy()
	var list []*walker
	for _, a := range arms {
		rest.expr(a.Cond, a.Line)
		yes, no := all, all
		if c := selected(a.Cond); len(c) == 1 {
			p := rest.place(a.Cond.Find)
			yes, no = w.r.condition(c[0], &p)
		}
		arm := rest.copy()
		arm.live &= yes
		arm.body(a.Body)
		list = append(list, arm)
		rest.live &= no
	}
	if falls {
		rest.body(other)
		list = append(list, rest)
	}
	w.merge(list...)
}

func (w *walker) into(in *program.Into, query *program.Expr) {
	if in == nil {
		return
	}
	list := selected(query)
	for i, t := range in.Targets {
		v, field := t.Find()
		if len(field) > 0 {
			continue
		}
		w.assigned[v] = 0
		if len(list) == len(in.Targets) && !w.r.jumps {
			p := w.place(query.Find)
			w.assigned[v] = w.r.eval(list[i], &p).filled
		}
	}
}

func (w *walker) raise(s *program.Raise, line int) {
	for _, e := range s.Params {
		w.expr(e, line)
	}
	for _, o := range s.Options {
		w.expr(o.Expr, line)
	}
	if s.Level == "ERROR" {
		w.live = 0
	}
}

// expr adds a piece of SQL to the statements.
func (w *walker) expr(e *program.Expr, line int) {
	if e == nil || w.live == 0 {
		return
	}
	p := w.place(e.Find)
	p.assigned = maps.Clone(p.assigned)
	w.r.out.Statements = append(w.r.out.Statements, Statement{Line: line, SQL: e.SQL(), r: w.r, place: p})
}

// execute adds the texts that an EXECUTE runs.
func (w *walker) execute(e *program.Expr, using []*program.Expr, line int) {
	if e == nil || w.live == 0 {
		return
	}
	w.expr(e, line)
	params := []value{}
	for _, u := range using {
		w.expr(u, line)
		v := value{kind: unknown}
		if list := selected(u); len(list) == 1 {
			p := w.place(u.Find)
			v = w.r.eval(list[0], &p)
		}
		params = append(params, v)
	}
	v := value{kind: unknown}
	if list := selected(e); len(list) == 1 {
		p := w.place(e.Find)
		v = w.r.eval(list[0], &p)
	}
	if v.kind != known && w.r.out.Unread == 0 {
		w.r.out.Unread = line
	}
	for _, text := range v.texts {
		if !plainText(text) && w.r.out.Unread == 0 {
			w.r.out.Unread = line
		}
		w.r.out.Statements = append(w.r.out.Statements, Statement{
			Line: line, SQL: text, Dynamic: true, r: w.r,
			place: place{find: func([]string) (*program.Var, int) { return nil, 0 }, live: w.live, dynamic: true, params: params},
		})
	}
}

// plainText reports whether a text that EXECUTE runs is one statement on rows. A literal that is not known must not be the
// name of a table.
func plainText(text string) bool {
	tree, err := parser.Parse(text)
	if err != nil || len(tree.Stmts) != 1 {
		return false
	}
	named := false
	parser.Walk(tree, func(m any) bool {
		switch m := m.(type) {
		case *pg.FuncCall:
			named = named || slices.ContainsFunc(m.Args, func(a *pg.Node) bool { return a.GetAConst().GetSval().GetSval() == anything })
		case *pg.TypeCast:
			named = named || m.Arg.GetAConst().GetSval().GetSval() == anything
		}
		return true
	})
	if named {
		return false
	}
	switch tree.Stmts[0].Stmt.GetNode().(type) {
	case *pg.Node_SelectStmt, *pg.Node_InsertStmt, *pg.Node_UpdateStmt, *pg.Node_DeleteStmt, *pg.Node_MergeStmt:
		return true
	}
	return false
}
