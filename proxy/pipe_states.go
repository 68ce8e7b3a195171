package proxy

import "weft/wire"

// course is what the session does with the client's messages.
type course uint8

const (
	// heeds means that every message is handled.
	heeds course = iota
	// skipsToSync means that a message has failed, and that the client has been told: the
	// messages up to the next Sync are skipped.
	skipsToSync
)

// courseEvent is what happens to the client's messages.
type courseEvent uint8

const (
	messageFails   courseEvent = iota // a message has failed
	sessionFails                      // a message has failed, and the session ends
	messagesResume                    // the Sync has come, or a simple query has been answered
)

// courses is the course after each event.
//
//	            messageFails  sessionFails  messagesResume
//	heeds       skipsToSync   heeds         heeds
//	skipsToSync skipsToSync   heeds         heeds
var courses = [...]course{messageFails: skipsToSync, sessionFails: heeds, messagesResume: heeds}

// after is the course that follows when e happens. It does not depend on the course before.
func (course) after(e courseEvent) course { return courses[e] }

// skips reports whether a message of the client is skipped.
func (c course) skips(typ byte) bool {
	return c == skipsToSync && typ != wire.Sync && typ != wire.Terminate
}

// syncState is how far the messages for the backend at hand have come since its last Sync.
type syncState uint8

const (
	// atRest means that the backend is owed no Sync, and has been sent nothing whose answers the
	// session has not waited for.
	atRest syncState = iota
	// sentAhead means that messages have been sent whose answers the session has not waited for,
	// and that the backend is owed no Sync.
	sentAhead
	// owesSync means that the backend gets extended messages, and after them a Sync.
	owesSync
	// owesSyncAhead means that the backend gets a Sync, and that messages have been sent whose
	// answers the session has not waited for.
	owesSyncAhead
)

// syncEvent is what happens to the messages for the backend at hand.
type syncEvent uint8

const (
	extends    syncEvent = iota // an extended message is collected for the backend
	sendsAhead                  // messages are sent without waiting for their answers
	syncs                       // the backend has answered a Sync, or is gone
)

// syncStates is the state after each event.
//
//	              extends        sendsAhead     syncs
//	atRest        owesSync       sentAhead      atRest
//	sentAhead     owesSyncAhead  sentAhead      atRest
//	owesSync      owesSync       owesSyncAhead  atRest
//	owesSyncAhead owesSyncAhead  owesSyncAhead  atRest
var syncStates = [...][3]syncState{
	atRest:        {owesSync, sentAhead, atRest},
	sentAhead:     {owesSyncAhead, sentAhead, atRest},
	owesSync:      {owesSync, owesSyncAhead, atRest},
	owesSyncAhead: {owesSyncAhead, owesSyncAhead, atRest},
}

// after is the state that follows when e happens.
func (s syncState) after(e syncEvent) syncState { return syncStates[s][e] }

// isSkipping reports whether a message has failed, so that the messages up to Sync are skipped.
func (p *pipe) isSkipping() bool { return p.course == skipsToSync }

// isUnsynced reports whether the backend has got or gets extended messages, and no Sync after
// them yet.
func (p *pipe) isUnsynced() bool { return p.sync >= owesSync }

// isAhead reports whether messages have been sent whose answers the session has not waited for.
func (p *pipe) isAhead() bool { return p.sync == sentAhead || p.sync == owesSyncAhead }

// skipToSync makes the session skip the client's messages up to Sync: one message has
// failed, and the client is told so once.
func (p *pipe) skipToSync() { p.course = p.course.after(messageFails) }

// endSkipping notes that the backend said FATAL: no message is skipped, because the session ends.
func (p *pipe) endSkipping() { p.course = p.course.after(sessionFails) }

// resume makes the session handle the client's messages again.
func (p *pipe) resume() { p.course = p.course.after(messagesResume) }

// awaitSync notes that extended messages go to the backend at hand, whose answer to the
// Sync tells the state of the transaction.
func (p *pipe) awaitSync() { p.sync = p.sync.after(extends) }

// noteAhead notes that messages are sent without waiting for their answers.
func (p *pipe) noteAhead() { p.sync = p.sync.after(sendsAhead) }

// synced notes that nothing is left of the messages since the last Sync: the backend has
// answered the Sync, or is gone.
func (p *pipe) synced() {
	p.sync = p.sync.after(syncs)
	p.s.implicit.forgetWrites()
}
