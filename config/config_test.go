package config

import (
	"errors"
	"maps"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"weft/auth"
	"weft/directory"
)

// testdata/*: "config" and "cluster" print what a user of weft check sees.
func TestProblems(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var err error
			switch d.Cmd {
			case "config":
				_, err = Parse("weft.yaml", []byte(d.Input))
			case "cluster":
				_, err = ParseCluster("cluster.yaml", []byte(d.Input))
			default:
				t.Fatalf("unknown command %s", d.Cmd)
			}
			if err != nil {
				return err.Error()
			}
			return "ok"
		})
	})
}

// The example says that its values are the defaults: then they must be.
func TestExample(t *testing.T) {
	got, err := Load("example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Etcd.Endpoints = got.Etcd.Endpoints
	want.Auth.Users = []auth.User{{Name: "app", Password: "file:/etc/weft/app.password"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if len(got.Etcd.Endpoints) != 3 {
		t.Errorf("endpoints %v", got.Etcd.Endpoints)
	}
}

// Whatever the example shows behind a # must be accepted too.
func TestExampleComments(t *testing.T) {
	b, err := os.ReadFile("example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// A setting is "# key:" or "# - {key:"; everything else is a sentence.
	setting := regexp.MustCompile(`(?m)^( *)# ( *(?:- )?\{?[a-z_]+:(?: |$))`)
	text := setting.ReplaceAllString(string(b), "$1$2")
	text = strings.ReplaceAll(text, "http://10", "https://10") // there is tls now
	c, err := Parse("example.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if c.TLS.Mode != TLSRequire || c.Etcd.TLS.ServerName != "etcd.internal" || len(c.Auth.Rules) != 3 || len(c.Auth.Maps) != 1 || c.Auth.AuthQuery != "default" || c.Auth.Users[0].MaxConnections != 20 || c.TLS.MinVersion != "1.2" {
		t.Errorf("not everything was read: %+v", c)
	}
}

func TestDefaultIsValid(t *testing.T) {
	c := Default()
	var ps Problems
	if err := c.Validate(); !errors.As(err, &ps) || len(ps) != 1 || ps[0].Path != "etcd.endpoints" {
		t.Errorf("Default: %v", err)
	}
	c.Etcd.Endpoints = []string{"127.0.0.1:2379"}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

// Every field can be written and read back.
func TestMarshal(t *testing.T) {
	want := Config{
		Cluster:       "c",
		Etcd:          Etcd{Endpoints: []string{"https://[::1]:2379"}, Prefix: "/p/", Username: "u", Password: "p: #x", TLS: EtcdTLS{"a", "b", "c", "d"}, Timeout: time.Second},
		Listen:        "[::]:1",
		ListenStandby: "[::]:3",
		RunDir:        "/run/weft",
		Loop:          "3",
		ProxyProtocol: []string{"10.0.0.0/8"},
		AdminDatabase: "adm",
		AdminUsers:    []string{"ops"},
		HTTP:          HTTP{Listen: ":2", Pprof: true, TLS: true, Users: []HTTPUser{{Name: "o", Password: "p", Operator: true}}, PrivateMetrics: true},
		TLS:           TLS{Mode: TLSRequire, Cert: "c", Key: "k", ClientCA: "ca", ClientCert: ClientCertOptional, MinVersion: "1.3"},
		Auth: auth.Config{
			Method: auth.MethodMD5, MockSecret: "0123",
			Users: []auth.User{{Name: "n", Password: "true", Databases: []string{"d"}, PoolMode: "session", MaxConnections: 3, Priority: "low", Role: "r", ServerUser: "s", ServerPassword: "1e3"}},
			Rules: []auth.Rule{
				{Type: "host", Databases: []string{"d"}, Users: []string{"u"}, Address: "10.0.0.0/8", Method: auth.MethodTrust},
				{Type: "hostssl", Method: auth.MethodMD5, ClientCert: "verify-full", Map: "m"},
			},
			Maps:      []auth.Mapping{{Name: "m", Certificate: "/x", User: "y"}},
			AuthQuery: "SELECT $1", AuthQueryDatabase: "db", AuthQueryTTL: time.Hour,
		},
		Service: Service{User: "svc", Password: "0x1"},
		Pool: Pool{
			Mode: "session", MaxPerShard: 10, MaxPerUser: 5, MaxDials: 4, MaxPrepared: 7, QueueTimeout: 90 * time.Second, OverloadWait: 3 * time.Second, IdleTimeout: time.Minute,
			MaxLifetime: 25 * time.Hour, ConnectTimeout: 250 * time.Millisecond, TCPTimeout: 4 * time.Second, HealthInterval: 2 * time.Second,
		},
		Failover: Failover{Wait: 20 * time.Second, InTransaction: 2 * time.Second, ProbeInterval: 100 * time.Millisecond, ProbeTimeout: 400 * time.Millisecond, LagWarning: 9 * time.Second},
		Replicas: Replicas{Target: "auto", ListenTarget: "any", MaxLag: time.Minute, MaxLagBytes: 1 << 20, Fallback: FallbackRefuse, Causal: "on", CausalWait: time.Second}, Zone: "z",
		Gather: Gather{MaxBytes: 5 << 20, MaxParallelShards: 2},
		Limits: Limits{MaxClients: 4, MaxClientsPerUser: 2, MaxClientsPerDatabase: 3, AuthFailures: 9, StartupTimeout: 5 * time.Second, DrainTimeout: 6 * time.Second, DrainDelay: 7 * time.Second, DrainIdle: DrainSpread, MaxQueryBytes: 3 << 20, Memory: 1 << 30},
		Log:    Log{Level: "debug", Format: "json", SlowStatement: 500 * time.Millisecond},

		Statements: Statements{MaxBytes: 1 << 20},
		Heat:       Heat{Samples: 50, Keys: KeysHashed, Plan: PlanAuto, Throttle: ThrottleAuto, MaxThrottles: 3, ThrottleFor: time.Minute, Limit: ThrottleAuto, Rows: ThrottleAuto, Coalesce: ThrottleOff},
		Tracing:    Tracing{Endpoint: "https://[::1]:4317", Ratio: 0.25},
	}
	b, err := want.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse("weft.yaml", b)
	if err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s\ngot  %+v\nwant %+v", b, got, want)
	}
}

func TestResolveSecrets(t *testing.T) {
	from := Sources{
		Env: func(n string) (string, bool) {
			v, ok := map[string]string{"A": "alpha", "EMPTY": ""}[n]
			return v, ok
		},
		File: func(p string) ([]byte, error) {
			if b, ok := map[string]string{"/b": "beta\n", "/empty": "\n"}[p]; ok {
				return []byte(b), nil
			}
			return nil, &os.PathError{Op: "open", Path: p, Err: os.ErrNotExist}
		},
	}
	c := Default()
	c.Etcd.Password = "env:A"
	c.Auth.Users = []auth.User{{Name: "u", Password: "file:/b", ServerPassword: "plain"}}
	if err := c.ResolveSecrets(from); err != nil {
		t.Fatal(err)
	}
	if c.Etcd.Password != "alpha" || c.Auth.Users[0].Password != "beta" || c.Auth.Users[0].ServerPassword != "plain" {
		t.Errorf("got %q, %q, %q", c.Etcd.Password, c.Auth.Users[0].Password, c.Auth.Users[0].ServerPassword)
	}
	c.Etcd.Password = "env:NONE"
	c.Auth.MockSecret = "env:EMPTY"
	c.Auth.Users[0].Password = "file:/none"
	c.Auth.Users[0].ServerPassword = "file:/empty"
	err := c.ResolveSecrets(from)
	want := "etcd.password: the environment variable NONE is not set\n" +
		"auth.mock_secret: the environment variable EMPTY is not set\n" +
		"auth.users[0].password: open /none: file does not exist\n" +
		"auth.users[0].server_password: the file /empty is empty"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestSize(t *testing.T) {
	for in, want := range map[string]Size{"0": 0, "17": 17, "17B": 17, "64MiB": 64 << 20, "2 KiB": 2048, "1GiB": 1 << 30} {
		var got Size
		if err := got.UnmarshalText([]byte(in)); err != nil || got != want {
			t.Errorf("%s: %d, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "MiB", "1.5MiB", "-1", "64MB", "64mib", "9999999999999GiB", "0x10"} {
		var got Size
		if err := got.UnmarshalText([]byte(in)); err == nil {
			t.Errorf("%s: read as %d", in, got)
		}
	}
	for s, want := range map[Size]string{0: "0B", 1: "1B", 1536: "1536B", 2048: "2KiB", 3 << 30: "3GiB"} {
		if s.String() != want {
			t.Errorf("%d prints as %s", int64(s), s)
		}
	}
}

func TestMerge(t *testing.T) {
	parse := func(text string) Cluster {
		t.Helper()
		c, err := ParseCluster("cluster.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	two := parse("shards:\n- {name: a, hosts: ['a:1']}\n- {name: b, hosts: ['b:1'], weight: 0}\n")
	first, err := two.Merge(nil, false)
	if err != nil || first.BucketCount != directory.DefaultBucketCount || first.Home != "a" || first.Shards[0].Weight != 1 || first.Shards[1].Weight != 0 {
		t.Fatalf("first: %+v, %v", first, err)
	}
	again, err := two.Merge(first, false)
	if err != nil || len(directory.Diff(first, again)) != 0 || again.Cluster != first.Cluster {
		t.Errorf("the same file again: %v, %v", directory.Diff(first, again), err)
	}
	bare := parse("shards:\n- {name: a, hosts: [a:1, 10.0.0.1:2]}\n- {name: b, hosts: [b:1]}\n")
	if next, err := bare.Merge(nil, false); err != nil || strings.Join(next.Shards[0].Hosts, " ") != "a:1 10.0.0.1:2" || strings.Join(next.Shards[1].Hosts, " ") != "b:1" {
		t.Errorf("addresses within braces: %+v, %v", next, err)
	}
	if _, err := ParseCluster("c.yaml", []byte("shards:\n- {name: a, hosts: [{adr: 1}]}\n")); err == nil || !strings.Contains(err.Error(), "adr: unknown key") {
		t.Errorf("a misspelt key: %v", err)
	}
	zoned := parse("shards:\n- {name: a, hosts: [{addr: 'a:1', zone: east, weight: 2}, {addr: 'a:2', read: false}, 'a:3']}\n")
	if next, err := zoned.Merge(nil, false); err != nil || strings.Join(next.Shards[0].Hosts, " ") != "a:1 a:2 a:3" ||
		!maps.Equal(next.Shards[0].Servers, map[string]directory.Server{"a:1": {Zone: "east", Weight: 2}, "a:2": {NoReads: true}}) {
		t.Errorf("hosts with zones: %+v, %v", next.Shards, err)
	}
	reordered := parse("shards:\n- {name: c, hosts: ['c:1']}\n- {name: b, hosts: ['b:2', 'b:3'], weight: 0}\n- {name: a, hosts: ['a:1']}\n")
	next, err := reordered.Merge(first, false)
	want := "~ shard b b:1 weight=0 -> b:2,b:3 weight=0\n+ shard c c:1\n~ placement: 2048 of 4096 buckets move"
	if got := strings.Join(directory.Diff(first, next), "\n"); err != nil || got != want || next.Shards[2].Name != "c" {
		t.Errorf("got %s, %v", got, err)
	}
	pinned := parse("shards:\n- {name: a, hosts: ['a:1']}\n- {name: b, hosts: ['b:1'], weight: 0}\npins:\n- {buckets: 10-19, shard: b}\n- {buckets: 7, shard: b}\n")
	next2, err := pinned.Merge(first, false)
	want = "+ pin buckets 10-19 on b\n+ pin buckets 7-7 on b\n~ placement: 11 of 4096 buckets move"
	if got := strings.Join(directory.Diff(first, next2), "\n"); err != nil || got != want || next2.Validate() != nil {
		t.Errorf("got %s, %v", got, err)
	}
	_, err = ParseCluster("c.yaml", []byte("shards:\n- {name: a, hosts: ['a:1']}\npins:\n- {buckets: 10-5000, shard: a}\n- {buckets: x, shard: a}\n- {bucket: 1, shard: b}\n"))
	want = "c.yaml:4:4: pins[0].buckets: 10-5000 is no range of the buckets 0-4095\n" +
		`c.yaml:5:13: pins[1].buckets: "x" is not a range of buckets: write first-last, for example 0-99` + "\n" +
		"c.yaml:6:3: pins[2].buckets: is needed: a range of buckets, for example 0-99\n" +
		"c.yaml:6:4: pins[2].bucket: unknown key; did you mean buckets?\n" + `c.yaml:6:15: pins[2].shard: "b" is not one of the shards`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if first.Shards[1].Hosts[0] != "b:1" {
		t.Error("Merge changed the old snapshot")
	}
	one := parse("shards:\n- {name: a, hosts: ['a:1']}\n")
	if _, err := one.Merge(next, false); err == nil || !strings.Contains(err.Error(), "b, c") || !strings.Contains(err.Error(), "--prune") {
		t.Errorf("without --prune: %v", err)
	}
	if pruned, err := one.Merge(next, true); err != nil || len(pruned.Shards) != 1 {
		t.Errorf("with --prune: %+v, %v", pruned, err)
	}
}
