package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"time"

	"weft/pool"
	"weft/wire"
)

// direct is how many bytes of rows are written to the client straight from the
// backend's buffer instead of being collected first.
const direct = 4 << 10

// exchange sends what waits for the backend and passes its answers on until
// none is outstanding. When it returns nil the session goes on, even if the
// backend was lost: then the client has been told.
func (s *Session) exchange() error {
	s.atBackend()
	s.heedTimeouts()
	for {
		if err := s.relay(false); err != nil {
			return s.failed(err)
		}
		if !s.copying {
			return nil
		}
		s.copying, s.copied = false, false
		if err := s.copyIn(); err != nil {
			return s.failed(err)
		}
		if s.copied {
			return nil // answered with the Sync that is still to come
		}
	}
}

// failed sorts an error of the relay: the client is gone, or the backend.
func (s *Session) failed(err error) error {
	if errors.Is(err, pool.ErrLost) {
		return s.lost(err)
	}
	return err
}

// relay passes the backend's answers to the client until none is outstanding
// or a COPY wants the client's data. Rows pass unopened. With endless it goes
// on until a deadline on the backend's connection ends it.
func (s *Session) relay(endless bool) error {
	c := s.conn
	for (endless || !s.ops.empty()) && !s.copying {
		o := s.ops.first()
		if o.kind == opLocal {
			s.answerLocal(o)
			s.ops.pop()
			continue
		}
		b := c.Buffered()
		n := 0
		if s.rem > 0 {
			n = min(s.rem, len(b))
			s.rem -= n
		}
		for s.rem == 0 && n+wire.HeaderLen <= len(b) && passes(b[n]) && (b[n] != wire.DataRow || o.passesRows()) {
			l := int(binary.BigEndian.Uint32(b[n+1:])) + 1
			if l > len(b)-n && o.foreign {
				break // a client that has half a row cannot be told that the rest is lost
			}
			if l > len(b)-n {
				s.rem = l - (len(b) - n)
				l = len(b) - n
			}
			n += l
		}
		if n > 0 {
			if !o.injected {
				if err := s.pass(b[:n]); err != nil {
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
			if err := s.await(c, l); err != nil {
				return err
			}
			continue
		}
		if b[0] == wire.ReadyForQuery && endless {
			return nil // settling talks to the backend: not while push writes
		}
		if b[0] == wire.ReadyForQuery {
			status := b[l-1]
			c.Consume(l) // settling talks to the backend
			if err := s.onReady(c, o, status); err != nil {
				return err
			}
			continue
		}
		if err := s.answer(c, o, b[0], b[wire.HeaderLen:l]); err != nil {
			return err
		}
		c.Consume(l)
	}
	return nil
}

// answerLocal gives an answer of weft's own in its turn.
func (s *Session) answerLocal(o *op) {
	s.toClient.Grow()
	s.toClient.B = o.appendAnswer(s.toClient.B)
	if o.client != nil && o.answer == wire.CloseComplete {
		s.db.Forget(o.client.server)
	}
}

// passes reports whether frames of this type can go to the client without
// being seen whole.
func passes(typ byte) bool {
	return typ == wire.DataRow || typ == wire.CopyData || typ == wire.NoticeResponse
}

// pass hands bytes to the client: small ones are collected, large ones are
// written at once.
func (s *Session) pass(b []byte) error {
	if len(b) < direct {
		s.toClient.Grow()
		s.toClient.B = append(s.toClient.B, b...)
		if !s.toClient.Full() {
			return nil
		}
		return s.flushOrEnd()
	}
	if err := s.flushOrEnd(); err != nil {
		return err
	}
	if err := s.write(b); err != nil {
		return errEnd
	}
	return nil
}

// await blocks until the backend has sent n bytes of the next frame, or at
// least some: what waits in either direction goes out first.
func (s *Session) await(c *pool.Conn, n int) error {
	var err error
	if s.toServer.Len() > 0 {
		if err := s.mayGo(); err != nil {
			return err
		}
		if s.ops.endsWithBegin() {
			s.toServer.B = wire.AppendEmpty(s.toServer.B, wire.Flush)
		}
	}
	if s.toServer.Len() > 0 && s.pushed {
		// Answers may be waiting already, and the backend may be unable to
		// read on before they are taken.
		out := s.toServer
		s.toServer = wire.Out{}
		err := s.push(out.B)
		out.Reset()
		return err
	}
	if s.toServer.Len() > 0 {
		// The backend is idle: the answer is still to come, so nothing can be
		// overlooked.
		err = c.WriteAndFill(s.toServer.B)
		s.toServer.Reset()
	} else {
		if !s.mayUnbind() {
			if err := s.flushOrEnd(); err != nil {
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
func (s *Session) copyRow(c *pool.Conn, o *op, body []byte) (err error) {
	s.toClient.Grow()
	if s.toClient.B, err = o.copies.append(s.toClient.B, body); err != nil {
		return c.Lost(err)
	}
	if s.toClient.Full() {
		return s.flushOrEnd()
	}
	return nil
}

// describeParameters returns what the client is told of a statement's parameters.
func (s *Session) describeParameters(c *pool.Conn, o *op, body []byte) ([]byte, error) {
	if s.translate != nil {
		if err := s.translate.ParameterDescription(body); err != nil {
			return nil, c.Lost(untranslatable(err))
		}
	}
	if st := s.learning(o); st != nil {
		st.params = append(st.params[:0], body...)
	}
	if o.client != nil && o.server == o.client.server.Name {
		types := string(body)
		o.client.server.Types.CompareAndSwap(nil, &types)
	}
	if o.hidden > 0 {
		body = wire.FewerParameters(body, o.hidden)
	}
	if st := s.learning(o); st != nil {
		st.types = append(st.types[:0], body...)
	}
	if o.described != nil {
		o.described.params = append([]byte{}, body...)
	}
	return body, nil
}

// answer handles one whole frame of the backend.
func (s *Session) answer(c *pool.Conn, o *op, typ byte, body []byte) error {
	visible := !o.injected
	switch typ {
	case wire.ErrorResponse:
		if a := s.agreement; a != nil && a.Committing() {
			if e := pool.ServerError(body); e.IsFatal() {
				return c.Lost(e) // that is no answer to COMMIT: it is found out
			}
		}
		if o.sure && o.kind != opQuery {
			if e := pool.ServerError(body); !e.IsFatal() {
				return e.WithCause(pool.ErrLost)
			}
		}
		if o.foreign {
			if err := s.onForeignError(c, o, body); err != nil {
				return err
			}
		}
		if bytes.Contains(body, idConstraint) {
			body = s.strayedBody(body)
		}
		s.onError(c, body)
		return nil
	case wire.ParameterStatus:
		// A Sync of weft's own ends what the client has sent before it.
		visible = s.onParameterStatus(c, body) && (visible || o.kind == opSync)
	case wire.NotificationResponse:
		s.onBackendNotification(c, body)
		return nil
	case wire.ParseComplete, wire.BindComplete, wire.CloseComplete:
		if o.kind != opBegin || typ == wire.CloseComplete {
			s.ops.pop()
		}
	case wire.DataRow:
		if o.copies != nil {
			return s.copyRow(c, o, body)
		}
		// One that may hold OIDs.
		if err := s.translate.DataRow(body, *o.rows); err != nil {
			return c.Lost(untranslatable(err))
		}
	case wire.ParameterDescription:
		var err error
		if body, err = s.describeParameters(c, o, body); err != nil {
			return err
		}
	case wire.RowDescription, wire.NoData:
		if typ == wire.RowDescription && s.translate != nil {
			if err := s.describeRows(o, body); err != nil {
				return c.Lost(err)
			}
		} else if st := s.learning(o); st != nil {
			st.shape = shallow
		}
		switch o.kind {
		case opDescribeStatement:
			s.onDescribed(o, typ, body)
			s.ops.pop()
		case opDescribePortal:
			if o.client != nil {
				s.onDescribed(o, typ, body)
			}
			s.ops.pop()
		}
	case wire.CommandComplete:
		visible = s.onComplete(c, o, body, visible)
	case wire.EmptyQueryResponse, wire.PortalSuspended:
		if o.kind == opExecute {
			if typ == wire.PortalSuspended && o.run.began != 0 {
				s.executed(c, o, int64(o.run.limit), true)
			}
			s.ops.pop()
		}
	case wire.CopyInResponse:
		s.copying = true
	case wire.CopyBothResponse:
		return c.Lost(errors.New("replication is not supported"))
	}
	if visible {
		s.toClient.Grow()
		s.toClient.B = wire.AppendFrame(s.toClient.B, typ, body)
	}
	return nil
}

// onParameterStatus keeps both views of a parameter and reports whether the
// client should be told.
func (s *Session) onParameterStatus(c *pool.Conn, body []byte) bool {
	name, value, ok := wire.DecodeParameterStatus(body)
	if !ok {
		return false
	}
	c.Params[name] = value
	s.reads(name, value) // at once, not when the block ends
	if name == "application_name" && value == "" && s.done.resets(name) {
		// RESET goes back to the client's own startup value; adopt sees to it.
		if own := clean(s.startup.Get(name)); own != "" {
			if s.report(name, own) {
				s.toClient.Grow()
				s.toClient.B = wire.AppendParameterStatus(s.toClient.B, name, own)
			}
			return false
		}
	}
	return s.report(name, value)
}

// report notes what the client knows of a parameter; false means it knew.
func (s *Session) report(name, value string) bool {
	before, ok := s.reported[name]
	if ok && before == value {
		return false
	}
	if !s.ownsRep {
		own := make(map[string]string, len(s.reported)+1)
		for k, v := range s.reported {
			own[k] = v
		}
		s.reported, s.ownsRep = own, true
	}
	s.reported[name] = value
	if s.block.open {
		s.block.changed(name, before)
	}
	return !s.script.keepsReport(name, before)
}

// push writes what waits for the backend without waiting for answers. The
// backend may be unable to read on until somebody takes its answers, so they
// are passed on meanwhile.
func (s *Session) push(p []byte) error {
	c := s.conn
	s.pushed = true
	written := make(chan error, 1)
	go func() {
		_, err := c.Write(p) // nothing of weft's runs here that could panic
		// Ends the relay's wait below; answers it has not read yet stay.
		_ = c.Conn().SetReadDeadline(time.Unix(1, 0))
		written <- err
	}()
	err := s.relay(true)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		// The backend or the client is gone: the write must not wait for it.
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
