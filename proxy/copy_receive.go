package proxy

import (
	"errors"
	"fmt"
	"os"
	"time"

	"weft/copydata"
	"weft/pgerr"
	"weft/wire"
)

// errGivenUp says that the client has ended its data with CopyFail, or with a message that does
// not belong to a COPY.
var errGivenUp = errors.New("the client gave up")

// receive reads the client's data to their end, and sends the rows to the shards.
func (x *load) receive() error {
	s := x.s
	for {
		b := s.client.Buffered()
		switch {
		case x.stop.Load():
			return x.skipMessage()
		case x.rem > 0 && len(b) > 0:
			n := min(x.rem, len(b))
			if !x.ended {
				x.keep(b[:n])
			}
			s.client.Consume(n)
			x.rem -= n
			continue
		case x.rem == 0 && len(b) >= wire.HeaderLen:
			done, err := x.message()
			if done || err != nil {
				return err
			}
			continue
		}
		// All buffered bytes have been taken. Cut them before reading more.
		if err := x.take(false); err != nil {
			return x.refuse(err)
		}
		if err := x.fill(); err != nil {
			return err
		}
	}
}

// keep adds to the data that are not cut yet. A long row is moved as seldom as possible: each
// move leaves garbage of its size.
func (x *load) keep(b []byte) {
	if need := len(x.data) + len(b); need > cap(x.data) && need > 1<<20 {
		x.data = append(make([]byte, 0, max(need, 2*cap(x.data))), x.data...)
	}
	x.data = append(x.data, b...)
}

// fill waits for more of the client's bytes.
func (x *load) fill() error {
	s := x.s
	err := s.client.Fill()
	if err == nil {
		return nil
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return errEnd
	}
	_ = s.client.Conn().SetReadDeadline(time.Time{})
	if s.reach.killed.Load() != nil {
		return errEnd
	}
	return nil
}

// message handles the header of a message. done: it was the last message of the COPY.
func (x *load) message() (done bool, err error) {
	s := x.s
	typ, length, _ := s.client.Header()
	limit := wire.FrontendLimit(typ)
	if limit == 0 || length < 4 || length > limit || typ == wire.Terminate {
		return false, errEnd
	}
	switch typ {
	case wire.CopyData:
		s.client.Consume(wire.HeaderLen)
		x.rem = length - 4
	case wire.Flush, wire.Sync, wire.CopyDone, wire.CopyFail:
		if s.srv.keeper.isHalted() {
			s.awaitHalt()
		}
		if typ == wire.Sync {
			if err := x.take(false); err != nil {
				return true, err
			}
			x.syncs = append(x.syncs, x.cut.Line)
		}
		if length > wire.LargeLimit/2 {
			return false, errEnd
		}
		for len(s.client.Buffered()) < length+1 {
			if err := x.fill(); err != nil {
				return false, err
			}
		}
		why, _, _ := wire.CString(s.client.Buffered()[wire.HeaderLen : length+1])
		reason := string(why)
		s.client.Consume(length + 1)
		switch typ {
		case wire.CopyDone:
			return true, x.take(true)
		case wire.CopyFail:
			return true, x.giveUp(reason)
		}
	default:
		e := pgerr.New(pgerr.ProtocolViolation, "unexpected message type 0x%02X during COPY from stdin", typ)
		err := x.giveUp(e.Message)
		if errors.Is(err, errGivenUp) {
			e.Where = fmt.Sprintf("COPY %s, line %d", x.plan.Relation, x.cut.Line+1)
			x.strange = e
		}
		return true, err
	}
	return false, nil
}

// giveUp makes all shards give up, after they have got the rows so far: one of them may be
// wrong, and its error comes first.
func (x *load) giveUp(reason string) error {
	if err := x.take(false); err != nil {
		return err
	}
	if err := x.spoil(x.data, x.cut.Line+1); err != nil { // the incomplete row may be wrong, too
		return err
	}
	x.closeAll(false, reason)
	return errGivenUp
}

// skipMessage reads the rest of a message and drops it.
func (x *load) skipMessage() error {
	n := x.rem
	x.rem = 0
	return x.s.pipe.skip(n)
}

// refuse ends the data because weft has found an error.
func (x *load) refuse(err error) error {
	if errors.Is(err, errEnd) {
		return err
	}
	if skipped := x.skipMessage(); skipped != nil {
		return skipped
	}
	return err
}

