package pool

import (
	"slices"

	"weft/wire"
)

// What a Conn knows about its backend changes by events, which the methods of this file are named
// after. A session that borrows the backend calls them as it sends messages and reads answers. All
// methods are for the goroutine that uses the backend, except PID and Opening.

// PID is the backend's process ID on the shard.
func (c *Conn) PID() int32 { return c.pid }

// Timeout is the statement_timeout (0) or the lock_timeout (1) of the backend's login.
func (c *Conn) Timeout(i int) string { return c.timeouts[i] }

// Status is the transaction state of the last ReadyForQuery, or TxActive since Began.
func (c *Conn) Status() byte { return c.status }

// Ready notes a ReadyForQuery: all messages up to a Sync or a simple query are answered, a BEGIN
// among them.
func (c *Conn) Ready(status byte) {
	c.status = status
	c.owes, c.commits = false, false
	if c.opening.Load() {
		c.opening.Store(false) // the statement behind the BEGIN is under way
		return
	}
	c.answered = c.Sent()
}

// Busy reports whether the backend may be in the middle of a statement: messages have been sent
// since the last ReadyForQuery, or Owes was called.
func (c *Conn) Busy() bool { return c.owes || c.Sent() != c.answered }

// Owes notes that messages sent before the last ReadyForQuery are not answered either: they are of
// several exchanges that were sent at once.
func (c *Conn) Owes() { c.owes = true }

// Commits notes that a COMMIT is under way, of a transaction or of a prepared one. The backend must
// not be ended before the COMMIT is: a COMMIT that is interrupted while it waits for a standby is done, but
// may be lost with the server.
func (c *Conn) Commits() { c.commits = true }

// Began notes that a transaction begins with messages that the backend has not answered. The
// backend does not count as idle from now on.
func (c *Conn) Began() { c.status = wire.TxActive }

// Opening reports whether a BEGIN and a statement behind it are under way, and the BEGIN is not
// answered. A cancel request that hit the BEGIN would let the statement run outside of any block,
// and commit: so no cancel request is sent meanwhile. Any goroutine may call it.
func (c *Conn) Opening() bool { return c.opening.Load() }

// BeginSent notes that a BEGIN and a statement behind it are sent as two simple queries. Opening
// reports true until Ready.
func (c *Conn) BeginSent() { c.opening.Store(true) }

// BeginWithdrawn notes that the BEGIN of BeginSent is not sent after all.
func (c *Conn) BeginWithdrawn() { c.opening.Store(false) }

// UnnamedBy tags the statement that the backend holds under the empty name, by a number that the
// statement's session chose; 0 if no session relies on that statement.
func (c *Conn) UnnamedBy() uint64 { return c.unnamedBy }

// ParsedUnnamed notes that a session has parsed a statement under the empty name.
func (c *Conn) ParsedUnnamed(tag uint64) { c.unnamedBy = tag }

// UnnamedGone notes that the statement under the empty name is dropped, or replaced by one that no
// session relies on. A simple query drops it, and weft's own messages replace it.
func (c *Conn) UnnamedGone() { c.unnamedBy = 0 }

// UnnamedBack notes that the backend has skipped the message that replaced or dropped the
// statement with this tag.
func (c *Conn) UnnamedBack(tag uint64) { c.unnamedBy = tag }

// StalePortal reports whether the unnamed portal must not be executed: a simple query has failed,
// its transaction with it, and no Bind has replaced the portal since. In a failed transaction the
// portal outlives the memory of its statements, and executing it may crash the whole PostgreSQL
// server.
func (c *Conn) StalePortal() bool { return c.stalePortal && c.status == wire.TxFailed }

// QueryFailed notes that a simple query has failed.
func (c *Conn) QueryFailed() { c.stalePortal = true }

// BoundUnnamed notes a Bind of the unnamed portal. It reports whether a simple query has failed
// since the previous Bind: then the caller calls UnboundStale if the backend skips this Bind.
func (c *Conn) BoundUnnamed() (stale bool) {
	stale = c.stalePortal
	c.stalePortal = false
	return stale
}

// UnboundStale notes that the backend has skipped the Bind for which BoundUnnamed reported true.
func (c *Conn) UnboundStale() { c.stalePortal = true }

// SoleSession is the only session that has used the backend since its sequence values were
// discarded: 0 if no session has, -1 if several have.
func (c *Conn) SoleSession() int32 { return c.soleSession }

