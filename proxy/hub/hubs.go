package hub

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"weft/directory"
	"weft/pgerr"
)

// Listener is a session that listens. Listeners are told apart with ==.
type Listener interface {
	// Put leaves a message for the client. It reports false if too many wait.
	Put(frame []byte) bool
	// Wake makes the session look at what waits.
	Wake()
	// Kill ends the session.
	Kill(e *pgerr.Error)
}

// Backend is a connection to a shard.
type Backend interface {
	Conn() net.Conn
	Write(b []byte) (int, error)
	Next(limit int) (typ byte, body []byte, err error)
	Consume(n int)
	// Terminate ends the connection politely, Discard at once.
	Terminate()
	Discard()
	// Lost is what a client is told of an error after which the connection is gone.
	Lost(err error) error
}

// Config is what hubs need of the proxy.
type Config struct {
	// Context ends when the proxy closes.
	Context     context.Context
	Log         *slog.Logger
	Snapshot    func() *directory.Snapshot
	ServiceUser string
	Dial        func(ctx context.Context, shard, database, user string) (Backend, error)
	// Sender is the ID that clients know for the session that notified from a backend.
	Sender func(shard string, pid int32) int32
	// Spawn runs f on a goroutine that the proxy waits for when it closes. Guarded wraps
	// what runs on other goroutines. Both recover from panics.
	Spawn   func(f func())
	Guarded func(f func()) func()
}

// Hubs are the hubs of all databases.
type Hubs struct {
	cfg   Config
	began chan struct{} // closed with the first hub
	mu    sync.Mutex
	hubs  map[string]*Hub
}

// New returns hubs that have no ears yet.
func New(cfg Config) *Hubs {
	return &Hubs{cfg: cfg, began: make(chan struct{}), hubs: map[string]*Hub{}}
}

// Began is closed when a database has a hub. Until then Follow has nothing to do.
func (h *Hubs) Began() <-chan struct{} { return h.began }

// Of returns the hub of a database.
func (h *Hubs) Of(database string) *Hub {
	h.mu.Lock()
	defer h.mu.Unlock()
	hub := h.hubs[database]
	if hub == nil {
		hub = &Hub{cfg: &h.cfg, database: database, ears: map[string]*ear{}, subs: map[string]map[Listener]bool{}}
		h.hubs[database] = hub
		if len(h.hubs) == 1 {
			close(h.began)
		}
	}
	return hub
}

func (h *Hubs) all() []*Hub {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.hubs))
}

// Interval is how often Follow is to be called, once Began is closed.
const Interval = 20 * time.Millisecond

// Follow gives hubs the ears that they miss: when shards are back, and when a first
// table is declared.
func (h *Hubs) Follow(snap *directory.Snapshot) {
	for _, hub := range h.all() {
		hub.follow(snap)
	}
}

// Close ends all ears.
func (h *Hubs) Close() {
	for _, hub := range h.all() {
		hub.close()
	}
}
