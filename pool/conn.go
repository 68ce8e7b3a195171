package pool

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weft/pgerr"
	"weft/wire"
)

// Conn is one backend: a logged-in connection to a shard. Between Acquire and
// Release it belongs to one session, which may read and write its fields.
type Conn struct {
	*wire.Stream
	// PID is the backend's process ID on the shard.
	PID int32
	// Params are the parameters the backend reports, as last reported.
	Params map[string]string
	// Untold are the parameters that the backend has reported and no client has been told of.
	Untold []string
	// Settings are the settings applied on top of the login's defaults.
	Settings *Settings
	// Placeholders are the custom parameters ever set on the backend. PostgreSQL can empty a
	// custom parameter but not unset it, so only sessions that set the same ones may use the
	// backend. A temporary schema cannot be removed either, and is named among the parameters.
	Placeholders map[string]bool
	// Status is the transaction state of the last ReadyForQuery.
	Status byte
	// Touched says that a text has run on the backend that may have changed its session, and
	// that weft has not checked for changes since.
	Touched bool
	// Opening says that a BEGIN and a statement behind it have been sent, and the BEGIN has not
	// been answered. A cancel request that hit the BEGIN would let the statement run outside of
	// any block, and commit: so no cancel request is sent meanwhile.
	Opening atomic.Bool
	// UnnamedBy tags the statement the backend holds under the empty name, by a number that the
	// statement's session chose; 0 if no session relies on that statement.
	UnnamedBy uint64
	// StalePortal says that a simple query has failed and no Bind has replaced the unnamed
	// portal since. In a failed transaction the portal outlives the memory of its statements:
	// if the portal is executed, the whole PostgreSQL server may crash.
	StalePortal bool
	// SoleSession is the only session that has used the backend since its sequence values were
	// discarded: 0 if no session has, -1 if several have.
	SoleSession int32
	// Server is what weft.server() returned on the backend; "" if it has not been called.
	Server string
	// Shown says that the backend holds rows of weft's own tables, which only its present
	// session may see: Release closes the backend.
	Shown bool
	// Lent is the count of drains, see Pool.Drains, when the backend was lent.
	Lent uint64
	// Listening says that LISTEN was run on the backend for its present session.
	Listening bool
	// Timeouts are the statement_timeout and lock_timeout of the backend's login: see
	// parser.TimeoutSettings.
	Timeouts [2]string

	// borrower is the session that the backend is lent to, 0 for none; givenUp says that GiveUp
	// has closed the backend under that session. Other goroutines may read both.
	borrower atomic.Int32
	givenUp  atomic.Bool

	lane      *Lane
	stain     stain
	secret    []byte
	endpoint  endpoint
	prepared  prepared
	created   time.Time
	started   int64 // see Process
	idleFrom  time.Time
	dedicated bool
	inIdle    bool   // guarded by the shard's mutex
	lentTo    loanee // guarded by the shard's mutex
	epoch     uint64 // the lane's epoch when the backend was dialled

	cancelMu  sync.Mutex
	cancelled *sync.Cond
	cancels   int
}

// Prepared reports whether the backend knows s, and marks it as used.
func (c *Conn) Prepared(s *Statement) bool { return c.prepared.touch(s.Name) }

// MarkPrepared notes that the backend knows s now.
func (c *Conn) MarkPrepared(s *Statement) { c.prepared.add(s.Name) }

// Unprepare notes that the backend does not know this name any more.
func (c *Conn) Unprepare(name string) { c.prepared.remove(name) }

// UnprepareAll notes that the backend has forgotten all named statements.
func (c *Conn) UnprepareAll() {
	c.prepared.reset()
}

// OnlyPrepared notes that the backend knows these statements and no others.
func (c *Conn) OnlyPrepared(names map[string]bool) {
	for name := range c.prepared.byName {
		if !names[name] {
			c.prepared.remove(name)
		}
	}
}

