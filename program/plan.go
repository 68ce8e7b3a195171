package program

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
	"weft/pgerr"
	"weft/quote"
)

// binding is a program with the types of its variables.
type binding struct {
	types []*Type // by Var.index
	// returns is the type of the result; nil for a procedure, a DO, and where columns are the result.
	returns *Type
	// signature is what a CONTEXT calls the program.
	signature string
}

// use is a variable in a piece of SQL, or a field of one.
type use struct {
	v     *Var
	field string
	// at is the position of the field from 1, where two fields may have one name.
	at int
}

// plan is a piece of SQL with parameters in place of variables.
type plan struct {
	prepared *Prepared
	uses     []use // the parameters
}

// planKey is what a plan depends on: the SQL, the types of the fields in it, and whether ROW(…) is taken apart.
type planKey struct {
	e      *Expr
	types  string
	spread bool
}

// match is what a ref means as a variable; v is nil if nothing.
type match struct {
	use
	whole bool // a record as a whole
}

// matches resolves the names in a piece of SQL, by the rules of resolve_column_ref in pl_comp.c.
func (f *frame) matches(e *Expr) []match {
	out := make([]match, len(e.tree.refs))
	if e.tree.plain || e.scope == nil {
		return out
	}
	for i, r := range e.tree.refs {
		names := r.names
		if r.star {
			names = append(slices.Clone(names), "*") // so that no scalar matches
		}
		if len(names) == 0 || len(names) > 3 {
			continue
		}
		v, n := e.scope.find(names, f.isRecord)
		if v == nil {
			continue
		}
		record := f.isRecord(v)
		switch {
		case !record && n == len(names):
			out[i] = match{use: use{v: v}}
		case record && n == len(r.names):
			out[i] = match{use: use{v: v}, whole: true}
		case record && n == len(r.names)-1 && !r.star:
			out[i] = match{use: use{v: v, field: r.names[n]}}
		}
		if s := r.sort; s != nil && out[i].v != nil && !s.group && s.hasOutput(r.names[0]) {
			out[i] = match{} // the name of a column of the result comes first
		}
	}
	return out
}

// signatureOf describes the types of the records in a piece of SQL, which change from run to run.
func (f *frame) signatureOf(ms []match) string {
	var b strings.Builder
	for _, m := range ms {
		if m.v == nil || !f.isRecord(m.v) {
			if m.v != nil && f.cells[m.v.index].dynamic != 0 {
				b.WriteString(strconv.Itoa(int(f.cells[m.v.index].dynamic)) + ";")
			}
			continue
		}
		rec := f.cells[m.v.index].rec
		if rec == nil {
			b.WriteString("-;")
			continue
		}
		for _, c := range rec.cols {
			if m.whole || c.Name == m.field {
				b.WriteString(c.Name + ":" + strconv.Itoa(int(c.OID)) + ":" + strconv.Itoa(int(c.Typmod)) + ",")
			}
		}
		b.WriteByte(';')
	}
	return b.String()
}

// plan returns the plan of a piece of SQL. With spread, a ROW(…) becomes columns.
func (f *frame) plan(ctx context.Context, e *Expr, spread bool) (*plan, error) {
	ms := f.matched[e]
	if ms == nil {
		ms = f.matches(e)
		f.matched[e] = ms
	}
	key := planKey{e, f.signatureOf(ms), spread}
	if p := f.env.Cache.plans[key]; p != nil {
		return p, nil
	}
	if err := f.settle(ctx, e, ms); err != nil {
		return nil, err
	}
	w := &rewriting{f: f, e: e, ms: ms, spread: spread}
	sql, err := w.write(nil)
	if err != nil {
		return nil, err
	}
	prepared, err := f.env.Executor.Prepare(ctx, sql, w.types)
	if err != nil {
		return nil, err
	}
	p := &plan{prepared: prepared, uses: w.uses}
	f.env.Cache.plans[key] = p
	return p, nil
}

