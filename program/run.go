package program

import (
	"context"
	"strings"

	"weft/pgerr"
)

// Result is what a program has returned beside its rows.
type Result struct {
	// Columns are those of the rows: one for a function that returns a scalar, those of the row type or the OUT arguments
	// else. A procedure and a DO without OUT arguments have none.
	Columns []Column
	// Null: a function that does not return a set has returned NULL instead of a row.
	Null bool
}

// frame is one run of a program.
type frame struct {
	*Program
	*binding
	env     *Environment
	cells   []cell
	matched map[*Expr][]match
	// conflict is that of the program.
	conflict Conflict
	rowCount int64
	// caught are the errors that are being handled, the innermost last.
	caught []*pgerr.Error
	// subs is the number of open subtransactions.
	subs    int
	columns []resultColumn
	null    bool
	// pinned are the cursors that loops go over.
	pinned map[string]bool
}

// resultColumn is a column of the result.
type resultColumn struct {
	name string
	typ  *Type
}

// cell is the value of a variable.
type cell struct {
	val Value
	rec *record
	// dynamic is the type of a variable whose type is that of the last value.
	dynamic uint32
}

// record is the value of a variable of a row type.
type record struct {
	cols []Column
	vals []Value
	// typ is the composite type of the row, nil for a row of no named type.
	typ *Type
}

// thrown is an error that has its CONTEXT.
type thrown struct{ err *pgerr.Error }

func (t *thrown) Error() string { return t.err.Error() }

func (t *thrown) Unwrap() error { return t.err }

// flow is how a statement has ended.
type flow struct {
	kind  flowKind
	label string
}

type flowKind uint8

const (
	goOn flowKind = iota
	exits
	continues
	returns
)

// Run runs a program with the values of its IN arguments. Arguments that are missing at the end have their
// defaults.
func (p *Program) Run(ctx context.Context, env *Environment, args []Value) (*Result, error) {
	f := &frame{Program: p, env: env, matched: map[*Expr][]match{}, conflict: p.conflict, cells: make([]cell, len(p.vars))}
	err := f.run(ctx, args)
	if err != nil {
		if t, ok := err.(*thrown); ok {
			return nil, t.err
		}
		return nil, err
	}
	res := &Result{Null: f.null}
	for _, c := range f.columns {
		res.Columns = append(res.Columns, Column{Name: c.name, OID: c.typ.OID, Typmod: c.typ.Typmod})
	}
	return res, nil
}

func (f *frame) run(ctx context.Context, args []Value) error {
	if err := f.bind(ctx); err != nil {
		return err
	}
	f.shape()
	if err := f.enter(ctx, args); err != nil || f.null {
		return err
	}
	if f.SQL {
		return f.runScript(ctx)
	}
	fl, err := f.exec(ctx, f.body)
	if err != nil {
		return err
	}
	if fl.kind == returns || f.Set {
		return nil
	}
	return f.place(f.fallOff(), "")
}

// bind looks up the types of the variables.
func (f *frame) bind(ctx context.Context) error {
	c, x := f.env.Cache, f.env.Executor
	if b := c.bound[f.Program]; b != nil {
		f.binding = b
		return nil
	}
	b := &binding{types: make([]*Type, len(f.vars))}
	for _, v := range f.vars {
		var err error
		if v.Type.Same != nil && v.Type.Same.index < v.index {
			b.types[v.index] = b.types[v.Type.Same.index]
		} else if b.types[v.index], err = c.named(ctx, x, v.Type); err != nil {
			return err
		}
		if v.Type.RowType && !b.types[v.index].isRow() {
			return syntax(`variable "%s" is no row`, v.Name)
		}
	}
	if f.Returns != "" {
		toks, err := scan(f.Returns)
		if err != nil {
			return err
		}
		if b.returns, err = c.named(ctx, x, (&reader{scope: &scope{}}).typeOf(f.Returns, toks[:len(toks)-1])); err != nil {
			return err
		}
		if b.returns.OID == oidRecord && len(f.outs()) < 2 {
			return refuse("a function that returns record without OUT arguments").
				WithHint("Declare the columns with RETURNS TABLE or OUT arguments.")
		}
	}
	if err := f.sign(ctx, b); err != nil {
		return err
	}
	f.binding = b
	c.bound[f.Program] = b
	return nil
}

// sign makes what a CONTEXT calls the program.
func (f *frame) sign(ctx context.Context, b *binding) error {
	if f.Kind == Do {
		b.signature = "inline_code_block"
		return nil
	}
	var names []string
	for i, a := range f.Args {
		if !a.takesValue() && f.Kind == Function || a.Mode == Table {
			continue
		}
		t, err := f.env.Cache.byID(ctx, f.env.Executor, b.types[f.args[i].index].OID, -1)
		if err != nil {
			return err
		}
		names = append(names, t.Name)
	}
	b.signature = f.Name + "(" + strings.Join(names, ",") + ")"
	if f.Schema != "" {
		b.signature = f.Schema + "." + b.signature
	}
	return nil
}

// outs returns the arguments that are columns of the result.
func (f *frame) outs() []int {
	var out []int
	for i, a := range f.Args {
		if a.Mode == Out || a.Mode == InOut || a.Mode == Table {
			out = append(out, i)
		}
	}
	return out
}

