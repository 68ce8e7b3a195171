package proxy

import (
	"encoding/binary"
	"errors"
	"os"
	"time"

	"weft/pool"
	"weft/wire"
)

// direct is from how many bytes on rows are written to the client straight from the
// backend's buffer instead of being collected first.
const direct = 4 << 10

// exchange sends the messages that wait for the backend and passes its answers on until
// none is due. When it returns nil the session goes on, even if the backend was lost: then
// the client has been told.
func (p *pipe) exchange() error {
	p.s.account.atBackend()
	p.s.reach.heedTimeouts()
	for {
		if err := p.relay(false); err != nil {
			return p.failed(err)
		}
		if p.copy != copyWanted {
			return nil
		}
		p.noteCopy(copyTaken)
		if err := p.s.copy.copyIn(); err != nil {
			return p.failed(err)
		}
		if p.copy == copyUnsynced {
			return nil // answered with the Sync that is still to come
		}
	}
}

// failed handles an error of the relay, according to whether the backend or the client is
// gone.
func (p *pipe) failed(err error) error {
	p.s.route.outset.leaveFerry() // before the client is told, who may be slow
	if errors.Is(err, pool.ErrLost) {
		return p.s.lost.onLost(err)
	}
	return err
}

// relay passes the backend's answers to the client until none is due or a COPY wants the
// client's data. Rows pass unopened. With endless, relay goes on until a deadline on the
// backend's connection ends it.
func (p *pipe) relay(endless bool) error {
	c := p.s.held.conn
	for (endless || !p.ops.empty()) && p.copy != copyWanted {
		o := p.ops.first()
		if o.kind == opLocal {
			p.answerLocal(o)
			p.ops.pop()
			continue
		}
		b := c.Buffered()
		n := 0
		if p.s.out.rem > 0 {
			n = p.s.out.takeRest(len(b))
		}
		for p.s.out.rem == 0 && n+wire.HeaderLen <= len(b) && passes(b[n]) && (b[n] != wire.DataRow || o.passesRows()) && (b[n] != wire.NoticeResponse || p.passesNotice(b[n:])) {
			l := int(binary.BigEndian.Uint32(b[n+1:])) + 1
			if l > len(b)-n && o.foreign {
				break // a client that has half a row cannot be told that the rest is lost
			}
			if l > len(b)-n {
				p.s.out.awaitRest(l - (len(b) - n))
				l = len(b) - n
			}
			n += l
		}
		if n > 0 {
			if !o.injected {
				p.s.account.notePassed(o, n)
				if err := p.pass(b[:n]); err != nil {
					return err
				}
			}
			c.Consume(n)
			continue
		}
		l := wire.HeaderLen
		if len(b) >= l {
			l = int(binary.BigEndian.Uint32(b[1:])) + 1
			if l < wire.HeaderLen {
				return c.Lost(wire.ErrFrameLength)
			}
		}
		if len(b) < l {
			if err := p.await(c, l); err != nil {
				return err
			}
			continue
		}
		if b[0] == wire.ReadyForQuery && endless {
			return nil // onReady may talk to the backend: not while push writes
		}
		if b[0] == wire.ReadyForQuery {
			status := b[l-1]
			c.Consume(l) // onReady may talk to the backend
			if err := p.onReady(c, o, status); err != nil {
				return err
			}
			continue
		}
		if err := p.answer(c, o, b[0], b[wire.HeaderLen:l]); err != nil {
			return err
		}
		c.Consume(l)
	}
	return nil
}

// answerLocal gives the answer of an opLocal in its turn.
func (p *pipe) answerLocal(o *op) {
	p.s.out.Grow()
	p.s.out.B = o.appendAnswer(p.s.out.B)
	if o.client != nil && o.answer == wire.CloseComplete {
		p.s.db.Forget(o.client.server)
	}
}

// passes reports whether messages of this type can go to the client without being seen
// whole.
func passes(typ byte) bool {
	return typ == wire.DataRow || typ == wire.CopyData || typ == wire.NoticeResponse
}

// smallNotice is more than a notice of weft's concern takes.
const smallNotice = 8 << 10

// passesNotice reports whether a notice can go to the client without being seen whole.
func (p *pipe) passesNotice(b []byte) bool {
	return p.s.commit.agreement == nil && binary.BigEndian.Uint32(b[1:]) > smallNotice
}

// pass hands rows to the client, and keeps them if other sessions wait for them.
func (p *pipe) pass(b []byte) error {
	o := &p.s.route.outset
	if !o.keeps() {
		return p.s.out.pass(b)
	}
	o.crossing.pass(b)
	p.s.out.Grow()
	p.s.out.B = append(p.s.out.B, b...)
	return nil
}

// pass hands bytes to the client: few bytes are collected, many are written at once.
func (o *answers) pass(b []byte) error {
	if len(b) < direct {
		o.Grow()
		o.B = append(o.B, b...)
		if !o.Full() {
			return nil
		}
		return o.flushOrEnd()
	}
	if err := o.flushOrEnd(); err != nil {
		return err
	}
	if err := o.give(b); err != nil {
		return errEnd
	}
	return nil
}