// Evict returns the name of a prepared statement that should be closed because the backend
// has more than MaxPrepared.
func (c *Conn) Evict() (string, bool) {
	return c.prepared.oldest(c.lane.shard.pool.conf().MaxPrepared)
}

// UsedBy notes that a session has used the backend.
func (c *Conn) UsedBy(session int32) {
	switch c.SoleSession {
	case 0, session:
		c.SoleSession = session
	default:
		c.SoleSession = -1
	}
}

// Release gives the backend back for other sessions. The caller vouches that the backend is
// idle, fully read, and holds nothing of its session beyond what the fields of Conn say.
func (c *Conn) Release() {
	c.borrower.Store(0)
	if c.Shown || c.Touched || c.givenUp.Load() {
		c.Terminate()
		return
	}
	c.AwaitCancels()
	c.lane.shard.release(c)
}

// Discard closes the backend instead of giving it back. It does not wait for a cancel request
// under way: the request's secret key fits no other backend.
func (c *Conn) Discard() {
	c.borrower.Store(0)
	c.Stream.Release()
	_ = c.Stream.Close()
	c.lane.shard.pool.processes.remove(c)
	c.lane.shard.closed(c)
}

// Borrower is the session that the backend is lent to, 0 for none. Any goroutine may call it.
func (c *Conn) Borrower() int32 { return c.borrower.Load() }

// GiveUp closes the backend under the session that waits for it, from another goroutine: the
// session finds the connection lost, or Release closes it.
func (c *Conn) GiveUp() {
	c.givenUp.Store(true)
	_ = c.Conn().Close()
}

// Terminate says good-bye to the shard and discards the backend.
func (c *Conn) Terminate() {
	_ = c.Conn().SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = c.Write(wire.AppendEmpty(nil, wire.Terminate))
	c.Discard()
}

// Exec runs a simple query outside any client's dialogue and returns the rows of its results
// as text, NULL as "". After an ErrorResponse, which becomes an error, the backend is still
// usable; after any other error it is not.
func (c *Conn) Exec(sql string) ([][]string, error) {
	return c.Answer(wire.AppendQuery(nil, sql))
}

// ExecOne is Exec of a single statement with parameters. A text of two statements is an error.
func (c *Conn) ExecOne(sql string, args ...string) ([][]string, error) {
	return c.Answer(wire.AppendEmpty(wire.AppendCall(nil, sql, args...), wire.Sync))
}

// Answer writes weft's own messages, which one ReadyForQuery answers, and returns the rows
// that come back.
func (c *Conn) Answer(messages []byte) ([][]string, error) {
	if _, err := c.Write(messages); err != nil {
		return nil, c.Lost(err)
	}
	var rows [][]string
	var values [][]byte
	var failed error
	err := c.UntilReady(func(typ byte, body []byte) {
		switch typ {
		case wire.DataRow:
			var err error
			values, err = wire.DecodeRow(values[:0], body)
			if err != nil {
				failed = err
			}
			row := make([]string, len(values))
			for i, v := range values {
				row[i] = string(v)
			}
			rows = append(rows, row)
		case wire.ErrorResponse:
			failed = ServerError(body)
			c.StalePortal = true
		}
	})
	c.UnnamedBy = 0
	if err != nil {
		return nil, err
	}
	return rows, failed
}

// Apply gives the backend the settings t. After an error the backend must be discarded.
func (c *Conn) Apply(t *Settings) error {
	steps := c.Settings.Steps(t)
	for i, s := range steps {
		if strings.Contains(s, "client_encoding") { // the server must switch before it reads the other values
			if _, err := c.Exec(strings.Join(steps[:i+1], ";")); err != nil {
				return err
			}
			steps = steps[i+1:]
			break
		}
	}
	if len(steps) > 0 {
		if _, err := c.Exec(strings.Join(steps, ";")); err != nil {
			return err
		}
	}
	c.Settings = t
	return nil
}