// settle finds out which names that are variables are columns too. PostgreSQL looks for a column first, so a name that
// it does not know without the variable is the variable. Matches that are columns are an error, or taken out of ms.
func (f *frame) settle(ctx context.Context, e *Expr, ms []match) error {
	var open []int
	for i, m := range ms {
		if m.v == nil {
			continue
		}
		s := e.tree.refs[i].sort
		if s != nil && e.tree.ranged && (s.group && s.hasOutput(m.v.Name) || s.star && !s.top && f.conflict == UseVariable) {
			return doubtful(e.tree.refs[i].names[0])
		}
		if strings.HasPrefix(e.tree.refs[i].names[0], "$") || f.conflict == UseVariable && (s == nil || !s.star) {
			continue
		}
		open = append(open, i)
	}
	for _, name := range e.tree.inferred {
		if v, _ := e.scope.find([]string{name}, f.isRecord); v != nil && f.conflict != UseColumn {
			if f.conflict == UseVariable {
				return doubtful(name)
			}
			return ambiguous([]string{name})
		}
	}
	if !e.tree.ranged || len(open) == 0 {
		return nil
	}
	return f.probe(ctx, e, ms, open)
}

// probe asks PostgreSQL which of the open names are columns.
func (f *frame) probe(ctx context.Context, e *Expr, ms []match, open []int) error {
	for {
		w := &rewriting{f: f, e: e, ms: ms}
		sql, err := w.write(open)
		if err != nil {
			return err
		}
		cols, failed := f.env.Executor.Probe(ctx, sql, w.types)
		if failed == nil {
			return f.both(ctx, e, ms, open, cols)
		}
		pe, ok := failed.(*pgerr.Error)
		if !ok {
			return failed
		}
		at, err := w.refAt(sql, pe)
		if err != nil {
			return err
		}
		i := slices.Index(open, at)
		if i < 0 {
			// Another error. It comes up again, unless PostgreSQL meets one of the names before it.
			return f.earlier(ctx, e, ms, open)
		}
		if _, err := f.typeOf(ms[at].use); err != nil {
			// PostgreSQL says so, unless it meets a name before that is a column too.
			return cmp.Or(f.before(ctx, e, ms, open, at), err)
		}
		open = slices.Delete(open, i, i+1)
		if len(open) == 0 {
			return nil
		}
	}
}

// both deals with names that are variables and columns.
func (f *frame) both(ctx context.Context, e *Expr, ms []match, open []int, cols []Column) error {
	var left []int
	for _, i := range open {
		name := e.tree.refs[i].names[0]
		switch s := e.tree.refs[i].sort; {
		case s != nil && s.top && slices.ContainsFunc(cols, func(c Column) bool { return c.Name == name }):
			ms[i] = match{} // a column of the result comes first
		case s != nil && s.star && !s.top:
			return doubtful(name)
		default:
			left = append(left, i)
		}
	}
	switch f.conflict {
	case UseColumn:
		for _, i := range left {
			ms[i] = match{}
		}
		return nil
	case UseVariable:
		return nil
	}
	return f.earlier(ctx, e, ms, left)
}

// earlier returns the error about the first of the open names that PostgreSQL meets, which is a column and a variable; nil
// if another error comes before all of them.
func (f *frame) earlier(ctx context.Context, e *Expr, ms []match, open []int) error {
	open = slices.DeleteFunc(slices.Clone(open), func(i int) bool {
		return ms[i].v == nil || e.tree.refs[i].sort != nil && e.tree.refs[i].sort.star
	})
	if len(open) == 0 || f.conflict == UseVariable {
		return nil
	}
	return f.before(ctx, e, ms, open, -1)
}

