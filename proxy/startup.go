package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"weft/auth"
	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// start runs the dialogue before the first query. It returns nil when there is
// no session to run: a cancel request, or the client was turned away.
func (s *Server) start(conn net.Conn) *Session {
	ctx, stop := context.WithTimeout(s.ctx, s.conf().StartupTimeout)
	defer stop()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetNoDelay(true)
	}
	balancer := conn
	conn, err := s.forwarded(balancer)
	if err != nil {
		if !errors.Is(err, io.EOF) { // a look at the port
			s.log.Info("startup failed", "client", balancer.RemoteAddr(), "err", err)
		}
		return nil
	}
	st := &starter{srv: s, stream: wire.NewStream(conn)}
	sess, err := st.run(ctx)
	if err == nil {
		if sess != nil {
			_ = sess.client.Conn().SetDeadline(time.Time{})
		}
		return sess
	}
	var e *pgerr.Error
	if errors.As(err, &e) {
		fatal := *e // it may be shared
		fatal.Severity = pgerr.SeverityFatal
		e = &fatal
		_ = conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
		if st.old {
			_, _ = st.stream.Write(append(append([]byte{'E'}, "FATAL:  "+e.Message+"\n"...), 0))
		} else {
			_, _ = st.stream.Write(wire.AppendError(st.greeted, e))
		}
		linger(conn)
		s.log.Info("client turned away", "client", conn.RemoteAddr(), "err", err)
	} else if !errors.Is(err, io.EOF) {
		s.log.Info("startup failed", "client", conn.RemoteAddr(), "err", err)
	}
	if errors.Is(err, errGone) {
		return nil
	}
	_ = st.stream.Close()
	return nil
}

var errGone = errors.New("client went away")

// starter is one client's startup dialogue.
type starter struct {
	srv     *Server
	stream  *wire.Stream
	tls     *tls.ConnectionState
	cert    []byte
	packet  *wire.Packet
	peer    bool   // another proxy, by the word of TLS: no client may come this way
	old     bool   // speaks a protocol before 3: errors are plain text
	greeted []byte // AuthenticationOk, once the client is authenticated
}

func (st *starter) run(ctx context.Context) (*Session, error) {
	if err := st.open(ctx); err != nil || st.packet.Kind != wire.PacketStartup {
		return nil, err
	}
	p := st.packet
	user, database := p.Get("user"), p.Get("database")
	if user == "" {
		return nil, pgerr.Fatal(pgerr.InvalidAuthorizationSpec, "no PostgreSQL user name specified in startup packet")
	}
	if database == "" {
		database = user
	}
	if r := p.Get("replication"); r != "" && !isFalse(r) {
		return nil, pgerr.Fatal(pgerr.FeatureNotSupported, "replication connections are not supported through weft").
			WithHint("Connect to the shard itself for replication.")
	}
	if err := st.negotiate(); err != nil {
		return nil, err
	}
	if err := startupOptions(p.Options); err != nil {
		return nil, err
	}
	if st.srv.conf().RequireTLS && st.tls == nil {
		return nil, pgerr.Fatal(pgerr.InvalidAuthorizationSpec, "weft requires TLS for this connection").
			WithHint("Add sslmode=require to the connection string.")
	}
	remote := st.stream.Conn().RemoteAddr()
	if wait := st.srv.failures.Wait(st.srv.conf().AuthFailures, remote, time.Now()); wait > 0 {
		return nil, pgerr.Fatal(pgerr.InvalidAuthorizationSpec, "too many authentication failures from this address").
			WithHint("Try again in %v.", wait.Round(time.Second)+time.Second)
	}
	door := st.srv.conf().Auth
	who, err := door.Authenticate(ctx, st, auth.Request{
		User: user, Database: database, Remote: remote, TLS: st.tls, ServerCertificate: st.cert,
		Passwords: st.srv.passwords.by(door.Query()),
	})
	if err != nil {
		if e := (*pgerr.Error)(nil); errors.As(err, &e) && (e.Code == pgerr.InvalidPassword || e.Code == pgerr.InvalidAuthorizationSpec) {
			st.srv.failures.Note(st.srv.conf().AuthFailures, remote, time.Now())
		}
		return nil, err
	}
	st.srv.pool.Learn(user, who.Keys)
	st.greeted = wire.AppendAuthenticationOk(nil)
	return st.welcome(ctx, who.Name, database)
}

