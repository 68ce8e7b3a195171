package program

import (
	"context"
	"slices"
	"strconv"

	"weft/pgerr"
)

// store assigns a value to a scalar or, taken apart, to a record.
func (f *frame) store(ctx context.Context, v *Var, val Value, col Column) error {
	t := f.types[v.index]
	if t.isRow() {
		if !val.Valid {
			f.cells[v.index].rec = nil
			return nil
		}
		from, err := f.env.Cache.byID(ctx, f.env.Executor, col.OID, -1)
		if err != nil {
			return err
		}
		if !from.isRow() {
			return clone(errNoRow)
		}
		if from.OID == oidRecord {
			return refuse("an expression whose result is a record of no named type").
				WithHint("Write the columns as ROW(…), or give the row a type.")
		}
		rec, err := parseRow(from, val)
		if err != nil {
			return err
		}
		return f.move(ctx, v, rec)
	}
	val, err := f.env.Cache.cast(ctx, f.env.Executor, val, col, t)
	if err != nil {
		return err
	}
	f.env.Cache.stage = castDone
	if v.NotNull && !val.Valid {
		return pgerr.New("22004", `null value cannot be assigned to variable "%s" declared NOT NULL`, v.Name)
	}
	f.cells[v.index].val = val
	return nil
}

func clone(e *pgerr.Error) *pgerr.Error {
	c := *e
	return &c
}

// move assigns a row to a record, column by column.
func (f *frame) move(ctx context.Context, v *Var, rec *record) error {
	t := f.types[v.index]
	if rec == nil {
		if v.NotNull {
			return pgerr.New("22004", `null value cannot be assigned to variable "%s" declared NOT NULL`, v.Name)
		}
		f.cells[v.index].rec = nil
		return nil
	}
	if t.OID == oidRecord {
		f.cells[v.index].rec = &record{cols: rec.cols, vals: append([]Value(nil), rec.vals...), typ: rec.typ}
		return nil
	}
	vals := make([]Value, len(t.Fields))
	for i, c := range t.Fields {
		to, err := f.env.Cache.byID(ctx, f.env.Executor, c.OID, c.Typmod)
		if err != nil {
			return err
		}
		val, col := Value{}, Column{OID: c.OID, Typmod: c.Typmod}
		if i < len(rec.vals) {
			val, col = rec.vals[i], rec.cols[i]
		}
		if vals[i], err = f.env.Cache.cast(ctx, f.env.Executor, val, col, to); err != nil {
			return err
		}
	}
	f.cells[v.index].rec = &record{cols: t.Fields, vals: vals, typ: t}
	return nil
}

// resolve returns what a target is.
func (f *frame) resolve(t *Target) (use, error) {
	v, n := t.scope.find(t.Names, f.isRecord)
	switch {
	case v == nil:
	case n == len(t.Names):
		return use{v: v}, nil
	case n == len(t.Names)-1 && f.isRecord(v):
		return use{v: v, field: t.Names[n]}, nil
	case f.isRecord(v):
		return use{}, refuse("an assignment to a field of a field")
	}
	return use{}, syntax(`"%s" is not a known variable`, t.Names[0])
}

// put assigns a value to a target without subscripts.
func (f *frame) put(ctx context.Context, t *Target, val Value, col Column) error {
	u, err := f.resolve(t)
	if err != nil {
		return err
	}
	if u.field == "" {
		return f.store(ctx, u.v, val, col)
	}
	to, err := f.typeOf(u)
	if err != nil {
		return err
	}
	if val, err = f.env.Cache.cast(ctx, f.env.Executor, val, col, to); err != nil {
		return err
	}
	f.setField(u, val)
	return nil
}

// setField changes one field of a record.
func (f *frame) setField(u use, val Value) {
	c := &f.cells[u.v.index]
	if c.rec == nil {
		c.rec = f.nulls(u.v)
	}
	for i, col := range c.rec.cols {
		if col.Name == u.field {
			c.rec.vals[i] = val
			return
		}
	}
}

// putRow assigns a row to a list of targets. A nil row is NULLs, in columns of these types.
func (f *frame) putRow(ctx context.Context, in *Into, cols []Column, row []Value) error {
	if len(in.Targets) == 1 {
		u, err := f.resolve(in.Targets[0])
		if err != nil {
			return err
		}
		if u.field == "" && f.isRecord(u.v) {
			if row == nil {
				row = make([]Value, len(cols))
			}
			return f.move(ctx, u.v, &record{cols: cols, vals: row})
		}
	}
	for i, t := range in.Targets {
		u, err := f.resolve(t)
		if err != nil {
			return err
		}
		if u.field == "" && f.isRecord(u.v) {
			return syntax("record variable cannot be part of multiple-item INTO list")
		}
		val, col := Value{}, Column{OID: oidText, Typmod: -1}
		if i < len(cols) {
			col = cols[i]
			if row != nil {
				val = row[i]
			}
		}
		if err := f.put(ctx, t, val, col); err != nil {
			return err
		}
	}
	return nil
}

