package proxy

import (
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weft/copydata"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/quote"
	"weft/wire"
)

// inlet is the COPY on one shard.
type inlet struct {
	*leg
	x *load
	// buf is what is to be sent. from is where the CopyData message begins in buf to which rows
	// are added.
	buf  []byte
	from int
	own  []byte // a row with this shard's OIDs
	// headed: the header of binary rows has been added; filled: a row has been added.
	headed, filled bool
	// writes: it has been noted that the shard is written on.
	writes bool

	// mu guards lines, which the listener reads to correct the line number in a notice.
	mu    sync.Mutex
	lines *copydata.Lines

	// ended is closed when the listener has ended. Its result is in leg then; failed says
	// earlier that there is an error.
	ended  chan struct{}
	failed atomic.Bool
	// stopped: weft told the shard to stop, so the shard's error is weft's doing.
	stopped bool
}

const (
	// inletFrame is how many bytes of rows are sent at once.
	inletFrame = 64 << 10
	// inletRow is the size from which on a row is sent by itself, not copied into a frame with
	// others.
	inletRow = 32 << 10
)

// join makes an inlet to a shard, whose backend takes part in the block.
func (x *load) join(shard int) (*inlet, error) {
	l, err := x.s.legs.legFor(shard, false)
	if l == nil {
		return nil, err
	}
	in := &inlet{leg: l, x: x, lines: copydata.NewLines(lineMemory / len(x.inlets)), ended: make(chan struct{})}
	legs := []*leg{l}
	for _, o := range x.open {
		legs = append(legs, o.leg)
	}
	x.s.reach.track(legs)
	x.s.held.touch(l, x.facts)
	if err != nil {
		_ = x.s.legs.endLegs([]*leg{l}, true)
		return nil, err
	}
	x.inlets[shard] = in
	x.open = append(x.open, in)
	return in, nil
}

// start begins to listen to the shard, which asks for data now or soon.
func (in *inlet) start() {
	// The session may end before the shard has answered: the backend must not count as idle.
	in.conn.Began()
	in.buf = append(in.buf[:0], in.leg.out...)
	in.leg.out = nil
	in.begin()
	in.leg.s.client.Task().Leave()
	go in.listen()
}

// begin begins a CopyData message.
func (in *inlet) begin() {
	in.buf, in.from = wire.Begin(in.buf, wire.CopyData)
	in.putHead()
}

// putHead adds the header of binary rows, once the header is known.
func (in *inlet) putHead() {
	if !in.headed && in.x.head != nil {
		in.headed = true
		in.buf = append(in.buf, in.x.head...)
	}
}

// listen reads the shard's messages until its COPY is over.
func (in *inlet) listen() {
	defer close(in.ended)
	c := in.conn
	defer func() {
		if r := recover(); r != nil {
			in.fail(c.Lost(pgerr.FromPanic(r, debug.Stack())))
		}
	}()
	for {
		typ, body, err := c.Next(wire.LargeLimit)
		if err != nil {
			in.fail(c.Lost(err))
			return
		}
		switch typ {
		case wire.ErrorResponse:
			e := pool.ServerError(body)
			if e.IsFatal() {
				in.fail(c.Lost(e))
				return
			}
			in.fail(e)
		case wire.NoticeResponse:
			in.tell(body)
		case wire.ParameterStatus:
			c.NoteParameter(body)
		case wire.CommandComplete:
			in.changed = rowsOf(body)
		case wire.ReadyForQuery:
			c.Ready(body[0])
			if in.begins && in.err != nil {
				// Everything sent behind the BEGIN ran outside of any block.
				in.leg.fail(c.Lost(in.err))
				c.Consume(wire.HeaderLen + len(body))
				return
			}
			if !in.begins {
				c.Consume(wire.HeaderLen + len(body))
				in.over = true
				return
			}
			in.begins = false
		}
		c.Consume(wire.HeaderLen + len(body))
	}
}

// fail notes an error and makes the session stop reading from the client.
func (in *inlet) fail(err error) {
	if in.err == nil {
		in.err = err
	}
	in.failed.Store(true)
	if lost(err) {
		in.leg.fail(err)
	}
	in.x.stop.Store(true)
	in.x.s.wake()
}

// tell passes a notice on to the client. A client that does not read makes the shard wait.
func (in *inlet) tell(body []byte) {
	body = wire.MapError(body, func(code byte, v string) string {
		if code == 'W' {
			return in.clientsLine(v)
		}
		return v
	})
	in.x.telling.Lock()
	defer in.x.telling.Unlock()
	s := in.x.s
	s.out.Grow()
	s.out.B = wire.AppendFrame(s.out.B, wire.NoticeResponse, body)
	_ = s.out.flushClient() // the session hears from its next read that the client is gone
}

