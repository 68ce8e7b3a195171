package proxy

import (
	"context"
	"slices"
	"strings"

	"weft/console"
	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// admin is what a session with weft's console has in the place of a backend.
type admin struct {
	s *Session

	statements map[string]string // texts by name
	portals    map[string]*adminPortal
	inBlock    bool // the client takes it to be in a transaction
}

// maxAdmin bounds the statements and portals a client of the console may keep.
const maxAdmin = 1000

// welcomeAdmin admits a client to weft's own console instead of a database.
func (st *starter) welcomeAdmin(sess *Session) (*Session, error) {
	if !st.srv.isAdmin(sess.login.user) {
		return nil, pgerr.Fatal(pgerr.InsufficientPrivilege, "user %q may not use the admin database", sess.login.user).
			WithHint("Add the user to admin_users in weft.yaml.")
	}
	err := st.admitted(sess, map[string]string{
		"server_version": "15.0 (weft " + st.srv.cfg.Version + ")", "client_encoding": "UTF8", "server_encoding": "UTF8",
		"DateStyle": "ISO, MDY", "integer_datetimes": "on", "standard_conforming_strings": "on", "TimeZone": "UTC",
		"is_superuser": "off", "session_authorization": sess.login.user, "application_name": "",
	})
	if err != nil {
		return nil, err
	}
	sess.admin = &admin{s: sess, statements: map[string]string{}, portals: map[string]*adminPortal{}}
	st.srv.metrics.clientCame()
	return sess, nil
}

// isAdmin reports whether a user may use the console. If nobody is named, it is
// whoever has all rights on the shards anyway.
func (s *Server) isAdmin(user string) bool {
	cfg := s.conf()
	if len(cfg.AdminUsers) == 0 {
		return user == cfg.ServiceUser
	}
	return slices.Contains(cfg.AdminUsers, user)
}

// stepAdmin handles one message of a client of the console.
func (a *admin) stepAdmin() error {
	typ, length, err := a.s.header()
	if err != nil {
		return err
	}
	if limit := wire.FrontendLimit(typ); limit == 0 || length < 4 || length > limit {
		return pgerr.Fatal(pgerr.ProtocolViolation, "invalid frontend message")
	}
	if a.s.pipe.skipping && typ != wire.Sync && typ != wire.Terminate {
		return a.s.pipe.skip(length + 1)
	}
	if typ == wire.Terminate {
		return errEnd
	}
	body, err := a.s.pipe.frame()
	if err != nil {
		return err
	}
	a.s.out.Grow()
	switch typ {
	case wire.Query:
		text, _, _ := wire.CString(body)
		for _, line := range commandLines(string(text)) {
			if err = a.answerAdmin(line); err != nil {
				break
			}
		}
	case wire.Sync:
		a.s.pipe.skipping = false
	case wire.Flush:
	default:
		if err = a.extendedAdmin(typ, body); err != nil {
			a.s.pipe.skipping = true
		}
	}
	a.s.client.Consume(wire.HeaderLen + len(body))
	if err != nil {
		a.s.out.tell(pgerr.From(err))
	}
	if typ == wire.Query || typ == wire.Sync {
		a.readyAdmin()
	}
	if typ == wire.Query || typ == wire.Sync || typ == wire.Flush || a.s.out.Full() {
		if err := a.s.out.flushOrEnd(); err != nil {
			return err
		}
	}
	return a.s.reach.checkKilled()
}

// commandLines cuts a text into commands; none of them has a semicolon in it. An
// empty text is one empty command.
func commandLines(text string) []string {
	var out []string
	for _, l := range strings.Split(text, ";") {
		if strings.TrimSpace(l) != "" {
			out = append(out, l)
		}
	}
	if out == nil {
		return []string{""}
	}
	return out
}

func (a *admin) readyAdmin() {
	status := byte(wire.TxIdle)
	if a.inBlock {
		status = wire.TxActive
	}
	a.s.out.B = wire.AppendReadyForQuery(a.s.out.B, status)
}

// runAdmin runs a command. What it has to say beside its result is told.
func (a *admin) runAdmin(line string) (console.Table, error) {
	ctx, cancel := a.s.util.cancellable()
	defer cancel()
	t, err := console.Run(ctx, line, adminSource{srv: a.s.srv})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	for _, n := range t.Notices {
		a.s.out.tell(&pgerr.Error{Severity: pgerr.SeverityNotice, Code: "00000", Message: n})
	}
	switch t.Tag {
	case "BEGIN", "START TRANSACTION":
		a.inBlock = true
	case "COMMIT", "ROLLBACK":
		a.inBlock = false
	}
	return t, err
}

// answerAdmin answers a command of a simple query.
func (a *admin) answerAdmin(line string) error {
	t, err := a.runAdmin(line)
	if err != nil {
		return err
	}
	a.s.out.Grow()
	if t.Tag == "" {
		a.s.out.B = wire.AppendEmpty(a.s.out.B, wire.EmptyQueryResponse)
		return nil
	}
	if t.Columns != nil {
		a.s.out.B = appendColumns(a.s.out.B, t.Columns, nil)
	}
	for _, r := range t.Rows {
		a.s.out.B = appendValues(a.s.out.B, r, t.Columns, nil)
	}
	a.s.out.B = wire.AppendCommandComplete(a.s.out.B, t.Tag)
	return nil
}

// probe asks a shard whether it serves queries, over a connection that any
// session has opened, or else by its port alone: weft may know no user's
// password yet.
func (s *Server) probe(ctx context.Context, sh *pool.Shard) error { return sh.Reachable(ctx) }
