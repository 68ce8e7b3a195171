package proxy

import (
	"cmp"
	"encoding/hex"
	"hash/fnv"
	"net"
	"sync"
	"time"

	"weft/directory"
	"weft/loop"
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
	// loops run sessions; nil: each session is a goroutine.
	loops *loop.Set

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
// of some blocks of this length: see NewID.
const firstID = 1 << 23

// blocks is how many blocks of IDs there are.
const blocks = 255

// blockOf returns where the IDs of a proxy's sessions begin.
func blockOf(proxy string) int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(proxy))
	return (1 + int32(h.Sum32()%blocks)) * firstID
}

// NewID returns a random ID for a proxy. Its sessions have no ID of sessions of the other proxies, as long as
// there are fewer than 255: KILL and pg_terminate_backend name a session by its ID alone.
func NewID(others []directory.Proxy) string {
	taken := map[int32]bool{}
	for i := range others {
		taken[blockOf(others[i].ID)] = true
	}
	for {
		id := hex.EncodeToString(newSecret(8))
		if len(taken) == blocks || !taken[blockOf(id)] {
			return id
		}
	}
}

// newRegister returns a register without sessions.
func newRegister(s *Server) *register {
	return &register{
		s: s, block: blockOf(cmp.Or(s.cfg.Proxy, NewID(nil))), sessions: map[int32]*Session{}, byUser: map[string]int{}, byDatabase: map[string]int{},
		starting: map[net.Conn]bool{}, listeners: map[net.Listener]bool{},
	}
}