// assign runs target := expr.
func (f *frame) assign(ctx context.Context, s *Assign) error {
	u, err := f.resolve(s.Target)
	if err != nil {
		return err
	}
	if len(s.Target.Subscripts) > 0 {
		return f.assignElement(ctx, u, s)
	}
	if u.field == "" && f.isRecord(u.v) {
		to := f.types[u.v.index]
		as := to
		if old := f.cells[u.v.index].rec; old != nil && old.typ != nil {
			as = old.typ
		}
		rec, err := f.evalRowAs(ctx, s.Expr, to, as)
		if err != nil {
			return err
		}
		return f.move(ctx, u.v, rec)
	}
	if u.field != "" {
		// PostgreSQL looks at the target before it reads the expression.
		if _, err := f.typeOf(u); err != nil {
			return f.within(s.Expr, err, false)
		}
	}
	val, col, err := f.eval(ctx, s.Expr)
	if err != nil {
		return err
	}
	if u.field == "" {
		return f.folded(s.Expr, f.store(ctx, u.v, val, col))
	}
	return f.folded(s.Expr, f.put(ctx, s.Target, val, col))
}

// folded gives an error of a cast the line of its CONTEXT that shows the assignment. PostgreSQL casts constants while it
// plans the assignment, the result of a query in the query, and everything else, domains too, without a line.
func (f *frame) folded(e *Expr, err error) error {
	if err != nil && !e.tree.simple && f.env.Cache.stage != castDone {
		return f.within(e, err, false)
	}
	if err == nil || slices.ContainsFunc(f.matches(e), func(m match) bool { return m.v != nil }) {
		return err
	}
	literal := e.tree.constant != nil && e.tree.constant.oid == oidText
	bare := f.env.Cache.stage == castDomain || f.env.Cache.stage == castInput && literal || f.env.Cache.stage == castDone
	return f.within(e, err, bare)
}

// assignElement runs target[i] := expr.
func (f *frame) assignElement(ctx context.Context, u use, s *Assign) error {
	t, err := f.typeOf(u)
	if err != nil {
		return f.within(s.Expr, err, false)
	}
	if t.Base != nil {
		return refuse("an assignment to an element of a domain")
	}
	if t.Elem == 0 {
		return pgerr.New("42804", "cannot subscript type %s because it does not support subscripting", t.Name)
	}
	elem, err := f.env.Cache.byID(ctx, f.env.Executor, t.Elem, t.Typmod)
	if err != nil {
		return err
	}
	if err := f.analyseElement(ctx, s, elem); err != nil {
		return err
	}
	subs := make([]int, len(s.Target.Subscripts))
	for i, e := range s.Target.Subscripts {
		v, err := f.evalAs(ctx, e, known[oidInt4])
		if err != nil {
			return err
		}
		if !v.Valid {
			return pgerr.New("22004", "array subscript in assignment must not be null")
		}
		subs[i], _ = strconv.Atoi(v.Text)
	}
	val, col, err := f.eval(ctx, s.Expr)
	if err != nil {
		return err
	}
	if val, err = f.env.Cache.cast(ctx, f.env.Executor, val, col, elem); err != nil {
		return f.folded(s.Expr, err)
	}
	a := &array{}
	if old := f.get(u); old.Valid {
		if a, err = parseArray(old.Text, t.Delim); err != nil {
			return err
		}
	}
	if err := a.set(subs, val); err != nil {
		return err
	}
	val = text(a.format(t.Delim))
	if u.field != "" {
		f.setField(u, val)
	} else {
		f.cells[u.v.index].val = val
	}
	return nil
}

// analyseElement reads the expression, the subscripts and then a string that is to be an element, as PostgreSQL does before it evaluates any
// of them.
func (f *frame) analyseElement(ctx context.Context, s *Assign, elem *Type) error {
	for _, e := range append([]*Expr{s.Expr}, s.Target.Subscripts...) {
		if e.tree.constant == nil && (!e.tree.only || f.matches(e)[0].v == nil) {
			if _, err := f.plan(ctx, e, false); err != nil {
				return f.within(e, err, false)
			}
		}
	}
	c := s.Expr.tree.constant
	if c == nil || c.oid != oidText {
		return nil
	}
	_, err := f.env.Cache.cast(ctx, f.env.Executor, c.value, Column{OID: c.oid, Typmod: -1}, elem)
	return f.folded(s.Expr, err)
}
