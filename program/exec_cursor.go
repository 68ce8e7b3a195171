package program

import (
	"context"
	"fmt"
	"strings"

	"weft/pgerr"
	"weft/quote"
)

// open runs OPEN.
func (f *frame) open(ctx context.Context, s *Open) error {
	if s.Cursor.Cursor != nil {
		return f.openBound(ctx, s.Cursor, s.Args)
	}
	if s.Query != nil {
		return f.declareCursor(ctx, s.Cursor, s.Options, s.Query)
	}
	sql, args, types, err := f.dynamic(ctx, s.Dynamic, s.Using)
	if err != nil {
		return err
	}
	return f.withinCursor(sql, f.declareSQL(ctx, s.Cursor, s.Options, sql.Text, types, args))
}

// withinCursor is within for the query of a cursor. That the cursor is open has nothing to do with the query.
func (f *frame) withinCursor(e *Expr, err error) error {
	pe, ok := err.(*pgerr.Error)
	return f.within(e, err, ok && pe.Code == pgerr.DuplicateCursor)
}

// openBound opens a bound cursor. The arguments are a query with one row, as far as FOUND and ROW_COUNT go.
func (f *frame) openBound(ctx context.Context, v *Var, args []CursorArg) error {
	vals, cols := make([]Value, len(args)), make([]Column, len(args))
	for i, a := range args {
		var err error
		if vals[i], cols[i], err = f.eval(ctx, a.Expr); err != nil {
			return err
		}
	}
	if len(args) > 0 {
		f.rowCount = 1
		f.setFound(true)
	}
	for i := range args {
		if err := f.store(ctx, v.Cursor.Args[i], vals[i], cols[i]); err != nil {
			return err
		}
	}
	return f.declareCursor(ctx, v, v.Cursor.Options, v.Cursor.Query)
}

// declareCursor opens a cursor for a query of the program.
func (f *frame) declareCursor(ctx context.Context, v *Var, options string, query *Expr) error {
	p, err := f.plan(ctx, query, false)
	if err != nil {
		return f.within(query, err, false)
	}
	if query.tree.node.GetSelectStmt() == nil {
		return refuse("a cursor for a command that is no query")
	}
	return f.withinCursor(query, f.declareSQL(ctx, v, options, p.prepared.SQL, p.prepared.Types, f.arguments(p)))
}

// declareSQL opens a cursor for a text.
func (f *frame) declareSQL(ctx context.Context, v *Var, options, sql string, types []uint32, args []Value) error {
	c := &f.cells[v.index]
	name := c.val.Text
	if !c.val.Valid {
		name = f.env.Portal()
	}
	p, err := f.env.Executor.Prepare(ctx, "DECLARE "+quote.Ident(name)+" "+options+" CURSOR FOR "+sql, types)
	if err == nil {
		_, err = f.env.Executor.Execute(ctx, p, args, 0, nil)
	}
	if e, ok := err.(*pgerr.Error); ok && e.Code == pgerr.DuplicateCursor {
		e.Message = `cursor "` + name + `" already in use`
	}
	if err != nil {
		return err
	}
	c.val = text(name)
	return nil
}

// portal is the name of the cursor that a variable holds.
func (f *frame) portal(v *Var) (string, error) {
	c := f.cells[v.index].val
	if !c.Valid {
		return "", pgerr.New("22004", `cursor variable "%s" is null`, v.Name)
	}
	return c.Text, nil
}

// fetch runs FETCH and MOVE.
func (f *frame) fetch(ctx context.Context, s *Fetch) error {
	name, err := f.portal(s.Cursor)
	if err != nil {
		return err
	}
	direction := s.Direction
	if s.Count != nil {
		n, err := f.evalAs(ctx, s.Count, known[oidInt4])
		if err != nil {
			return err
		}
		if !n.Valid {
			return pgerr.New("22004", "relative or absolute cursor position is null")
		}
		direction = fmt.Sprintf(direction, n.Text)
	}
	verb := "FETCH "
	if s.Into == nil {
		verb = "MOVE "
	}
	p, err := f.env.Executor.Prepare(ctx, verb+direction+" FROM "+quote.Ident(name), nil)
	if err != nil {
		return err
	}
	first, count, err := f.runLimited(ctx, p, nil, 0)
	if err != nil {
		return err
	}
	f.rowCount = count
	if s.Into != nil {
		if err := f.putRow(ctx, s.Into, p.Columns, first); err != nil {
			return err
		}
	}
	f.setFound(count > 0)
	return nil
}

