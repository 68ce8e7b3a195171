package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"weft/pgerr"
	"weft/wire"
)

// copyChunk is how much CopyIn reads and sends at once.
const copyChunk = 64 << 10

// CopyOut runs a COPY … TO STDOUT outside any client's dialogue and writes its data to w,
// frame by frame; a frame is at most one row. As with Exec, an ErrorResponse leaves the backend
// usable. An error of w does not: the backend is still sending the rest of the data.
func (c *Conn) CopyOut(sql string, w io.Writer) error {
	if _, err := c.Write(wire.AppendQuery(nil, sql)); err != nil {
		return c.Lost(err)
	}
	c.UnnamedGone()
	var failed error
	for {
		typ, body, err := c.Next(wire.LargeLimit)
		if err != nil {
			return c.Lost(err)
		}
		switch typ {
		case wire.CopyData:
			if _, err := w.Write(body); err != nil {
				return fmt.Errorf("%w: %w", ErrLost, err)
			}
		case wire.CopyInResponse:
			return fmt.Errorf("%w: COPY FROM given to CopyOut", ErrLost)
		case wire.ErrorResponse:
			failed = ServerError(body)
		case wire.ParameterStatus:
			c.NoteParameter(body)
		case wire.ReadyForQuery:
			if len(body) == 1 {
				c.Ready(body[0])
			}
		}
		c.Consume(wire.HeaderLen + len(body))
		if typ == wire.ReadyForQuery {
			return failed
		}
	}
}

// CopyIn runs a COPY … FROM STDIN outside any client's dialogue with the data of r, and returns
// how many rows the shard took. When r fails, the COPY fails with the error of r. As with Exec,
// the backend is usable after a failure of r or an ErrorResponse.
func (c *Conn) CopyIn(sql string, r io.Reader) (int64, error) {
	if _, err := c.Write(wire.AppendQuery(nil, sql)); err != nil {
		return 0, c.Lost(err)
	}
	c.UnnamedGone()
	if err := c.awaitCopyIn(); err != nil {
		return 0, err
	}
	// A goroutine reads while this one writes: an error from the shard is noticed at once, and
	// the shard's notices cannot fill the connection while the shard waits for data.
	var rows int64
	var failed, lost error
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer pgerr.Recovered(&lost)
		lost = c.UntilReady(func(typ byte, body []byte) {
			switch typ {
			case wire.CommandComplete:
				_, _ = fmt.Sscanf(string(body), "COPY %d", &rows)
			case wire.ErrorResponse:
				failed = ServerError(body)
			}
		})
	}()
	sent := c.sendCopy(r, over)
	if sent != nil && errors.Is(sent, ErrLost) {
		_ = c.Conn().SetReadDeadline(time.Unix(1, 0)) // else the reading goroutine waits for ever
	}
	<-over
	switch {
	case lost != nil:
		return 0, lost
	case sent != nil:
		return 0, sent
	}
	return rows, failed
}

// awaitCopyIn reads up to CopyInResponse, or up to ReadyForQuery if the statement fails or is
// not a COPY FROM STDIN.
func (c *Conn) awaitCopyIn() error {
	var failed error
	for {
		typ, body, err := c.Next(wire.LargeLimit)
		if err != nil {
			return c.Lost(err)
		}
		switch typ {
		case wire.ErrorResponse:
			failed = ServerError(body)
		case wire.ParameterStatus:
			c.NoteParameter(body)
		case wire.CopyOutResponse:
			return fmt.Errorf("%w: COPY TO given to CopyIn", ErrLost)
		case wire.ReadyForQuery:
			if len(body) == 1 {
				c.Ready(body[0])
			}
			if failed == nil {
				failed = pgerr.New(pgerr.InternalError, "not a COPY FROM STDIN")
			}
		}
		c.Consume(wire.HeaderLen + len(body))
		switch typ {
		case wire.CopyInResponse:
			return nil
		case wire.ReadyForQuery:
			return failed
		}
	}
}

// sendCopy sends the data of r until r ends or the shard has ended the COPY.
func (c *Conn) sendCopy(r io.Reader, over <-chan struct{}) error {
	frame := make([]byte, wire.HeaderLen+copyChunk)
	for {
		n, err := r.Read(frame[wire.HeaderLen:])
		if n > 0 {
			out, start := wire.Begin(frame[:0], wire.CopyData)
			out = wire.End(append(out, frame[wire.HeaderLen:wire.HeaderLen+n]...), start)
			if _, werr := c.Write(out); werr != nil {
				return c.Lost(werr)
			}
		}
		if err == nil {
			select {
			case <-over:
				return nil // the answer that CopyIn has read says why
			default:
				continue
			}
		}
		last := wire.AppendEmpty(nil, wire.CopyDone)
		if err == io.EOF {
			err = nil
		} else {
			last = wire.AppendFrame(nil, wire.CopyFail, wire.AppendCString(nil, "no more data: "+err.Error()))
		}
		if _, werr := c.Write(last); werr != nil {
			return c.Lost(werr)
		}
		return err
	}
}

// Interrupt ends, from another goroutine, a running Exec, CopyIn or CopyOut: it asks the shard
// to cancel, and if the statement has not ended within interruptGrace the connection is lost.
func (c *Conn) Interrupt() {
	c.BeginCancel()
	_ = c.Cancel(context.Background())
	_ = c.Conn().SetDeadline(time.Now().Add(interruptGrace))
}

// interruptGrace is how long a cancelled statement may take to end.
const interruptGrace = 5 * time.Second
