package program

import (
	"context"
	"strings"

	"weft/pgerr"
)

// eval evaluates an expression.
func (f *frame) eval(ctx context.Context, e *Expr) (Value, Column, error) {
	if c := e.tree.constant; c != nil {
		return c.value, Column{OID: c.oid, Typmod: -1}, nil
	}
	if e.tree.only {
		m := f.matches(e)[0]
		if m.v != nil && m.whole && !e.tree.refs[0].star {
			return f.whole(m.v), Column{OID: f.types[m.v.index].OID, Typmod: -1}, nil
		}
		if m.v != nil && !m.whole {
			t, err := f.typeOf(m.use)
			if err != nil {
				return Value{}, Column{}, f.within(e, err, false)
			}
			t = t.below()
			return f.get(m.use), Column{OID: t.OID, Typmod: t.Typmod}, nil
		}
	}
	p, err := f.plan(ctx, e, false)
	if err != nil {
		return Value{}, Column{}, f.within(e, err, false)
	}
	if n := len(p.prepared.Columns); n != 1 {
		return Value{}, Column{}, syntax("query returned %d columns", n)
	}
	var val Value
	rows := 0
	_, err = f.env.Executor.Execute(ctx, p.prepared, f.arguments(p), 2, func(row []Value) error {
		if rows++; rows == 1 {
			val = row[0]
		}
		return nil
	})
	if err != nil {
		return Value{}, Column{}, f.within(e, err, e.tree.simple && atRun(p, err))
	}
	if !e.tree.simple {
		f.rowCount = int64(rows) // a query of its own, as far as ROW_COUNT goes
	}
	if rows > 1 {
		return Value{}, Column{}, pgerr.New("21000", "query returned more than one row")
	}
	return val, p.prepared.Columns[0], nil
}

// arguments are the values of the parameters of a plan.
func (f *frame) arguments(p *plan) []Value {
	out := make([]Value, len(p.uses))
	for i, u := range p.uses {
		out[i] = f.get(u)
	}
	return out
}

// within gives an error the line of its CONTEXT that shows a piece of SQL. An error that points at a place in the SQL
// has none in PostgreSQL, and so has one of an expression that is evaluated without a query.
func (f *frame) within(e *Expr, err error, bare bool) error {
	pe, ok := err.(*pgerr.Error)
	if !ok || bare || pe.Position > 0 {
		return err
	}
	shown := e.Shown
	if shown == "" {
		shown = e.Text
	}
	switch e.Mode {
	case Expression:
		addContext(pe, `SQL expression "`+shown+`"`)
	case Assignment:
		addContext(pe, `PL/pgSQL assignment "`+shown+`"`)
	case Statement:
		addContext(pe, `SQL statement "`+shown+`"`)
	}
	return pe
}

// atRun reports whether PostgreSQL meets an error of an expression that is evaluated without a query when it evaluates the
// expression, not while it plans it: constants are computed there, but no function is called that may do more than compute.
func atRun(p *plan, err error) bool {
	if len(p.uses) > 0 {
		return true
	}
	pe, ok := err.(*pgerr.Error)
	return ok && strings.HasPrefix(pe.Where[strings.LastIndexByte(pe.Where, '\n')+1:], "PL/pgSQL function ")
}

// evalAs evaluates an expression and casts it.
func (f *frame) evalAs(ctx context.Context, e *Expr, t *Type) (Value, error) {
	v, col, err := f.eval(ctx, e)
	if err != nil {
		return v, err
	}
	return f.env.Cache.cast(ctx, f.env.Executor, v, col, t)
}

// evalBool evaluates a condition. NULL is false.
func (f *frame) evalBool(ctx context.Context, e *Expr) (bool, error) {
	v, err := f.evalAs(ctx, e, known[oidBool])
	return v.Valid && v.Text == "t", err
}

// evalRow evaluates an expression that is a row and will be one of a type. A nil record is NULL.
func (f *frame) evalRow(ctx context.Context, e *Expr, to *Type) (*record, error) {
	return f.evalRowAs(ctx, e, to, to)
}

// evalRowAs is evalRow that casts a value which is no row to another type than the variable's: to that of the row that the variable has now.
func (f *frame) evalRowAs(ctx context.Context, e *Expr, to, as *Type) (*record, error) {
	if e.tree.only {
		if m := f.matches(e)[0]; m.v != nil && m.whole {
			return f.cells[m.v.index].rec, nil
		}
	}
	if c := e.tree.constant; c != nil {
		switch {
		case !c.value.Valid:
			return nil, nil
		case c.oid == oidText && as.OID == oidRecord && e.Mode == Assignment:
			return nil, noInput()
		}
	}
	if e.tree.row {
		return f.spread(ctx, e, to.OID == oidRecord)
	}
	v, col, err := f.eval(ctx, e)
	if err != nil {
		return nil, err
	}
	t, err := f.env.Cache.byID(ctx, f.env.Executor, col.OID, -1)
	if err != nil {
		return nil, err
	}
	switch {
	case !v.Valid:
		return nil, nil
	case t.OID == oidRecord:
		return nil, refuse("an expression whose result is a record of no named type").WithHint("Write the columns as ROW(…), or give the row a type.")
	case !t.isRow() && as.Class == 'c':
		if v, err = f.env.Cache.through(ctx, f.env.Executor, v, as); err != nil {
			return nil, err
		}
		t = as
	case !t.isRow() && as.OID == oidRecord && e.Mode == Assignment:
		return nil, noInput()
	case !t.isRow():
		return nil, clone(errNoRow)
	}
	return parseRow(t, v)
}

// noInput is the error of an assignment that casts a value to a record of no named type.
func noInput() error {
	return native("input of anonymous composite types is not implemented")
}

// errNoRow is replaced by where it happens.
var errNoRow = pgerr.New("42804", "cannot assign non-composite value to a record variable")

// parseRow makes a record of the text of a row.
func parseRow(t *Type, v Value) (*record, error) {
	vals, err := parseRecord(v.Text)
	if err != nil {
		return nil, err
	}
	if len(vals) != len(t.Fields) {
		return nil, refuse("a row of a table that has dropped columns")
	}
	return &record{cols: t.Fields, vals: vals, typ: t}, nil
}

// spread evaluates ROW(…) column by column.
func (f *frame) spread(ctx context.Context, e *Expr, anonymous bool) (*record, error) {
	args := e.tree.node.GetSelectStmt().TargetList[0].GetResTarget().Val.GetRowExpr().Args
	for _, a := range args {
		if c := a.GetAConst(); c != nil && anonymous && (c.GetSval() != nil || c.Isnull) {
			return nil, refuse("a string of no type in ROW(…)").WithHint("Cast the string to text.")
		}
		if a.GetColumnRef() != nil {
			if _, star := namesOf(a.GetColumnRef()); star {
				return nil, refuse("a * in ROW(…)")
			}
		}
	}
	if len(args) == 0 {
		return &record{}, nil
	}
	p, err := f.plan(ctx, e, true)
	if err != nil {
		return nil, f.within(e, err, false)
	}
	rec := &record{cols: make([]Column, len(args))}
	for i, c := range p.prepared.Columns {
		rec.cols[i] = Column{Name: "f" + itoa(i+1), OID: c.OID, Typmod: c.Typmod}
	}
	_, err = f.env.Executor.Execute(ctx, p.prepared, f.arguments(p), 0, func(row []Value) error {
		rec.vals = row
		return nil
	})
	if err != nil {
		return nil, f.within(e, err, atRun(p, err))
	}
	return rec, nil
}
