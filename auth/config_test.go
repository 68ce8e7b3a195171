package auth

import (
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  Config
		want string // the whole message; empty: valid
	}{
		{"empty", Config{}, ""},
		{"full", Config{
			Method: MethodMD5,
			Users: []User{
				{Name: "a", Password: "clear", Databases: []string{"app"}, PoolMode: "session", MaxConnections: 3, ServerUser: "x", ServerPassword: "y"},
				{Name: "b", Password: md5Password("x", "b"), PoolMode: "transaction"},
				{Name: "c", Password: mustVerifier(t, "x")},
				{Name: "d"},
			},
			Rules: []Rule{
				{Type: "local", Method: MethodTrust},
				{Type: "host", Databases: []string{"all"}, Users: []string{"all"}, Address: "all", Method: MethodReject},
				{Type: "hostssl", Databases: []string{"sameuser", "app"}, Users: []string{"a"}, Address: "10.1.2.3/8"},
				{Type: "hostnossl", Address: "::1", Method: MethodScramSHA256},
			},
		}, ""},
		{"method", Config{Method: "password"}, `method "password" is not one of trust, md5, scram-sha-256, cert, reject`},
		{"no name", Config{Users: []User{{Name: "a"}, {}}}, `user 2: name is empty`},
		{"twice", Config{Users: []User{{Name: "a"}, {Name: "a"}}}, `user "a": listed twice`},
		{"zero byte", Config{Users: []User{{Name: "a\x00"}}}, `user "a\x00": name contains a zero byte`},
		{"password", Config{Users: []User{{Name: "a", Password: "b\x00"}}}, `user "a": password contains a zero byte`},
		{"verifier", Config{Users: []User{{Name: "a", Password: "SCRAM-SHA-256$4096:c2FsdA==$AAAA:AAAA"}}}, `user "a": password: SCRAM verifier: StoredKey is not 32 bytes in base64`},
		{"database", Config{Users: []User{{Name: "a", Databases: []string{"x", ""}}}}, `user "a": database 2 is empty`},
		{"pool mode", Config{Users: []User{{Name: "a", PoolMode: "statement"}}}, `user "a": pool_mode "statement" is not one of transaction, session`},
		{"clients", Config{Users: []User{{Name: "a", MaxClients: -1}}}, `user "a": max_clients is -1, must not be negative`},
		{"priority", Config{Users: []User{{Name: "a", Priority: "top"}}}, `user "a": priority "top" is not one of low, normal, high`},
		{"connections", Config{Users: []User{{Name: "a", MaxConnections: -1}}}, `user "a": max_connections is -1, must not be negative`},
		{"server password", Config{Users: []User{{Name: "a", ServerPassword: md5Password("x", "a")}}}, `user "a": server_password must be clear text`},
		{"rule type", Config{Rules: []Rule{{}}}, `rule 1: type is empty, must be one of local, host, hostssl, hostnossl`},
		{"rule type", Config{Rules: []Rule{{Type: "local"}, {Type: "hostgssenc"}}}, `rule 2: type "hostgssenc" is not one of local, host, hostssl, hostnossl`},
		{"rule address", Config{Rules: []Rule{{Type: "host", Address: "10.0.0/8"}}}, `rule 1: address "10.0.0/8" is neither an IP address nor a network like 10.0.0.0/8`},
		{"rule address", Config{Rules: []Rule{{Type: "host", Address: "samenet"}}}, `rule 1: address "samenet" is not supported: write the network`},
		{"rule address", Config{Rules: []Rule{{Type: "host", Address: "::ffff:10.0.0.0/104"}}}, `rule 1: address "::ffff:10.0.0.0/104": write IPv4 networks as IPv4`},
		{"rule address", Config{Rules: []Rule{{Type: "local", Address: "10.0.0.0/8"}}}, `rule 1: address "10.0.0.0/8": a local rule has no address`},
		{"rule database", Config{Rules: []Rule{{Type: "host", Databases: []string{"samerole"}}}}, `rule 1: database "samerole" is not supported: list the databases`},
		{"rule user", Config{Rules: []Rule{{Type: "host", Users: []string{"+admins"}}}}, `rule 1: user "+admins": weft does not know the members of roles, list the users`},
		{"rule user", Config{Rules: []Rule{{Type: "host", Users: []string{""}}}}, `rule 1: user is empty`},
		{"rule method", Config{Rules: []Rule{{Type: "host", Method: "peer"}}}, `rule 1: method "peer" is not one of trust, md5, scram-sha-256, cert, reject`},
		{"several", Config{Method: "x", Users: []User{{}}, Rules: []Rule{{}}}, "method \"x\" is not one of trust, md5, scram-sha-256, cert, reject\n" +
			"user 1: name is empty\nrule 1: type is empty, must be one of local, host, hostssl, hostnossl"},
	} {
		got := ""
		if err := c.cfg.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: got  %s\nwant %s", c.name, got, c.want)
		}
		if _, err := New(c.cfg); (err != nil) != (c.want != "") {
			t.Errorf("%s: New: %v", c.name, err)
		}
	}
}

