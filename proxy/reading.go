package proxy

import (
	"bytes"
	"errors"
	"slices"
	"unicode/utf8"

	"weft/parser"
	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// The meaning of a text depends on two settings: standard_conforming_strings decides
// whether a backslash in a string escapes, client_encoding which bytes are one character.
// weft must read a text as the backend will. A backend reports a change in a
// ParameterStatus before it is ready; if texts are sent before that, weft asks for the
// report. A text that was read under one setting and would be run under another is refused.

// reading is how texts are read.
type reading struct {
	old     bool   // standard_conforming_strings is off
	charset string // client_encoding
}

// readsNow returns how the session's texts are read at present.
func (rc *record) readsNow() reading {
	return reading{rc.oldStrings, rc.s.out.encoding}
}

// depends reports whether a text may mean something else when read in another way.
func depends(text []byte, one, other reading) bool {
	return one.old != other.old && bytes.IndexByte(text, '\\') >= 0 ||
		one.charset != other.charset && slices.ContainsFunc(text, func(c byte) bool { return c >= utf8.RuneSelf })
}

// reads notes a parameter that decides how texts are read.
func (rc *record) reads(name, value string) {
	switch name {
	case "standard_conforming_strings":
		rc.oldStrings = value == "off"
	case "client_encoding":
		rc.setEncoding(value)
	}
}

// mayRead refuses to run a text that was read in another way than texts are read now: weft
// would have to rewrite its strings.
func (rc *record) mayRead(text []byte, read reading) error {
	if !depends(text, read, rc.readsNow()) {
		return nil
	}
	return pgerr.New(pgerr.FeatureNotSupported, "a statement with a backslash or a character that is not ASCII cannot be executed under another standard_conforming_strings or client_encoding than it was prepared under").
		WithHint("Prepare it again, write its strings as E'…' with ASCII characters, or give them as parameters.")
}

// readAnew finds out how to read a text that follows others without a Sync, if one of those
// may have changed how texts are read.
func (rc *record) readAnew(text []byte) error {
	if !rc.s.pipe.isUnsynced() || rc.s.held.conn == nil || rc.s.held.conn.Status() == wire.TxFailed || !rc.mayReadOtherwise() ||
		!depends(text, reading{}, reading{true, "another"}) {
		return nil
	}
	if !rc.s.tx.isOpen() {
		// A Sync must not end a transaction that can still fail.
		if err := rc.s.implicit.widen(); err != nil {
			return err
		}
	}
	return rc.s.implicit.awaitAnswers(rc.s.held.endImplicit) // the answer to the Sync tells
}

// mayReadOtherwise reports whether the open transaction may have changed how texts are read.
func (rc *record) mayReadOtherwise() bool {
	d := &rc.done
	return d.bits&(parser.Opaque|parser.ChangesAllSettings|parser.DiscardAll) != 0 ||
		d.bits&parser.ChangesSettings != 0 && slices.ContainsFunc(d.sets, func(set parser.Setting) bool {
			return set.Name == "standard_conforming_strings" || set.Name == "client_encoding"
		})
}

// unreport sets the parameters that a lost transaction had changed back to their values
// before it.
func (rc *record) unreport() {
	for name, value := range rc.s.tx.takeBefore() {
		rc.reads(name, value)
		rc.s.out.report(name, value)
	}
}

// readAlike makes a fresh backend read strings as the session does, if the backend does
// not: the defaults of role or database may have changed since the client connected.
func (rc *record) readAlike(c *pool.Conn) error {
	const name = "standard_conforming_strings"
	want, changed := rc.s.tx.before[name]
	if !changed {
		want = rc.s.out.standard
	}
	if has := c.Strings(); has != "" && has != want {
		rc.settings = rc.settings.With(name, want)
		if err := c.Apply(rc.settings); err != nil {
			return err
		}
	}
	c.TakeUntold()
	return nil
}

// unread answers for a text that weft cannot parse, by having the home shard parse it, not
// execute it. If the home shard cannot parse the text either, its error is the answer. If
// it can, the text is refused: it would run with the rows of one shard.
func (rc *record) unread(text string, oids []byte, refusal error) error {
	if err := rc.s.held.useLane(rc.s.lane); err != nil {
		return err
	}
	if err := rc.s.tx.quiesce(); err != nil {
		return err
	}
	c := rc.s.held.conn
	c.UnnamedGone()
	err := c.Prepare("", text, oids)
	if c.Untold() { // standard_conforming_strings may be among them
		rc.s.out.catchUp(c)
	}
	// An error of exec_parse_message says that the text has several statements.
	if err == nil || pgerr.From(err).Routine == "exec_parse_message" {
		return refusal
	}
	return err
}

// refusedText returns the error of a text that the planner has refused. A text that
// PostgreSQL would reject, too, gets PostgreSQL's error: weft's refusal would hide the
// mistake.
func (rc *record) refusedText(text, oids []byte, err error) error {
	e := (*pgerr.Error)(nil)
	if !errors.As(err, &e) || e.Code != pgerr.FeatureNotSupported || e.Routine != "" {
		return err
	}
	return rc.unread(string(text), oids, err)
}
