package pool

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weft/pgerr"
	"weft/primary"
	"weft/wire"
)

// Conn is one backend: a logged-in connection to a shard. Between Acquire and Release it belongs to
// one session, which says with the methods of state.go what happens to the backend.
//
// At Release, and while a Conn is idle, these hold: status is TxIdle; nothing is unread or
// unanswered, so opening is false; listening, shown and touched are false, or the backend is closed;
// settings, placeholders and prepared are what the backend has, and stain says if there may be more.
type Conn struct {
	*wire.Stream
	pid          int32
	timeouts     [2]string
	params       map[string]string // what the backend reports, as last reported
	strings      string            // standard_conforming_strings among params
	untold       []string          // the names among params that no client has been told of
	settings     *Settings
	placeholders map[string]bool // custom parameters ever set on the backend
	origin       Origin

	// The methods of state.go with these names say what the fields mean.
	status      byte
	touched     bool
	stalePortal bool // a simple query has failed, and no Bind has replaced the unnamed portal since
	shown       bool
	listening   bool
	opening     atomic.Bool
	unnamedBy   uint64
	soleSession int32
	lentAt      uint64
	answered    uint32 // what Stream.Sent was at the last ReadyForQuery
	owes        bool
	commits     bool

	// borrower is the session that the backend is lent to, 0 for none; givenUp says that GiveUp
	// has closed the backend under that session. Other goroutines may read both.
	borrower atomic.Int32
	givenUp  atomic.Bool

	lane     *Lane
	stain    stain
	secret   []byte
	endpoint endpoint
	host     string // the address of the server, as the directory has it
	// generation is what the server said at login. Zero if it was not asked.
	generation primary.Generation
	prepared   prepared
	created    time.Time
	started    int64 // see Process
	own        bool  // the connection is one of Spares
	// registered is the epoch under which the backend is registered with its database, 0 for none.
	// Other goroutines may read and set it.
	registered atomic.Int64
	idleFrom   time.Time
	dedicated  bool
	kept       bool   // see Keep; guarded by the shard's mutex, and the session may read it
	inIdle     bool   // the connection is among the idle ones of its lane; guarded by the shard's mutex
	lentTo     loanee // guarded by the shard's mutex
	epoch      uint64 // the lane's epoch when the backend was dialled

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
func (c *Conn) UnprepareAll() { c.prepared.reset() }

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

// Release gives the backend back for other sessions. The caller vouches that the backend is
// idle, fully read, and holds nothing of its session beyond what it has noted.
func (c *Conn) Release() {
	c.borrower.Store(0)
	c.Bind(nil)
	if c.shown || c.touched || c.givenUp.Load() {
		c.Terminate()
		return
	}
	c.AwaitCancels()
	c.lane.shard.release(c)
}

// Discard closes the backend instead of giving it back. It does not wait for a cancel request
// under way: the request's secret key fits no other backend. A backend in the middle of a statement
// does not notice: see ghosts.
func (c *Conn) Discard() { c.discard(c.Busy()) }

func (c *Conn) discard(busy bool) {
	if busy {
		c.haunt() // before the pool forgets the connection
	}
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
	busy := c.Busy()
	_ = c.Conn().SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = c.Write(wire.AppendEmpty(nil, wire.Terminate))
	c.discard(busy)
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
			c.QueryFailed()
		case wire.NoticeResponse:
			if failed == nil && Unreplicated(body) {
				failed = ErrUnreplicated
			}
		}
	})
	c.UnnamedGone()
	if err != nil {
		return nil, err
	}
	return rows, failed
}

// Apply gives the backend the settings t. After an error the backend must be discarded.
func (c *Conn) Apply(t *Settings) error {
	steps := c.settings.Steps(t)
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
	c.NoteSettings(t)
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
			if len(body) == 1 {
				c.Ready(body[0])
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

// Shard returns the name of the shard the backend belongs to.
func (c *Conn) Shard() string { return c.lane.shard.Name }

// Lane returns the lane the backend belongs to.
func (c *Conn) Lane() *Lane { return c.lane }

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