// add adds a row, behind the fields that weft supplies.
func (in *inlet) add(supplied, row []byte, r copydata.Row) error {
	if in.x.plan.Types != nil && in.leg.translate != nil {
		row = in.translated(row, len(supplied) > 0)
	}
	if len(in.buf)-in.from+len(supplied)+len(row) > inletFrame {
		if err := in.flush(); err != nil {
			return err
		}
	}
	lines := r.Lines
	if !in.filled {
		lines = r.First
		in.filled = true
	}
	in.mu.Lock()
	in.lines.Add(lines, in.x.cut.Line)
	in.mu.Unlock()
	in.buf = append(in.buf, supplied...)
	if len(row) < inletRow {
		in.buf = append(in.buf, row...)
		return nil
	}
	wire.EndLong(in.buf, in.from, len(row))
	if err := in.write(in.buf); err != nil {
		return err
	}
	in.buf = in.buf[:0]
	in.begin()
	return in.write(row)
}

// translated returns a copy of a binary row with the OIDs of this shard. counted: its count of
// fields has been taken off. A row that cannot be translated is returned unchanged: the shard
// will say what is wrong.
func (in *inlet) translated(row []byte, counted bool) []byte {
	in.own = append(in.own[:0], row...)
	fields := in.own
	if !counted {
		fields = fields[min(2, len(fields)):]
	}
	if in.leg.translate.Fields(fields, in.x.plan.Types) != nil {
		return row
	}
	if row = in.own; cap(row) > inletFrame {
		in.own = nil // a long row is not kept
	}
	return row
}

// flush sends the rows that have been added.
func (in *inlet) flush() error {
	if len(in.buf) == in.from+wire.HeaderLen {
		in.buf = in.buf[:in.from]
	} else {
		in.buf = wire.End(in.buf, in.from)
	}
	var err error
	if len(in.buf) > 0 {
		err = in.write(in.buf)
	}
	in.buf = in.buf[:0]
	in.begin()
	return err
}

func (in *inlet) write(b []byte) error {
	if _, err := in.conn.Write(b); err != nil {
		return in.conn.Lost(err)
	}
	return nil
}

// close ends the data. With done the data are complete; else the shard is told to give up, with
// the reason in fail. The rows that have been added are sent all the same: one of them may be
// wrong, and that error comes first.
func (in *inlet) close(done bool, fail string) error {
	last := wire.AppendEmpty(nil, wire.CopyDone)
	switch {
	case !done:
		in.stopped = true
		in.buf = in.x.cut.Settle(in.buf)
		last = wire.AppendFrame(nil, wire.CopyFail, wire.AppendCString(nil, fail))
	case in.headed && !in.x.spoiled:
		in.buf = copydata.AppendTail(in.buf)
	}
	if err := in.flush(); err != nil {
		return err
	}
	return in.write(last)
}

// clientsLine makes the context of an error refer to the line of the client's data.
func (in *inlet) clientsLine(where string) string {
	start, digits, end := copyLine(where, in.x.plan.Relation)
	if start < 0 {
		return where
	}
	n, err := strconv.ParseInt(where[digits:end], 10, 64)
	if err != nil {
		return where
	}
	in.mu.Lock()
	line, ok := in.lines.Client(n)
	in.mu.Unlock()
	if !ok {
		return where[:start] + "COPY " + in.x.plan.Relation // the line was too long ago to be known
	}
	return where[:digits] + strconv.FormatInt(line, 10) + in.x.withoutSupplied(where[end:])
}

// copyLine finds the line number in a context such as COPY t, line 17, column a: "x". start is
// -1 if there is none. The word for line may be in another language.
func copyLine(where, relation string) (start, digits, end int) {
	prefix := "COPY " + relation + ", "
	for at := 0; at < len(where); {
		if strings.HasPrefix(where[at:], prefix) {
			i := at + len(prefix)
			for i < len(where) && (where[i] < '0' || where[i] > '9') && where[i] != '\n' && where[i] != '"' {
				i++
			}
			j := i
			for j < len(where) && where[j] >= '0' && where[j] <= '9' {
				j++
			}
			if j > i {
				return at, i, j
			}
		}
		next := strings.IndexByte(where[at:], '\n')
		if next < 0 {
			break
		}
		at += next + 1
	}
	return -1, 0, 0
}

// withoutSupplied takes the fields that weft has added off the text of a line such as
// : "7	the rest".
func (x *load) withoutSupplied(rest string) string {
	if len(x.plan.Supply) == 0 || !strings.HasPrefix(rest, `: "`) {
		return rest
	}
	line := []byte(rest[3:])
	at := x.plan.Format.SkipFields(line, len(x.plan.Supply))
	if at == len(line) {
		return `: "..."`
	}
	return `: "` + string(line[at:])
}

// lost reports whether an error says that a backend was lost.
func lost(err error) bool {
	l := leg{err: err}
	return l.lost()
}

func quoteTable(t *plan.Table) string {
	return quote.Ident(t.Schema) + "." + quote.Ident(t.Name)
}

// giveUp ends the dialogue with the shard at once: reads and writes time out.
func (in *inlet) giveUp() { _ = in.conn.Conn().SetDeadline(time.Unix(1, 0)) }

// spoilt is the error for a shard that has accepted data that it should have refused.
func spoilt() *pgerr.Error {
	return pgerr.New(pgerr.InternalError, "a shard has taken COPY data that weft could not cut into rows")
}
