package flow

import (
	"fmt"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
	"weft/program"
)

// A function that clients call has no row that sets it off. Its arguments stand in the place of the key columns: the i-th argument is $i in the trees of its
// statements, wherever a value is certainly that argument.

// AnyName stands for all names that Routine.Columns cannot list.
const AnyName = "*"

// Routine is what is known of a routine before it is called.
type Routine struct {
	Source program.Source
	// Keys are the arguments, in order. A Key without a Type is no value that is followed.
	Keys []Key
	// Shadowed and TypeOf are as in Trigger.
	Shadowed func(name string) bool
	TypeOf   func(names []string) string
	// Columns returns the names of columns that a statement may see, and those of its tables. A name that is a variable too may mean the column.
	Columns func(tree *pg.Node) map[string]bool
}

// ReadRoutine reads a routine, and refuses one that runs more than statements on rows, loops and conditions: its statements are all that it does.
func ReadRoutine(t *Routine) (*Body, error) {
	p, err := program.Compile(t.Source)
	if err != nil {
		return nil, err
	}
	if p.PrefersColumns() {
		return nil, fmt.Errorf("#variable_conflict use_column")
	}
	r := &reader{
		trigger: &Trigger{Keys: t.Keys, Events: Insert, Shadowed: t.Shadowed, TypeOf: t.TypeOf},
		fixed:   map[*program.Var]bool{}, values: map[*program.Var]value{}, tested: map[*program.Var]bool{}, emptied: map[*program.Var]bool{}, sure: map[*program.Var]bool{},
	}
	first := map[*program.Var]value{p.Found(): {kind: unknown}}
	for i, a := range t.Source.Args {
		v := p.Variable(i)
		first[v] = value{kind: unknown}
		if a.Mode == program.In && t.Keys[i].Type != "" {
			first[v], r.fixed[v] = value{kind: key, at: i, filled: all}, true
		}
	}
	if !r.plainBlock(p.Body()) {
		return nil, fmt.Errorf("more than statements on rows")
	}
	r.collect(p.Body())
	r.solve(first)
	w := &walker{r: r, live: Insert, assigned: map[*program.Var]Events{}}
	w.block(p.Body())
	if t.Columns != nil {
		for i := range r.out.Statements {
			if s := &r.out.Statements[i]; s.confuses(t.Columns) {
				return nil, fmt.Errorf("line %d: a name is a variable and maybe a column", s.Line)
			}
		}
	}
	return &r.out, nil
}

// confuses reports whether a variable that is known in a statement may be a column there. PostgreSQL then raises an error, unless plpgsql.variable_conflict says
// which one is meant.
func (s *Statement) confuses(columns func(tree *pg.Node) map[string]bool) bool {
	tree, err := parser.Parse(s.SQL)
	if err != nil || len(tree.Stmts) != 1 {
		return true
	}
	seen := columns(tree.Stmts[0].Stmt)
	confused := false
	parser.Walk(tree.Stmts[0].Stmt, func(m any) bool {
		if c, ok := m.(*pg.ColumnRef); ok {
			list := stringsOf(c.Fields)
			confused = confused || len(list) > 0 && (seen[list[0]] || seen[AnyName]) && s.r.name(list, &s.place).kind == key
		}
		return !confused
	})
	return confused
}

func (r *reader) plainBlock(b *program.Block) bool {
	for _, v := range b.Vars {
		if v.Cursor != nil {
			return false
		}
		r.out.Vars = append(r.out.Vars, v)
	}
	for _, h := range b.Handlers {
		if !r.plain(h.Body) {
			return false
		}
	}
	return r.plain(b.Body)
}

// plain reports whether statements do nothing but what the SQL in them does, which is in the text.
func (r *reader) plain(list []program.Stmt) bool {
	for _, s := range list {
		ok := true
		switch s := s.(type) {
		case *program.Block:
			ok = r.plainBlock(s)
		case *program.If:
			ok = r.plainArms(s.Arms, s.Else)
		case *program.Case:
			ok = r.plainArms(s.Arms, s.Else)
		case *program.Loop:
			ok = r.plain(s.Body)
		case *program.ForInt:
			ok = r.plain(s.Body)
		case *program.ForQuery:
			ok = s.Dynamic == nil && r.plain(s.Body)
		case *program.Foreach:
			ok = r.plain(s.Body)
		case *program.ReturnQuery:
			ok = s.Dynamic == nil
		case *program.Assign, *program.SQL, *program.Perform, *program.Diagnostics, *program.Exit, *program.Return, *program.ReturnNext, *program.Raise, *program.Assert:
		default:
			ok = false // EXECUTE, CALL, COMMIT, cursors
		}
		if !ok {
			return false
		}
	}
	return true
}

func (r *reader) plainArms(arms []program.Arm, other []program.Stmt) bool {
	for _, a := range arms {
		if !r.plain(a.Body) {
			return false
		}
	}
	return r.plain(other)
}