// dropCursor runs CLOSE.
func (f *frame) dropCursor(ctx context.Context, name string) error {
	if f.pinned[name] {
		return pgerr.New("24000", `cannot drop pinned portal "%s"`, name)
	}
	return f.closeCursor(ctx, name)
}

// closeCursor closes a cursor.
func (f *frame) closeCursor(ctx context.Context, name string) error {
	p, err := f.env.Executor.Prepare(ctx, "CLOSE "+quote.Ident(name), nil)
	if err != nil {
		return err
	}
	_, err = f.env.Executor.Execute(ctx, p, nil, 0, nil)
	return err
}

// forCursor runs FOR over a bound cursor.
func (f *frame) forCursor(ctx context.Context, s *ForCursor) (flow, error) {
	wasNull := !f.cells[s.Cursor.index].val.Valid
	if err := f.openBound(ctx, s.Cursor, s.Args); err != nil {
		return flow{}, err
	}
	name := f.cells[s.Cursor.index].val.Text
	if f.pinned == nil {
		f.pinned = map[string]bool{}
	}
	f.pinned[name] = true
	defer delete(f.pinned, name)
	into := &Into{Targets: []*Target{{Names: []string{s.Var.Name}, scope: &scope{name: s.Var.Name, v: s.Var, prev: &scope{}}}}}
	var fl flow
	var err error
	if s.Steps {
		fl, err = f.forSteps(ctx, s, into, name)
	} else {
		fl, err = f.forAll(ctx, s, into, name)
	}
	if err != nil {
		return flow{}, err
	}
	if err := f.closeCursor(ctx, name); err != nil {
		return flow{}, err
	}
	if wasNull {
		f.cells[s.Cursor.index].val = Value{}
	}
	return fl, nil
}

// forAll fetches all rows of a cursor and runs the body for each.
func (f *frame) forAll(ctx context.Context, s *ForCursor, into *Into, name string) (flow, error) {
	p, err := f.env.Executor.Prepare(ctx, "FETCH ALL FROM "+quote.Ident(name), nil)
	if err != nil {
		return flow{}, err
	}
	rows, err := f.collect(ctx, p, nil)
	if err != nil {
		return flow{}, err
	}
	return f.forRows(ctx, into, p.Columns, rows, s.Label, s.Body)
}

// forSteps fetches row by row from where the cursor is, which the body may have moved.
func (f *frame) forSteps(ctx context.Context, s *ForCursor, into *Into, name string) (flow, error) {
	p, err := f.env.Executor.Prepare(ctx, "FETCH NEXT FROM "+quote.Ident(name), nil)
	if err != nil {
		return flow{}, err
	}
	for found := false; ; found = true {
		row, count, err := f.runLimited(ctx, p, nil, 0)
		if err != nil {
			return flow{}, err
		}
		if count == 0 {
			if !found {
				err = f.putRow(ctx, into, p.Columns, nil)
			}
			f.setFound(found)
			return flow{}, err
		}
		if err := f.putRow(ctx, into, p.Columns, row); err != nil {
			return flow{}, err
		}
		over, fl, err := f.round(ctx, s.Label, s.Body)
		if err != nil {
			return flow{}, err
		}
		if over {
			f.setFound(true)
			return fl, nil
		}
	}
}

// returnOne runs RETURN of a function that returns no set.
func (f *frame) returnOne(ctx context.Context, s *Return) error {
	if f.Set {
		return nil
	}
	if s.Expr == nil || len(f.outs()) > 0 || f.Kind != Function {
		return f.deliverOuts()
	}
	if f.returns.OID == oidVoid {
		return pgerr.New("42804", "RETURN cannot have a parameter in function returning void")
	}
	row, err := f.resultRow(ctx, s.Expr)
	if err != nil {
		return err
	}
	if row == nil {
		f.null = true
		return nil
	}
	return f.env.Output.Row(row)
}

// resultRow evaluates what a function returns. A nil row is NULL.
func (f *frame) resultRow(ctx context.Context, e *Expr) ([]Value, error) {
	if !f.returns.isRow() {
		val, col, err := f.eval(ctx, e)
		if err != nil {
			return nil, err
		}
		if val, err = f.env.Cache.cast(ctx, f.env.Executor, val, col, f.returns); err != nil {
			return nil, f.place(err, "while casting return value to function's return type")
		}
		return []Value{val}, nil
	}
	rec, err := f.evalRow(ctx, e, &Type{OID: 0})
	if err != nil || rec == nil {
		return nil, err
	}
	row, err := f.conform(rec)
	return row, f.place(err, "while casting return value to function's return type")
}

