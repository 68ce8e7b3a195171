package flow

import (
	"fmt"
	"maps"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
	"weft/program"
)

// Trigger is what is known of a trigger before it is set off.
type Trigger struct {
	Schema, Table, Name string
	// Columns are the columns of the table, in order. Nil for a table whose rows may have other columns: a partition
	// has an order of its own.
	Columns []string
	Keys    []Key
	Args    []string
	Events  Events
	// Statement: the trigger runs once for a statement, where NEW and OLD are NULL.
	Statement bool
	// Shadowed reports whether the user has a function of the name of a built-in one.
	Shadowed func(name string) bool
	// TypeOf returns the type of a column, which %TYPE names, or "".
	TypeOf func(names []string) string
}

// Key is a key column with its type as SQL writes it.
type Key struct{ Name, Type string }

// Body is what Read has found in a function.
type Body struct {
	Statements []Statement
	// Unread is the line of an EXECUTE whose text is not known, or 0.
	Unread int
	// Vars are the variables that a routine declares.
	Vars []*program.Var
}

// Statement is a piece of SQL of a function.
type Statement struct {
	Line int
	// SQL is the text, without INTO; an expression is a SELECT.
	SQL string
	// Dynamic: EXECUTE runs the text.
	Dynamic bool
	r       *reader
	place   place
}

// reader reads one function.
type reader struct {
	trigger            *Trigger
	new, old, argv, op *program.Var
	fixed              map[*program.Var]bool // variables that PostgreSQL sets before the function runs
	values             map[*program.Var]value
	sets               []set
	out                Body
	// opSet: the function assigns to TG_OP. tested are variables that hold TG_OP.
	opSet  bool
	tested map[*program.Var]bool
	// emptied are rows whose key the function may have made NULL. jumps: a block can be left in the middle.
	emptied map[*program.Var]bool
	jumps   bool
	// sure are variables that are never NULL: they are declared with a value, and never given NULL.
	sure map[*program.Var]bool
}

// set is an assignment.
type set struct {
	v     *program.Var
	field []string
	// expr is nil for a value that is not known. spread: INTO takes a row apart.
	expr   *pg.Node
	spread bool
	find   func(names []string) (*program.Var, int)
}

// names are the variables of a trigger function, in the order of program.Source.Args.
var names = []string{"new", "old", "tg_op", "tg_argv", "tg_table_name", "tg_relname", "tg_table_schema", "tg_name", "tg_when", "tg_level", "tg_relid", "tg_nargs"}

// Read reads the body of a trigger function.
func Read(body string, t *Trigger) (*Body, error) {
	src := program.Source{Name: mark, Body: body} // no alias in the body is called so
	for _, n := range names {
		typ := "record"
		switch n {
		case "new", "old":
		case "tg_argv":
			typ = "text[]"
		default:
			typ = "text"
		}
		src.Args = append(src.Args, program.Arg{Name: n, Mode: program.In, Type: typ})
	}
	p, err := program.Compile(src)
	if err != nil {
		return nil, err
	}
	if p.PrefersColumns() {
		return nil, fmt.Errorf("#variable_conflict use_column")
	}
	r := &reader{trigger: t, fixed: map[*program.Var]bool{}, values: map[*program.Var]value{}, tested: map[*program.Var]bool{}, emptied: map[*program.Var]bool{}, sure: map[*program.Var]bool{}}
	r.new, r.old, r.op, r.argv = p.Variable(0), p.Variable(1), p.Variable(2), p.Variable(3)
	for i := range names {
		r.fixed[p.Variable(i)] = true
	}
	r.collect(p.Body())
	r.solve(map[*program.Var]value{
		r.new: {kind: row}, r.old: {kind: row}, r.op: {kind: unknown}, p.Variable(4): fact(t.Table), p.Variable(5): fact(t.Table),
		p.Variable(6): fact(t.Schema), p.Variable(7): fact(t.Name), p.Variable(8): {kind: unknown}, p.Variable(9): {kind: unknown},
		p.Variable(10): {kind: unknown}, p.Variable(11): {kind: unknown}, p.Found(): {kind: unknown},
	})
	w := &walker{r: r, live: t.Events, assigned: map[*program.Var]Events{}}
	w.block(p.Body())
	return &r.out, nil
}

