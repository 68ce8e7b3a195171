package proxy

import (
	"context"
	"encoding/binary"

	"weft/plan"
	"weft/proxy/routine"
	"weft/wire"
)

// boundProgram is a portal that runs a program.
type boundProgram struct {
	portal, text string
	plan         *plan.Plan
	// oids are the types that the client declared, and tail is the part of its Bind behind the names.
	oids, tail []byte
	result     *routine.Result // nil before the first Execute
	frame      []byte          // the RowDescription, once the portal has been described
	described  bool
}

// request is what the client wants to call.
func (b *boundProgram) request() routine.Request {
	q := routine.Request{Text: b.text, Bind: b.tail}
	for oids := b.oids[min(2, len(b.oids)):]; len(oids) >= 4; oids = oids[4:] {
		q.Types = append(q.Types, binary.BigEndian.Uint32(oids))
	}
	return q
}

// query runs a program for a simple query of n bytes.
func (pr *programs) query(p *plan.Plan, text []byte, n int) error {
	s, sql := pr.s, string(text)
	s.client.Consume(wire.HeaderLen + n)
	own := !s.tx.isOpen()
	if own {
		if s.held.conn != nil { // see bindBegin
			if err := s.held.park(); err != nil {
				return s.lost.refuseRead(err)
			}
		}
		s.tx.start(plainBegin)
	}
	result, failed, err := pr.run(&boundProgram{text: sql, plan: p}, own)
	if err != nil {
		return err
	}
	if !own {
		if failed != nil {
			return s.lost.refuseRead(failed)
		}
		pr.tell(result)
		return nil
	}
	uncommitted, err := s.tx.endOwn(failed != nil)
	if err != nil {
		return err
	}
	if s.drawn.loans != nil {
		s.drawn.returnLoans()
	}
	switch {
	case failed != nil:
		return s.refused(failed)
	case uncommitted: // the client has been told
		s.out.tellReady()
		return nil
	}
	pr.tell(result)
	return nil
}

// tell tells the client the result of a simple query.
func (pr *programs) tell(r *routine.Result) {
	o := &pr.s.out
	o.Grow()
	o.B = append(append(o.B, r.Description...), r.Next(0)...)
	pr.s.account.run.rows += int64(r.Count)
	o.tellReady()
}

// run runs a program. free: no block is open but one that weft has opened for the statement. failed is for the client, err ends the
// session.
func (pr *programs) run(b *boundProgram, free bool) (result *routine.Result, failed, err error) {
	free = (free || pr.room.MayEnd() && isCall(b.text)) && (!b.plan.Described || isCall(b.text))
	failed, err = pr.inside(free, func(ctx context.Context, r *routine.Run) (err error) {
		switch l := b.plan.Locked(); {
		case l != nil:
			result, err = r.Lock(ctx, l, b.request())
		case b.plan.Described:
			result, err = r.Call(ctx, b.request())
		default:
			result, err = r.Do(ctx, b.text)
		}
		return err
	})
	return result, failed, err
}

// isCall reports whether a text is a CALL.
func isCall(text string) bool {
	w := words(text)
	return len(w) > 0 && w[0] == "call"
}

// bind binds a portal that runs a program.
func (pr *programs) bind(portal []byte, pl *planned, tail []byte) error {
	return pr.s.portals.bindLocal(portal, &localPortal{program: &boundProgram{
		portal: string(portal), text: string(pl.text), plan: pl.plan, oids: append([]byte(nil), pl.oids...), tail: append([]byte(nil), tail...),
	}})
}

// execute executes a portal that runs a program. limit is the most rows that the client wants, 0 for all.
func (pr *programs) execute(b *boundProgram, limit int) error {
	s := pr.s
	if err := s.implicit.awaitAnswers(s.flush); err != nil {
		return s.lost.refuseBoundRead(err)
	}
	if s.held.conn != nil && s.held.conn.Status() == wire.TxFailed {
		s.pipe.unsent.Grow()
		s.lost.refuseMessage(transactionFailed())
		return nil
	}
	if b.result != nil && len(b.result.Description) == 0 {
		return s.lost.refuseBoundRead(cannotRun([]byte(b.portal)))
	}
	if b.result == nil {
		free := !s.tx.isOpen() || s.implicit.isOpen()
		if err := s.implicit.openPipe(); err != nil {
			return s.lost.refuseBoundRead(err)
		}
		result, failed, err := pr.run(b, free)
		if err != nil {
			return err
		}
		if failed != nil {
			return s.lost.refuseBoundRead(failed)
		}
		b.result = result
	}
	s.pipe.ops.push(op{kind: opLocal, frame: b.result.Next(limit)})
	return nil
}

// describe describes a portal that runs a program and may return rows.
func (pr *programs) describe(b *boundProgram) error {
	s := pr.s
	if err := s.implicit.awaitAnswers(s.flush); err != nil {
		return s.lost.refuseBoundRead(err)
	}
	if s.held.conn != nil && s.held.conn.Status() == wire.TxFailed {
		s.pipe.unsent.Grow()
		s.lost.refuseMessage(transactionFailed())
		return nil
	}
	if !b.described {
		if err := s.implicit.openPipe(); err != nil {
			return s.lost.refuseBoundRead(err)
		}
		failed, err := pr.inside(false, func(_ context.Context, r *routine.Run) (err error) {
			b.frame, err = r.Describe(b.request())
			return err
		})
		if err != nil {
			return err
		}
		if failed != nil {
			return s.lost.refuseBoundRead(failed)
		}
		b.described = true
	}
	o := op{kind: opLocal, frame: b.frame}
	if b.frame == nil {
		o.answer = wire.NoData
	}
	s.pipe.ops.push(o)
	return nil
}