// await blocks until the backend has sent n bytes of the next message, or at least some.
// Messages that wait for the backend are sent first; if there are none, the client is sent
// the answers so far.
func (p *pipe) await(c *pool.Conn, n int) error {
	var err error
	if p.unsent.Len() > 0 {
		if err := p.s.route.mayGo(); err != nil {
			return err
		}
		if p.ops.endsWithBegin() {
			p.unsent.B = wire.AppendEmpty(p.unsent.B, wire.Flush)
		}
	}
	if p.unsent.Len() > 0 && p.isAhead() {
		// The backend may have answered already, and may be unable to read on before its
		// answers are taken.
		out := p.takeUnsent()
		err := p.push(out.B)
		out.Reset()
		return err
	}
	if p.unsent.Len() > 0 {
		// The backend is idle: its answer is still to come, so nothing can be overlooked.
		err = c.WriteAndFill(p.unsent.B)
		p.unsent.Reset()
	} else {
		if !p.s.portals.mayUnbind() && !p.s.route.outset.keeps() && !p.s.lost.retry.holdsBack() {
			if err := p.s.out.flushOrEnd(); err != nil {
				return err
			}
		}
		if n > wire.HeaderLen {
			err = c.Need(n)
		} else {
			err = c.Fill()
		}
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return c.Lost(err)
	}
	return err
}

// copyRow passes a row on as COPY data.
func (o *answers) copyRow(c *pool.Conn, due *op, body []byte) (err error) {
	o.Grow()
	if o.B, err = due.copies.append(o.B, body); err != nil {
		return c.Lost(err)
	}
	if o.Full() {
		return o.flushOrEnd()
	}
	return nil
}

// describeParameters returns what the client is told about the parameters of a statement.
func (p *pipe) describeParameters(c *pool.Conn, o *op, body []byte) ([]byte, error) {
	if p.s.held.translate != nil {
		if err := p.s.held.translate.ParameterDescription(body); err != nil {
			return nil, c.Lost(untranslatable(err))
		}
	}
	if st := p.s.prepared.learning(o); st != nil {
		st.params = append(st.params[:0], body...)
	}
	if o.client != nil && o.server == o.client.server.Name {
		types := string(body)
		o.client.server.Types.CompareAndSwap(nil, &types)
	}
	if o.hidden > 0 {
		body = wire.FewerParameters(body, o.hidden)
	}
	if st := p.s.prepared.learning(o); st != nil {
		st.types = append(st.types[:0], body...)
	}
	if o.described != nil {
		o.described.params = append([]byte{}, body...)
	}
	return body, nil
}

// answer handles one whole message of the backend.
func (p *pipe) answer(c *pool.Conn, o *op, typ byte, body []byte) error {
	visible := !o.injected
	if p.s.route.outset.keeps() {
		p.s.route.outset.crossing.hear(typ)
	}
	switch typ {
	case wire.ErrorResponse:
		return p.answerError(c, o, body)
	case wire.NoticeResponse:
		if a := p.s.commit.agreement; a != nil && a.Committing() && pool.Unreplicated(body) {
			return c.Lost(pool.ErrUnreplicated) // recovery finds out whether the decision lasts
		}
		visible = visible && !pool.Dying(body)
	case wire.ParameterStatus:
		p.s.out.onParameterStatus(c, body)
		return nil
	case wire.NotificationResponse:
		p.s.record.onBackendNotification(c, body)
		return nil
	case wire.ParseComplete, wire.BindComplete, wire.CloseComplete:
		if o.kind != opBegin || typ == wire.CloseComplete {
			p.ops.pop()
		}
	case wire.DataRow:
		if o.copies != nil {
			return p.s.out.copyRow(c, o, body)
		}
		// The row may hold OIDs.
		if err := p.s.held.translate.DataRow(body, *o.rows); err != nil {
			return c.Lost(untranslatable(err))
		}
	case wire.ParameterDescription:
		var err error
		if body, err = p.describeParameters(c, o, body); err != nil {
			return err
		}
	case wire.RowDescription, wire.NoData:
		if typ == wire.RowDescription && p.s.held.translate != nil {
			if err := p.s.held.describeRows(o, body); err != nil {
				return c.Lost(err)
			}
		} else if st := p.s.prepared.learning(o); st != nil {
			st.shape = shallow
		}
		if o.fetches != nil {
			putOrigins(body, o.fetches.Query)
		}
		switch o.kind {
		case opDescribeStatement:
			p.s.prepared.onDescribed(o, typ, body)
			p.ops.pop()
		case opDescribePortal:
			if o.client != nil {
				p.s.prepared.onDescribed(o, typ, body)
			}
			p.ops.pop()
		}
	case wire.CommandComplete:
		visible = p.onComplete(c, o, body, visible)
	case wire.EmptyQueryResponse, wire.PortalSuspended:
		if o.kind == opExecute {
			if typ == wire.PortalSuspended && o.run.began != 0 {
				p.s.account.executed(c, o, int64(o.run.limit), true)
			}
			p.ops.pop()
		}
	case wire.CopyInResponse:
		p.noteCopy(copyAsked)
	case wire.CopyBothResponse:
		return c.Lost(errors.New("replication is not supported"))
	}
	if visible {
		p.s.out.Grow()
		p.s.out.B = wire.AppendFrame(p.s.out.B, typ, body)
	}
	if visible && p.s.route.outset.keeps() {
		p.s.route.outset.crossing.take(typ, body)
	}
	return nil
}

// push writes messages to the backend without waiting for their answers. The backend may be
// unable to read on until its answers are taken, so they are passed on meanwhile.
func (p *pipe) push(b []byte) error {
	c := p.s.held.conn
	p.noteAhead()
	p.s.client.Task().Leave()
	written := make(chan error, 1)
	go func() {
		_, err := c.Write(b) // none of weft's code that could panic runs here
		// The deadline ends the wait of relay below; answers that relay has not read yet
		// stay.
		_ = c.Conn().SetReadDeadline(time.Unix(1, 0))
		written <- err
	}()
	err := p.relay(true)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		// The backend or the client is gone: the write must not go on waiting.
		_ = c.Conn().SetDeadline(time.Unix(1, 0))
		<-written
		return err
	}
	werr := <-written
	_ = c.Conn().SetReadDeadline(time.Time{})
	if werr != nil {
		return c.Lost(werr)
	}
	return nil
}