// before returns the error about the first of the open names that PostgreSQL meets; nil if that is one name, or if
// another error comes first.
func (f *frame) before(ctx context.Context, e *Expr, ms []match, open []int, one int) error {
	w := &rewriting{f: f, e: e, ms: ms, unknown: true}
	sql, err := w.write(open)
	if err != nil {
		return err
	}
	_, failed := f.env.Executor.Probe(ctx, sql, w.types)
	pe, ok := failed.(*pgerr.Error)
	if !ok {
		return failed
	}
	at, err := w.refAt(sql, pe)
	if err != nil {
		return err
	}
	if at != one && slices.Contains(open, at) {
		if f.conflict == UseColumn {
			return doubtful(e.tree.refs[at].names[0])
		}
		return ambiguous(e.tree.refs[at].names)
	}
	return nil
}

func ambiguous(names []string) error {
	e := pgerr.New("42702", `column reference "%s" is ambiguous`, strings.Join(names, ".")).
		WithDetail("It could refer to either a PL/pgSQL variable or a table column.")
	e.Position = 1
	return e
}

func doubtful(name string) error {
	return refuse(`the name "` + name + `", which may be a variable or a column of the result,`).
		WithHint("Give the variable another name.")
}

// rewriting writes a piece of SQL with parameters.
type rewriting struct {
	f      *frame
	e      *Expr
	ms     []match
	spread bool
	// unknown: names that are left alone are replaced by some that no table has.
	unknown bool

	uses  []use
	types []uint32
}

// nowhere is a name that no column has.
const nowhere = "weft is no such column"

// write returns the SQL in which all names that match are parameters, but those in leave.
func (w *rewriting) write(leave []int) (string, error) {
	res, err := parser.Parse(w.e.tree.sql)
	if err != nil {
		return "", err
	}
	stmt := res.Stmts[0].Stmt
	if w.e.tree.plain {
		return w.e.tree.sql, nil
	}
	nodes := references(stmt)
	replaced := map[*pg_query.ColumnRef]bool{}
	for i, m := range w.ms {
		if m.v != nil && !slices.Contains(leave, i) {
			replaced[nodes[i].GetColumnRef()] = true
		}
	}
	if len(replaced) == 0 && !w.spread && !w.unknown {
		return w.e.tree.sql, nil
	}
	nameTargets(stmt, replaced)
	for i, m := range w.ms {
		switch {
		case m.v == nil:
		case slices.Contains(leave, i):
			if w.unknown {
				fields := nodes[i].GetColumnRef().Fields
				fields[len(w.e.tree.refs[i].names)-1] = pg_query.MakeStrNode(nowhere)
				if len(fields) > 1 {
					fields[0] = pg_query.MakeStrNode(nowhere)
				}
			}
		default:
			n, err := w.param(m, w.e.tree.refs[i])
			if err != nil {
				return "", err
			}
			nodes[i].Node = n.Node
		}
	}
	if w.spread {
		takeApart(stmt)
	}
	sql, err := parser.Deparse(stmt)
	if err != nil {
		return "", refuse("a statement that cannot be written again: " + err.Error())
	}
	return sql, nil
}

// takeApart makes SELECT ROW(a, b) a SELECT a, b.
func takeApart(stmt *pg_query.Node) {
	s := stmt.GetSelectStmt()
	row := s.TargetList[0].GetResTarget().GetVal().GetRowExpr()
	s.TargetList = nil
	for _, a := range row.Args {
		s.TargetList = append(s.TargetList, pg_query.MakeResTargetNodeWithVal(a, 0))
	}
}

// nameTargets gives the columns of results the names that they have because of a variable.
func nameTargets(stmt *pg_query.Node, replaced map[*pg_query.ColumnRef]bool) {
	name := func(list []*pg_query.Node) {
		for _, n := range list {
			t := n.GetResTarget()
			if c := figure(t.GetVal()); c != nil && t.Name == "" && replaced[c] {
				if names, star := namesOf(c); !star {
					t.Name = names[len(names)-1]
				}
			}
		}
	}
	parser.Walk(stmt, func(m any) bool {
		switch m := m.(type) {
		case *pg_query.SelectStmt:
			name(m.TargetList)
		case *pg_query.InsertStmt:
			name(m.ReturningList)
		case *pg_query.UpdateStmt:
			name(m.ReturningList)
		case *pg_query.DeleteStmt:
			name(m.ReturningList)
		case *pg_query.MergeStmt:
			name(m.ReturningList)
		}
		return true
	})
}

