package deploy_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"weft/config"
	"weft/patroni"
)

// settings is a file of Patroni's.
type settings struct {
	Scope     string                   `yaml:"scope"`
	Namespace string                   `yaml:"namespace"`
	Etcd      struct{ Hosts []string } `yaml:"etcd3"`
	Bootstrap struct {
		DCS      map[string]any `yaml:"dcs"`
		PostInit string         `yaml:"post_init"`
	} `yaml:"bootstrap"`
	PostgreSQL struct {
		PrePromote string `yaml:"pre_promote"`
		BeforeStop string `yaml:"before_stop"`
	} `yaml:"postgresql"`
}

// patroniFile reads a file of Patroni's, and complains of what weft check would.
func patroniFile(t *testing.T, file string, wait time.Duration) settings {
	t.Helper()
	var s settings
	if err := yaml.Unmarshal([]byte(read(t, file)), &s); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	dynamic, err := json.Marshal(s.Bootstrap.DCS)
	if err != nil {
		t.Fatal(err)
	}
	scope := patroni.Scope{Scope: "s"}
	got, err := scope.Settings(map[string]string{scope.Prefix() + "config": string(dynamic)})
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for _, c := range got.Complaints(wait, "sync") {
		t.Errorf("%s: %s", file, c)
	}
	return s
}

// command is a command of weft in a file of another program.
var command = regexp.MustCompile(`weft (fence|drain) [^'\n]*`)

// checkCommands looks for the flags that hooks need in commands of weft.
func checkCommands(t *testing.T, file string) {
	t.Helper()
	found := command.FindAllString(read(t, file), -1)
	for _, text := range found {
		for _, flag := range []string{"--wait 10s", "-c /etc/weft/weft.yaml"} {
			if !strings.Contains(text, flag) {
				t.Errorf("%s: %s: no %s", file, text, flag)
			}
		}
	}
	if len(found) == 0 {
		t.Errorf("%s runs no command of weft", file)
	}
}

// TestHA: what docker-compose.ha.yml, its clusters and Patroni say of each other.
func TestHA(t *testing.T) {
	var c compose
	if err := yaml.Unmarshal([]byte(read(t, "docker-compose.ha.yml")), &c); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load("weft.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := config.LoadCluster("cluster.ha.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p := patroniFile(t, "patroni-compose.yml", cfg.Failover.Wait)
	checkCommands(t, "patroni-compose.yml")
	if script := "COPY patroni-init.sh " + p.Bootstrap.PostInit; !strings.Contains(read(t, "Dockerfile.patroni"), script) {
		t.Errorf("the image does not have %s", p.Bootstrap.PostInit)
	}
	for _, host := range p.Etcd.Hosts {
		if !slices.Contains(cfg.Etcd.Endpoints, "http://"+host) {
			t.Errorf("Patroni uses %s, and weft does not", host)
		}
	}
	servers := map[string]int{}
	for name, s := range c.Services {
		env := s.Environment
		scope := env["PATRONI_SCOPE"]
		if scope == "" {
			continue
		}
		servers[scope]++
		if env["PATRONI_NAME"] != name || env["PATRONI_POSTGRESQL_CONNECT_ADDRESS"] != name+":5432" || env["PATRONI_RESTAPI_CONNECT_ADDRESS"] != name+":8008" || env["SHARD"] != scope {
			t.Errorf("%s is not reached by what it says of itself: %v", name, env)
		}
		if env["PATRONI_SUPERUSER_USERNAME"] != cfg.Service.User || env["PATRONI_SUPERUSER_PASSWORD"] != c.Services["weft-0"].Environment["POSTGRES_PASSWORD"] {
			t.Errorf("%s: weft cannot log in as %s", name, cfg.Service.User)
		}
		for _, volume := range []string{"./patroni-compose.yml:/etc/patroni.yml:ro", "./weft.yaml:/etc/weft/weft.yaml:ro", name + ":/var/lib/postgresql/data"} {
			if !slices.Contains(s.Volumes, volume) {
				t.Errorf("%s has no volume %s", name, volume)
			}
		}
		if _, ok := c.Volumes[name]; !ok || c.Services["apply"].DependsOn[name].Condition != "service_healthy" {
			t.Errorf("%s has no volume of its own, or apply does not wait for it", name)
		}
		// The commands of hooks read weft.yaml, whose passwords are in the environment.
		own := cfg
		if err := own.ResolveSecrets(config.Sources{Env: func(key string) (string, bool) { v, ok := env[key]; return v, ok }}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, sh := range cluster.Shards {
		if sh.Patroni == nil || servers[sh.Patroni.Scope] < 2 {
			t.Errorf("%s has no standby", sh.Name)
		}
	}
	if len(servers) != len(cluster.Shards) {
		t.Errorf("%d shards, Patroni runs %v", len(cluster.Shards), servers)
	}
	for _, name := range proxies {
		grace, err := time.ParseDuration(c.Services[name].StopGrace)
		if err != nil || grace <= cfg.Limits.DrainTimeout+cfg.Limits.DrainDelay || c.Services["entry"].DependsOn[name].Condition != "service_healthy" {
			t.Errorf("%s: %+v", name, c.Services[name])
		}
	}
	if !strings.Contains(read(t, "docker-compose.ha.yml"), "profiles: [chaos]") {
		t.Error("servers are killed without being asked to")
	}
}

// TestPatroniExample: the example for machines is one that weft check does not complain of.
func TestPatroniExample(t *testing.T) {
	p := patroniFile(t, "patroni.yml", config.Default().Failover.Wait)
	checkCommands(t, "patroni.yml")
	if p.Scope != "shop-1" || !strings.Contains(p.PostgreSQL.PrePromote, "--shard "+p.Scope) || !strings.Contains(p.PostgreSQL.BeforeStop, "drain "+p.Scope) {
		t.Errorf("the commands are about another shard than %s", p.Scope)
	}
	if (patroni.Scope{Scope: p.Scope, Namespace: p.Namespace}).Prefix() != (patroni.Scope{Scope: p.Scope}).Prefix() {
		t.Errorf("namespace %s", p.Namespace)
	}
}

// TestEntryFollows: a proxy whose container was made anew has another address, and clients come to it all the same.
func TestEntryFollows(t *testing.T) {
	text := read(t, "haproxy.cfg")
	for _, want := range []string{"resolvers docker\n", "nameserver dns 127.0.0.11:53\n", " resolvers docker ", "init-addr last,libc,none"} {
		if !strings.Contains(text, want) {
			t.Errorf("haproxy.cfg has no %q", want)
		}
	}
	// A balancer that notices later than a proxy stops taking clients sends clients to a closed port.
	var interval, fall int
	if _, err := fmt.Sscanf(text[strings.Index(text, "inter "):], "inter %ds fall %d", &interval, &fall); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load("weft.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if need := time.Duration(interval*fall) * time.Second; cfg.Limits.DrainDelay <= need {
		t.Errorf("limits.drain_delay is %s, haproxy notices after %s", cfg.Limits.DrainDelay, need)
	}
}