// open reads packets until the one that is a startup or a cancel.
func (st *starter) open(ctx context.Context) error {
	var sslDone, gssDone bool
	if direct, err := st.directTLS(ctx); err != nil {
		return err
	} else if direct {
		sslDone, gssDone = true, true
	}
	for {
		p, err := wire.ReadPacket(st.stream)
		var bad wire.VersionError
		switch {
		case errors.As(err, &bad):
			st.old = bad.Version>>16 < 3 && bad.Version != 0
			e := pgerr.Fatal(pgerr.FeatureNotSupported, "%s", bad.Error())
			e.File, e.Routine = "postmaster.c", "ProcessStartupPacket"
			return e
		case errors.Is(err, wire.ErrStartupLayout):
			e := pgerr.Fatal(pgerr.ProtocolViolation, "%s", err.Error())
			e.File, e.Routine = "postmaster.c", "ProcessStartupPacket"
			return e
		case err != nil:
			return err
		}
		switch {
		case p.Kind == wire.PacketSSL && !sslDone:
			sslDone = true
			if st.srv.conf().TLS == nil || st.tls != nil {
				if _, err := st.stream.Write([]byte{'N'}); err != nil {
					return err
				}
				continue
			}
			if err := st.startTLS(ctx); err != nil {
				return err
			}
			gssDone = true
		case p.Kind == wire.PacketGSS && !gssDone:
			gssDone = true
			if _, err := st.stream.Write([]byte{'N'}); err != nil {
				return err
			}
		case p.Kind == wire.PacketSSL || p.Kind == wire.PacketGSS:
			v := uint32(wire.SSLRequestCode)
			if p.Kind == wire.PacketGSS {
				v++
			}
			return pgerr.Fatal(pgerr.FeatureNotSupported, "%s", wire.VersionError{Version: v}.Error())
		case p.Kind == wire.PacketCancel:
			st.packet = p
			st.srv.onCancel(p)
			return nil
		case p.Kind == wire.PacketAsk:
			st.packet = p
			return st.srv.asked.Serve(st.stream, st.tls, st.srv.conf().TLS != nil)
		case st.peer:
			return pgerr.Fatal(pgerr.ProtocolViolation, "a connection between proxies is not for clients")
		default:
			st.packet = p
			return nil
		}
	}
}

// negotiate tells a client that asked for a newer minor version or for
// protocol options what it gets.
func (st *starter) negotiate() error {
	minor := st.packet.Version & 0xffff
	var unknown []string
	for _, o := range st.packet.Options {
		if strings.HasPrefix(o.Name, "_pq_.") {
			unknown = append(unknown, o.Name)
		}
	}
	got := uint32(0)
	if minor >= 2 {
		got = 2
	}
	if minor == got && len(unknown) == 0 {
		return nil
	}
	st.packet.Version = wire.Protocol30 | got
	_, err := st.stream.Write(wire.AppendNegotiateProtocolVersion(nil, wire.Protocol30|got, unknown))
	return err
}

// SendAuth implements auth.Client.
func (st *starter) SendAuth(body []byte) error {
	_, err := st.stream.Write(wire.AppendAuthentication(nil, body))
	return err
}

