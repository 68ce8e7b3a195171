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

// What a text says depends on two settings: standard_conforming_strings decides whether a
// backslash in a string is one, client_encoding which bytes are one character. weft must read
// a text as the backend will. A change is known from the ParameterStatus that a backend sends
// before it is ready; where texts are sent before that, it is asked for, and a text that was
// read under one setting and would be run under another is refused.

// reading is how texts are read.
type reading struct {
	old     bool   // standard_conforming_strings is off
	charset string // client_encoding
}

// readsNow returns how the session's texts are read.
func (rc *record) readsNow() reading {
	return reading{rc.oldStrings, rc.s.out.reported["client_encoding"]}
}

// depends reports whether a text may say something else if it is read in another way.
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

// mayRead refuses to run a text that was read in another way than texts are now. What
// its strings are would have to be taken apart and put together again.
func (rc *record) mayRead(text []byte, read reading) error {
	if !depends(text, read, rc.readsNow()) {
		return nil
	}
	return pgerr.New(pgerr.FeatureNotSupported, "a statement with a backslash or a character that is not ASCII cannot be executed under another standard_conforming_strings or client_encoding than it was prepared under").
		WithHint("Prepare it again, write its strings as E'…' with ASCII characters, or give them as parameters.")
}

// readAnew finds out how a text is to be read that follows others without a Sync, if one of
// them may have changed it.
func (rc *record) readAnew(text []byte) error {
	if !rc.s.pipe.unsynced || rc.s.held.conn == nil || rc.s.held.conn.Status == wire.TxFailed || !rc.mayReadOtherwise() ||
		!depends(text, reading{}, reading{true, "another"}) {
		return nil
	}
	if !rc.s.tx.open {
		if err := rc.s.implicit.widen(); err != nil { // a Sync must not end what can still fail
			return err
		}
	}
	return rc.s.implicit.awaitAnswers(rc.s.held.endImplicit) // whose answer tells
}

// mayReadOtherwise reports whether the open transaction may have changed how texts are read.
func (rc *record) mayReadOtherwise() bool {
	d := &rc.done
	return d.bits&(parser.Opaque|parser.ChangesAllSettings|parser.DiscardAll) != 0 ||
		d.bits&parser.ChangesSettings != 0 && slices.ContainsFunc(d.sets, func(set parser.Setting) bool {
			return set.Name == "standard_conforming_strings" || set.Name == "client_encoding"
		})
}

// unreport gives back the parameters that a lost transaction had changed what they were before
// it.
func (rc *record) unreport() {
	before := rc.s.tx.before
	rc.s.tx.before = nil
	for name, value := range before {
		rc.reads(name, value)
		rc.s.out.report(name, value)
	}
}

// readAlike gives a fresh backend the way in which the session's texts are read, if that is
// not its own: the defaults of its role or database are others than when the client came.
func (rc *record) readAlike(c *pool.Conn) error {
	const name = "standard_conforming_strings"
	want, changed := rc.s.tx.before[name]
	if !changed {
		want = rc.s.out.reported[name]
	}
	if has, ok := c.Params[name]; ok && has != want {
		rc.settings = rc.settings.With(name, want)
		if err := c.Apply(rc.settings); err != nil {
			return err
		}
	}
	c.Untold = c.Untold[:0]
	return nil
}

// unread answers for a text that weft cannot parse. If the home shard cannot either, its error
// is the answer. If it can, it would run the text with the rows of one shard: that is refused.
// The text is parsed there and not executed.
func (rc *record) unread(text string, oids []byte, refusal error) error {
	if err := rc.s.held.useLane(rc.s.lane); err != nil {
		return err
	}
	if err := rc.s.tx.quiesce(); err != nil {
		return err
	}
	c := rc.s.held.conn
	c.UnnamedBy = 0
	err := c.Prepare("", text, oids)
	if len(c.Untold) > 0 { // also how it reads texts
		rc.s.out.catchUp(c)
	}
	if err == nil || pgerr.From(err).Routine == "exec_parse_message" { // it has several statements
		return refusal
	}
	return err
}

// refusedText returns the error of a text that the planner has refused. A text that PostgreSQL
// would not take either is answered as PostgreSQL does: the refusal would hide what is wrong
// with it.
func (rc *record) refusedText(text, oids []byte, err error) error {
	e := (*pgerr.Error)(nil)
	if !errors.As(err, &e) || e.Code != pgerr.FeatureNotSupported || e.Routine != "" {
		return err
	}
	return rc.unread(string(text), oids, err)
}
