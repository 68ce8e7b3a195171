package password

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"weft/auth"
	"weft/directory"
	"weft/pgerr"
	"weft/quote"
)

// Conn is a connection of the service user to a database of a shard.
type Conn interface {
	Exec(sql string) ([][]string, error)
	// Interrupt ends a running Exec, from another goroutine.
	Interrupt()
	Terminate()
}

// Config is what a Cache needs. All fields are required.
type Config struct {
	Log      *slog.Logger
	Snapshot func() *directory.Snapshot
	// Dial opens a connection to any shard of a snapshot.
	Dial func(ctx context.Context, snap *directory.Snapshot, database string) (Conn, error)
	// Timeout returns how long a question may take.
	Timeout func() time.Duration
	// Spawn runs f on a goroutine of its own, with a context that ends with this proxy.
	Spawn func(f func(context.Context))
}

// Cache keeps stored passwords for a while. Its methods may be called by several goroutines.
type Cache struct {
	cfg Config
	// gate bounds how many questions are under way.
	gate chan struct{}

	mu    sync.Mutex
	known map[string]stored
	asked map[string]*question
}

// stored is what a shard has said about a user, also that the user has no password.
type stored struct {
	query auth.Query // the query that was asked: a reload may have changed it
	text  string
	until time.Time
}

// question is a query to a shard that several clients may wait for.
type question struct {
	done chan struct{}
	text string
	err  error
}

const (
	// maxPasswords bounds the users that are remembered. Unknown users count, too; a name
	// has at most 63 bytes.
	maxPasswords = 4096
	// maxQuestions bounds the connections that logins take at a time.
	maxQuestions = 4
)

// New returns an empty Cache.
func New(cfg Config) *Cache {
	return &Cache{cfg: cfg, gate: make(chan struct{}, maxQuestions), known: map[string]stored{}, asked: map[string]*question{}}
}

// By returns where passwords are looked up with query q, nil if q is empty.
func (c *Cache) By(q auth.Query) auth.Passwords {
	if q.SQL == "" {
		return nil
	}
	return source{c, q}
}

// source implements auth.Passwords.
type source struct {
	*Cache
	query auth.Query
}

// Stored implements auth.Passwords.
func (s source) Stored(ctx context.Context, user string) (string, error) {
	c := s.Cache
	if len(user) > 63 { // names in PostgreSQL have at most 63 bytes
		return "", nil
	}
	c.mu.Lock()
	if k, ok := c.known[user]; ok && k.query == s.query && time.Now().Before(k.until) {
		c.mu.Unlock()
		return k.text, nil
	}
	q, ok := c.asked[user]
	if !ok {
		q = &question{done: make(chan struct{})}
		c.asked[user] = q
		c.cfg.Spawn(func(ctx context.Context) { s.ask(ctx, user, q) })
	}
	c.mu.Unlock()
	select {
	case <-q.done:
		return q.text, q.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// Wrong implements auth.Passwords.
func (s source) Wrong(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, user)
}

// ask answers a question. It outlives the client that asked first: other clients may wait
// for the same answer.
func (s source) ask(ctx context.Context, user string, q *question) {
	c := s.Cache
	ctx, stop := context.WithTimeout(ctx, c.cfg.Timeout())
	defer stop()
	asked := time.Now()
	q.text, q.err = s.fetch(ctx, user)
	c.mu.Lock()
	delete(c.asked, user)
	delete(c.known, user)
	if q.err == nil {
		c.makeRoom()
		c.known[user] = stored{query: s.query, text: q.text, until: asked.Add(s.query.TTL)}
	}
	c.mu.Unlock()
	close(q.done)
}

// makeRoom forgets users whose time is over and, if that is not enough, any user. mu is
// held.
func (c *Cache) makeRoom() {
	if len(c.known) < maxPasswords {
		return
	}
	now := time.Now()
	for user, k := range c.known {
		if now.After(k.until) {
			delete(c.known, user)
		}
	}
	for user := range c.known {
		if len(c.known) < maxPasswords {
			return
		}
		delete(c.known, user)
	}
}

// fetch asks a shard for the stored password of a user.
func (s source) fetch(ctx context.Context, user string) (string, error) {
	select {
	case s.gate <- struct{}{}:
		defer func() { <-s.gate }()
	case <-ctx.Done():
		return "", s.failed(context.Cause(ctx))
	}
	snap := s.cfg.Snapshot()
	if snap == nil {
		return "", pgerr.New(pgerr.CannotConnectNow, "weft has not loaded its cluster yet").WithHint("Is etcd reachable?")
	}
	conn, err := s.cfg.Dial(ctx, snap, s.query.Database)
	if err != nil {
		return "", s.failed(err)
	}
	defer conn.Terminate()
	defer context.AfterFunc(ctx, conn.Interrupt)()
	// PREPARE infers the type of the parameter from its use.
	rows, err := conn.Exec("PREPARE weft_auth_query AS " + s.query.SQL + "; EXECUTE weft_auth_query(" + quote.Literal(user) + "); DEALLOCATE weft_auth_query")
	if err != nil {
		return "", s.failed(err)
	}
	switch {
	case len(rows) == 0:
		return "", nil
	case len(rows) > 1 || len(rows[0]) != 2:
		return "", s.failed(fmt.Errorf("auth_query returned %d rows of %d columns, must be one of two", len(rows), len(rows[0])))
	case rows[0][0] != user:
		return "", s.failed(errors.New("auth_query returned another user than it was asked for"))
	}
	return rows[0][1], nil
}

// failed words an error for the client that wants to log in. The log has the details, which
// a stranger need not know.
func (s source) failed(err error) error {
	s.cfg.Log.Warn("users' passwords cannot be looked up", "database", s.query.Database, "err", err)
	return pgerr.New(pgerr.ConnectionFailure, "weft could not look up the user").
		WithHint("No shard answers, or auth_query in weft.yaml does not; weft's log says why.").WithCause(err)
}
