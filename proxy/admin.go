package proxy

import (
	"context"
	"slices"

	"weft/console"
	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// welcomeAdmin admits a client to weft's own console instead of a database.
func (st *starter) welcomeAdmin(sess *Session) (*Session, error) {
	if users := st.srv.cfg.AdminUsers; len(users) > 0 && !slices.Contains(users, sess.user) {
		return nil, pgerr.Fatal(pgerr.InsufficientPrivilege, "user %q may not use the admin database", sess.user).
			WithHint("Add the user to admin_users in weft.yaml.")
	}
	err := st.admitted(sess, map[string]string{
		"server_version": "15.0 (weft " + st.srv.cfg.Version + ")", "client_encoding": "UTF8", "server_encoding": "UTF8",
		"DateStyle": "ISO, MDY", "integer_datetimes": "on", "standard_conforming_strings": "on", "TimeZone": "UTC",
		"is_superuser": "off", "session_authorization": sess.user, "application_name": "",
	})
	if err != nil {
		return nil, err
	}
	sess.admin = true
	st.srv.metrics.clientCame()
	return sess, nil
}

// stepAdmin handles one message of a client of the console. The console knows
// the simple protocol; the extended one is refused in a way drivers survive.
func (s *Session) stepAdmin() error {
	typ, length, err := s.header()
	if err != nil {
		return err
	}
	if limit := wire.FrontendLimit(typ); limit == 0 || length < 4 || length > limit {
		return pgerr.Fatal(pgerr.ProtocolViolation, "invalid frontend message")
	}
	switch typ {
	case wire.Terminate:
		return errEnd
	case wire.Query:
		body, err := s.frame()
		if err != nil {
			return err
		}
		text, _, _ := wire.CString(body)
		s.answerAdmin(string(text))
		s.client.Consume(wire.HeaderLen + len(body))
		s.tellReady()
		return s.flushOrEnd()
	case wire.Sync:
		s.client.Consume(wire.HeaderLen)
		s.skipping = false
		s.tellReady()
		return s.flushOrEnd()
	}
	if !s.skipping {
		s.skipping = true
		s.tell(pgerr.New(pgerr.FeatureNotSupported, "the admin database speaks the simple query protocol only").
			WithHint("Use psql, or your driver's simple protocol mode."))
	}
	return s.skip(length + 1)
}

func (s *Session) answerAdmin(text string) {
	t, err := console.Run(text, adminSource{s.srv})
	s.toClient.Grow()
	switch {
	case err != nil:
		s.tell(pgerr.From(err))
	case t.Tag == "":
		s.toClient.B = wire.AppendEmpty(s.toClient.B, wire.EmptyQueryResponse)
	default:
		cols := make([]wire.Column, len(t.Columns))
		for i, n := range t.Columns {
			cols[i] = wire.Column{Name: n, OID: 25, Size: -1}
		}
		b := wire.AppendRowDescription(s.toClient.B, cols)
		for _, r := range t.Rows {
			vals := make([]*string, len(r))
			for i := range r {
				vals[i] = &r[i]
			}
			b = wire.AppendTextRow(b, vals)
		}
		s.toClient.B = wire.AppendCommandComplete(b, t.Tag)
	}
}

// adminSource is the server as the console sees it.
type adminSource struct{ srv *Server }

func (a adminSource) Version() string { return a.srv.cfg.Version }

func (a adminSource) Clients() []console.Client {
	a.srv.mu.Lock()
	defer a.srv.mu.Unlock()
	var out []console.Client
	for _, s := range a.srv.sessions {
		out = append(out, s.describe())
	}
	return out
}

// describe tells what the session is doing. Only what others may read without
// its goroutine is told.
func (s *Session) describe() console.Client {
	c := console.Client{
		ID: s.id, User: s.user, Address: s.client.Conn().RemoteAddr().String(), Since: s.started,
		State: "idle", Pinned: pin(s.shownPins.Load()).String(), Application: clean(s.startup.Get("application_name")),
	}
	c.Database = s.srv.cfg.AdminDatabase
	if s.db != nil {
		c.Database = s.db.Name
	}
	s.mu.Lock()
	if s.current != nil {
		c.State, c.Shard, c.BackendPID = "active", s.current.Shard(), s.current.PID
	}
	s.mu.Unlock()
	return c
}

func (a adminSource) Pools() []console.Pool {
	cfg := a.srv.pool.Config()
	var out []console.Pool
	for _, l := range a.srv.pool.Lanes() {
		out = append(out, console.Pool{
			Shard: l.Shard, Database: l.Key.Database, User: l.Key.User, Mode: cfg.UserMode(l.Key.User),
			Open: l.Open, Idle: l.Idle, Waiting: l.Waiting,
		})
	}
	return out
}

func (a adminSource) Shards() []console.Shard {
	snap := a.srv.cfg.Snapshot()
	var out []console.Shard
	for _, s := range snap.Shards {
		out = append(out, console.Shard{Name: s.Name, Hosts: s.Hosts, Home: s.Name == snap.Home, Weight: s.Weight})
	}
	return out
}

// probe asks a shard whether it serves queries, over a connection that any
// session has opened, or else by its port alone: weft may know no user's
// password yet.
func (s *Server) probe(ctx context.Context, sh *pool.Shard) error { return sh.Reachable(ctx) }