// UsedBy notes that a session has used the backend.
func (c *Conn) UsedBy(session int32) {
	switch c.soleSession {
	case 0, session:
		c.soleSession = session
	default:
		c.soleSession = -1
	}
}

// SequencesDiscarded notes that the backend holds no sequence values any more.
func (c *Conn) SequencesDiscarded() { c.soleSession = 0 }

// Touched reports whether a text has run on the backend that may have changed its session, and
// weft has not checked for changes since. Release closes a touched backend.
func (c *Conn) Touched() bool { return c.touched }

// Touch notes that a text runs that may change the backend's session.
func (c *Conn) Touch() { c.touched = true }

// Checked notes that weft knows what the texts since Touch have changed.
func (c *Conn) Checked() { c.touched = false }

// Shown reports whether the backend holds rows of weft's own tables, which only its present
// session may see. Release closes such a backend.
func (c *Conn) Shown() bool { return c.shown }

// Show notes that the backend is given rows of weft's own tables.
func (c *Conn) Show() { c.shown = true }

// Hidden notes that the backend holds no rows of weft's own tables any more.
func (c *Conn) Hidden() { c.shown = false }

// Listening reports whether LISTEN was run on the backend for its present session.
func (c *Conn) Listening() bool { return c.listening }

// Listened notes that LISTEN runs on the backend.
func (c *Conn) Listened() { c.listening = true }

// Unlistened notes that the backend listens to no channel any more.
func (c *Conn) Unlistened() { c.listening = false }

// LentAt is the count of drains, see Pool.Drains, when the backend was lent.
func (c *Conn) LentAt() uint64 { return c.lentAt }

// Lent notes that a session begins to use the backend.
func (c *Conn) Lent() { c.lentAt = c.lane.shard.pool.Drains() }

// Origin is the server of a backend and what a commit there waits for, as far as NoteOrigin was told.
func (c *Conn) Origin() Origin { return c.origin }

// NoteOrigin notes the server of the backend. A connection stays with one server.
func (c *Conn) NoteOrigin(o Origin) { c.origin = o }

// Settings are the settings applied on top of the login's defaults.
func (c *Conn) Settings() *Settings { return c.settings }

// NoteSettings notes that the backend has these settings now, because a session's statements have
// set them. Apply sets settings.
func (c *Conn) NoteSettings(t *Settings) { c.settings = t }

// DiscardedAll notes that DISCARD ALL has run on the backend.
func (c *Conn) DiscardedAll() {
	c.prepared.reset()
	c.settings, c.listening, c.soleSession = nil, false, 0
}

// NotePlaceholder notes that a custom parameter was set on the backend. PostgreSQL can empty a
// custom parameter but not unset it, so only sessions that set the same ones may use the backend.
// A temporary schema cannot be removed either, and is named among the parameters.
func (c *Conn) NotePlaceholder(name string) {
	if c.placeholders == nil {
		c.placeholders = map[string]bool{}
	}
	c.placeholders[name] = true
}

// compatible reports whether a session that set these custom parameters may
// use the backend.
func (c *Conn) compatible(own map[string]bool) bool {
	for name := range c.placeholders {
		if !own[name] {
			return false
		}
	}
	return true
}

// Param is the value of a parameter that the backend reports, as last reported.
func (c *Conn) Param(name string) (value string, ok bool) {
	value, ok = c.params[name]
	return value, ok
}

// stringsName is the parameter that decides whether a backslash in a string escapes.
const stringsName = "standard_conforming_strings"

// Strings is the value of standard_conforming_strings on the backend, as last reported; "" if the
// backend has not reported the parameter.
func (c *Conn) Strings() string { return c.strings }

// Told notes a ParameterStatus that the client is told of.
func (c *Conn) Told(name, value string) {
	c.params[name] = value
	if name == stringsName {
		c.strings = value
	}
}

// NoteParameter notes a ParameterStatus that is not passed on to a client: Untold and TakeUntold
// know its name.
func (c *Conn) NoteParameter(body []byte) {
	if name, value, ok := wire.DecodeParameterStatus(body); ok {
		c.Told(name, value)
		if !slices.Contains(c.untold, name) {
			c.untold = append(c.untold, name)
		}
	}
}

// Untold reports whether the backend has reported parameters that no client was told of.
func (c *Conn) Untold() bool { return len(c.untold) > 0 }

// TakeUntold returns the names of the parameters that no client was told of, and forgets them. The
// slice is valid until the next NoteParameter.
func (c *Conn) TakeUntold() []string {
	names := c.untold
	c.untold = c.untold[:0]
	return names
}
