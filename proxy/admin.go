package proxy

import (
	"context"
	"slices"

	"weft/console"
	"weft/console/dialogue"
	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// admin is a session with weft's console. It has no backend.
type admin struct {
	s        *Session
	dialogue *dialogue.Dialogue
}

// newAdmin returns the console's side of a session.
func newAdmin(s *Session) *admin {
	a := &admin{s: s}
	a.dialogue = dialogue.New(&s.out.Out, a.run)
	return a
}

// welcomeAdmin admits a client to weft's own console instead of a database.
func (s *Server) welcomeAdmin(sess *Session, greeting []byte) (*Session, error) {
	if !s.isAdmin(sess.login.user) {
		return nil, pgerr.Fatal(pgerr.InsufficientPrivilege, "user %q may not use the admin database", sess.login.user).
			WithHint("Add the user to admin_users in weft.yaml.")
	}
	err := s.admitted(sess, map[string]string{
		"server_version": "15.0 (weft " + s.cfg.Version + ")", "client_encoding": "UTF8", "server_encoding": "UTF8",
		"DateStyle": "ISO, MDY", "integer_datetimes": "on", "standard_conforming_strings": "on", "TimeZone": "UTC",
		"is_superuser": "off", "session_authorization": sess.login.user, "application_name": "",
	}, greeting)
	if err != nil {
		return nil, err
	}
	sess.admin = newAdmin(sess)
	s.metrics.clientCame()
	return sess, nil
}

// isAdmin reports whether a user may use the console. If AdminUsers is empty, only ServiceUser
// may: it has all rights on the shards anyway.
func (s *Server) isAdmin(user string) bool {
	cfg := s.conf()
	if len(cfg.AdminUsers) == 0 {
		return user == cfg.ServiceUser
	}
	return slices.Contains(cfg.AdminUsers, user)
}

// step handles one message of a client of the console.
func (a *admin) step() error {
	typ, length, err := a.s.header()
	if err != nil {
		return err
	}
	if limit := wire.FrontendLimit(typ); limit == 0 || length < 4 || length > limit {
		return pgerr.Fatal(pgerr.ProtocolViolation, "invalid frontend message")
	}
	if a.dialogue.Skips(typ) {
		return a.s.pipe.skip(length + 1)
	}
	if typ == wire.Terminate {
		return errEnd
	}
	body, err := a.s.pipe.frame()
	if err != nil {
		return err
	}
	err = a.dialogue.Message(typ, body)
	a.s.client.Consume(wire.HeaderLen + len(body))
	if err != nil {
		a.s.out.tell(pgerr.From(err))
	}
	if typ == wire.Query || typ == wire.Sync {
		a.dialogue.Ready()
	}
	if typ == wire.Query || typ == wire.Sync || typ == wire.Flush || a.s.out.Full() {
		if err := a.s.out.flushOrEnd(); err != nil {
			return err
		}
	}
	return a.s.reach.checkKilled()
}

// run runs a command of the console. Notices are sent to the client beside the result.
func (a *admin) run(line string) (console.Table, error) {
	ctx, cancel := a.s.util.cancellable()
	defer cancel()
	t, err := console.Run(ctx, line, adminSource{srv: a.s.srv})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	for _, n := range t.Notices {
		a.s.out.tell(&pgerr.Error{Severity: pgerr.SeverityNotice, Code: "00000", Message: n})
	}
	return t, err
}

// probe asks a shard whether it serves queries: over a connection that any session has opened,
// or else by its port alone, because weft may not know any user's password yet.
func (s *Server) probe(ctx context.Context, sh *pool.Shard) error { return sh.Reachable(ctx) }
