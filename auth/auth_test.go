package auth

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/pgerr"
	"weft/pgserver/pgtest"
)

// login connects pgx to addr and returns the error the server sent, if any.
func login(t *testing.T, addr string, params string) error {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		host, port = filepath.Dir(addr), strings.TrimPrefix(filepath.Ext(addr), ".")
	}
	ctx, cancel := context.WithTimeout(t.Context(), pgtest.Patience)
	defer cancel()
	conn, err := pgconn.Connect(ctx, "host="+host+" port="+port+" dbname=app "+params)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// refused checks the error a client saw.
func refused(t *testing.T, err error, code, message string) {
	t.Helper()
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an error from the server", err)
	}
	if e.Severity != "FATAL" || e.Code != code || e.Message != message {
		t.Fatalf("got %s %s %s\nwant FATAL %s %s", e.Severity, e.Code, e.Message, code, message)
	}
}

// TestLogin lets pgx in, and keeps it out, under each method with each stored
// form of the password.
func TestLogin(t *testing.T) {
	made, err := Verifier("hunter2")
	if err != nil {
		t.Fatal(err)
	}
	forms := map[string]string{
		"clear":    "hunter2",
		"md5":      md5Password("hunter2", "alice"),
		"verifier": made,
		"none":     "",
	}
	for _, c := range []struct {
		method Method
		form   string
		ok     bool
		reason string // logged when even the right password is refused
	}{
		{"", "clear", true, ""}, // the default is scram-sha-256
		{MethodScramSHA256, "clear", true, ""},
		{MethodScramSHA256, "verifier", true, ""},
		{MethodScramSHA256, "md5", false, "does not have a valid SCRAM secret"},
		{MethodScramSHA256, "none", false, "no password"},
		{MethodMD5, "clear", true, ""},
		{MethodMD5, "md5", true, ""},
		{MethodMD5, "verifier", true, ""}, // by SCRAM
		{MethodMD5, "none", false, "no password"},
	} {
		t.Run(string(c.method)+"/"+c.form, func(t *testing.T) {
			l, addr := listen(t, Config{Method: c.method, Users: []User{{Name: "alice", Password: forms[c.form]}, {Name: "bob", Password: "b"}}})
			for _, sslmode := range []string{"disable", "require"} {
				err := login(t, addr, "user=alice password=hunter2 sslmode="+sslmode)
				if c.ok {
					if err != nil {
						t.Fatal(err)
					}
					if u := l.last(); u == nil || u.Name != "alice" {
						t.Fatalf("let in %v, want alice", u)
					}
				} else {
					refused(t, err, "28P01", `password authentication failed for user "alice"`)
					if !strings.Contains(l.logged(), c.reason) {
						t.Fatalf("log does not say %q:\n%s", c.reason, l.logged())
					}
				}
				err = login(t, addr, "user=alice password=Hunter2 sslmode="+sslmode)
				refused(t, err, "28P01", `password authentication failed for user "alice"`)
				err = login(t, addr, "user=nobody password=hunter2 sslmode="+sslmode)
				refused(t, err, "28P01", `password authentication failed for user "nobody"`)
				if !strings.Contains(l.logged(), "user is unknown") {
					t.Fatalf("log does not say that the user is unknown:\n%s", l.logged())
				}
				if strings.Contains(strings.ToLower(l.logged()), "hunter2") {
					t.Fatalf("password in the log:\n%s", l.logged())
				}
			}
		})
	}
}

func TestTrust(t *testing.T) {
	l, addr := listen(t, Config{Method: MethodTrust, Users: []User{
		{Name: "alice", PoolMode: "session", MaxConnections: 7, Databases: []string{"app", "other"}},
		{Name: "bob", Databases: []string{"other"}},
	}})
	if err := login(t, addr, "user=alice sslmode=disable"); err != nil {
		t.Fatal(err)
	}
	if u := l.last(); u.PoolMode != "session" || u.MaxConnections != 7 {
		t.Fatalf("let in %#v without the settings of weft.yaml", u)
	}
	if err := login(t, addr, "user=stranger sslmode=disable"); err != nil {
		t.Fatal(err)
	}
	if u := l.last(); u.Name != "stranger" {
		t.Fatalf("let in %v, want stranger", u)
	}
	refused(t, login(t, addr, "user=bob sslmode=disable"), "42501", `permission denied for database "app"`)
}

func TestReject(t *testing.T) {
	_, addr := listen(t, Config{Method: MethodReject})
	refused(t, login(t, addr, "user=alice sslmode=disable"), "28000",
		`weft.yaml rejects connection for host "127.0.0.1", user "alice", database "app", no encryption`)
}

