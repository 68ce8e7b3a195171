package program

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"weft/pgerr"
)

// exec runs a statement. Errors come back with their CONTEXT.
func (f *frame) exec(ctx context.Context, s Stmt) (flow, error) {
	at := s.at()
	var fl flow
	err := f.stopped(ctx)
	if err == nil {
		fl, err = f.step(ctx, s)
	}
	if err != nil {
		err = f.place(err, fmt.Sprintf("line %d at %s", at.Line, at.Kind))
	}
	return fl, err
}

// stopped returns the reason why the program must end, or nil. Programs that compute, or that do nothing in a loop, ask no server
// that could tell.
func (f *frame) stopped(ctx context.Context) error {
	err := ctx.Err()
	if err == nil && f.env.Stopped != nil {
		err = f.env.Stopped()
	}
	return err
}

// execAll runs statements until one of them leaves.
func (f *frame) execAll(ctx context.Context, list []Stmt) (flow, error) {
	for _, s := range list {
		if fl, err := f.exec(ctx, s); err != nil || fl.kind != goOn {
			return fl, err
		}
	}
	return flow{}, nil
}

func (f *frame) step(ctx context.Context, s Stmt) (flow, error) {
	switch s := s.(type) {
	case *Block:
		return f.block(ctx, s)
	case *Assign:
		return flow{}, f.assign(ctx, s)
	case *If:
		return f.branch(ctx, s.Arms, s.Else)
	case *Case:
		return f.caseOf(ctx, s)
	case *Loop:
		return f.loop(ctx, s)
	case *ForInt:
		return f.forInt(ctx, s)
	case *ForQuery:
		return f.forQuery(ctx, s)
	case *ForCursor:
		return f.forCursor(ctx, s)
	case *Foreach:
		return f.foreach(ctx, s)
	case *Exit:
		if s.When != nil {
			if yes, err := f.evalBool(ctx, s.When); err != nil || !yes {
				return flow{}, err
			}
		}
		if s.Continue {
			return flow{continues, s.Label}, nil
		}
		return flow{exits, s.Label}, nil
	case *Return:
		return flow{kind: returns}, f.returnOne(ctx, s)
	}
	return flow{}, f.act(ctx, s)
}

// act runs a statement that has no statements in it.
func (f *frame) act(ctx context.Context, s Stmt) error {
	switch s := s.(type) {
	case *ReturnNext:
		return f.returnNext(ctx, s)
	case *ReturnQuery:
		return f.returnQuery(ctx, s)
	case *Raise:
		return f.raise(ctx, s)
	case *Assert:
		return f.assert(ctx, s)
	case *SQL:
		return f.sql(ctx, s)
	case *Perform:
		return f.perform(ctx, s)
	case *Execute:
		return f.execute(ctx, s)
	case *Call:
		return f.call(ctx, s)
	case *Diagnostics:
		return f.diagnostics(ctx, s)
	case *Open:
		return f.open(ctx, s)
	case *Fetch:
		return f.fetch(ctx, s)
	case *Close:
		name, err := f.portal(s.Cursor)
		if err != nil {
			return err
		}
		return f.dropCursor(ctx, name)
	case *End:
		return f.end(ctx, s)
	}
	return pgerr.New(pgerr.InternalError, "unknown statement %T", s)
}

// block runs a block.
func (f *frame) block(ctx context.Context, b *Block) (flow, error) {
	for _, v := range b.Vars {
		if err := f.initial(ctx, v); err != nil {
			return flow{}, f.place(err, fmt.Sprintf("line %d during statement block local variable initialization", v.Line))
		}
	}
	var fl flow
	var err error
	if b.Handlers == nil {
		fl, err = f.execAll(ctx, b.Body)
	} else {
		fl, err = f.guarded(ctx, b)
	}
	if err == nil && fl.kind == exits && fl.label != "" && fl.label == b.Label {
		fl = flow{}
	}
	return fl, err
}

// initial gives a variable its first value.
func (f *frame) initial(ctx context.Context, v *Var) error {
	f.cells[v.index] = cell{}
	if v.Cursor != nil && f.env.CursorsByVariable {
		f.cells[v.index].val = text(v.Name)
	}
	switch t := f.types[v.index]; {
	case v.Default != nil && t.isRow():
		rec, err := f.evalRow(ctx, v.Default, t)
		if err != nil {
			return err
		}
		return f.move(ctx, v, rec)
	case v.Default != nil:
		val, col, err := f.eval(ctx, v.Default)
		if err != nil {
			return err
		}
		return f.store(ctx, v, val, col)
	case t.Base != nil:
		return f.store(ctx, v, Value{}, Column{OID: t.OID, Typmod: -1}) // the domain may not allow NULL
	}
	return nil
}

