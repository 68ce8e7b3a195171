package proxy_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"weft/pgserver/pgtest"
	"weft/wire"
)

// patience is how long a client of these tests waits for anything. Longer
// means that it hangs.
const patience = pgtest.Patience

// client speaks the protocol by hand, so that it can say what no driver would.
type client struct {
	tb  testing.TB
	nc  net.Conn
	br  *bufio.Reader
	pid int32
	key []byte
	// params are the parameters reported so far.
	params map[string]string
	// status is that of the last ReadyForQuery.
	status byte
}

// message is one message of a server.
type message struct {
	typ  byte
	body []byte
}

// dial connects as postgres to a database and waits for the first
// ReadyForQuery.
func dial(tb testing.TB, addr, database string, options ...string) *client {
	tb.Helper()
	c, err := tryDial(addr, database, options...)
	if err != nil {
		tb.Fatalf("connect to %s: %v", addr, err)
	}
	c.tb = tb
	tb.Cleanup(func() { c.nc.Close() })
	return c
}

func tryDial(addr, database string, options ...string) (*client, error) {
	nc, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	c := &client{nc: nc, br: bufio.NewReaderSize(nc, 64<<10), params: map[string]string{}}
	if err := c.start(append([]string{"user", "postgres", "database", database}, options...)); err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

// startupPacket opens a connection with keys and values.
func startupPacket(options ...string) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 4), wire.Protocol30)
	for _, o := range options {
		b = wire.AppendCString(b, o)
	}
	b = append(b, 0)
	binary.BigEndian.PutUint32(b, uint32(len(b)))
	return b
}

func (c *client) start(options []string) error {
	if _, err := c.nc.Write(startupPacket(options...)); err != nil {
		return err
	}
	for {
		m, err := c.read()
		if err != nil {
			return err
		}
		switch m.typ {
		case wire.ErrorResponse:
			return errors.New(m.String())
		case wire.BackendKeyData:
			c.pid, c.key = int32(binary.BigEndian.Uint32(m.body)), m.body[4:]
		case wire.ReadyForQuery:
			return nil
		}
	}
}

// read returns the next message.
func (c *client) read() (message, error) {
	_ = c.nc.SetReadDeadline(time.Now().Add(patience))
	var head [wire.HeaderLen]byte
	if _, err := io.ReadFull(c.br, head[:]); err != nil {
		return message{}, err
	}
	n := int(int32(binary.BigEndian.Uint32(head[1:]))) - 4
	if n < 0 || n > 256<<20 {
		return message{}, fmt.Errorf("message %q claims %d bytes", head[0], n)
	}
	m := message{typ: head[0], body: make([]byte, n)}
	if _, err := io.ReadFull(c.br, m.body); err != nil {
		return m, fmt.Errorf("inside %q: %w", head[0], err)
	}
	switch m.typ {
	case wire.ParameterStatus:
		if name, value, ok := wire.DecodeParameterStatus(m.body); ok {
			c.params[name] = value
		}
	case wire.ReadyForQuery:
		c.status = m.body[0]
	}
	return m, nil
}

// send writes messages in one piece.
func (c *client) send(frames ...[]byte) {
	c.tb.Helper()
	var all []byte
	for _, f := range frames {
		all = append(all, f...)
	}
	_ = c.nc.SetWriteDeadline(time.Now().Add(patience))
	if _, err := c.nc.Write(all); err != nil {
		c.tb.Fatalf("write: %v", err)
	}
}

// until reads up to and including the next message of a type and returns all
// of it as one line of text per message.
func (c *client) until(typ byte) []string {
	c.tb.Helper()
	var out []string
	for {
		m, err := c.read()
		if err != nil {
			c.tb.Fatalf("waiting for %q after %q: %v", typ, out, err)
		}
		out = append(out, m.String())
		if m.typ == typ {
			return out
		}
	}
}

// query runs a simple query and returns the values of its rows: columns are
// parted by "|", rows by a line feed, NULL is "∅"; an error is its SQLSTATE and
// message.
func (c *client) query(sql string) string {
	c.tb.Helper()
	c.send(wire.AppendQuery(nil, sql))
	return values(c.untilReady())
}

// exec is query for what must not fail.
func (c *client) exec(sql string) string {
	c.tb.Helper()
	out := c.query(sql)
	if strings.HasPrefix(out, "error ") {
		c.tb.Fatalf("%s: %s", sql, out)
	}
	return out
}

func (c *client) untilReady() []message {
	c.tb.Helper()
	var out []message
	for {
		m, err := c.read()
		if err != nil {
			c.tb.Fatalf("waiting for ReadyForQuery after %v: %v", out, err)
		}
		out = append(out, m)
		if m.typ == wire.ReadyForQuery {
			return out
		}
	}
}