// take cuts the data into rows and sends them to the shards. With eof no more data will come.
func (x *load) take(eof bool) error {
	x.soak.begin()
	defer x.taken()
	at := 0
	for !x.ended && !x.spoiled {
		state, err := x.cut.Next(x.data[at:], eof)
		if err != nil {
			err = x.wrong(err)
			if sent := x.rows.send(x.data); sent != nil {
				return sent // an earlier row is wrong, too
			}
			if x.plan.Format.Kind != copydata.Binary { // the home shard may find an earlier error in this row
				if sent := x.spoil(x.data[at:at+x.cut.Seen()], x.cut.Line); sent != nil {
					return sent
				}
			}
			return err
		}
		if state == copydata.More {
			break
		}
		switch state {
		case copydata.End:
			x.ended = true
			if err := x.headless(); err != nil {
				return err
			}
			continue
		case copydata.Broken:
			x.spoiled = true
			continue
		case copydata.Head:
			if x.head == nil { // otherwise it is the trailer
				x.head = append([]byte{}, x.data[at:at+x.cut.Row.Size]...)
				x.open[0].putHead()
			}
		case copydata.Found:
			if x.plan.Format.Header == copydata.NoHeader || x.headed {
				x.rows.add(at, x.cut.Row)
				break
			}
			x.headed = true
			if err := x.header(x.data[at : at+x.cut.Row.Size]); err != nil {
				return err
			}
		}
		at += x.cut.Row.Size
	}
	if err := x.rows.send(x.data); err != nil {
		return err
	}
	if x.spoiled {
		return x.spoil(x.data[at:], x.cut.Line+1)
	}
	if x.ended {
		at = len(x.data)
	}
	if at > 0 {
		x.data = x.data[:copy(x.data, x.data[at:])]
	}
	if len(x.data) > maxRow {
		x.cut.Line++
		return x.at(pgerr.New(pgerr.ProgramLimitExceeded, "a row of COPY data is longer than %d bytes", maxRow))
	}
	if cap(x.data) > 1<<20 && len(x.data) < 64<<10 {
		x.data = append(make([]byte, 0, 128<<10), x.data...) // a long row has passed: free its memory
	}
	return nil
}

// taken notes that weft waits for the client again.
func (x *load) taken() {
	x.soak.pause()
	x.tellHeat(false)
}

// spoil sends data that cannot be cut, and that are in the given line, to the home shard, which
// will say what is wrong.
func (x *load) spoil(rest []byte, line int64) error {
	if len(rest) == 0 || x.ended {
		return nil
	}
	in := x.open[0]
	if err := in.flush(); err != nil {
		return err
	}
	if p := x.rows; len(p.supply) > 0 && (p.skip == 0 || in.headed && len(rest) >= p.skip) {
		defer func(was int64) { x.cut.Line = was }(x.cut.Line)
		x.cut.Line = line
		if p.skip > 0 && copydata.Count(rest) != len(x.plan.Columns) {
			return x.at(pgerr.New(pgerr.BadCopyFileFormat, "row field count is %d, expected %d", copydata.Count(rest), len(x.plan.Columns)))
		}
		for _, s := range p.supply {
			if err := s.draw(x.s, 1); err != nil {
				return err
			}
			s.next()
		}
		if err := p.prepend(0); err != nil {
			return err
		}
		in.buf = append(in.buf, p.prefix...)
		rest = rest[p.skip:]
	}
	if in.headed || x.plan.Format.Kind != copydata.Binary {
		in.mu.Lock()
		in.lines.Add(1, line)
		in.mu.Unlock()
	}
	in.buf = append(in.buf, rest...)
	x.data = x.data[:0]
	return in.flush()
}

// headless checks a header that is missing: PostgreSQL treats it as an empty line.
func (x *load) headless() error {
	if x.headed || x.plan.Format.Header == copydata.NoHeader {
		return nil
	}
	x.cut.Line++
	x.cut.Row = copydata.Row{}
	return x.header(nil)
}

// header checks the line with the names of the columns.
func (x *load) header(row []byte) error {
	if x.plan.Format.Header != copydata.MatchHeader {
		return nil
	}
	fields, err := x.cut.All(row)
	if err != nil {
		return x.wrong(err)
	}
	bad := func(format string, args ...any) error {
		return x.in(pgerr.New(pgerr.BadCopyFileFormat, format, args...), row)
	}
	if len(fields) != len(x.plan.Columns) {
		return bad("wrong number of fields in header line: got %d, expected %d", len(fields), len(x.plan.Columns))
	}
	for i, want := range x.plan.Columns {
		switch {
		case fields[i] == nil:
			return bad("column name mismatch in header line field %d: got null value (\"%s\"), expected \"%s\"", i+1, x.plan.Format.Null, want)
		case string(fields[i]) != want:
			return bad("column name mismatch in header line field %d: got \"%s\", expected \"%s\"", i+1, fields[i], want)
		}
	}
	return nil
}

// wrong returns an error of the data as PostgreSQL words it.
func (x *load) wrong(err error) error {
	e := (*copydata.Error)(nil)
	if !errors.As(err, &e) {
		return err
	}
	out := pgerr.New(pgerr.BadCopyFileFormat, "%s", e.Message)
	out.Hint = e.Hint
	return x.at(out)
}