// param returns what stands for a variable.
func (w *rewriting) param(m match, r ref) (*pg_query.Node, error) {
	t, err := w.f.typeOf(m.use)
	if err != nil {
		return nil, err
	}
	if !m.whole || t.OID != oidRecord {
		sql := w.parameter(m.use, t)
		if r.array {
			sql = "COALESCE(" + sql + ")"
		}
		n, err := parsedExpr(sql)
		if err != nil {
			return nil, err
		}
		if r.star {
			if !m.whole {
				return nil, refuse("a * behind this name")
			}
			return &pg_query.Node{Node: &pg_query.Node_AIndirection{AIndirection: &pg_query.A_Indirection{
				Arg: n, Indirection: []*pg_query.Node{pg_query.MakeAStarNode()},
			}}}, nil
		}
		return n, nil
	}
	if r.star {
		return nil, refuse(`all columns of the record "` + m.v.Name + `"`).WithHint("Name the fields, or declare the variable with %%ROWTYPE.")
	}
	// A record of no named type: a subquery has its fields with their names.
	rec := w.f.cells[m.v.index].rec
	var b strings.Builder
	if rec == nil {
		return parsedExpr("NULL::pg_catalog.record")
	}
	b.WriteString("(SELECT v FROM (SELECT ")
	for i, c := range rec.cols {
		if i > 0 {
			b.WriteString(", ")
		}
		u := use{m.v, c.Name, i + 1}
		ft, err := w.f.typeOf(u)
		if err != nil {
			return nil, err
		}
		b.WriteString(w.parameter(u, ft) + " AS " + quote.Ident(c.Name))
	}
	b.WriteString(") v)")
	return parsedExpr(b.String())
}

// parsedExpr parses an expression.
func parsedExpr(sql string) (*pg_query.Node, error) {
	res, err := parser.Parse("SELECT " + sql)
	if err != nil {
		return nil, err
	}
	return res.Stmts[0].Stmt.GetSelectStmt().TargetList[0].GetResTarget().Val, nil
}

// parameter writes the parameter of a variable, with its modifier. PostgreSQL evaluates an expression of PL/pgSQL by a
// plan that does not know the values. A value that the planner knows could let it leave out a call, as in f() || NULL, or
// meet an error too early, as in 1 / 0 = NULL. So each is a subquery there.
func (w *rewriting) parameter(u use, t *Type) string {
	i := slices.Index(w.uses, u)
	if i < 0 {
		i = len(w.uses)
		w.uses, w.types = append(w.uses, u), append(w.types, t.OID)
	}
	p := "$" + itoa(i+1)
	if t.Typmod >= 0 && t.Base == nil {
		p = "CAST(" + p + " AS " + t.Name + ")"
	}
	if w.e.Mode != Statement && w.e.tree.simple {
		p = "(SELECT " + p + ")"
	}
	return p
}

// refAt returns which ref an error of PostgreSQL about a name points at, or -1.
func (w *rewriting) refAt(sql string, e *pgerr.Error) (int, error) {
	if e.Code != pgerr.UndefinedColumn && e.Code != pgerr.UndefinedTable || e.Position <= 0 {
		return -1, nil
	}
	offset, runes := -1, 0
	for i := range sql {
		if runes++; runes == e.Position {
			offset = i
			break
		}
	}
	res, err := parser.Parse(sql)
	if err != nil {
		return -1, err
	}
	nodes := references(res.Stmts[0].Stmt)
	if len(nodes) != len(w.ms) { // a record of no named type has become several parameters
		return -1, refuse("a record as a whole beside names of columns").WithHint("Name the fields of the record.")
	}
	for i, n := range nodes {
		if c := n.GetColumnRef(); c != nil && int(c.Location) == offset {
			return i, nil
		}
	}
	return -1, nil
}