// fact returns the value of a name that may not be known.
func fact(name string) value {
	if name == "" {
		return value{kind: unknown}
	}
	return textOf(name)
}

// solve finds the values of all variables: what is assigned to a variable may depend on other variables.
func (r *reader) solve(first map[*program.Var]value) {
	r.values = maps.Clone(first)
	for _, s := range r.sets {
		r.opSet = r.opSet || s.v == r.op
		if s.v == r.new || s.v == r.old || len(s.field) > 0 && r.field(value{kind: row}, s.field[0]).kind == key {
			r.emptied[s.v] = r.emptied[s.v] || len(s.field) == 0 || r.field(value{kind: row}, s.field[0]).kind == key
		}
		if r.fixed[s.v] && s.v != r.new && s.v != r.old {
			r.values[s.v] = value{kind: unknown}
		}
	}
	begun := r.values
	for doubted := true; doubted; doubted = r.doubt() {
		r.values = maps.Clone(begun)
		for changed := true; changed; {
			changed = false
			for _, s := range r.sets {
				was := r.values[s.v]
				now := r.assign(was, &s)
				if !same(was, now) {
					r.values[s.v], changed = now, true
				}
			}
		}
	}
}

// doubt takes variables that may be given NULL for sure no more, and reports whether there are such: what is known of
// others may depend on them.
func (r *reader) doubt() bool {
	n := len(r.sure)
	for _, s := range r.sets {
		if r.sure[s.v] && (s.expr == nil || len(s.field) > 0 || r.eval(s.expr, &place{find: s.find, live: all}).filled != all) {
			delete(r.sure, s.v)
		}
	}
	return len(r.sure) < n
}

// assign returns the value of a variable that has been was, and that an assignment may change.
func (r *reader) assign(was value, s *set) value {
	v := value{kind: unknown}
	if s.expr != nil {
		v = r.eval(s.expr, &place{find: s.find, live: all})
	}
	if s.spread && v.kind == row {
		v = value{kind: unknown}
	}
	if len(s.field) > 0 {
		k := r.field(value{kind: row}, s.field[0])
		switch {
		case was.kind == row && len(s.field) == 1 && (k.kind != key || v.kind == key && v.at == k.at || s.expr != nil && v.kind == none):
			return was // the row keeps its key, or has none
		case was.kind == none && s.expr != nil && v.kind == none:
			return was // not known yet
		}
		return value{kind: unknown}
	}
	return join(was, r.fit(v, s.v))
}

// fit returns what a value becomes in a variable.
func (r *reader) fit(v value, to *program.Var) value {
	typ := r.typeOf(to)
	switch v.kind {
	case none, unknown:
		return v
	case row:
		if r.fixed[to] || typ == "record" || r.trigger.Columns != nil && (typ == r.trigger.Table || typ == r.trigger.Schema+"."+r.trigger.Table) {
			return v
		}
	case key, written:
		if c := r.cast(v, typ); c.kind != unknown {
			return c
		}
	case object:
		if typ == "json" || typ == "jsonb" {
			return v
		}
	case known:
		if family(typ) == "text" {
			return v
		}
	}
	return value{kind: unknown}
}

// typeOf returns the type of a variable, or "" for one that is not known.
func (r *reader) typeOf(v *program.Var) string {
	t := v.Type
	switch {
	case t.Same != nil && t.Same != v:
		return r.typeOf(t.Same)
	case len(t.Like) > 0 && t.RowType:
		return joined(t.Like)
	case len(t.Like) > 0 && r.trigger.TypeOf != nil:
		return r.trigger.TypeOf(t.Like)
	case len(t.Like) > 0:
		return ""
	}
	tree, err := parser.Parse("SELECT NULL::" + t.Text)
	if err != nil || len(tree.Stmts) != 1 {
		return ""
	}
	list := tree.Stmts[0].Stmt.GetSelectStmt().GetTargetList()
	if len(list) != 1 {
		return ""
	}
	return typeText(list[0].GetResTarget().GetVal().GetTypeCast().GetTypeName())
}

func joined(names []string) string {
	out := names[0]
	for _, n := range names[1:] {
		out += "." + n
	}
	return out
}
