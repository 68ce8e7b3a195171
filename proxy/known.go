package proxy

import (
	"encoding/binary"
	"strconv"
	"time"

	"weft/pool"
	"weft/twopc"
	"weft/wire"
)

// Commands that weft adds to many transactions are prepared, once per backend: where many
// backends take turns, parsing is most of their cost.
var (
	ownBegin     = ownStatement("B", "BEGIN")
	ownPatience  = ownStatement("P", "SET LOCAL lock_timeout = 0")
	ownGate      = ownStatement("G", enterGate)
	ownImmediate = ownStatement("I", "SET CONSTRAINTS ALL IMMEDIATE")
	ownBriefly   = ownStatement("Z", "SET LOCAL idle_in_transaction_session_timeout = "+strconv.Itoa(int(briefly/time.Millisecond)))
	ownDurably   = ownStatement("S", durably)
	ownDecide    = ownStatement("D", twopc.DecideSQL)
	ownPart      = ownStatement("E", twopc.EnterPartSQL)
)

// durably makes what ends the transaction wait until synchronous standbys have it on disk. It leaves alone what
// waits for more.
const durably = "SELECT pg_catalog.set_config('synchronous_commit', 'on', true) WHERE pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.<>) 'on' " +
	"AND pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.<>) 'remote_apply'"

// ownStatement gives one of weft's statements a name that no client's statement has.
func ownStatement(name, text string) *pool.Statement {
	return &pool.Statement{Name: pool.NamePrefix + name, SQL: text}
}

// appendOwn appends the messages that execute one of weft's prepared statements with these
// parameters.
func appendOwn(b []byte, st *pool.Statement, params ...string) []byte {
	b, at := wire.Begin(b, wire.Bind)
	b = wire.AppendCString(append(b, 0), st.Name)
	b = append(b, 0, 0, 0, byte(len(params)))
	for _, p := range params {
		b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
		b = append(b, p...)
	}
	return appendExecute(wire.End(append(b, 0, 0), at))
}

// ownTalk is a sequence of weft's own statements, sent to a backend that owes no other answers.
type ownTalk struct {
	c   *pool.Conn
	out *wire.Out
	// parsed are the statements parsed in this sequence, in order; nil for one that is not
	// kept.
	parsed []*pool.Statement
}

// add appends a statement.
func (t *ownTalk) add(st *pool.Statement, params ...string) {
	if t.c.Touched() { // a function may have deallocated the prepared statement
		t.once(st.SQL, params...)
		return
	}
	if !t.c.Prepared(st) {
		if name, ok := t.c.Evict(); ok {
			t.out.B = wire.AppendClose(t.out.B, 'S', name)
			t.c.Unprepare(name)
		}
		t.out.B = wire.AppendParse(t.out.B, st.Name, st.SQL, nil)
		t.c.MarkPrepared(st)
		t.parsed = append(t.parsed, st)
	}
	t.out.B = appendOwn(t.out.B, st, params...)
}

// once appends a statement that is not kept as a prepared statement.
func (t *ownTalk) once(sql string, params ...string) {
	t.out.B = wire.AppendParse(t.out.B, "", sql, nil)
	t.out.B = appendOwn(t.out.B, &pool.Statement{}, params...)
	t.parsed = append(t.parsed, nil)
	t.c.UnnamedGone()
}

// run sends the sequence and waits for the answers.
func (t *ownTalk) run() error {
	t.out.B = wire.AppendEmpty(t.out.B, wire.Sync)
	err := t.c.WriteAndFill(t.out.B)
	t.out.Reset()
	if err != nil {
		return t.c.Lost(err)
	}
	_, err = t.answer()
	return err
}

// answer reads the answers up to ReadyForQuery. It returns the last command tag.
func (t *ownTalk) answer() (tag string, err error) {
	known := 0
	var failed error
	err = t.c.UntilReady(func(typ byte, body []byte) {
		switch typ {
		case wire.ParseComplete:
			known++
		case wire.CommandComplete:
			text, _, _ := wire.CString(body)
			tag = string(text)
		case wire.ErrorResponse:
			failed = pool.ServerError(body)
		case wire.NoticeResponse:
			if failed == nil && pool.Unreplicated(body) {
				failed = pool.ErrUnreplicated
			}
		}
	})
	if err != nil {
		return "", err
	}
	for _, st := range t.parsed[min(known, len(t.parsed)):] {
		if st != nil {
			t.c.Unprepare(st.Name)
		}
	}
	return tag, failed
}
