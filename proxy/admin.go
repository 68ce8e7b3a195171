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
	statements map[string]string // texts by name
	portals    map[string]*adminPortal
	inBlock    bool // the client takes it to be in a transaction
}

// maxAdmin bounds the statements and portals a client of the console may keep.
const maxAdmin = 1000

// welcomeAdmin admits a client to weft's own console instead of a database.
func (st *starter) welcomeAdmin(sess *Session) (*Session, error) {
	if !st.srv.isAdmin(sess.user) {
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
	sess.admin = &admin{statements: map[string]string{}, portals: map[string]*adminPortal{}}
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
func (s *Session) stepAdmin() error {
	typ, length, err := s.header()
	if err != nil {
		return err
	}
	if limit := wire.FrontendLimit(typ); limit == 0 || length < 4 || length > limit {
		return pgerr.Fatal(pgerr.ProtocolViolation, "invalid frontend message")
	}
	if s.skipping && typ != wire.Sync && typ != wire.Terminate {
		return s.skip(length + 1)
	}
	if typ == wire.Terminate {
		return errEnd
	}
	body, err := s.frame()
	if err != nil {
		return err
	}
	s.toClient.Grow()
	switch typ {
	case wire.Query:
		text, _, _ := wire.CString(body)
		for _, line := range commandLines(string(text)) {
			if err = s.answerAdmin(line); err != nil {
				break
			}
		}
	case wire.Sync:
		s.skipping = false
	case wire.Flush:
	default:
		if err = s.extendedAdmin(typ, body); err != nil {
			s.skipping = true
		}
	}
	s.client.Consume(wire.HeaderLen + len(body))
	if err != nil {
		s.tell(pgerr.From(err))
	}
	if typ == wire.Query || typ == wire.Sync {
		s.readyAdmin()
	}
	if typ == wire.Query || typ == wire.Sync || typ == wire.Flush || s.toClient.Full() {
		if err := s.flushOrEnd(); err != nil {
			return err
		}
	}
	return s.checkKilled()
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

func (s *Session) readyAdmin() {
	status := byte(wire.TxIdle)
	if s.admin.inBlock {
		status = wire.TxActive
	}
	s.toClient.B = wire.AppendReadyForQuery(s.toClient.B, status)
}

// runAdmin runs a command. What it has to say beside its result is told.
func (s *Session) runAdmin(line string) (console.Table, error) {
	ctx, cancel := s.cancellable()
	defer cancel()
	t, err := console.Run(ctx, line, adminSource{srv: s.srv})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	for _, n := range t.Notices {
		s.tell(&pgerr.Error{Severity: pgerr.SeverityNotice, Code: "00000", Message: n})
	}
	switch t.Tag {
	case "BEGIN", "START TRANSACTION":
		s.admin.inBlock = true
	case "COMMIT", "ROLLBACK":
		s.admin.inBlock = false
	}
	return t, err
}

// answerAdmin answers a command of a simple query.
func (s *Session) answerAdmin(line string) error {
	t, err := s.runAdmin(line)
	if err != nil {
		return err
	}
	s.toClient.Grow()
	if t.Tag == "" {
		s.toClient.B = wire.AppendEmpty(s.toClient.B, wire.EmptyQueryResponse)
		return nil
	}
	if t.Columns != nil {
		s.toClient.B = appendColumns(s.toClient.B, t.Columns, nil)
	}
	for _, r := range t.Rows {
		s.toClient.B = appendValues(s.toClient.B, r, t.Columns, nil)
	}
	s.toClient.B = wire.AppendCommandComplete(s.toClient.B, t.Tag)
	return nil
}

// probe asks a shard whether it serves queries, over a connection that any
// session has opened, or else by its port alone: weft may know no user's
// password yet.
func (s *Server) probe(ctx context.Context, sh *pool.Shard) error { return sh.Reachable(ctx) }
