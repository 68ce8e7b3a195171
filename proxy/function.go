package proxy

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"weft/directory"
	"weft/executor"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/planner"
	"weft/wire"
)

// weft's own functions look like functions of the database to clients:
// SELECT weft.shard_table('orders', 'customer_id').

// callsWeft reports whether a text may call one of weft's functions.
func callsWeft(f *parser.Facts) bool {
	return slices.ContainsFunc(f.Funcs, planner.Provides)
}

// callQuery answers a simple query that calls one of weft's functions.
func (u *utility) callQuery(p *plan.Plan, n int) error {
	u.s.client.Consume(wire.HeaderLen + n)
	rows, err := u.call(p.Function, nil)
	if err != nil {
		return u.s.lost.refuseRead(err)
	}
	u.s.out.Grow()
	u.s.out.B = append(u.s.out.B, describeCall(p, allAreText)...)
	u.s.out.B = append(u.s.out.B, callResult(p.Function, rows)...)
	u.s.out.tellReady()
	return nil
}

// bindCall binds a portal that calls one of weft's functions.
func (u *utility) bindCall(portal []byte, p *plan.Plan, tail []byte) error {
	params, ok := executor.DecodeParams(tail)
	if !ok {
		return u.s.lost.refuseBound(pgerr.New(pgerr.ProtocolViolation, "invalid message format"))
	}
	_, formats, ok := wire.SplitBind(tail)
	if !ok {
		return u.s.lost.refuseBound(pgerr.New(pgerr.ProtocolViolation, "invalid message format"))
	}
	lp := &localPortal{plan: p, formats: slices.Clone(formats)}
	values, ok := params.Texts()
	if !ok {
		return u.s.lost.refuseBound(pgerr.New(pgerr.FeatureNotSupported, "binary parameters of weft's functions are not supported").
			WithHint("Send them as text, or write the values into the statement."))
	}
	for _, v := range values {
		lp.args = append(lp.args, slices.Clone(v))
	}
	return u.s.portals.bindLocal(portal, lp)
}

// executeCall executes a portal that calls one of weft's functions.
func (u *utility) executeCall(lp *localPortal) error {
	if err := u.s.flush(); err != nil || u.s.pipe.isSkipping() {
		return err
	}
	rows, err := u.call(lp.plan.Function, lp.args)
	if err != nil {
		return u.s.lost.refuseBoundRead(err)
	}
	u.s.pipe.ops.push(op{kind: opLocal, frame: callResult(lp.plan.Function, rows)})
	return nil
}

const (
	oidText = 25
	oidVoid = 2278
)

// describeParams is the ParameterDescription of a call: all parameters are of type text.
func describeParams(p *plan.Plan) []byte {
	n := 0
	for _, a := range p.Function.Args {
		n = max(n, a.Param)
	}
	b, at := wire.Begin(nil, wire.ParameterDescription)
	b = append(b, byte(n>>8), byte(n))
	for range n {
		b = append(b, 0, 0, 0, oidText)
	}
	return wire.End(b, at)
}

// describeCall is the RowDescription of a call whose rows are wanted in formats. The values of its types are the same in all formats.
func describeCall(p *plan.Plan, formats []byte) []byte {
	wanted := request{formats: formats}
	columns := []wire.Column{{Name: p.Function.Column, OID: oidVoid, Size: 4}}
	if len(p.Function.Returns) > 0 {
		columns = nil
		for _, name := range p.Function.Returns {
			columns = append(columns, wire.Column{Name: name, OID: oidText, Size: -1})
		}
	}
	for i := range columns {
		columns[i].Format = wanted.formatOf(i)
	}
	return wire.AppendRowDescription(nil, columns)
}

// callResult is the rows of a call and its command tag. The text and the binary format of type
// text are the same.
func callResult(f *plan.Function, rows [][]string) []byte {
	if len(f.Returns) == 0 {
		rows = [][]string{{""}} // void
	}
	var b []byte
	for _, r := range rows {
		values := make([]*string, len(r))
		for i := range r {
			values[i] = &r[i]
		}
		b = wire.AppendTextRow(b, values)
	}
	return wire.AppendCommandComplete(b, "SELECT "+strconv.Itoa(len(rows)))
}

// call runs one of weft's functions and returns its rows, if any. Notices reach the client as
// they come.
func (u *utility) call(f *plan.Function, params [][]byte) ([][]string, error) {
	if _, may := declaresInside[f.Name]; may && u.s.localStatus() == wire.TxActive {
		return nil, u.declareInBlock(f, params)
	}
	if u.s.tx.isOpen() || u.s.localStatus() != wire.TxIdle {
		return nil, pgerr.New(pgerr.ActiveSQLTransaction, "weft.%s cannot run inside a transaction block", f.Name).
			WithHint("Call it by itself, outside of any block and of texts of several statements. To declare a table together with the transaction that makes it, commit that first. " +
				"In a migration: atomic = False (Django), disable_ddl_transaction! (Rails), transaction: false (knex).")
	}
	what := schemaChange
	if f.Name == "throttle" || f.Name == "unthrottle" {
		what = throttleChange
	}
	if err := u.s.commit.reaches(what); err != nil && f.Name != "token" {
		return nil, err
	}
	ctx, cancel := u.cancellable()
	defer cancel()
	rows, err := u.callFunction(ctx, f, arguments(f, params))
	return rows, callError(ctx, err)
}

// cancellable returns a context that the client's cancel request ends, and a function that the
// caller must call when the work is done.
func (u *utility) cancellable() (context.Context, func()) {
	u.s.client.Task().Leave()
	ctx, cancel := context.WithCancelCause(u.s.srv.ctx)
	select {
	case <-u.s.reach.cancelled: // meant for an earlier statement
	default:
	}
	done := make(chan struct{})
	go func() {
		select {
		case <-u.s.reach.cancelled:
			cancel(pgerr.New(pgerr.QueryCanceled, "canceling statement due to user request"))
		case <-done:
		}
	}()
	return ctx, func() {
		close(done)
		cancel(nil)
	}
}

// callError returns the error that the client is told when one of weft's functions has failed
// with err.
func callError(ctx context.Context, err error) error {
	var e *pgerr.Error
	switch known := errors.As(err, &e); {
	case err == nil:
		return nil
	case !known && errors.Is(err, directory.ErrUnavailable):
		return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "the directory cannot be reached, so declarations cannot be changed").
			WithDetail("%s", err.Error()).WithHint("Try again when etcd is back. What was begun is finished or undone by then.").WithCause(err)
	case known && e.Code == pgerr.ConnectionFailure && errors.As(context.Cause(ctx), &e):
		return e // the cancel request has ended the connection
	}
	return err
}

// arguments returns the arguments by name, with parameters filled in. NULL arguments are left
// out.
func arguments(f *plan.Function, params [][]byte) map[string]string {
	args := map[string]string{}
	for name, a := range f.Args {
		switch {
		case a.Param > 0 && a.Param <= len(params) && params[a.Param-1] != nil:
			args[name] = string(params[a.Param-1])
		case a.Param == 0 && !a.Null:
			args[name] = a.Text
		}
	}
	return args
}