// ReceivePassword implements auth.Client.
func (st *starter) ReceivePassword(limit int) ([]byte, error) {
	if err := st.stream.Need(wire.HeaderLen); err != nil {
		return nil, err
	}
	typ, _, _ := st.stream.Header()
	if typ != wire.Password {
		return nil, auth.MessageTypeError(typ)
	}
	_, body, err := st.stream.Next(limit + 4)
	if errors.Is(err, wire.ErrFrameLength) {
		return nil, auth.ErrMessageTooLong
	}
	if err != nil {
		return nil, err
	}
	// The next packet may overwrite the buffer.
	own := slices.Clone(body)
	st.stream.Consume(wire.HeaderLen + len(body))
	return own, nil
}

// welcome admits an authenticated client: it gets a session and is told the
// parameters a backend of its own would report.
func (st *starter) welcome(ctx context.Context, user, database string) (*Session, error) {
	s := st.srv
	snap := s.cfg.Snapshot()
	if snap == nil {
		return nil, pgerr.Fatal(pgerr.CannotConnectNow, "weft has not loaded its cluster yet").WithHint("Is etcd reachable?")
	}
	sess := newSession(s, st.stream, st.packet, user, database)
	if database == s.cfg.AdminDatabase {
		return st.welcomeAdmin(sess)
	}
	home := s.pool.Shard(snap.HomeShard())
	lane := home.OpenLane(pool.NewKey(database, user, st.packet.Options))
	params, err := s.homeless.welcome(ctx, s, snap, lane)
	if err != nil {
		lane.CloseLane()
		return nil, err
	}
	sess.db, sess.lane = s.pool.Database(database), lane
	if err := st.admitted(sess, params); err != nil {
		lane.CloseLane()
		return nil, err
	}
	if s.conf().Pool.UserMode(user) == pool.ModeSession {
		sess.record.pins |= pinSessionMode
	}
	if s.cfg.Tracer != nil {
		sess.account.traced = s.cfg.Tracer.Session(user, database, clean(st.packet.Get("application_name")))
	}
	s.metrics.clientCame()
	return sess, nil
}

// admitted registers the session and greets the client.
func (st *starter) admitted(sess *Session, params map[string]string) error {
	s := st.srv
	n := 4
	if st.packet.Version == wire.Protocol32 {
		n = 32
	}
	sess.login.secret = newSecret(n)
	if e := s.admit(sess); e != nil {
		return e
	}
	sess.out.reported = params
	b := st.greeted
	if name := st.packet.Get("application_name"); name != "" {
		if cut := clip(name); cut != name && hearsNotices(st.packet) {
			b = wire.AppendError(b, nameTooLong(name, cut))
		}
		name = clean(name)
		sess.record.settings = sess.record.settings.With("application_name", name)
		sess.out.report("application_name", name)
		clear(sess.out.unready)
	}
	sess.record.oldStrings = params["standard_conforming_strings"] == "off"
	sess.record.setEncoding(params["client_encoding"])
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
	if _, err := st.stream.Write(b); err != nil {
		s.mu.Lock()
		s.dismiss(sess)
		s.mu.Unlock()
		return err
	}
	return nil
}

// clean makes an application name what PostgreSQL makes of it: bytes that are
// not printable ASCII become question marks, and it is cut at 63 bytes.
func clean(name string) string {
	b := []byte(clip(name))
	for i, c := range b {
		if c < 32 || c > 126 {
			b[i] = '?'
		}
	}
	return string(b)
}

// maxName is how many bytes PostgreSQL leaves of a name.
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

// hearsNotices reports whether a client hears a notice about its application's name. Settings
// count that come before the name; those of options come before all.
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

// nameTooLong is what PostgreSQL says of a name that it cuts.
func nameTooLong(name, cut string) *pgerr.Error {
	e := pgerr.New("42622", "identifier \"%s\" will be truncated to \"%s\"", name, cut)
	e.Severity, e.Routine = pgerr.SeverityNotice, "truncate_identifier"
	return e
}

func isFalse(v string) bool {
	switch strings.ToLower(v) {
	case "0", "f", "false", "n", "no", "of", "off":
		return true
	}
	return false
}