// shape finds out which columns the result has.
func (f *frame) shape() {
	outs := f.outs()
	switch {
	case len(outs) > 0:
		for _, i := range outs {
			f.columns = append(f.columns, resultColumn{f.Args[i].Name, f.types[f.args[i].index]})
		}
	case f.returns == nil || f.returns.OID == oidVoid:
	case f.returns.isRow():
		for _, c := range f.returns.Fields {
			t, ok := f.env.Cache.byOID[typeKey{c.OID, c.Typmod}]
			if !ok {
				t = &Type{OID: c.OID, Typmod: c.Typmod}
			}
			f.columns = append(f.columns, resultColumn{c.Name, t})
		}
	default:
		f.columns = []resultColumn{{f.Name, f.returns}}
	}
}

// enter gives the arguments their values.
func (f *frame) enter(ctx context.Context, args []Value) error {
	if err := f.fieldTypes(ctx); err != nil {
		return err
	}
	f.cells[f.found.index].val = text("f")
	next := 0
	for i, a := range f.Args {
		if !a.takesValue() {
			if f.Kind == Procedure && a.Mode == Out {
				next++ // CALL has a value for it, which is not looked at
			}
			continue
		}
		v := f.args[i]
		t := f.types[v.index]
		var val Value
		switch {
		case next < len(args):
			val = args[next]
		case f.defaults[i] != nil:
			v, col, err := f.eval(ctx, f.defaults[i])
			if err != nil {
				return err
			}
			// The default of an argument has the type of the argument, without its modifier.
			if val, err = f.env.Cache.cast(ctx, f.env.Executor, v, col, t); err != nil {
				return err
			}
		default:
			return pgerr.New(pgerr.UndefinedFunction, "function %s: too few arguments", f.signature)
		}
		next++
		if !val.Valid && f.Strict {
			f.null = true
			return nil
		}
		if err := f.store(ctx, v, val, Column{OID: t.OID, Typmod: t.Typmod}); err != nil {
			return err
		}
	}
	if next < len(args) {
		return pgerr.New(pgerr.UndefinedFunction, "function %s: too many arguments", f.signature)
	}
	return nil
}

// fieldTypes looks up the types of the result's columns.
func (f *frame) fieldTypes(ctx context.Context) error {
	for i, c := range f.columns {
		t, err := f.env.Cache.byID(ctx, f.env.Executor, c.typ.OID, c.typ.Typmod)
		if err != nil {
			return err
		}
		f.columns[i].typ = t
	}
	return nil
}

// fallOff ends a program that has come to its END.
func (f *frame) fallOff() error {
	switch {
	case f.Kind != Function, f.returns != nil && f.returns.OID == oidVoid, len(f.outs()) > 0:
		return f.deliverOuts()
	}
	return pgerr.New("2F005", "control reached end of function without RETURN")
}

// deliverOuts makes a row of the OUT arguments.
func (f *frame) deliverOuts() error {
	outs := f.outs()
	if len(outs) == 0 {
		if f.returns != nil && f.returns.OID == oidVoid {
			f.null = false
		}
		return nil
	}
	row := make([]Value, len(outs))
	for i, at := range outs {
		row[i] = f.whole(f.args[at])
	}
	return f.env.Output.Row(row)
}

// whole is the value of a variable as one value.
func (f *frame) whole(v *Var) Value {
	c := f.cells[v.index]
	if !f.isRecord(v) {
		return c.val
	}
	if c.rec == nil {
		return Value{}
	}
	return text(formatRecord(c.rec.vals))
}

// isRecord reports whether a variable is of a row type.
func (f *frame) isRecord(v *Var) bool { return f.types[v.index].isRow() }

// typeOf is the type of a variable or a field.
func (f *frame) typeOf(u use) (*Type, error) {
	t := f.types[u.v.index]
	c := f.cells[u.v.index]
	if c.dynamic != 0 {
		return f.env.Cache.byID(context.Background(), f.env.Executor, c.dynamic, -1)
	}
	if !t.isRow() {
		return t, nil
	}
	cols := t.Fields
	if t.OID == oidRecord {
		if c.rec == nil && u.field == "" {
			return t, nil
		}
		if c.rec == nil {
			return nil, pgerr.New(pgerr.ObjectNotInPrerequisiteState, `record "%s" is not assigned yet`, u.v.Name).
				WithDetail("The tuple structure of a not-yet-assigned record is indeterminate.")
		}
		cols = c.rec.cols
	}
	if u.field == "" {
		return t, nil
	}
	for i, col := range cols {
		if col.Name == u.field && (u.at == 0 || u.at == i+1) {
			return f.env.Cache.byID(context.Background(), f.env.Executor, col.OID, col.Typmod)
		}
	}
	return nil, pgerr.New(pgerr.UndefinedColumn, `record "%s" has no field "%s"`, u.v.Name, u.field)
}

// get is the value of a variable or a field.
func (f *frame) get(u use) Value {
	if u.field == "" {
		return f.whole(u.v)
	}
	rec := f.cells[u.v.index].rec
	if rec == nil {
		return Value{}
	}
	for i, c := range rec.cols {
		if c.Name == u.field && (u.at == 0 || u.at == i+1) {
			return rec.vals[i]
		}
	}
	return Value{}
}

// setFound sets FOUND.
func (f *frame) setFound(found bool) {
	f.cells[f.found.index].val = boolean(found)
}

func boolean(b bool) Value {
	if b {
		return text("t")
	}
	return text("f")
}

// place gives an error the line of its CONTEXT that names the program.
func (f *frame) place(err error, doing string) error {
	e, ok := err.(*pgerr.Error)
	if !ok {
		return err
	}
	e.Position = 0
	line := "PL/pgSQL function " + f.signature
	if doing != "" {
		line += " " + doing
	}
	addContext(e, line)
	return &thrown{e}
}

func addContext(e *pgerr.Error, line string) {
	if e.Where != "" {
		e.Where += "\n"
	}
	e.Where += line
}