// guarded runs the body of a block with EXCEPTION in a subtransaction.
func (f *frame) guarded(ctx context.Context, b *Block) (flow, error) {
	tx := f.env.Transaction
	if err := tx.Savepoint(ctx); err != nil {
		return flow{}, err
	}
	f.subs++
	fl, err := f.execAll(ctx, b.Body)
	f.subs--
	if err == nil {
		return fl, tx.Release(ctx)
	}
	t, ok := err.(*thrown)
	if !ok || t.err.IsFatal() || errors.Is(t.err, errOurs) {
		return flow{}, err
	}
	if err := tx.RollbackTo(ctx); err != nil {
		return flow{}, err
	}
	for _, h := range b.Handlers {
		if !h.handles(t.err.Code) {
			continue
		}
		f.cells[b.SQLState.index].val, f.cells[b.SQLErrm.index].val = text(t.err.Code), text(t.err.Message)
		f.caught = append(f.caught, t.err)
		fl, err := f.execAll(ctx, h.Body)
		f.caught = f.caught[:len(f.caught)-1]
		return fl, err
	}
	return flow{}, t
}

// handles reports whether a handler is for errors of a SQLSTATE. OTHERS leaves cancellations and assertions alone.
func (h *Handler) handles(code string) bool {
	if h.Others && code != pgerr.QueryCanceled && code != "P0004" {
		return true
	}
	for _, c := range h.Codes {
		if matchesCondition(code, c) {
			return true
		}
	}
	return false
}

// branch runs the first arm whose condition holds.
func (f *frame) branch(ctx context.Context, arms []Arm, other []Stmt) (flow, error) {
	for _, a := range arms {
		yes, err := f.evalBool(ctx, a.Cond)
		if err != nil {
			return flow{}, err
		}
		if yes {
			return f.execAll(ctx, a.Body)
		}
	}
	return f.execAll(ctx, other)
}

// caseOf runs CASE.
func (f *frame) caseOf(ctx context.Context, s *Case) (flow, error) {
	if s.Test != nil {
		val, col, err := f.eval(ctx, s.Test)
		if err != nil {
			return flow{}, err
		}
		f.cells[s.Var.index] = cell{val: val, dynamic: col.OID}
	}
	for _, a := range s.Arms {
		yes, err := f.evalBool(ctx, a.Cond)
		if err != nil {
			return flow{}, err
		}
		if yes {
			return f.execAll(ctx, a.Body)
		}
	}
	if !s.HasElse {
		return flow{}, pgerr.New("20000", "case not found").WithHint("CASE statement is missing ELSE part.")
	}
	return f.execAll(ctx, s.Else)
}

// round runs the body of a loop once. It reports whether the loop is over.
func (f *frame) round(ctx context.Context, label string, body []Stmt) (over bool, fl flow, err error) {
	if err = f.stopped(ctx); err == nil { // the body may be empty
		fl, err = f.execAll(ctx, body)
	}
	mine := fl.label == "" || fl.label == label
	switch {
	case err != nil || fl.kind == returns:
		return true, fl, err
	case fl.kind == exits && mine:
		return true, flow{}, nil
	case fl.kind == continues && mine:
		return false, flow{}, nil
	}
	return fl.kind != goOn, fl, nil
}

// loop runs LOOP and WHILE.
func (f *frame) loop(ctx context.Context, s *Loop) (flow, error) {
	for {
		if s.Cond != nil {
			if yes, err := f.evalBool(ctx, s.Cond); err != nil || !yes {
				return flow{}, err
			}
		}
		if over, fl, err := f.round(ctx, s.Label, s.Body); over {
			return fl, err
		}
	}
}

