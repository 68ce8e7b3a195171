package proxy

import (
	"context"
	"crypto/tls"
	"maps"
	"net"
	"slices"
	"strings"
	"unicode/utf8"

	"weft/pgerr"
	"weft/pool"
	"weft/proxy/admit"
	"weft/proxy/target"
	"weft/wire"
)

// newDoor returns the door through which clients come in.
func newDoor(s *Server) *admit.Door {
	return &admit.Door{
		Log: s.log,
		Rules: func() admit.Rules {
			c := s.conf()
			return admit.Rules{
				Auth: c.Auth, Balancers: c.ProxyProtocol, TLS: c.TLS, RequireTLS: c.RequireTLS,
				AuthFailures: c.AuthFailures, Timeout: c.StartupTimeout,
			}
		},
		Passwords: s.passwords.By,
		Learn:     s.pool.Learn,
		Cancel:    s.onCancel,
		Ask: func(stream *wire.Stream, t *tls.ConnectionState) error {
			return s.asked.Serve(stream, t, s.conf().TLS != nil)
		},
		Options: startupOptions,
	}
}

// start lets a client in. It returns nil if there is no session to run: the client sent a
// cancel request, or was turned away.
func (s *Server) start(conn net.Conn, there bool) *Session {
	var sess *Session
	s.door.Admit(s.ctx, conn, func(ctx context.Context, c *admit.Client, greeting []byte) (err error) {
		sess, err = s.welcome(ctx, c, greeting, there)
		return err
	})
	return sess
}

// welcome gives an authenticated client a session, and tells it the parameters that a
// backend of its own would report.
func (s *Server) welcome(ctx context.Context, c *admit.Client, greeting []byte, there bool) (*Session, error) {
	user, database := c.User, c.Database
	snap := s.cfg.Snapshot()
	if snap == nil {
		return nil, pgerr.Fatal(pgerr.CannotConnectNow, "weft has not loaded its cluster yet").WithHint("Is etcd reachable?")
	}
	sess := newSession(s, c.Stream, c.Packet, user, database)
	sess.login.there = there
	if database == s.cfg.AdminDatabase {
		return s.welcomeAdmin(sess, greeting)
	}
	home := s.pool.Shard(snap.HomeShard())
	lane := home.OpenLane(pool.NewKey(database, user, c.Packet.Options))
	params, err := s.homeless.welcome(ctx, s, snap, lane)
	if err != nil {
		lane.CloseLane()
		return nil, err
	}
	sess.db, sess.lane = s.pool.Database(database), lane
	if there && s.conf().Gather.Replicas.There != target.Auto {
		params = asStandby(params)
	}
	if err := s.admitted(sess, params, greeting); err != nil {
		lane.CloseLane()
		return nil, err
	}
	if s.conf().Pool.UserMode(user) == pool.ModeSession {
		sess.record.pins.tie(pinSessionMode)
	}
	if s.cfg.Tracer != nil {
		sess.account.traceAs(s.cfg.Tracer.Session(user, database, clean(c.Packet.Get("application_name"))))
	}
	s.metrics.clientCame()
	return sess, nil
}

// forStandbys is a listener for clients whose sessions begin with the target Replicas.There.
type forStandbys struct{ net.Listener }

// ForStandbys makes Server.Serve begin sessions with the target Replicas.There.
func ForStandbys(l net.Listener) net.Listener { return forStandbys{l} }

// asStandby is what a backend would report if it were one of a standby. Drivers that look for a standby or a primary go by it.
func asStandby(params map[string]string) map[string]string {
	if _, known := params["in_hot_standby"]; !known { // before PostgreSQL 14
		return params
	}
	params = maps.Clone(params)
	params["in_hot_standby"] = "on"
	return params
}

// admitted registers the session and greets the client.
func (s *Server) admitted(sess *Session, params map[string]string, greeting []byte) error {
	n := 4
	if sess.login.startup.Version == wire.Protocol32 {
		n = 32
	}
	sess.login.secret = newSecret(n)
	if e := s.register.admit(sess); e != nil {
		return e
	}
	sess.out.greet(params)
	b, application := greeting, ""
	if name := sess.login.startup.Get("application_name"); name != "" {
		if cut := clip(name); cut != name && hearsNotices(sess.login.startup) {
			b = wire.AppendError(b, nameTooLong(name, cut))
		}
		application = clean(name)
		sess.out.report("application_name", application)
		clear(sess.out.unready)
	}
	sess.record.greet(application, params)
	names := make([]string, 0, len(sess.out.reported))
	for n := range sess.out.reported {
		names = append(names, n)
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) })
	for _, n := range names {
		b = wire.AppendParameterStatus(b, n, sess.out.reported[n])
	}
	b = wire.AppendBackendKeyData(b, sess.id, sess.login.secret)
	b = wire.AppendReadyForQuery(b, wire.TxIdle)
	if _, err := sess.client.Write(b); err != nil {
		s.register.mu.Lock()
		s.register.dismiss(sess)
		s.register.mu.Unlock()
		return err
	}
	return nil
}

// clean makes of an application name what PostgreSQL makes of it: bytes that are not
// printable ASCII become question marks, and the name is cut at 63 bytes.
func clean(name string) string {
	b := []byte(clip(name))
	for i, c := range b {
		if c < 32 || c > 126 {
			b[i] = '?'
		}
	}
	return string(b)
}

// maxName is how many bytes of a name PostgreSQL keeps.
const maxName = 63

// clip cuts a name as PostgreSQL does: between characters.
func clip(name string) string {
	if len(name) <= maxName {
		return name
	}
	n := maxName
	for utf8.ValidString(name) && !utf8.RuneStart(name[n]) {
		n--
	}
	return name[:n]
}

// hearsNotices reports whether a client hears a notice about its application name. Only
// settings that come before the name count; those in options come before all.
func hearsNotices(p *wire.Packet) bool {
	level := ""
	if m := minMessages.FindStringSubmatch(p.Get("options")); m != nil {
		level = m[1]
	}
	for _, o := range p.Options {
		if o.Name == "application_name" {
			break
		}
		if o.Name == "client_min_messages" {
			level = o.Value
		}
	}
	return !quiets(level, pgerr.SeverityNotice)
}

// nameTooLong is PostgreSQL's notice about a name that it cuts.
func nameTooLong(name, cut string) *pgerr.Error {
	e := pgerr.New("42622", "identifier \"%s\" will be truncated to \"%s\"", name, cut)
	e.Severity, e.Routine = pgerr.SeverityNotice, "truncate_identifier"
	return e
}
