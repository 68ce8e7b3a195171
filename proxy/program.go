package proxy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"weft/pgerr"
	"weft/pool"
	"weft/program"
	"weft/proxy/routine"
	"weft/wire"
)

// PL/pgSQL that touches sharded tables is run by weft: package routine runs the program and sends the session the messages
// that a client would send. The session handles them in the transaction that it has open, and the program hears the answers.
// The client hears notices at once and the result at the end.

// programs runs programs in the session.
type programs struct {
	s    *Session
	room routine.Room
}

var _ routine.Session = (*programs)(nil)

// aside is the state of the client's own messages while a program sends some.
type aside struct {
	script   script
	implicit implicit
	pipe     asidePipe
	account  asideAccount
}

// inside runs a program. The session answers the program in the meantime, and its transaction is open. loose: the program may end the
// transaction. An error of run is returned as it is, any other error ends the session.
func (pr *programs) inside(loose bool, run func(ctx context.Context, r *routine.Run) error) (failed, err error) {
	return pr.apart(func() (failed, err error) {
		r, failed := routine.New(pr, &pr.room, pr.config(loose))
		if failed != nil {
			return failed, nil
		}
		failed = run(pr.s.srv.ctx, r)
		if err := routine.EndsSession(failed); err != nil {
			return nil, err
		}
		return failed, r.End()
	})
}

// apart puts aside what the session knows of the client's messages while run has it answer others.
func (pr *programs) apart(run func() (failed, err error)) (failed, err error) {
	s := pr.s
	if err := pr.mayRun(); err != nil {
		return err, nil
	}
	if err := s.out.flushOrEnd(); err != nil {
		return nil, err
	}
	s.client.LetGo() // the messages cannot be handled again once statements have run
	before := aside{s.script.leave(), s.implicit.leave(), s.pipe.leave(), s.account.leave()}
	unnamed := s.portals.local[""]
	defer func() {
		if s.account.unnamed != nil { // a portal of the program's
			s.portals.closeUnnamed()
			if s.portals.stays.unexecuted = false; unnamed != nil {
				s.portals.putLocal(nil, unnamed) // the client's portal is still there if weft executes it
			}
		}
		s.script.comeBack(before.script)
		s.implicit.comeBack(before.implicit)
		s.pipe.comeBack(before.pipe)
		s.account.comeBack(before.account)
		s.prepared.noteBound(nil)
	}()
	stop := s.reach.beginProgram()
	defer stop()
	return run()
}

// mayRun refuses to run a program whose texts would be misread.
func (pr *programs) mayRun() error {
	if enc := pr.s.out.encoding; enc != "UTF8" || pr.s.record.oddEncoding {
		return pgerr.New(pgerr.FeatureNotSupported, "weft runs PL/pgSQL, and statements of several steps, over sharded tables only if client_encoding is UTF8").WithHint("SET client_encoding = 'UTF8'.")
	}
	if pr.s.record.oldStrings {
		return pgerr.New(pgerr.FeatureNotSupported, "weft runs PL/pgSQL, and statements of several steps, over sharded tables only if standard_conforming_strings is on").
			WithHint("SET standard_conforming_strings = on.")
	}
	return pr.s.record.learnOptions()
}

// config says how the next program is run.
func (pr *programs) config(loose bool) routine.Config {
	major, _, _ := strings.Cut(pr.s.out.reported["server_version"], ".")
	n, _ := strconv.Atoi(major)
	cfg := routine.Config{Loose: loose, MaxBytes: pr.s.record.maxGatherBytes(), CursorsByVariable: n <= 15}
	if id := pr.s.route.envID(); id != 0 && !pr.s.record.inFlux() {
		cfg.Under = fmt.Sprintf("%d %p", id, pr.s.record.settings)
	}
	return cfg
}

// Converse implements routine.Session.
func (pr *programs) Converse(messages []byte, hear func(typ byte, body []byte)) error {
	s := pr.s
	restore := s.client.Feed(messages)
	defer restore()
	sink := &dictation{s: s, hear: hear}
	_, err := s.out.hear(runsProgram, sink, func() error {
		for len(s.client.Buffered()) > 0 {
			if err := s.step(); err != nil {
				return err
			}
		}
		return s.out.flushOrEnd()
	})
	if err == nil {
		err = sink.err
	}
	return err
}

// Probe implements routine.Session.
func (pr *programs) Probe(sql string, types []uint32) (columns []program.Column, failed error) {
	oids := binary.BigEndian.AppendUint16(nil, uint16(len(types)))
	for _, t := range types {
		oids = binary.BigEndian.AppendUint32(oids, t)
	}
	_, err := pr.s.route.askBy(pr.s.lane, func(c *pool.Conn) (rows [][]string, err error) {
		const point = "weft_probe"
		inside := c.Status() == wire.TxActive
		if inside {
			if _, err := c.Exec("SAVEPOINT " + point); err != nil {
				return nil, err
			}
		}
		c.UnnamedGone()
		if columns, failed, err = describeText(c, sql, oids); err != nil {
			return nil, err
		}
		if inside {
			_, err = c.Exec("ROLLBACK TO " + point + "; RELEASE " + point)
		}
		return nil, err
	})
	if err != nil {
		if errors.Is(err, errEnd) {
			return nil, err
		}
		return nil, routine.Refuse(err)
	}
	return columns, failed
}

// describeText lets a backend analyse a text. failed is the backend's error.
func describeText(c *pool.Conn, sql string, oids []byte) (columns []program.Column, failed, err error) {
	b := wire.AppendDescribe(wire.AppendParse(nil, "", sql, oids), 'S', "")
	if _, err := c.Write(wire.AppendEmpty(b, wire.Sync)); err != nil {
		return nil, nil, c.Lost(err)
	}
	err = c.UntilReady(func(typ byte, body []byte) {
		switch typ {
		case wire.ErrorResponse:
			failed = pool.ServerError(body)
		case wire.RowDescription:
			columns = routine.Columns(body)
		}
	})
	return columns, failed, err
}

// Tell implements routine.Session.
func (pr *programs) Tell(n *pgerr.Error) { _ = pr.s.out.interject(wire.AppendError(nil, n)) }

// Stopped implements routine.Session.
func (pr *programs) Stopped(met bool) error { return pr.s.reach.programStopped(met) }

// Mark implements routine.Session.
func (pr *programs) Mark() int { return len(pr.s.tx.replay) }

// Forget implements routine.Session.
func (pr *programs) Forget(mark int) { pr.s.tx.forgetReplay(mark) }

// dictation hears the answers to the messages of a program.
type dictation struct {
	s    *Session
	b    []byte // the part of an incomplete message that has come
	hear func(typ byte, body []byte)
	err  error
}

// take takes bytes that would have been sent to the client.
func (d *dictation) take(b []byte) {
	if len(d.b) > 0 {
		d.b = append(d.b, b...)
		b = d.b
	}
	for len(b) >= wire.HeaderLen {
		n := int(binary.BigEndian.Uint32(b[1:])) + 1
		if len(b) < n {
			break
		}
		switch typ := b[0]; typ {
		case wire.NoticeResponse, wire.NotificationResponse:
			if err := d.s.out.interject(b[:n]); err != nil {
				d.err = err
			}
		default:
			d.hear(typ, b[wire.HeaderLen:n])
		}
		b = b[n:]
	}
	d.b = append(d.b[:0], b...)
}
