package proxy

import (
	"maps"
	"slices"

	"weft/pool"
	"weft/wire"
)

// answers are the messages on their way to the client.
type answers struct {
	s *Session

	wire.Out        // whole messages, not yet written
	rem      int    // bytes of a row that are still to come from the backend
	passed   uint64 // bytes that the client has been given
	// reported holds the values of parameters that the client knows after the next
	// ReadyForQuery. The map is shared with other sessions until ownsRep is set.
	reported map[string]string
	ownsRep  bool // reported is the session's own copy
	// encoding and standard are client_encoding and standard_conforming_strings among reported:
	// each statement asks for them.
	encoding, standard string
	// unready holds the parameters that were changed since the last ReadyForQuery, with the
	// values that the client knows.
	unready map[string]string
	// fatal: a backend has said FATAL; the session ends once the client has been told.
	fatal    bool
	audience audience
	// faults counts the errors that the client has been told, or will be told: see mark.
	faults mark
	// sink hears the answers in the client's place, nil if the client hears them.
	sink hearer
}

// PostgreSQL reports parameters right before ReadyForQuery, and only those whose value
// differs from the last report: a transaction may have set a parameter and been rolled
// back. weft does the same, although the answers of several backends may come before one
// ReadyForQuery.

// onParameterStatus takes a ParameterStatus of a backend.
func (o *answers) onParameterStatus(c *pool.Conn, body []byte) {
	if name, value, ok := wire.DecodeParameterStatus(body); ok {
		c.Told(name, value)
		o.onParameter(name, value)
	}
}

// onParameter takes the value that a parameter has on a backend.
func (o *answers) onParameter(name, value string) {
	o.s.record.reads(name, value) // at once, not when the block ends
	if name == "application_name" && value == "" && o.s.record.done.resets(name) {
		// RESET goes back to the client's own startup value; adopt sees to it.
		if own := clean(o.s.login.startup.Get(name)); own != "" {
			value = own
		}
	}
	o.report(name, value)
}

// catchUp takes the parameters that a backend has reported while weft talked to it by
// itself: an error, say, ends the settings of the backend's transaction.
func (o *answers) catchUp(c *pool.Conn) {
	for _, name := range c.TakeUntold() {
		value, _ := c.Param(name)
		o.onParameter(name, value)
	}
}

// report notes the value of a parameter that the client is to know.
func (o *answers) report(name, value string) {
	before, ok := o.reported[name]
	if ok && before == value {
		return
	}
	if !o.ownsRep {
		o.reported, o.ownsRep = maps.Clone(o.reported), true
		if o.reported == nil {
			o.reported = map[string]string{}
		}
	}
	o.reported[name] = value
	o.readTexts()
	if o.s.tx.isOpen() {
		o.s.tx.changed(name, before)
	}
	if o.unready == nil {
		o.unready = map[string]string{}
	}
	if _, known := o.unready[name]; !known {
		o.unready[name] = before
	}
}

// tellParameters tells the client about parameters that have changed. c is the backend that
// is ready, nil if there is none.
func (o *answers) tellParameters(c *pool.Conn) {
	if c != nil && c.Untold() {
		o.catchUp(c)
	}
	if len(o.unready) == 0 || o.audience == tellsProgram {
		return // the client is told once the program has ended
	}
	o.Grow()
	for _, name := range slices.Sorted(maps.Keys(o.unready)) {
		if value := o.reported[name]; value != o.unready[name] {
			o.B = wire.AppendParameterStatus(o.B, name, value)
		}
	}
	clear(o.unready)
}

// mark is a point in the course of a session, from which on failures are looked for.
type mark uint32

// mark returns the present point.
func (o *answers) mark() mark { return o.faults }

// failedSince reports whether something has failed since m, and the client has been told, or will
// be told.
func (o *answers) failedSince(m mark) bool { return o.faults != m }

// fail notes that the client has been told, or will be told, that its statement failed.
func (o *answers) fail() { o.faults++ }

// awaitRest notes that n bytes of a row that has been passed on are still to come.
func (o *answers) awaitRest(n int) { o.rem = n }

// takeRest notes that n bytes have come, and returns how many of them belong to the row.
func (o *answers) takeRest(n int) int {
	n = min(o.rem, n)
	o.rem -= n
	return n
}

// dropRest notes that the rest of a row will not come: its backend is gone.
func (o *answers) dropRest() { o.rem = 0 }

// noteFatal notes that the backend has said FATAL.
func (o *answers) noteFatal() { o.fatal = true }

// greet notes the parameters that the client is told when it is admitted. The map is shared.
func (o *answers) greet(params map[string]string) {
	o.reported = params
	o.readTexts()
}

// readTexts takes from reported how the client's texts are read.
func (o *answers) readTexts() {
	o.encoding, o.standard = o.reported["client_encoding"], o.reported["standard_conforming_strings"]
}
