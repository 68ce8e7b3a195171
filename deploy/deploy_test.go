// Package deploy_test reads the files of this directory together: each names
// things that another must have.
package deploy_test

import (
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"weft/config"
)

type compose struct {
	Services map[string]service `yaml:"services"`
	Volumes  map[string]any     `yaml:"volumes"`
}

type service struct {
	Image       string                                `yaml:"image"`
	Build       *struct{ Context, Dockerfile string } `yaml:"build"`
	Command     []string                              `yaml:"command"`
	Environment map[string]string                     `yaml:"environment"`
	Volumes     []string                              `yaml:"volumes"`
	Ports       []string                              `yaml:"ports"`
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	Healthcheck *struct{ Test []string }              `yaml:"healthcheck"`
	StopGrace   string                                `yaml:"stop_grace_period"`
}

func load(t *testing.T) (compose, config.Config, config.Cluster) {
	t.Helper()
	data, err := os.ReadFile("docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	var c compose
	if err := yaml.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load("weft.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := config.LoadCluster("cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return c, cfg, cluster
}

// proxies of docker-compose.yml.
var proxies = []string{"weft-0", "weft-1"}

func TestShards(t *testing.T) {
	c, cfg, cluster := load(t)
	if len(cluster.Shards) != 4 {
		t.Errorf("%d shards, want 4", len(cluster.Shards))
	}
	for _, shard := range cluster.Shards {
		for _, server := range shard.Hosts {
			addr := server.Addr
			host, port, err := net.SplitHostPort(addr)
			if err != nil {
				t.Fatal(err)
			}
			s, ok := c.Services[host]
			if !ok || port != "5432" || !strings.HasPrefix(s.Image, "postgres:") {
				t.Errorf("%s: no PostgreSQL in docker-compose.yml is %s", shard.Name, addr)
				continue
			}
			if !slices.Contains(s.Command, "wal_level=logical") {
				t.Errorf("%s: wal_level is not logical", host)
			}
			need := cfg.Pool.MaxPerShard * len(proxies)
			if n := setting(s.Command, "max_prepared_transactions"); n < need {
				t.Errorf("%s: max_prepared_transactions is %d, the proxies may need %d", host, n, need)
			}
			if n := setting(s.Command, "max_connections"); n <= need {
				t.Errorf("%s: max_connections is %d, the proxies may need %d", host, n, need)
			}
			for _, p := range proxies {
				if c.Services[p].DependsOn[host].Condition != "service_healthy" {
					t.Errorf("%s does not wait for %s", p, host)
				}
			}
		}
	}
	// A shard nobody declared would be a server that nobody uses.
	for name, s := range c.Services {
		if strings.HasPrefix(s.Image, "postgres:") && !slices.ContainsFunc(cluster.Shards, func(sh config.Shard) bool {
			return slices.ContainsFunc(sh.Hosts, func(h config.Host) bool { return h.Addr == name+":5432" })
		}) {
			t.Errorf("%s is not in cluster.yaml", name)
		}
	}
}

// setting returns the value of a "-c name=value" argument, or 0.
func setting(args []string, name string) int {
	for _, a := range args {
		if v, ok := strings.CutPrefix(a, name+"="); ok {
			n, _ := strconv.Atoi(v) // what is no number is 0, which no test takes
			return n
		}
	}
	return 0
}

func TestEtcd(t *testing.T) {
	c, cfg, _ := load(t)
	if len(cfg.Etcd.Endpoints) != 3 {
		t.Errorf("%d members of etcd, want 3", len(cfg.Etcd.Endpoints))
	}
	members := map[string]string{}
	for _, e := range cfg.Etcd.Endpoints {
		u, err := url.Parse(e)
		if err != nil {
			t.Fatal(err)
		}
		s, ok := c.Services[u.Hostname()]
		if !ok || !slices.Contains(s.Command, "--listen-client-urls=http://0.0.0.0:"+u.Port()) || !slices.Contains(s.Command, "--advertise-client-urls="+e) {
			t.Errorf("no etcd in docker-compose.yml listens on %s", e)
		}
		// All are told the same of each other, and each is one of them.
		name := u.Hostname()
		i := slices.IndexFunc(s.Command, func(a string) bool { return strings.HasPrefix(a, "--initial-cluster=") })
		if i < 0 || !strings.Contains(s.Command[i], name+"=http://"+name+":2380") || !slices.Contains(s.Command, "--name="+name) ||
			!slices.Contains(s.Command, "--initial-advertise-peer-urls=http://"+name+":2380") {
			t.Errorf("%s is not a member of its cluster: %q", name, s.Command)
		} else {
			members[s.Command[i]] = name
		}
		if c.Services["apply"].DependsOn[name].Condition != "service_healthy" {
			t.Errorf("apply does not wait for %s", name)
		}
		// The version that weft is tested with.
		_, tag, _ := strings.Cut(s.Image, ":")
		if want := goMod(t, `(?m)^\s+go\.etcd\.io/etcd/server/v3 (\S+)`); tag != want {
			t.Errorf("etcd's image is %s, go.mod has %s", tag, want)
		}
	}
	if len(members) != 1 {
		t.Errorf("members do not agree on who they are: %q", members)
	}
	for _, p := range proxies {
		if c.Services[p].DependsOn["apply"].Condition != "service_completed_successfully" {
			t.Errorf("%s does not wait for apply", p)
		}
	}
}

// What weft.yaml says must be what the containers get.
func TestProxies(t *testing.T) {
	c, cfg, _ := load(t)
	ports := map[string]string{}
	for _, addr := range []string{cfg.Listen, cfg.HTTP.Listen} {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		if host != "0.0.0.0" {
			t.Errorf("%s cannot be reached from outside its container", addr)
		}
		ports[addr] = port
	}
	listen, web := ports[cfg.Listen], ports[cfg.HTTP.Listen]
	entry, prometheus := read(t, "haproxy.cfg"), read(t, "prometheus.yml")
	for _, p := range proxies {
		s := c.Services[p]
		if s.Healthcheck == nil || !strings.Contains(strings.Join(s.Healthcheck.Test, " "), "/dev/tcp/127.0.0.1/"+web) {
			t.Errorf("%s: the health check does not ask http.listen", p)
		}
		if grace, err := time.ParseDuration(s.StopGrace); err != nil || grace <= cfg.Limits.DrainTimeout+cfg.Limits.DrainDelay {
			t.Errorf("%s: stop_grace_period %s is not longer than limits.drain_delay %s and limits.drain_timeout %s", p, s.StopGrace, cfg.Limits.DrainDelay, cfg.Limits.DrainTimeout)
		}
		if !strings.Contains(entry, "server "+p+" "+p+":"+listen) {
			t.Errorf("clients do not come to %s", p)
		}
		if !strings.Contains(prometheus, p+":"+web) {
			t.Errorf("%s is not asked for metrics", p)
		}
		if c.Services["entry"].DependsOn[p].Condition != "service_healthy" {
			t.Errorf("clients may come before %s is ready", p)
		}
	}
	if !strings.Contains(entry, "check port "+web) || !strings.Contains(entry, "bind :"+listen) || !slices.Contains(c.Services["entry"].Ports, "127.0.0.1:"+listen+":"+listen) {
		t.Error("haproxy.cfg does not have the ports of weft.yaml")
	}
	for _, name := range append([]string{"apply"}, proxies...) {
		_, cfg, _ = load(t) // resolving changes it
		err := cfg.ResolveSecrets(config.Sources{
			Env: func(key string) (string, bool) { v, ok := c.Services[name].Environment[key]; return v, ok },
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The roles that weft logs in as, with the same passwords.
	env, made := c.Services["shard-0"].Environment, read(t, "shard-init.sh")
	if cfg.Service.User != "postgres" || cfg.Service.Password != env["POSTGRES_PASSWORD"] {
		t.Errorf("service user %s cannot log in to the shards", cfg.Service.User)
	}
	for _, u := range cfg.Auth.Users {
		if !strings.Contains(made, "CREATE ROLE "+u.Name+" LOGIN") || env["APP_PASSWORD"] != u.Password {
			t.Errorf("user %s cannot log in to the shards", u.Name)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestTools lets the programs that read these files look at them, where they are installed.
func TestTools(t *testing.T) {
	for _, argv := range [][]string{
		{"haproxy", "-c", "-f", "haproxy.cfg"},
		{"promtool", "check", "config", "prometheus.yml"},
		{"helm", "lint", "--strict", "helm"},
		{"sh", "-n", "shard-init.sh"},
		{"sh", "-n", "patroni-init.sh"},
		{"systemd-analyze", "verify", "--man=no", "weft.service"},
	} {
		t.Run(argv[0], func(t *testing.T) {
			if _, err := exec.LookPath(argv[0]); err != nil {
				t.Skip(argv[0] + " is not installed")
			}
			out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
			if err != nil && !excused(string(out)) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// excused reports whether a tool complains only of what is not on this machine: names that resolve
// inside of the cluster, and the installed binary.
func excused(out string) bool {
	for line := range strings.Lines(out) {
		if strings.Contains(line, "could not resolve address") || strings.Contains(line, "is not executable: No such file") ||
			strings.Contains(line, "Failed to initialize server(s) addr") || strings.TrimSpace(line) == "" {
			continue
		}
		if strings.Contains(line, "[ALERT]") || strings.Contains(line, "weft.service") {
			return false
		}
	}
	return true
}

func TestFiles(t *testing.T) {
	c, _, _ := load(t)
	for name, s := range c.Services {
		mounted := map[string]bool{}
		for _, v := range s.Volumes {
			from, rest, _ := strings.Cut(v, ":")
			to, _, _ := strings.Cut(rest, ":")
			mounted[to] = true
			if strings.HasPrefix(from, ".") {
				if _, err := os.Stat(from); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			} else if _, ok := c.Volumes[from]; !ok {
				t.Errorf("%s: volume %s is not declared", name, from)
			}
		}
		for _, arg := range s.Command {
			if strings.HasPrefix(arg, "/etc/weft/") && !mounted[arg] {
				t.Errorf("%s: %s is not mounted", name, arg)
			}
		}
		switch {
		case s.Build != nil:
			for _, f := range []string{s.Build.Dockerfile, s.Build.Dockerfile + ".dockerignore", "go.mod"} {
				if _, err := os.Stat(filepath.Join(s.Build.Context, f)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		case !regexp.MustCompile(`:v?[0-9]`).MatchString(s.Image):
			t.Errorf("%s: image %q names no version", name, s.Image)
		}
		if name != "apply" && s.Healthcheck == nil {
			t.Errorf("%s has no health check", name)
		}
	}
}

func TestDockerfile(t *testing.T) {
	data, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	minor := goMod(t, `(?m)^go (\d+\.\d+)`)
	for _, want := range []string{
		"FROM golang:" + minor + "-bookworm AS build",
		"CGO_ENABLED=1",
		"\nFROM debian:bookworm-slim\n", // the builder's glibc, not musl
		"\nUSER weft\n",
		`CMD ["serve", "-c", "/etc/weft/weft.yaml"]`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	for _, m := range regexp.MustCompile(`docs/decisions/\S+\.md`).FindAllString(text, -1) {
		if _, err := os.Stat(filepath.Join("..", m)); err != nil {
			t.Error(err)
		}
	}
}

// goMod returns what a pattern's group matches in go.mod.
func goMod(t *testing.T, pattern string) string {
	t.Helper()
	data, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(pattern).FindSubmatch(data)
	if m == nil {
		t.Fatalf("go.mod has no %s", pattern)
	}
	return string(m[1])
}

func TestComposeConfig(t *testing.T) {
	argv := []string{"docker-compose"}
	if _, err := exec.LookPath(argv[0]); err != nil {
		argv = []string{"docker", "compose"}
		if exec.Command(argv[0], "compose", "version").Run() != nil {
			t.Skip("neither docker-compose nor docker compose is installed: the file's syntax is checked by the other tests alone")
		}
	}
	run := func(env ...string) (string, error) {
		cmd := exec.Command(argv[0], append(argv[1:], "-f", "docker-compose.yml", "config")...)
		cmd.Env = append(slices.DeleteFunc(os.Environ(), func(e string) bool {
			return strings.HasPrefix(e, "APP_PASSWORD=") || strings.HasPrefix(e, "POSTGRES_PASSWORD=")
		}), env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("APP_PASSWORD=secret", "POSTGRES_PASSWORD=another"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := run(); err == nil || !strings.Contains(out, "is not set") {
		t.Errorf("without a password: %v\n%s", err, out)
	}
}