// TestDatabasesAreAskedLast: a wrong password must not learn which databases a
// user has.
func TestDatabasesAreAskedLast(t *testing.T) {
	_, addr := listen(t, Config{Users: []User{{Name: "alice", Password: "secret", Databases: []string{"other"}}}})
	refused(t, login(t, addr, "user=alice password=wrong sslmode=disable"), "28P01", `password authentication failed for user "alice"`)
	refused(t, login(t, addr, "user=alice password=secret sslmode=disable"), "42501", `permission denied for database "app"`)
}

func TestRulesOverTheWire(t *testing.T) {
	cfg := Config{
		Users: []User{{Name: "alice", Password: "secret"}},
		Rules: []Rule{
			{Type: "hostssl", Users: []string{"alice"}},
			{Type: "host", Users: []string{"alice"}, Method: MethodReject},
			{Type: "host", Databases: []string{"elsewhere"}, Method: MethodTrust},
			{Type: "local", Method: MethodTrust},
		},
	}
	_, addr := listen(t, cfg)
	if err := login(t, addr, "user=alice password=secret sslmode=require"); err != nil {
		t.Fatal(err)
	}
	refused(t, login(t, addr, "user=alice password=secret sslmode=disable"), "28000",
		`weft.yaml rejects connection for host "127.0.0.1", user "alice", database "app", no encryption`)
	refused(t, login(t, addr, "user=bob sslmode=disable"), "28000",
		`no rule in weft.yaml for host "127.0.0.1", user "bob", database "app", no encryption`)
	refused(t, login(t, addr, "user=bob sslmode=require"), "28000",
		`no rule in weft.yaml for host "127.0.0.1", user "bob", database "app", SSL encryption`)

	_, socket := listenOn(t, cfg, "unix", filepath.Join(t.TempDir(), ".s.PGSQL.5432"), testCertificate().pair, nil)
	if err := login(t, socket, "user=bob"); err != nil {
		t.Fatal(err)
	}
	cfg.Rules = cfg.Rules[:3]
	_, socket = listenOn(t, cfg, "unix", filepath.Join(t.TempDir(), ".s.PGSQL.5432"), testCertificate().pair, nil)
	refused(t, login(t, socket, "user=bob"), "28000",
		`no rule in weft.yaml for host "[local]", user "bob", database "app", no encryption`)
}

func TestChannelBinding(t *testing.T) {
	made, err := Verifier("secret")
	if err != nil {
		t.Fatal(err)
	}
	for _, password := range []string{"secret", made} {
		_, addr := listen(t, Config{Users: []User{{Name: "alice", Password: password}}})
		const alice = "user=alice password=secret sslmode=require channel_binding="
		for _, mode := range []string{"require", "prefer", "disable"} {
			if err := login(t, addr, alice+mode); err != nil {
				t.Fatalf("channel_binding=%s: %v", mode, err)
			}
		}
		refused(t, login(t, addr, "user=alice password=wrong sslmode=require channel_binding=require"),
			"28P01", `password authentication failed for user "alice"`)
	}
}

// TestBindingHash: the certificate's own hash function makes the binding data.
func TestBindingHash(t *testing.T) {
	key := testCertificate().pair.PrivateKey.(crypto.Signer)
	cfg := Config{Users: []User{{Name: "alice", Password: "secret"}}}
	for _, alg := range []x509.SignatureAlgorithm{x509.ECDSAWithSHA256, x509.ECDSAWithSHA384, x509.ECDSAWithSHA512} {
		_, addr := listenOn(t, cfg, "tcp", "127.0.0.1:0", selfSigned(t, key, alg), nil)
		if err := login(t, addr, "user=alice password=secret sslmode=require channel_binding=require"); err != nil {
			t.Errorf("%s: %v", alg, err)
		}
	}
}

// TestBindingToAnotherCertificate: the client was shown a certificate that is
// not ours, as by a man in the middle.
func TestBindingToAnotherCertificate(t *testing.T) {
	ours := testCertificate().pair
	shown := selfSigned(t, ours.PrivateKey.(crypto.Signer), x509.ECDSAWithSHA256)
	cfg := Config{Users: []User{{Name: "alice", Password: "secret"}}}
	_, addr := listenOn(t, cfg, "tcp", "127.0.0.1:0", shown, ours.Certificate[0])
	refused(t, login(t, addr, "user=alice password=secret sslmode=require channel_binding=require"),
		"28000", "SCRAM channel binding check failed")
}

// TestNoBindingForEd25519: tls-server-end-point is not defined for such a
// certificate, so PLUS is not offered, and clients that prefer it still get in.
func TestNoBindingForEd25519(t *testing.T) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Users: []User{{Name: "alice", Password: "secret"}}}
	_, addr := listenOn(t, cfg, "tcp", "127.0.0.1:0", selfSigned(t, key, x509.PureEd25519), nil)
	if err := login(t, addr, "user=alice password=secret sslmode=require channel_binding=prefer"); err != nil {
		t.Fatal(err)
	}
	if err := login(t, addr, "user=alice password=secret sslmode=require channel_binding=require"); err == nil {
		t.Fatal("a client that requires channel binding got in without it")
	}
}

