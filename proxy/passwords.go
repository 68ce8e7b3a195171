package proxy

import (
	"context"
	"fmt"
	"sync"
	"time"

	"weft/auth"
	"weft/pgerr"
	"weft/quote"
)

// passwords asks the home shard, or another one while the home shard is down, as the
// service user, for the stored passwords of users who have none in weft.yaml, and keeps the
// answers for a while. After that time, and if no shard answers, no user is let in with an
// old answer: a password may have been removed to keep its user out.
type passwords struct {
	srv *Server
	// gate bounds how many questions are under way.
	gate chan struct{}

	mu    sync.Mutex
	known map[string]storedPassword
	asked map[string]*question
}

// storedPassword is what a shard has said about a user, also that the user has no password.
type storedPassword struct {
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

func newPasswords(s *Server) *passwords {
	return &passwords{srv: s, gate: make(chan struct{}, maxQuestions), known: map[string]storedPassword{}, asked: map[string]*question{}}
}

// by returns where passwords are looked up with query q, nil if q is empty.
func (p *passwords) by(q auth.Query) auth.Passwords {
	if q.SQL == "" {
		return nil
	}
	return passwordSource{p, q}
}

// passwordSource implements auth.Passwords.
type passwordSource struct {
	*passwords
	query auth.Query
}

// Stored implements auth.Passwords.
func (s passwordSource) Stored(ctx context.Context, user string) (string, error) {
	p := s.passwords
	if len(user) > 63 { // names in PostgreSQL have at most 63 bytes
		return "", nil
	}
	p.mu.Lock()
	if k, ok := p.known[user]; ok && k.query == s.query && time.Now().Before(k.until) {
		p.mu.Unlock()
		return k.text, nil
	}
	q, ok := p.asked[user]
	if !ok {
		q = &question{done: make(chan struct{})}
		p.asked[user] = q
		p.srv.crew.Go(p.srv.guarded("passwords", func() { s.ask(user, q) }))
	}
	p.mu.Unlock()
	select {
	case <-q.done:
		return q.text, q.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// Wrong implements auth.Passwords.
func (s passwordSource) Wrong(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, user)
}

// ask answers a question. It outlives the client that asked first: other clients may wait
// for the same answer.
func (s passwordSource) ask(user string, q *question) {
	p := s.passwords
	ctx, stop := context.WithTimeout(p.srv.ctx, 2*p.srv.pool.Config().ConnectTimeout)
	defer stop()
	asked := time.Now()
	q.text, q.err = s.fetch(ctx, user)
	p.mu.Lock()
	delete(p.asked, user)
	delete(p.known, user)
	if q.err == nil {
		p.makeRoom()
		p.known[user] = storedPassword{query: s.query, text: q.text, until: asked.Add(s.query.TTL)}
	}
	p.mu.Unlock()
	close(q.done)
}

// makeRoom forgets users whose time is over and, if that is not enough, any user. mu is
// held.
func (p *passwords) makeRoom() {
	if len(p.known) < maxPasswords {
		return
	}
	now := time.Now()
	for user, k := range p.known {
		if now.After(k.until) {
			delete(p.known, user)
		}
	}
	for user := range p.known {
		if len(p.known) < maxPasswords {
			return
		}
		delete(p.known, user)
	}
}

// fetch asks a shard for the stored password of a user.
func (s passwordSource) fetch(ctx context.Context, user string) (string, error) {
	select {
	case s.gate <- struct{}{}:
		defer func() { <-s.gate }()
	case <-ctx.Done():
		return "", s.failed(context.Cause(ctx))
	}
	snap := s.srv.cfg.Snapshot()
	if snap == nil {
		return "", pgerr.New(pgerr.CannotConnectNow, "weft has not loaded its cluster yet").WithHint("Is etcd reachable?")
	}
	c, err := s.srv.dialAny(ctx, snap, s.query.Database)
	if err != nil {
		return "", s.failed(err)
	}
	defer c.Terminate()
	defer context.AfterFunc(ctx, c.Interrupt)()
	// PREPARE infers the type of the parameter from its use.
	rows, err := c.Exec("PREPARE weft_auth_query AS " + s.query.SQL + "; EXECUTE weft_auth_query(" + quote.Literal(user) + "); DEALLOCATE weft_auth_query")
	if err != nil {
		return "", s.failed(err)
	}
	switch {
	case len(rows) == 0:
		return "", nil
	case len(rows) > 1 || len(rows[0]) != 2:
		return "", s.failed(fmt.Errorf("auth_query returned %d rows of %d columns, must be one of two", len(rows), len(rows[0])))
	case rows[0][0] != user:
		return "", s.failed(fmt.Errorf("auth_query returned another user than it was asked for"))
	}
	return rows[0][1], nil
}

// failed words an error for the client that wants to log in. The log has the details, which
// a stranger need not know.
func (s passwordSource) failed(err error) error {
	s.srv.log.Warn("users' passwords cannot be looked up", "database", s.query.Database, "err", err)
	return pgerr.New(pgerr.ConnectionFailure, "weft could not look up the user").
		WithHint("No shard answers, or auth_query in weft.yaml does not; weft's log says why.").WithCause(err)
}