// conform checks that a row has the columns of the result, type by type.
func (f *frame) conform(rec *record) ([]Value, error) {
	if err := f.checkColumns(rec.cols, "returned record type does not match expected record type"); err != nil {
		return nil, err
	}
	return rec.vals, nil
}

// checkColumns compares columns with those of the result, as convert_tuples_by_position does.
func (f *frame) checkColumns(cols []Column, message string) error {
	if len(cols) != len(f.columns) {
		return pgerr.New("42804", "%s", message).
			WithDetail("Number of returned columns (%d) does not match expected column count (%d).", len(cols), len(f.columns))
	}
	for i, c := range cols {
		want := f.columns[i].typ
		if want.Base != nil && want.OID != c.OID {
			return refuse("RETURN of rows with a domain")
		}
		if c.OID == want.OID && (want.Typmod < 0 || want.Typmod == c.Typmod) {
			continue
		}
		got, err := f.env.Cache.byID(context.Background(), f.env.Executor, c.OID, c.Typmod)
		if err != nil {
			return err
		}
		return pgerr.New("42804", "%s", message).
			WithDetail("Returned type %s does not match expected type %s in column %d.", got.Name, want.Name, i+1)
	}
	return nil
}

// returnNext runs RETURN NEXT.
func (f *frame) returnNext(ctx context.Context, s *ReturnNext) error {
	if s.Expr == nil {
		return f.deliverOuts()
	}
	record, err := f.recordOf(s.Expr)
	if err != nil {
		return err
	}
	if record && !f.returns.isRow() {
		rec, err := f.evalRow(ctx, s.Expr, f.returns)
		if err != nil {
			return err
		}
		return f.nextRow(rec, true)
	}
	if !f.returns.isRow() {
		v, col, err := f.eval(ctx, s.Expr)
		if err != nil {
			return err
		}
		if v, err = f.env.Cache.cast(ctx, f.env.Executor, v, col, f.returns); err != nil {
			return err
		}
		return f.env.Output.Row([]Value{v})
	}
	rec, err := f.evalRow(ctx, s.Expr, &Type{OID: 0})
	if err != nil {
		if e, ok := err.(*pgerr.Error); ok && strings.HasPrefix(e.Message, "cannot assign non-composite") {
			e.Message = "cannot return non-composite value from function returning composite type"
		}
		return err
	}
	return f.nextRow(rec, record)
}

// recordOf reports whether an expression is a record by itself, which must have a value.
func (f *frame) recordOf(e *Expr) (bool, error) {
	if !e.tree.only {
		return false, nil
	}
	m := f.matches(e)[0]
	if m.v == nil || !m.whole {
		return false, nil
	}
	if f.types[m.v.index].OID == oidRecord && f.cells[m.v.index].rec == nil {
		return true, pgerr.New(pgerr.ObjectNotInPrerequisiteState, `record "%s" is not assigned yet`, m.v.Name).
			WithDetail("The tuple structure of a not-yet-assigned record is indeterminate.")
	}
	if f.cells[m.v.index].rec == nil {
		f.cells[m.v.index].rec = f.nulls(m.v)
	}
	return true, nil
}

// nulls is a row of NULLs of the type of a variable.
func (f *frame) nulls(v *Var) *record {
	t := f.types[v.index]
	rec := &record{cols: t.Fields, vals: make([]Value, len(t.Fields))}
	if t.OID != oidRecord {
		rec.typ = t
	}
	return rec
}

// nextRow returns a row of a set.
func (f *frame) nextRow(rec *record, variable bool) error {
	if rec == nil {
		return f.env.Output.Row(make([]Value, len(f.columns)))
	}
	message := "returned record type does not match expected record type"
	if variable {
		message = "wrong record type supplied in RETURN NEXT"
	}
	if err := f.checkColumns(rec.cols, message); err != nil {
		return err
	}
	return f.env.Output.Row(rec.vals)
}

// returnQuery runs RETURN QUERY.
func (f *frame) returnQuery(ctx context.Context, s *ReturnQuery) error {
	cols, rows, err := f.query(ctx, s.Query, s.Dynamic, s.Using)
	if err != nil {
		return err
	}
	if err := f.checkColumns(cols, "structure of query does not match function result type"); err != nil {
		if s.Query != nil {
			err = f.within(s.Query, err, false)
		}
		return err
	}
	for _, row := range rows {
		if err := f.env.Output.Row(row); err != nil {
			return err
		}
	}
	f.rowCount = int64(len(rows))
	f.setFound(len(rows) > 0)
	return nil
}
