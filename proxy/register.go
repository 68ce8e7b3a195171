package proxy

import (
	"net"
	"sync"
)

// register is the sessions of a proxy. Each has an ID that clients take for the process
// ID of a backend.
type register struct {
	s *Server

	block int32 // where the IDs of this proxy begin
	// notifiers maps a backend (notifier) to the session that last sent a NOTIFY
	// through it.
	notifiers sync.Map

	// mu guards what follows.
	mu       sync.Mutex
	lastID   int32 // the ID that was given last, within the block
	sessions map[int32]*Session
	// byUser and byDatabase are how many sessions each user and database has.
	byUser, byDatabase map[string]int
	starting           map[net.Conn]bool // clients that have not got through startup
	listeners          map[net.Listener]bool
}

// firstID is where the process IDs that clients see begin: above every process
// ID an operating system gives, so that the two are never mistaken. Each proxy takes them
// from one of 255 blocks of this length, chosen at random: an ID of another proxy's
// is then most likely nobody's here, and never so often somebody else's.
const firstID = 1 << 23

// newRegister returns a register without sessions.
func newRegister(s *Server) *register {
	return &register{
		s: s, block: (1 + int32(newSecret(1)[0])%255) * firstID, sessions: map[int32]*Session{}, byUser: map[string]int{}, byDatabase: map[string]int{},
		starting: map[net.Conn]bool{}, listeners: map[net.Listener]bool{},
	}
}