func selfSigned(t *testing.T, key crypto.Signer, alg x509.SignatureAlgorithm) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), SignatureAlgorithm: alg,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestPsql logs in with libpq, whose SASLprep and channel binding are the ones
// PostgreSQL ships.
func TestPsql(t *testing.T) {
	psql, err := exec.LookPath("psql")
	if err != nil {
		t.Fatal("psql is not in PATH: install PostgreSQL's client")
	}
	// A soft hyphen vanishes, a Roman four is two letters, a no-break space is a space.
	const typed, meant = "p\u00adw\u2163\u00a0x", "pwIV x"
	made, err := Verifier(meant)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		stored, given, params string
		ok                    bool
	}{
		{"secret", "secret", "sslmode=require channel_binding=require", true},
		{"secret", "secret", "sslmode=require channel_binding=prefer", true},
		{"secret", "secret", "sslmode=require channel_binding=disable", true},
		{"secret", "secret", "sslmode=disable", true},
		{"secret", "wrong", "sslmode=require channel_binding=require", false},
		{typed, meant, "sslmode=disable", true},
		{meant, typed, "sslmode=disable", true},
		{made, typed, "sslmode=require channel_binding=require", true},
		{made, "pwIVx", "sslmode=require channel_binding=require", false},
	} {
		_, addr := listen(t, Config{Users: []User{{Name: "alice", Password: c.stored}}})
		host, port, _ := net.SplitHostPort(addr)
		cmd := exec.CommandContext(t.Context(), psql, "-X", "-w", "-c", `\conninfo`, "host="+host+" port="+port+" user=alice dbname=app "+c.params)
		cmd.Env = append(cmd.Environ(), "PGPASSWORD="+c.given, "LC_ALL=C.UTF-8")
		out, err := cmd.CombinedOutput()
		if c.ok && (err != nil || !strings.Contains(string(out), `connected to database "app" as user "alice"`)) {
			t.Errorf("%s, password %q stored as %q: %v\n%s", c.params, c.given, c.stored, err, out)
		}
		if !c.ok && (err == nil || !strings.Contains(string(out), `FATAL:  password authentication failed for user "alice"`)) {
			t.Errorf("%s, password %q stored as %q: let in or other error: %v\n%s", c.params, c.given, c.stored, err, out)
		}
	}
}

// TestPreparedPasswordWithPgx uses what pgx normalizes like SASLprep does: a
// space, and a letter with its accent apart.
func TestPreparedPasswordWithPgx(t *testing.T) {
	_, addr := listen(t, Config{Users: []User{{Name: "alice", Password: "na\u00efve\u00a0pw"}}})
	for password, ok := range map[string]bool{
		"'nai\u0308ve pw'":     true,
		"'na\u00efve\u2003pw'": true,
		"'naive pw'":           false,
	} {
		err := login(t, addr, "sslmode=disable user=alice password="+password)
		if ok && err != nil {
			t.Errorf("%s: %v", password, err)
		}
		if !ok {
			refused(t, err, "28P01", `password authentication failed for user "alice"`)
		}
	}
}

// script is a Client that says what it is told to.
type script struct {
	say  [][]byte
	sent [][]byte
	err  error // after the last word
}

func (s *script) SendAuth(body []byte) error {
	s.sent = append(s.sent, append([]byte(nil), body...))
	return nil
}

func (s *script) ReceivePassword(limit int) ([]byte, error) {
	if len(s.say) == 0 {
		return nil, s.err
	}
	b := s.say[0]
	s.say = s.say[1:]
	if len(b) > limit {
		return nil, ErrMessageTooLong
	}
	return b, nil
}

func TestConnectionLost(t *testing.T) {
	gone := errors.New("gone")
	for _, m := range []Method{MethodMD5, MethodScramSHA256} {
		a, err := New(Config{Method: m, Users: []User{{Name: "alice", Password: "secret"}}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.Authenticate(t.Context(), &script{err: gone}, Request{User: "alice"})
		var e *pgerr.Error
		if !errors.Is(err, gone) || errors.As(err, &e) {
			t.Errorf("%s: got %v, want the connection's error and nothing for the client", m, err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		if _, err = a.Authenticate(ctx, &script{err: errors.New("was read from")}, Request{User: "alice"}); !errors.Is(err, gone) {
			t.Errorf("%s: got %v after the context ended", m, err)
		}
	}
}

func TestNoUserName(t *testing.T) {
	a, err := New(Config{Method: MethodTrust})
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.Authenticate(t.Context(), &script{}, Request{Database: "app"})
	var e *pgerr.Error
	if !errors.As(err, &e) || e.Code != "28000" || !e.IsFatal() {
		t.Fatalf("got %v", err)
	}
}
