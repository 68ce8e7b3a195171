package auth

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"

	"weft/pgerr"
)

// Client is the client's connection as the dialogue sees it. Both methods must
// return when the context given to Authenticate ends; how (a deadline, closing
// the socket) is the implementation's choice.
type Client interface {
	// SendAuth writes one AuthenticationXxx message, type 'R', with this body
	// (int32 code and data) and flushes it. The body is the callee's only
	// until it returns.
	SendAuth(body []byte) error

	// ReceivePassword reads one message that must be of type 'p' with a body
	// of at most max bytes and returns the body, valid until the next call.
	// A message of another type is a MessageTypeError, a longer one
	// ErrMessageTooLong; neither need be read to its end.
	ReceivePassword(max int) ([]byte, error)
}

// MessageTypeError is what ReceivePassword returns for a message that is no
// password message: its type byte.
type MessageTypeError byte

// Error implements error.
func (e MessageTypeError) Error() string {
	return fmt.Sprintf("unexpected message type %d", byte(e))
}

// ErrMessageTooLong is what ReceivePassword returns for a message that is longer
// than max.
var ErrMessageTooLong = errors.New("password message too long")

// Request is what the startup packet and the socket said.
type Request struct {
	User     string
	Database string
	Remote   net.Addr
	TLS      *tls.ConnectionState // nil without TLS

	// ServerCertificate is the leaf certificate this connection was shown, in
	// DER, for channel binding. Without it SCRAM-SHA-256-PLUS is not offered.
	ServerCertificate []byte

	// Passwords knows users whose passwords are not in the configuration. Nil:
	// there are none.
	Passwords Passwords
}

// Passwords is where stored passwords are that the configuration does not have.
type Passwords interface {
	// Stored returns a user's password in a form that User.Password has, "" if
	// there is no such user or it has none. An error means that nobody knows,
	// and then nobody gets in.
	Stored(ctx context.Context, user string) (string, error)
	// Wrong says that a client's answer did not fit what Stored has returned:
	// it may have been changed since it was read.
	Wrong(user string)
}

// Login is a client that has been let in.
type Login struct {
	*User       // shared, not to be modified
	Keys  *Keys // nil if the client has proved nothing that a shard can be shown
}

// Authenticator lets clients in by one Config.
type Authenticator struct {
	method   Method
	rules    []compiledRule // none means: method for everyone
	maps     nameMaps
	query    Query
	accounts map[string]*account
	mock     mock
	log      *slog.Logger
}