// forInt runs FOR over integers.
func (f *frame) forInt(ctx context.Context, s *ForInt) (flow, error) {
	bound := func(e *Expr, what string) (int64, error) {
		v, err := f.evalAs(ctx, e, known[oidInt4])
		if err != nil {
			return 0, err
		}
		if !v.Valid {
			return 0, pgerr.New("22004", "%s of FOR loop cannot be null", what)
		}
		return strconv.ParseInt(v.Text, 10, 64)
	}
	from, err := bound(s.Lower, "lower bound")
	if err != nil {
		return flow{}, err
	}
	to, err := bound(s.Upper, "upper bound")
	if err != nil {
		return flow{}, err
	}
	step := int64(1)
	if s.Step != nil {
		if step, err = bound(s.Step, "BY value"); err != nil {
			return flow{}, err
		}
		if step <= 0 {
			return flow{}, pgerr.New(pgerr.InvalidParameterValue, "BY value of FOR loop must be greater than zero")
		}
	}
	if s.Reverse {
		step = -step
	}
	found := false
	var fl flow
	for i := from; step > 0 && i <= to || step < 0 && i >= to; i += step {
		found = true
		f.cells[s.Var.index].val = text(strconv.FormatInt(i, 10))
		var over bool
		if over, fl, err = f.round(ctx, s.Label, s.Body); over {
			break
		}
		if next := i + step; next > 1<<31-1 || next < -1<<31 {
			break
		}
	}
	f.setFound(found)
	return fl, err
}

// forRows runs a loop over rows that are in memory.
func (f *frame) forRows(ctx context.Context, in *Into, cols []Column, rows [][]Value, label string, body []Stmt) (flow, error) {
	if len(rows) == 0 {
		if err := f.putRow(ctx, in, cols, nil); err != nil {
			return flow{}, err
		}
	}
	var fl flow
	for _, row := range rows {
		if err := f.putRow(ctx, in, cols, row); err != nil {
			return flow{}, err
		}
		over, left, err := f.round(ctx, label, body)
		if err != nil {
			return flow{}, err
		}
		if fl = left; over {
			break
		}
	}
	f.setFound(len(rows) > 0)
	return fl, nil
}

// forQuery runs FOR over a query.
func (f *frame) forQuery(ctx context.Context, s *ForQuery) (flow, error) {
	cols, rows, err := f.query(ctx, s.Query, s.Dynamic, s.Using)
	if err != nil {
		return flow{}, err
	}
	return f.forRows(ctx, s.Into, cols, rows, s.Label, s.Body)
}

// foreach runs FOREACH.
func (f *frame) foreach(ctx context.Context, s *Foreach) (flow, error) {
	val, col, err := f.eval(ctx, s.Array)
	if err != nil {
		return flow{}, err
	}
	if !val.Valid {
		return flow{}, pgerr.New("22004", "FOREACH expression must not be null")
	}
	t, err := f.env.Cache.byID(ctx, f.env.Executor, col.OID, col.Typmod)
	if err != nil {
		return flow{}, err
	}
	if t.Elem == 0 {
		return flow{}, pgerr.New("42804", "FOREACH expression must yield an array, not type %s", t.Name)
	}
	a, err := parseArray(val.Text, t.Delim)
	if err != nil {
		return flow{}, err
	}
	if s.Slice > len(a.dims) {
		return flow{}, pgerr.New("2202E", "slice dimension (%d) is out of the valid range 0..%d", s.Slice, len(a.dims))
	}
	u, err := f.resolve(s.Into.Targets[0])
	if err != nil {
		return flow{}, err
	}
	if len(s.Into.Targets) > 1 || f.isRecord(u.v) {
		return flow{}, refuse("FOREACH over an array of rows")
	}
	to, err := f.typeOf(u)
	if err != nil {
		return flow{}, err
	}
	switch isArray := to.below().Elem != 0; {
	case s.Slice > 0 && !isArray:
		return flow{}, pgerr.New("42804", "FOREACH ... SLICE loop variable must be of an array type")
	case s.Slice == 0 && isArray:
		return flow{}, pgerr.New("42804", "FOREACH loop variable must not be of an array type")
	}
	items, elem := a.items(s.Slice, t.Delim), Column{OID: t.Elem, Typmod: t.Typmod}
	if s.Slice > 0 {
		elem = Column{OID: t.OID, Typmod: t.Typmod}
	}
	var fl flow
	for _, item := range items {
		if err := f.put(ctx, s.Into.Targets[0], item, elem); err != nil {
			return flow{}, err
		}
		over, left, err := f.round(ctx, s.Label, s.Body)
		if err != nil {
			return flow{}, err
		}
		if fl = left; over {
			break
		}
	}
	f.setFound(len(items) > 0)
	return fl, nil
}

// items returns the elements of an array, or its slices of so many dimensions.
func (a *array) items(slice int, delim byte) []Value {
	if slice == 0 {
		return a.elems
	}
	dims := a.dims[len(a.dims)-slice:]
	size := 1
	for _, d := range dims {
		size *= d.length
	}
	var out []Value
	for i := 0; i < len(a.elems); i += size {
		out = append(out, text((&array{dims: dims, elems: a.elems[i : i+size]}).format(delim)))
	}
	return out
}
