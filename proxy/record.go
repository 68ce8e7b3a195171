package proxy

import (
	"time"

	"weft/pool"
)

// record is what the client has made of its session: everything that must be true of a
// backend that works for the session.
type record struct {
	s *Session

	settings *pool.Settings
	// inEffect are weft's own options under the settings optionsFor, see learnOptions.
	inEffect     options
	optionsFor   *pool.Settings
	optionsKnown bool // inEffect holds as long as optionsFor are the settings
	placeholders map[string]bool
	// advanced: a sequence may have been advanced.
	advanced bool
	pins     pin
	done     effects         // what the open transaction has done so far
	channels map[string]bool // the channels that the client LISTENs to
	notified string          // the shard that the session last notified on
	// listenedInTx: LISTEN was repeated on the backend inside a transaction.
	listenedInTx bool
	// oldStrings: standard_conforming_strings is off.
	oldStrings bool
	// oddEncoding: texts cannot be scanned in the client's encoding.
	oddEncoding bool
	idleTimeout time.Duration
	// idleUntil is when the wait for the client ends by a timeout; zero: never.
	idleUntil time.Time
}

// greet begins the record of a session: the client has named its application, or "", and is about
// to be told these parameters.
func (rc *record) greet(application string, params map[string]string) {
	if application != "" {
		rc.settings = rc.settings.With("application_name", application)
	}
	rc.oldStrings = params["standard_conforming_strings"] == "off"
	rc.setEncoding(params["client_encoding"])
}

// noteAdvance notes that a statement may advance a sequence.
func (rc *record) noteAdvance() { rc.advanced = true }

// limitIdle bounds the wait for the client that begins now. It returns when the wait ends.
func (rc *record) limitIdle(timeout time.Duration) time.Time {
	rc.idleUntil = time.Now().Add(timeout)
	return rc.idleUntil
}

// endIdle notes that the client is not idle any more.
func (rc *record) endIdle() { rc.idleUntil = time.Time{} }
