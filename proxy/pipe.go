package proxy

import "weft/wire"

// pipe is the dialogue with the backend at hand: what is to be sent, which answers
// are due, and how far the client's messages have come between two Syncs.
type pipe struct {
	s *Session

	unsent wire.Out
	ops    opQueue // the answers that are due, in order
	course course
	sync   syncState
	kept   keptParse
	// parsedNow are the statements parsed since the last Sync.
	parsedNow []*statement
	copy      copyState
	// midFrame: a message of the client is still in the client's buffer while weft works on it.
	midFrame bool
	// calls: the client has parsed a weft.* function or a statement about roles, at any time in
	// the session.
	calls bool
}

// holdFrame says that a message of the client stays in the client's buffer while weft works
// on it; leaveFrame says that it no longer does.
func (p *pipe) holdFrame()  { p.midFrame = true }
func (p *pipe) leaveFrame() { p.midFrame = false }

// takeUnsent returns the messages that are to be sent now, so that the relay does not send them
// a second time. The caller resets them.
func (p *pipe) takeUnsent() wire.Out {
	out := p.unsent
	p.unsent = wire.Out{}
	return out
}

// noteParsed notes a statement that has been parsed since the last Sync; forgetParsed forgets
// them all.
func (p *pipe) noteParsed(st *statement) { p.parsedNow = append(p.parsedNow, st) }

func (p *pipe) forgetParsed() {
	clear(p.parsedNow)
	p.parsedNow = p.parsedNow[:0]
}

// noteCall notes that the client has parsed a weft.* function or a statement about roles.
func (p *pipe) noteCall() { p.calls = true }
