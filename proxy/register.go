package proxy

import (
	"net"
	"sync"
	"time"
)

// register is the sessions of a proxy. Each session has an ID that clients take for the
// process ID of a backend.
type register struct {
	s *Server

	block int32 // where the IDs of this proxy begin
	// notifiers maps a backend (notifier) to the session that last sent a NOTIFY
	// through it.
	notifiers sync.Map
	// looked is when hurry was called last. Only hurry touches it.
	looked time.Time

	// mu guards the fields below.
	mu       sync.Mutex
	lastID   int32 // the last ID given, within the block
	sessions map[int32]*Session
	// byUser and byDatabase count the sessions of each user and database.
	byUser, byDatabase map[string]int
	starting           map[net.Conn]bool // clients that are still in startup
	listeners          map[net.Listener]bool
}

// firstID is where the process IDs that clients see begin: above every process ID of an
// operating system, so that the two are never confused. Each proxy takes its IDs from one
// of 255 blocks of this length, chosen at random: so an ID of another proxy most likely
// belongs to no session here.
const firstID = 1 << 23

// newRegister returns a register without sessions.
func newRegister(s *Server) *register {
	return &register{
		s: s, block: (1 + int32(newSecret(1)[0])%255) * firstID, sessions: map[int32]*Session{}, byUser: map[string]int{}, byDatabase: map[string]int{},
		starting: map[net.Conn]bool{}, listeners: map[net.Listener]bool{},
	}
}
