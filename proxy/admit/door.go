package admit

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"weft/auth"
	"weft/pgerr"
	"weft/wire"
)

// Rules are what an operator may change while the proxy runs.
type Rules struct {
	Auth *auth.Authenticator
	// Balancers are the networks of load balancers that may say for whom they speak.
	Balancers []netip.Prefix
	// TLS is nil where there is none.
	TLS        *tls.Config
	RequireTLS bool
	// AuthFailures is how many logins may fail in a minute from one address.
	AuthFailures int
	// Timeout bounds the whole dialogue.
	Timeout time.Duration
}

// Door is where clients come in.
type Door struct {
	Log   *slog.Logger
	Rules func() Rules
	// Passwords is where passwords are looked up by a query; nil if they are not.
	Passwords func(auth.Query) auth.Passwords
	// Learn is told the keys of a user who has proved to know the password.
	Learn func(user string, keys *auth.Keys)
	// Cancel does what a cancel request asks for, Ask what another proxy asks for.
	Cancel func(*wire.Packet)
	Ask    func(*wire.Stream, *tls.ConnectionState) error
	// Options refuses startup parameters that have no such value.
	Options func([]wire.Option) error

	failures auth.Failures
}

// Welcome gives a client that is allowed in what it came for. greeting is what the
// client must be sent first. An error turns the client away.
type Welcome func(ctx context.Context, c *Client, greeting []byte) error

// Admit runs the dialogue before the first query and then calls welcome. It returns nil
// where there is no client to serve: the request was to cancel, a proxy asked, or the
// client was turned away.
func (d *Door) Admit(ctx context.Context, conn net.Conn, welcome Welcome) *Client {
	rules := d.Rules()
	ctx, stop := context.WithTimeout(ctx, rules.Timeout)
	defer stop()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetNoDelay(true)
	}
	balancer := conn
	conn, err := forwarded(balancer, rules.Balancers)
	if err != nil {
		if !errors.Is(err, io.EOF) { // a look at the port
			d.Log.Info("startup failed", "client", balancer.RemoteAddr(), "err", err)
		}
		return nil
	}
	c := &Client{door: d, rules: rules, Stream: wire.NewStream(conn)}
	if err = c.identify(ctx); err == nil && c.User != "" {
		err = welcome(ctx, c, wire.AppendAuthenticationOk(nil))
	}
	switch {
	case err != nil:
		c.turnAway(conn, err)
		return nil
	case c.User == "":
		return nil
	}
	_ = c.Stream.Conn().SetDeadline(time.Time{})
	return c
}

// turnAway tells a client why it is not let in, and hangs up.
func (c *Client) turnAway(conn net.Conn, err error) {
	var e *pgerr.Error
	if errors.As(err, &e) {
		fatal := *e // the error may be shared
		fatal.Severity = pgerr.SeverityFatal
		e = &fatal
		_ = conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
		if c.old {
			_, _ = c.Stream.Write(append(append([]byte{'E'}, "FATAL:  "+e.Message+"\n"...), 0))
		} else {
			var b []byte
			if c.greeted {
				b = wire.AppendAuthenticationOk(nil)
			}
			_, _ = c.Stream.Write(wire.AppendError(b, e))
		}
		wire.Linger(conn)
		c.door.Log.Info("client turned away", "client", conn.RemoteAddr(), "err", err)
	} else if !errors.Is(err, io.EOF) {
		c.door.Log.Info("startup failed", "client", conn.RemoteAddr(), "err", err)
	}
	_ = c.Stream.Close()
}

// identify finds out who the client is. User stays empty for what is no client.
func (c *Client) identify(ctx context.Context) error {
	if err := c.open(ctx); err != nil || c.Packet.Kind != wire.PacketStartup {
		return err
	}
	p := c.Packet
	user, database := p.Get("user"), p.Get("database")
	if user == "" {
		return pgerr.Fatal(pgerr.InvalidAuthorizationSpec, "no PostgreSQL user name specified in startup packet")
	}
	if database == "" {
		database = user
	}
	if r := p.Get("replication"); r != "" && !isFalse(r) {
		return pgerr.Fatal(pgerr.FeatureNotSupported, "replication connections are not supported through weft").
			WithHint("Connect to the shard itself for replication.")
	}
	if err := c.negotiate(); err != nil {
		return err
	}
	if err := c.door.Options(p.Options); err != nil {
		return err
	}
	if c.rules.RequireTLS && c.TLS == nil {
		return pgerr.Fatal(pgerr.InvalidAuthorizationSpec, "weft requires TLS for this connection").
			WithHint("Add sslmode=require to the connection string.")
	}
	return c.authenticate(ctx, user, database)
}

// authenticate asks the client to prove who it is.
func (c *Client) authenticate(ctx context.Context, user, database string) error {
	remote, d := c.Stream.Conn().RemoteAddr(), c.door
	if wait := d.failures.Wait(c.rules.AuthFailures, remote, time.Now()); wait > 0 {
		return pgerr.Fatal(pgerr.InvalidAuthorizationSpec, "too many authentication failures from this address").
			WithHint("Try again in %v.", wait.Round(time.Second)+time.Second)
	}
	who, err := c.rules.Auth.Authenticate(ctx, c, auth.Request{
		User: user, Database: database, Remote: remote, TLS: c.TLS, ServerCertificate: c.cert,
		Passwords: d.Passwords(c.rules.Auth.Query()),
	})
	if err != nil {
		if e := (*pgerr.Error)(nil); errors.As(err, &e) && (e.Code == pgerr.InvalidPassword || e.Code == pgerr.InvalidAuthorizationSpec) {
			d.failures.Note(c.rules.AuthFailures, remote, time.Now())
		}
		return err
	}
	d.Learn(user, who.Keys)
	c.greeted = true
	c.User, c.Database = who.Name, database
	return nil
}
