package proxy

import (
	"encoding/binary"
	"strings"

	"weft/parser"
	"weft/pgerr"
	"weft/quote"
	"weft/wire"
)

// A temporary function that tries an INSERT (see parser.Attempt) is not created: weft runs the
// INSERT where the row belongs, between savepoints, and then the SELECT over its result. The
// client gets the answers that the function would have given.

// attemptName is the name of the savepoint.
const attemptName = "weft_attempt"

// attemptQuery runs the text of an Attempt, which has n bytes.
func (ga *gatherer) attemptQuery(a *parser.Attempt, n int) error {
	ga.s.client.Consume(wire.HeaderLen + n)
	return ga.s.tx.inOwnBlock(func() error {
		ga.s.copy.tellTag("CREATE FUNCTION")
		values, err := ga.attempt(a)
		if err != nil || values == nil {
			return err
		}
		m := ga.s.out.mark()
		if err := ga.s.tx.runPart([]byte(a.Answer(values))); err != nil || ga.s.out.failedSince(m) {
			return err
		}
		ga.s.copy.tellTag("DROP FUNCTION")
		return nil
	})
}

// attempt runs the INSERT and returns the values of the function's parameters afterwards, as
// literals. If the INSERT fails for a reason that the function does not catch, the client has
// been told and there are no values.
func (ga *gatherer) attempt(a *parser.Attempt) (values map[string]string, err error) {
	if len(a.Caught) == 0 {
		heard, err := ga.overhear(a.Insert)
		if err == nil && !heard.failed {
			return ga.inserted(a, heard)
		}
		ga.s.out.tellFault(heard)
		return nil, err
	}
	before := len(ga.s.tx.replay)
	heard, err := ga.overhear("SAVEPOINT " + attemptName)
	if err == nil && !heard.failed {
		heard, err = ga.overhear(a.Insert)
		if err == nil && heard.failed && a.Catches(heard.field('C')) {
			values = map[string]string{}
			for name, field := range a.Told {
				values[name] = quote.Literal(heard.field(field))
			}
			heard, err = ga.overhear("ROLLBACK TO " + attemptName)
		}
	}
	if err != nil || heard.failed {
		ga.s.out.tellFault(heard)
		return nil, err
	}
	if values == nil {
		if values, err = ga.inserted(a, heard); err != nil || values == nil {
			return nil, err
		}
	}
	if heard, err = ga.overhear("RELEASE " + attemptName); err != nil || heard.failed {
		ga.s.out.tellFault(heard)
		return nil, err
	}
	ga.s.tx.forgetReplay(before) // a shard that joins later has no savepoint to go back to
	return values, nil
}

// inserted returns the function's parameters after the INSERT has succeeded; nil if the client has
// been told that they cannot be had.
func (ga *gatherer) inserted(a *parser.Attempt, h *overheard) (map[string]string, error) {
	values := map[string]string{}
	switch {
	case h.cut:
		return nil, ga.s.lost.refuseRead(pgerr.GatherTooLarge())
	case h.rows > 1:
		return nil, ga.s.lost.refuseRead(pgerr.New("P0003", "query returned more than one row").WithHint("Make sure the query returns a single row, or use LIMIT 1."))
	case h.rows == 0:
	case a.Whole != "":
		values[a.Whole] = quote.Literal(composite(h.row))
	case len(h.row) != len(a.Into) && len(a.Into) > 0:
		return nil, ga.s.lost.refuseRead(pgerr.New(pgerr.FeatureNotSupported, "RETURNING of %d columns INTO %d variables is not supported here", len(h.row), len(a.Into)).
			WithHint("Name as many variables as columns, or one of a row type."))
	default:
		for i, name := range a.Into {
			if h.row[i] != nil {
				values[name] = quote.Literal(string(h.row[i]))
			}
		}
	}
	return values, nil
}

// composite writes a row as PostgreSQL reads it.
func composite(row [][]byte) string {
	var b strings.Builder
	b.WriteByte('(')
	for i, v := range row {
		if i > 0 {
			b.WriteByte(',')
		}
		if v == nil {
			continue
		}
		b.WriteByte('"')
		for _, c := range v {
			if c == '"' || c == '\\' {
				b.WriteByte(c)
			}
			b.WriteByte(c)
		}
		b.WriteByte('"')
	}
	b.WriteByte(')')
	return b.String()
}

// overheard is the answer to a statement that weft runs and the client has not sent. Messages
// such as notices still go to the client.
type overheard struct {
	b    []byte // the part of an incomplete message that has come
	skip int    // bytes of an oversized message still to be dropped
	max  int64  // the most bytes that a message may have, 0 for any number
	cut  bool   // a message had more bytes than max

	failed bool // the statement has failed, and the client has not been told

	rows  int
	row   [][]byte // the first row
	fault []byte   // the body of an error message
	pass  []byte   // messages for the client
}

// overhear runs a statement and listens to its answer.
func (ga *gatherer) overhear(sql string) (*overheard, error) {
	if err := ga.s.out.flushOrEnd(); err != nil {
		return nil, err
	}
	h := &overheard{max: ga.s.record.maxGatherBytes()}
	var err error
	h.failed, err = ga.s.out.divert(h, func() error {
		err := ga.s.tx.runPart([]byte(sql))
		if flushed := ga.s.out.flushOrEnd(); err == nil {
			err = flushed
		}
		return err
	})
	ga.s.out.Grow()
	ga.s.out.B = append(ga.s.out.B, h.pass...)
	return h, err
}

// tellFault tells the client of an overheard error.
func (o *answers) tellFault(h *overheard) {
	o.fail()
	if h != nil && h.fault != nil {
		o.Grow()
		o.B = wire.AppendFrame(o.B, wire.ErrorResponse, h.fault)
	}
}

// field returns a field of the overheard error.
func (h *overheard) field(code byte) string {
	v, _ := wire.ErrorField(h.fault, code)
	return v
}

// take takes bytes that would have been sent to the client.
func (h *overheard) take(b []byte) {
	if h.skip > 0 {
		n := min(h.skip, len(b))
		h.skip -= n
		b = b[n:]
	}
	h.b = append(h.b, b...)
	for len(h.b) >= wire.HeaderLen {
		l := int(binary.BigEndian.Uint32(h.b[1:])) + 1
		if h.max > 0 && int64(l) > h.max {
			h.cut = true
			n := min(l, len(h.b))
			h.skip, h.b = l-n, h.b[n:]
			continue
		}
		if len(h.b) < l {
			return
		}
		h.message(h.b[0], h.b[:l])
		h.b = h.b[l:]
	}
}

// message handles one whole message.
func (h *overheard) message(typ byte, frame []byte) {
	body := frame[wire.HeaderLen:]
	switch typ {
	case wire.RowDescription, wire.CommandComplete, wire.EmptyQueryResponse, wire.ReadyForQuery:
	case wire.DataRow:
		if h.rows++; h.rows == 1 {
			h.row = fields(body)
		}
	case wire.ErrorResponse:
		h.fault = append([]byte(nil), body...)
	default:
		h.pass = append(h.pass, frame...)
	}
}

// fields returns copies of the values of a DataRow.
func fields(body []byte) [][]byte {
	if len(body) < 2 {
		return nil
	}
	row := make([][]byte, binary.BigEndian.Uint16(body))
	body = append([]byte(nil), body[2:]...)
	for i := range row {
		if len(body) < 4 {
			return row
		}
		n := int(int32(binary.BigEndian.Uint32(body)))
		body = body[4:]
		if n < 0 || n > len(body) {
			continue
		}
		row[i], body = body[:n:n], body[n:]
	}
	return row
}
