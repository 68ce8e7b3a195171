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

// dial logs in to the server that is the shard's primary. If it is not known which one that is, the servers are tried one after the
// other, and each has its share of the time. own says that weft itself uses the connection, and no client.
func (l *Lane) dial(ctx context.Context, own bool) (*Conn, error) {
	sh := l.shard
	ctx, stop := context.WithTimeout(ctx, sh.pool.conf().ConnectTimeout)
	defer stop()
	hosts := sh.hosts()
	var failed failures
	for i, host := range hosts {
		c, err := l.dialHost(ctx, host, own, shareOf(ctx, len(hosts)-i))
		if err == nil {
			sh.led(host)
			return c, nil
		}
		if mayLead(err) {
			sh.Failed()
		}
		if failed.add(host, err); !mayLead(err) {
			break
		}
	}
	return nil, failed.error(sh)
}

// dialHost logs in to one server, in a limited time, or takes a login that was made ahead.
func (l *Lane) dialHost(ctx context.Context, host string, own bool, limit time.Duration) (*Conn, error) {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	if c := l.early(host, own); c != nil {
		if err := l.admit(ctx, c, own, min(limit, aheadLimit)); err == nil {
			return c, nil
		}
		// A new login will tell why.
	}
	c, err := l.login(ctx, host, !own)
	if err != nil {
		return nil, err
	}
	if err := l.admit(ctx, c, own, limit); err != nil {
		return nil, err
	}
	return c, nil
}

// admit asks a new backend what it must answer before it is used, and closes it if it may not be. The server has limit to answer.
func (l *Lane) admit(ctx context.Context, c *Conn, own bool, limit time.Duration) error {
	c.own = own
	if role := l.Role(); role != "" {
		if err := c.checkPoolUser(l.shard.pool.conf().loginName(l.key.User), role); err != nil {
			c.hangUp()
			return err
		}
	}
	if err := c.verify(ctx, limit); err != nil {
		c.hangUp()
		return err
	}
	l.shard.pool.processes.add(c)
	if err := c.readmit(ctx, limit); err != nil {
		l.shard.pool.processes.remove(c)
		c.hangUp()
		return err
	}
	return nil
}

// readmit repeats what may have changed before others could find the backend: it may have to register, or its server may
// have been replaced.
func (c *Conn) readmit(ctx context.Context, limit time.Duration) error {
	if err := c.outdated(); err != nil {
		return err
	}
	if !c.mustRegister() {
		return nil
	}
	// Whoever looks for backends that are not registered finds the backend from now on. Before
	// that, backends of its database may have begun to register.
	if statement, _, err := c.lane.shard.pool.conf().Registrar.Statement(ctx, c.Shard(), c.lane.key.Database, c.pid); err == nil && statement != "" {
		return c.verify(ctx, limit)
	}
	return nil
}

// login logs in to one server, without asking it anything. watched says that a loop watches the connection, if there is one.
func (l *Lane) login(ctx context.Context, host string, watched bool) (*Conn, error) {
	pc, err := l.shard.connConfig(l.key, host)
	if err != nil {
		return nil, err
	}
	conf := l.shard.pool.conf()
	dial := pc.DialFunc
	pc.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		watchful(conn, conf.TCPTimeout)
		if watched && conf.Adopt != nil {
			conn = conf.Adopt(conn)
		}
		return conn, nil
	}
	l.shard.pool.keys.use(pc, l.key.User)
	pg, err := pgconn.ConnectConfig(ctx, pc)
	if err != nil {
		return nil, l.shard.dialError(host, err)
	}
	h, err := pg.Hijack()
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", l.shard.Name, err)
	}
	h.Conn = unwrapped(h.Conn)
	if err := quiet(h.Conn); err != nil {
		_ = h.Conn.Close()
		return nil, fmt.Errorf("dial %s: %w", l.shard.Name, err)
	}
	c := &Conn{
		Stream: wire.NewStream(h.Conn), pid: int32(h.PID), secret: h.SecretKey,
		params: h.ParameterStatuses, strings: h.ParameterStatuses[stringsName], status: wire.TxIdle, lane: l, created: time.Now(), host: host,
		endpoint: endpoint{network: h.Conn.RemoteAddr().Network(), address: h.Conn.RemoteAddr().String()},
	}
	if h.TLSConfig != nil {
		c.endpoint.upgrade = sslUpgrade(h.TLSConfig)
	}
	c.prepared.reset()
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

// connConfig makes pgconn's configuration for a key and one server. It sets everything explicitly, so that
// environment variables of the process have no effect.
func (sh *Shard) connConfig(key Key, address string) (*pgconn.Config, error) {
	spec := sh.spec.Load()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, pgerr.New(pgerr.InternalError, "shard %q has a bad endpoint %q", sh.Name, address).WithCause(err)
	}
	conf := sh.pool.conf()
	u := conf.Users[key.User]
	var b strings.Builder
	kv := func(k, v string) {
		fmt.Fprintf(&b, "%s='%s' ", k, strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v))
	}
	kv("host", host)
	kv("port", port)
	kv("user", conf.loginName(key.User))
	kv("database", key.Database)
	kv("password", "") // set below: an error of ParseConfig would quote it
	if _, ok := spec.Options["sslmode"]; !ok {
		kv("sslmode", "prefer")
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
func (sh *Shard) dialError(host string, err error) error {
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
		WithHint("Is the server running on %s?", host).WithCause(err)
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