// DescribeStatement asks for the result of a prepared statement: the shape of
// its RowDescription, empty if it has none, nil if there is no such statement.
func (c *Conn) DescribeStatement(name string) ([]byte, error) {
	if _, err := c.Write(wire.AppendEmpty(wire.AppendDescribe(nil, 'S', name), wire.Sync)); err != nil {
		return nil, c.Lost(err)
	}
	var columns []byte
	err := c.UntilReady(func(typ byte, body []byte) {
		switch typ {
		case wire.RowDescription:
			columns = wire.ResultShape(body)
		case wire.NoData:
			columns = []byte{}
		}
	})
	return columns, err
}

// Prepare prepares a statement under a name that weft did not make. As with Exec, the backend
// is still usable after an ErrorResponse.
func (c *Conn) Prepare(name, sql string, oids []byte) error {
	if _, err := c.Write(wire.AppendEmpty(wire.AppendParse(nil, name, sql, oids), wire.Sync)); err != nil {
		return c.Lost(err)
	}
	var failed error
	err := c.UntilReady(func(typ byte, body []byte) {
		if typ == wire.ErrorResponse {
			failed = ServerError(body)
		}
	})
	if err != nil {
		return err
	}
	return failed
}

// UntilReady reads the answers to weft's own messages up to ReadyForQuery and
// shows them to f. A body is valid until f returns. An error means that the
// connection is lost.
func (c *Conn) UntilReady(f func(typ byte, body []byte)) error {
	for {
		typ, body, err := c.Next(wire.LargeLimit)
		if err != nil {
			return c.Lost(err)
		}
		switch typ {
		case wire.ParameterStatus:
			c.NoteParameter(body)
		case wire.ReadyForQuery:
			c.Opening.Store(false)
			if len(body) == 1 {
				c.Status = body[0]
			}
		default:
			f(typ, body)
		}
		c.Consume(wire.HeaderLen + len(body))
		if typ == wire.ReadyForQuery {
			return nil
		}
	}
}

// NoteParameter records a ParameterStatus that is not passed on to a client.
func (c *Conn) NoteParameter(body []byte) {
	if name, value, ok := wire.DecodeParameterStatus(body); ok {
		c.Params[name] = value
		if !slices.Contains(c.Untold, name) {
			c.Untold = append(c.Untold, name)
		}
	}
}

// ErrLost marks errors after which the backend's state is unknown.
var ErrLost = errors.New("connection to the shard is lost")

// Lost wraps an I/O error on the backend as the client should see it. The result is never
// io.EOF, which would tell a reader of rows that there are no more.
func (c *Conn) Lost(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return pgerr.New(pgerr.ConnectionFailure, "shard %q closed the connection unexpectedly", c.Shard()).
		WithDetail("Nothing of what it was asked to do has been kept.").
		WithHint("The server terminated or became unreachable while processing the request; weft connects again by itself.").
		WithCause(fmt.Errorf("%w: %w", ErrLost, err))
}

// Shard returns the name of the shard the backend belongs to.
func (c *Conn) Shard() string { return c.lane.shard.Name }

// Lane returns the lane the backend belongs to.
func (c *Conn) Lane() *Lane { return c.lane }

// compatible reports whether a session that set these custom parameters may
// use the backend.
func (c *Conn) compatible(own map[string]bool) bool {
	for name := range c.Placeholders {
		if !own[name] {
			return false
		}
	}
	return true
}

// ServerError turns the body of a shard's ErrorResponse into an error with the
// same fields.
func ServerError(body []byte) *pgerr.Error {
	field := func(code byte) string {
		v, _ := wire.ErrorField(body, code)
		return v
	}
	e := &pgerr.Error{
		Severity: pgerr.Severity(field('V')), Code: field('C'), Message: field('M'), Detail: field('D'), Hint: field('H'),
		Where: field('W'), Schema: field('s'), Table: field('t'), Column: field('c'), Type: field('d'), Constraint: field('n'),
		File: field('F'), Routine: field('R'),
	}
	_, _ = fmt.Sscan(field('P'), &e.Position)
	_, _ = fmt.Sscan(field('L'), &e.Line)
	return e
}