func values(ms []message) string {
	var rows []string
	for _, m := range ms {
		switch m.typ {
		case wire.DataRow:
			rows = append(rows, row(m.body))
		case wire.ErrorResponse:
			code, _ := wire.ErrorField(m.body, 'C')
			text, _ := wire.ErrorField(m.body, 'M')
			rows = append(rows, "error "+code+" "+text)
		}
	}
	return strings.Join(rows, "\n")
}

func row(body []byte) string {
	vals, err := wire.DecodeRow(nil, body)
	if err != nil {
		return err.Error()
	}
	var cols []string
	for _, v := range vals {
		switch {
		case v == nil:
			cols = append(cols, "∅")
		case len(v) > 100:
			cols = append(cols, fmt.Sprintf("%d bytes %08x", len(v), sum(v)))
		default:
			cols = append(cols, string(v))
		}
	}
	return strings.Join(cols, "|")
}

func sum(b []byte) uint32 {
	h := uint32(2166136261)
	for _, c := range b {
		h = (h ^ uint32(c)) * 16777619
	}
	return h
}

// String shows a message without what differs between two servers that do the
// same: object and process IDs.
func (m message) String() string {
	switch m.typ {
	case wire.DataRow:
		return "DataRow " + row(m.body)
	case wire.ErrorResponse, wire.NoticeResponse:
		var f []string
		for b := m.body; len(b) > 1; {
			v, rest, ok := wire.CString(b[1:])
			if !ok {
				break
			}
			f = append(f, string(b[0])+"="+string(v))
			b = rest
		}
		kind := "Error "
		if m.typ == wire.NoticeResponse {
			kind = "Notice "
		}
		return kind + strings.Join(f, " ")
	case wire.RowDescription:
		return "RowDescription " + columns(m.body)
	case wire.NotificationResponse:
		_, channel, payload, _ := wire.DecodeNotification(m.body)
		return "Notification " + channel + " " + payload
	case wire.BackendKeyData:
		return "BackendKeyData"
	case wire.CopyData:
		if len(m.body) > 100 {
			return fmt.Sprintf("CopyData %d bytes %08x", len(m.body), sum(m.body))
		}
	}
	return string(m.typ) + " " + strconv.Quote(string(m.body))
}

func columns(b []byte) string {
	if len(b) < 2 {
		return "?"
	}
	n := binary.BigEndian.Uint16(b)
	b = b[2:]
	var cols []string
	for range n {
		name, rest, ok := wire.CString(b)
		if !ok || len(rest) < 18 {
			return "?"
		}
		cols = append(cols, fmt.Sprintf("%s:%d:%d:%d", name,
			binary.BigEndian.Uint32(rest[6:]), int16(binary.BigEndian.Uint16(rest[10:])), binary.BigEndian.Uint16(rest[16:])))
		b = rest[18:]
	}
	return strings.Join(cols, " ")
}

// The messages of the extended protocol.

func parse(name, sql string, oids ...uint32) []byte {
	tail := binary.BigEndian.AppendUint16(nil, uint16(len(oids)))
	for _, o := range oids {
		tail = binary.BigEndian.AppendUint32(tail, o)
	}
	return wire.AppendParse(nil, name, sql, tail)
}

func bind(portal, statement string, args ...string) []byte {
	b, at := wire.Begin(nil, wire.Bind)
	b = wire.AppendCString(wire.AppendCString(b, portal), statement)
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(args)))
	for _, a := range args {
		b = binary.BigEndian.AppendUint32(b, uint32(len(a)))
		b = append(b, a...)
	}
	return wire.End(binary.BigEndian.AppendUint16(b, 0), at)
}

func execute(portal string, rows uint32) []byte {
	b, at := wire.Begin(nil, wire.Execute)
	return wire.End(binary.BigEndian.AppendUint32(wire.AppendCString(b, portal), rows), at)
}

func describe(kind byte, name string) []byte { return wire.AppendDescribe(nil, kind, name) }
func closing(kind byte, name string) []byte  { return wire.AppendClose(nil, kind, name) }
func query(sql string) []byte                { return wire.AppendQuery(nil, sql) }
func synced() []byte                         { return wire.AppendEmpty(nil, wire.Sync) }
func flush() []byte                          { return wire.AppendEmpty(nil, wire.Flush) }
func terminate() []byte                      { return wire.AppendEmpty(nil, wire.Terminate) }
func copyData(s string) []byte               { return wire.AppendFrame(nil, wire.CopyData, []byte(s)) }
func copyDone() []byte                       { return wire.AppendEmpty(nil, wire.CopyDone) }
func copyFail(s string) []byte               { return wire.AppendFrame(nil, wire.CopyFail, append([]byte(s), 0)) }

// run sends one round of the extended protocol for a text and returns the
// values of its rows.
func (c *client) run(sql string, args ...string) string {
	c.tb.Helper()
	c.send(parse("", sql), bind("", "", args...), execute("", 0), synced())
	return values(c.untilReady())
}