// New checks cfg and prepares it. Under scram-sha-256 each clear-text password
// costs one key derivation here (about a millisecond): with thousands of users
// store verifiers instead.
func New(cfg Config) (*Authenticator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	a := &Authenticator{
		method:   cfg.Method.orDefault(),
		accounts: make(map[string]*account, len(cfg.Users)),
		mock:     mock{secret: []byte(cfg.MockSecret)},
		query:    cfg.query().withDefaults(),
		log:      cfg.Logger,
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if len(a.mock.secret) == 0 {
		a.mock.secret = make([]byte, 32)
		rand.Read(a.mock.secret) // never fails: crypto/rand ends the process instead
	}
	var err error
	if a.maps, err = compileMaps(cfg.Maps); err != nil {
		return nil, err
	}
	scram := len(cfg.Rules) == 0 && a.method == MethodScramSHA256
	for _, r := range cfg.Rules {
		c, err := r.compile(a.method)
		if err != nil {
			return nil, err
		}
		scram = scram || c.method == MethodScramSHA256
		a.rules = append(a.rules, c)
	}
	md5, verifiers := 0, 0
	for _, u := range cfg.Users {
		acc, err := newAccount(u, a.mock, scram)
		if err != nil {
			return nil, fmt.Errorf("user %q: %w", u.Name, err)
		}
		a.accounts[u.Name] = acc
		switch {
		case acc.md5 != "":
			md5++
		case acc.verifier != nil:
			verifiers++
		}
	}
	a.mock.md5 = md5 > verifiers
	return a, nil
}

// Authenticate runs the dialogue up to, not including, AuthenticationOk, and
// returns who was let in. What the client should see is a *pgerr.Error with severity FATAL; the reason behind a
// refusal is its cause and has been logged, as the client must not learn it.
// Any other error means that the connection failed or ctx ended.
func (a *Authenticator) Authenticate(ctx context.Context, c Client, r Request) (*Login, error) {
	u, err := a.authenticate(ctx, c, r)
	var refusal *pgerr.Error
	if errors.As(err, &refusal) {
		attrs := []slog.Attr{
			slog.String("user", r.User),
			slog.String("database", r.Database),
			slog.String("host", host(r.Remote)),
			slog.String("code", refusal.Code),
			slog.String("error", refusal.Message),
		}
		if refusal.Detail != "" {
			attrs = append(attrs, slog.String("detail", refusal.Detail))
		}
		if cause := refusal.Unwrap(); cause != nil {
			attrs = append(attrs, slog.String("reason", cause.Error()))
		}
		a.log.LogAttrs(ctx, slog.LevelWarn, "authentication failed", attrs...)
	}
	return u, err
}

func (a *Authenticator) authenticate(ctx context.Context, c Client, r Request) (*Login, error) {
	if r.User == "" {
		return nil, pgerr.Fatal(pgerr.InvalidAuthorizationSpec, "no PostgreSQL user name specified in startup packet")
	}
	rule, err := a.ruleFor(r)
	if err != nil {
		return nil, err
	}
	if err := a.checkCertificate(rule, r); err != nil {
		return nil, err
	}
	acc := a.accounts[r.User]
	d := dialogue{ctx: ctx, client: c, request: r, mock: a.mock}
	if rule.method.asksPassword() && r.Passwords != nil && (acc == nil || acc.user.Password == "") {
		if acc, err = lookUp(ctx, r, acc); err != nil {
			return nil, err
		}
		d.lookedUp = true
	}
	d.account = acc
	switch rule.method {
	case MethodTrust, MethodCert:
	case MethodReject:
		return nil, pgerr.Fatal(pgerr.InvalidAuthorizationSpec, "weft.yaml rejects connection for %s", r.describe())
	case MethodMD5:
		err = d.md5()
	case MethodScramSHA256:
		err = d.scram()
	default: // Validate knows no other
		err = fmt.Errorf("authentication method %q", rule.method)
	}
	if err != nil {
		return nil, err
	}
	if acc == nil {
		// Only trust and cert get here: the shard decides whether the role exists.
		return &Login{User: &User{Name: r.User}}, nil
	}
	if len(acc.user.Databases) > 0 && !slices.Contains(acc.user.Databases, r.Database) {
		return nil, pgerr.Fatal(pgerr.InsufficientPrivilege, `permission denied for database "%s"`, r.Database).
			WithDetail("User does not have CONNECT privilege.").
			WithCause(fmt.Errorf("database %q is not in the user's list in weft.yaml", r.Database))
	}
	return &Login{User: &acc.user, Keys: d.keys}, nil
}

// lookUp returns the account of a user whose password is not in the
// configuration; acc is what is there, or nil. A user who is nowhere has none.
func lookUp(ctx context.Context, r Request, acc *account) (*account, error) {
	stored, err := r.Passwords.Stored(ctx, r.User)
	if err != nil {
		e := *pgerr.From(err)
		e.Severity = pgerr.SeverityFatal
		return nil, e.WithCause(fmt.Errorf("look up the user's password: %w", err))
	}
	if stored == "" {
		return acc, nil
	}
	u := User{Name: r.User}
	if acc != nil {
		u = acc.user
	}
	u.Password = stored
	found, err := newAccount(u, mock{secret: []byte(stored)}, true)
	if err != nil {
		// As PostgreSQL: a password that cannot be read is one that nobody has.
		return &account{user: u}, nil
	}
	return found, nil
}

func (a *Authenticator) ruleFor(r Request) (*compiledRule, error) {
	if len(a.rules) == 0 {
		return &compiledRule{method: a.method}, nil
	}
	for i := range a.rules {
		if a.rules[i].matches(r) {
			return &a.rules[i], nil
		}
	}
	return nil, pgerr.Fatal(pgerr.InvalidAuthorizationSpec, "no rule in weft.yaml for %s", r.describe())
}

// describe names the connection in the words of PostgreSQL's pg_hba.conf errors.
func (r Request) describe() string {
	encryption := "no encryption"
	if r.TLS != nil {
		encryption = "SSL encryption"
	}
	return fmt.Sprintf(`host "%s", user "%s", database "%s", %s`, host(r.Remote), r.User, r.Database, encryption)
}

// host returns the numeric host of a TCP peer and PostgreSQL's word for a peer
// on a Unix-domain socket.
func host(addr net.Addr) string {
	if addr == nil {
		return "???" // PostgreSQL's word for an address it cannot print
	}
	if isLocal(addr) {
		return "[local]"
	}
	if ip, ok := addrOf(addr); ok {
		return ip.String()
	}
	return addr.String()
}

// dialogue is one run of Authenticate.
type dialogue struct {
	ctx     context.Context
	client  Client
	request Request
	mock    mock
	account *account // nil if the user is nowhere

	lookedUp bool  // the account's password is not the configuration's
	keys     *Keys // of a login that succeeded
}

// send writes one AuthenticationXxx message.
func (d *dialogue) send(code uint32, data []byte) error {
	body := make([]byte, 0, 4+len(data))
	body = append(body, byte(code>>24), byte(code>>16), byte(code>>8), byte(code))
	if err := d.client.SendAuth(append(body, data...)); err != nil {
		return fmt.Errorf("send authentication request %d: %w", code, err)
	}
	return nil
}

// receive reads the client's answer. what is PostgreSQL's name of it.
func (d *dialogue) receive(what string, limit int) ([]byte, error) {
	if err := d.ctx.Err(); err != nil {
		return nil, fmt.Errorf("receive %s response: %w", what, context.Cause(d.ctx))
	}
	body, err := d.client.ReceivePassword(limit)
	var other MessageTypeError
	if errors.As(err, &other) {
		return nil, pgerr.Fatal(pgerr.ProtocolViolation, "expected %s response, got message type %d", what, byte(other)).WithCause(err)
	}
	if err != nil {
		return nil, fmt.Errorf("receive %s response: %w", what, err)
	}
	return body, nil
}

// refuse is the one answer to a wrong password, an unknown user and a user
// whose password cannot be checked; reason is for the log.
func (d *dialogue) refuse(reason error) error {
	if d.lookedUp {
		d.request.Passwords.Wrong(d.request.User)
	}
	return pgerr.Fatal(pgerr.InvalidPassword, `password authentication failed for user "%s"`, d.request.User).WithCause(reason)
}
