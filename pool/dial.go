package pool

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/pgerr"
	"weft/wire"
)

// dial logs in to the shard. Of several hosts it takes the one that accepts writes. own says that
// weft itself uses the connection, and no client.
func (l *Lane) dial(ctx context.Context, own bool) (*Conn, error) {
	cfg := l.shard.pool.conf()
	pc, err := l.shard.connConfig(l.key)
	if err != nil {
		return nil, err
	}
	l.shard.pool.keys.use(pc, l.key.User)
	ctx, stop := context.WithTimeout(ctx, cfg.ConnectTimeout)
	defer stop()
	pg, err := pgconn.ConnectConfig(ctx, pc)
	if err != nil {
		return nil, l.shard.dialError(err)
	}
	h, err := pg.Hijack()
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", l.shard.Name, err)
	}
	h.Conn = unwrapped(h.Conn)
	watchful(h.Conn)
	if err := quiet(h.Conn); err != nil {
		_ = h.Conn.Close()
		return nil, fmt.Errorf("dial %s: %w", l.shard.Name, err)
	}
	c := &Conn{
		Stream: wire.NewStream(h.Conn), pid: int32(h.PID), secret: h.SecretKey,
		params: h.ParameterStatuses, strings: h.ParameterStatuses[stringsName], status: wire.TxIdle, lane: l, created: time.Now(), own: own,
		endpoint: endpoint{network: h.Conn.RemoteAddr().Network(), address: h.Conn.RemoteAddr().String()},
	}
	if h.TLSConfig != nil {
		c.endpoint.upgrade = sslUpgrade(h.TLSConfig)
	}
	c.prepared.reset()
	if role := l.Role(); role != "" {
		if err := c.checkPoolUser(pc.User, role); err != nil {
			c.hangUp()
			return nil, err
		}
	}
	if err := c.verify(ctx); err != nil {
		c.hangUp()
		return nil, err
	}
	l.shard.pool.processes.add(c)
	if c.mustRegister() {
		// Whoever looks for backends that are not registered finds the backend from now on. Before
		// that, backends of its database may have begun to register.
		if statement, _, err := cfg.Registrar.Statement(ctx, c.Shard(), l.key.Database, c.pid); err == nil && statement != "" {
			if err := c.verify(ctx); err != nil {
				l.shard.pool.processes.remove(c)
				c.hangUp()
				return nil, err
			}
		}
	}
	return c, nil
}

// quiet ends the background read that pgconn starts when a write is slow, and that outlives
// Hijack. The background read would keep the socket's read lock until bytes come, and then
// swallow them.
func quiet(conn net.Conn) error {
	_ = conn.SetDeadline(time.Unix(1, 0))
	var one [1]byte
	n, err := conn.Read(one[:]) // gets the read lock only when the background read has ended
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("unexpected answer after login: %w", err)
	}
	return conn.SetDeadline(time.Time{})
}

// connConfig makes pgconn's configuration for a key. It sets everything explicitly, so that
// environment variables of the process have no effect.
func (sh *Shard) connConfig(key Key) (*pgconn.Config, error) {
	spec := sh.spec.Load()
	var hosts, ports []string
	for _, h := range spec.Hosts {
		host, port, err := net.SplitHostPort(h)
		if err != nil {
			return nil, pgerr.New(pgerr.InternalError, "shard %q has a bad endpoint %q", sh.Name, h).WithCause(err)
		}
		hosts, ports = append(hosts, host), append(ports, port)
	}
	conf := sh.pool.conf()
	u := conf.Users[key.User]
	var b strings.Builder
	kv := func(k, v string) {
		fmt.Fprintf(&b, "%s='%s' ", k, strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v))
	}
	kv("host", strings.Join(hosts, ","))
	kv("port", strings.Join(ports, ","))
	kv("user", conf.loginName(key.User))
	kv("database", key.Database)
	kv("password", "") // set below: an error of ParseConfig would quote it
	if _, ok := spec.Options["sslmode"]; !ok {
		kv("sslmode", "prefer")
	}
	if len(hosts) > 1 {
		if _, ok := spec.Options["target_session_attrs"]; !ok {
			kv("target_session_attrs", "read-write")
		}
	}
	for k, v := range spec.Options {
		kv(k, v)
	}
	pc, err := pgconn.ParseConfig(b.String())
	if err != nil {
		// The message leaves out the connection string, which contains the key file's password.
		_, reason, _ := strings.Cut(err.Error(), "`: ")
		return nil, pgerr.New(pgerr.InternalError, "shard %q cannot be dialled: %s", sh.Name, reason)
	}
	pc.Password = u.ServerPassword
	pc.RuntimeParams = key.params()
	if u.Role != "" {
		// RESET ROLE goes back to the startup parameter. It wins over a role in the client's
		// options.
		pc.RuntimeParams["role"] = u.Role
	}
	return pc, nil
}

// dialError words a failed dial for the client: the server's error, field by field, or that the
// server could not be reached.
func (sh *Shard) dialError(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return &pgerr.Error{
			Severity: pgerr.Severity(pg.SeverityUnlocalized), Code: pg.Code, Message: pg.Message,
			Detail: pg.Detail, Hint: pg.Hint, File: pg.File, Line: int(pg.Line), Routine: pg.Routine,
		}
	}
	reason := err.Error()
	var op *net.OpError
	var refused loginError
	switch {
	case errors.As(err, &refused):
		return pgerr.New(pgerr.InvalidAuthorizationSpec, "could not log in to shard %q: %s", sh.Name, refused.Error()).
			WithHint("If the password has been changed, connect again. Else give the role the same SCRAM verifier on every shard (see docs/security.md), or give weft a server_password for the user.").WithCause(err)
	case errors.As(err, &op):
		reason = op.Err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		reason = "timed out"
	}
	return pgerr.New(pgerr.ConnectionFailure, "could not connect to shard %q: %s", sh.Name, reason).
		WithHint("Is the server running on %s?", strings.Join(sh.spec.Load().Hosts, ", ")).WithCause(err)
}

// sslUpgrade returns the function that starts TLS on the connection of a cancel request.
func sslUpgrade(cfg *tls.Config) func(context.Context, net.Conn) (net.Conn, error) {
	return func(ctx context.Context, c net.Conn) (net.Conn, error) {
		if _, err := c.Write(wire.AppendSSLRequest(nil)); err != nil {
			return nil, err
		}
		var answer [1]byte
		if _, err := c.Read(answer[:]); err != nil {
			return nil, err
		}
		if answer[0] != 'S' {
			return nil, errors.New("server refused TLS")
		}
		t := tls.Client(c, cfg)
		return t, t.HandshakeContext(ctx)
	}
}