func TestYAML(t *testing.T) {
	const text = `
method: md5
users:
  - name: alice
    password: secret
    databases: [app, other]
    pool_mode: session
    max_connections: 4
    max_clients: 9
    server_user: owner
    server_password: hidden
rules:
  - type: hostssl
    databases: [app]
    users: [alice]
    address: 10.0.0.0/8
    method: scram-sha-256
mock_secret: of the cluster
`
	want := Config{
		Method: MethodMD5,
		Users: []User{{
			Name: "alice", Password: "secret", Databases: []string{"app", "other"}, PoolMode: "session",
			MaxConnections: 4, MaxClients: 9, ServerUser: "owner", ServerPassword: "hidden",
		}},
		Rules:      []Rule{{Type: "hostssl", Databases: []string{"app"}, Users: []string{"alice"}, Address: "10.0.0.0/8", Method: MethodScramSHA256}},
		MockSecret: "of the cluster",
	}
	var got Config
	if err := yaml.UnmarshalWithOptions([]byte(text), &got, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %#v\nwant %#v", got, want)
	}
	written, err := yaml.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got = Config{}
	if err := yaml.UnmarshalWithOptions(written, &got, yaml.Strict()); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("written and read again: %#v, %v\n%s", got, err, written)
	}
}

func TestServerLogin(t *testing.T) {
	for _, c := range []struct {
		user User
		want ServerLogin
	}{
		{User{Name: "a", Password: "clear"}, ServerLogin{"a", "clear", ""}},
		{User{Name: "a", Password: md5Password("clear", "a")}, ServerLogin{"a", "", ""}},
		{User{Name: "a", Password: mustVerifier(t, "clear")}, ServerLogin{"a", "", ""}},
		{User{Name: "a", Password: "clear", ServerUser: "b", ServerPassword: "other"}, ServerLogin{"b", "other", "a"}},
		// The client's password is nobody else's.
		{User{Name: "a", Password: "clear", ServerUser: "b"}, ServerLogin{"b", "", "a"}},
		{User{Name: "a", Password: "clear", Role: "b"}, ServerLogin{"b", "", ""}},
		{User{Name: "a", Role: "b", ServerPassword: "other"}, ServerLogin{"b", "other", ""}},
		{User{Name: "a", Role: "b", ServerUser: "c"}, ServerLogin{"c", "", "b"}},
		{User{Name: "a", Password: "clear", ServerUser: "a"}, ServerLogin{"a", "clear", ""}},
		{User{Name: "a"}, ServerLogin{"a", "", ""}},
	} {
		if got := c.user.ServerLogin(); got != c.want {
			t.Errorf("%v: got %q, want %q", c.user, got, c.want)
		}
	}
}

// TestUserPrintsNoPassword covers the ways a user ends up in a log by accident.
func TestUserPrintsNoPassword(t *testing.T) {
	u := User{Name: "alice", Password: "hunter2", ServerPassword: "hunter3"}
	var b strings.Builder
	slog.New(slog.NewTextHandler(&b, nil)).Info("connected", "user", u, "pointer", &u)
	slog.New(slog.NewJSONHandler(&b, nil)).Info("connected", "user", u, "pointer", &u)
	fmt.Fprintf(&b, "%v %+v %s %v", u, u, u, &u)
	if strings.Contains(b.String(), "hunter") || !strings.Contains(b.String(), "alice") {
		t.Fatal(b.String())
	}
}
