package config

import (
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/heat/throttle"
)

// clusterName is a part of an etcd key.
var clusterName = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,62}$`)

// Validate reports everything that is wrong with c as Problems.
func (c Config) Validate() error { return c.problems().err() }

func (c Config) problems() Problems {
	var ps Problems
	if !clusterName.MatchString(c.Cluster) {
		ps.add("cluster", "%q must hold only a-z, 0-9, _, - and . (63 at most)", c.Cluster)
	}
	ps.address("listen", c.Listen)
	if c.ListenStandby != "" {
		ps.address("listen_standby", c.ListenStandby)
		if c.ListenStandby == c.Listen && !strings.HasSuffix(c.Listen, ":0") {
			ps.add("listen_standby", "is the address of listen too: %s", c.Listen)
		}
	}
	if c.Advertise != "" {
		ps.address("advertise", c.Advertise)
	}
	if c.RunDir != "" && (!filepath.IsAbs(c.RunDir) || len(c.RunDir) > maxRunDir) {
		ps.add("run_dir", "must be an absolute path of at most %d bytes, as that of a Unix socket is bounded", maxRunDir)
	}
	if c.HTTP.Listen != "" {
		ps.address("http.listen", c.HTTP.Listen)
		if c.HTTP.Listen == c.Listen && !strings.HasSuffix(c.Listen, ":0") {
			ps.add("http.listen", "is the address of listen too: %s", c.Listen)
		}
		if c.HTTP.Listen == c.ListenStandby && !strings.HasSuffix(c.ListenStandby, ":0") {
			ps.add("http.listen", "is the address of listen_standby too: %s", c.ListenStandby)
		}
	}
	for _, b := range c.ProxyProtocol {
		if _, err := balancer(b); err != nil {
			ps.add("proxy_protocol", "%q is neither an address nor a network such as 10.0.0.0/8", b)
		}
	}
	c.HTTP.problems(&ps)
	if c.AdminDatabase == "" {
		ps.add("admin_database", "is empty")
	}
	c.Etcd.problems(&ps)
	c.TLS.problems(&ps)
	if c.HTTP.TLS && (c.TLS.Cert == "" || c.TLS.Mode == TLSDisable) {
		ps.add("http.tls", "needs a certificate: set tls.cert and tls.key, and tls.mode to allow or require")
	}
	if c.TLS.ClientCA == "" && c.Auth.NeedsCertificates() {
		ps.add("tls.client_ca", "is empty, and auth.rules ask for client certificates")
	}
	if err := c.Auth.Validate(); err != nil {
		for _, e := range each(err) {
			ps.add("auth", "%v", e)
		}
	}
	c.Service.problems(&ps)
	c.Pool.problems(&ps)
	c.Failover.problems(&ps)
	c.Replicas.problems(&ps)
	if c.Gather.MaxBytes < 1 {
		ps.add("gather.max_bytes", "must be at least 1B")
	}
	ps.between("gather.max_parallel_shards", c.Gather.MaxParallelShards, 0, 100_000)
	c.Limits.problems(&ps)
	c.Statements.problems(&ps)
	ps.between("heat.samples", c.Heat.Samples, 0, 100_000)
	ps.choice("heat.keys", c.Heat.Keys, KeysShown, KeysHashed)
	ps.choice("heat.plan", c.Heat.Plan, PlanOff, PlanAdvise, PlanAuto)
	ps.choice("heat.throttle", c.Heat.Throttle, ThrottleOff, ThrottleObserve, ThrottleAuto)
	ps.choice("heat.rows", c.Heat.Rows, ThrottleOff, ThrottleObserve, ThrottleAuto)
	ps.choice("heat.limit", c.Heat.Limit, ThrottleOff, ThrottleObserve, ThrottleAuto)
	ps.choice("heat.coalesce", c.Heat.Coalesce, ThrottleOff, ThrottleObserve, CoalesceOn)
	ps.between("heat.max_throttles", c.Heat.MaxThrottles, 0, throttle.MaxAutomatic)
	if c.Heat.ThrottleFor < 2*time.Second || c.Heat.ThrottleFor > time.Hour {
		ps.add("heat.throttle_for", "must be from 2s to 1h")
	}
	if n, err := strconv.Atoi(c.Loop); c.Loop != LoopAuto && c.Loop != LoopOff && (err != nil || n < 1 || n > maxLoops) {
		ps.add("loop", "%q must be %s, %s or a number from 1 to %d", c.Loop, LoopAuto, LoopOff, maxLoops)
	}
	c.Tracing.problems(&ps)
	if c.Log.SlowStatement < 0 {
		ps.add("log.slow_statement", "must not be negative")
	}
	ps.choice("log.level", c.Log.Level, "debug", "info", "warn", "error")
	ps.choice("log.format", c.Log.Format, "text", "json")
	return ps
}

// maxRunDir leaves room for the names of sockets in what a system takes for a path of a socket.
const maxRunDir = 70

func (h HTTP) problems(ps *Problems) {
	for i, u := range h.Users {
		if u.Name == "" || u.Password == "" {
			ps.add("http.users["+strconv.Itoa(i)+"]", "name and password are needed")
		}
	}
	if len(h.Users) == 0 && h.Pprof {
		ps.add("http.pprof", "profiles show statement texts: name who may see them in http.users")
	}
	if len(h.Users) == 0 && h.PrivateMetrics {
		ps.add("http.private_metrics", "nobody could see them: there are no http.users")
	}
}

func (e Etcd) problems(ps *Problems) {
	if len(e.Endpoints) == 0 {
		ps.add("etcd.endpoints", "at least one is needed, for example http://127.0.0.1:2379")
	}
	secure := 0
	for i, ep := range e.Endpoints {
		path := "etcd.endpoints[" + strconv.Itoa(i) + "]"
		host := ep
		if strings.Contains(ep, "://") {
			u, err := url.Parse(ep)
			if err == nil && u.User != nil {
				ps.add(path, "has a user in it: use etcd.username and etcd.password")
				continue
			}
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Path != "" && u.Path != "/" {
				ps.add(path, "%q is not http://host:port or https://host:port", ep)
				continue
			}
			host = u.Host
			if u.Scheme == "https" {
				secure++
			}
		}
		ps.address(path, host)
	}
	if secure > 0 && secure < len(e.Endpoints) {
		ps.add("etcd.endpoints", "some are https and some are not")
	}
	if e.Prefix != "" && (!strings.HasPrefix(e.Prefix, "/") || !strings.HasSuffix(e.Prefix, "/") || e.Prefix == "/") {
		ps.add("etcd.prefix", "%q must begin and end with /", e.Prefix)
	}
	if e.Password != "" && e.Username == "" {
		ps.add("etcd.username", "is empty although there is a password")
	}
	if (e.TLS.Cert == "") != (e.TLS.Key == "") {
		ps.add("etcd.tls", "cert and key need each other")
	}
	ps.positive("etcd.timeout", e.Timeout)
}

func (t TLS) problems(ps *Problems) {
	if t.Mode != "" {
		ps.choice("tls.mode", t.Mode, TLSDisable, TLSAllow, TLSRequire)
	}
	ps.choice("tls.min_version", t.MinVersion, "1.2", "1.3")
	if t.ClientCert != "" {
		ps.choice("tls.client_cert", t.ClientCert, ClientCertRequire, ClientCertOptional)
	}
	switch {
	case (t.Cert == "") != (t.Key == ""):
		ps.add("tls", "cert and key need each other")
	case t.Cert == "" && (t.Mode == TLSAllow || t.Mode == TLSRequire):
		ps.add("tls.cert", "is empty, and mode %s needs a certificate", t.Mode)
	case t.Cert == "" && t.ClientCA != "":
		ps.add("tls.client_ca", "has no effect without cert and key")
	}
}

func (p Pool) problems(ps *Problems) {
	ps.choice("pool.mode", p.Mode, "transaction", "session")
	ps.between("pool.max_per_shard", p.MaxPerShard, 1, 100_000)
	ps.between("pool.max_per_standby", p.MaxPerStandby, 0, 100_000)
	ps.between("pool.max_per_user", p.MaxPerUser, 0, p.MaxPerShard)
	ps.between("pool.max_dials", p.MaxDials, 1, 100_000)
	ps.between("pool.max_prepared", p.MaxPrepared, 1, 100_000)
	ps.positive("pool.queue_timeout", p.QueueTimeout)
	if p.OverloadWait < 0 {
		ps.add("pool.overload_wait", "must not be negative, and is %v", p.OverloadWait)
	}
	ps.positive("pool.idle_timeout", p.IdleTimeout)
	ps.positive("pool.max_lifetime", p.MaxLifetime)
	ps.positive("pool.connect_timeout", p.ConnectTimeout)
	ps.positive("pool.tcp_timeout", p.TCPTimeout)
	ps.positive("pool.health_interval", p.HealthInterval)
}

func (f Failover) problems(ps *Problems) {
	if f.Wait < 0 {
		ps.add("failover.wait", "must not be negative, and is %v", f.Wait)
	}
	if f.InTransaction < 0 {
		ps.add("failover.wait_in_transaction", "must not be negative, and is %v", f.InTransaction)
	}
	if f.LagWarning < 0 {
		ps.add("failover.lag_warning", "must not be negative, and is %v", f.LagWarning)
	}
	ps.positive("failover.probe_interval", f.ProbeInterval)
	ps.positive("failover.probe_timeout", f.ProbeTimeout)
}

func (r Replicas) problems(ps *Problems) {
	oneOf := func(place, value string, words ...string) {
		if !slices.Contains(words, value) {
			ps.add(place, "must be one of %s, and is %q", strings.Join(words, ", "), value)
		}
	}
	oneOf("replicas.target", r.Target, "primary", "standby", "any", "prefer-standby", "auto")
	oneOf("replicas.listen_target", r.ListenTarget, "standby", "any", "prefer-standby", "auto")
	oneOf("replicas.fallback", r.Fallback, FallbackPrimary, FallbackRefuse)
	oneOf("replicas.causal", r.Causal, "auto", "on", "off")
	if r.MaxLag < 0 {
		ps.add("replicas.max_lag", "must not be negative, and is %v", r.MaxLag)
	}
	if r.CausalWait < 0 {
		ps.add("replicas.causal_wait", "must not be negative, and is %v", r.CausalWait)
	}
}

func (s Service) problems(ps *Problems) {
	if s.User == "" {
		ps.add("service.user", "is empty")
	}
}

func (s Statements) problems(ps *Problems) {
	if s.MaxBytes < 64<<10 {
		ps.add("statements.max_bytes", "must be at least 64KiB, not %v", s.MaxBytes)
	}
}

func (t Tracing) problems(ps *Problems) {
	if t.Endpoint == "" {
		return
	}
	u, err := url.Parse(t.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Path != "" && u.Path != "/" {
		ps.add("tracing.endpoint", "%q is not http://host:port or https://host:port", t.Endpoint)
		return
	}
	ps.address("tracing.endpoint", u.Host)
}

func (l Limits) problems(ps *Problems) {
	ps.between("limits.max_clients", l.MaxClients, 1, 1_000_000)
	ps.between("limits.max_clients_per_user", l.MaxClientsPerUser, 0, 1_000_000)
	ps.between("limits.max_clients_per_database", l.MaxClientsPerDatabase, 0, 1_000_000)
	ps.between("limits.auth_failures", l.AuthFailures, 0, 1_000_000)
	ps.positive("limits.startup_timeout", l.StartupTimeout)
	ps.positive("limits.drain_timeout", l.DrainTimeout)
	if l.DrainDelay < 0 || l.DrainDelay > time.Hour {
		ps.add("limits.drain_delay", "must be from 0s to 1h, not %v", l.DrainDelay)
	}
	if l.DrainIdle != DrainClose && l.DrainIdle != DrainSpread && l.DrainIdle != DrainKeep {
		ps.add("limits.drain_idle", "%q must be one of %s, %s, %s", l.DrainIdle, DrainClose, DrainSpread, DrainKeep)
	}
	// PostgreSQL takes no message of 1 GiB or more.
	if l.MaxQueryBytes < 64<<10 || l.MaxQueryBytes > 1<<30 {
		ps.add("limits.max_query_bytes", "must be from 64KiB to 1GiB, not %v", l.MaxQueryBytes)
	}
	if l.Memory < 16*l.MaxQueryBytes || l.Memory > 1<<40 {
		ps.add("limits.memory", "must be sixteen times limits.max_query_bytes at least, and 1024GiB at most, not %v", l.Memory)
	}
}

func (ps *Problems) address(path, addr string) {
	_, port, err := net.SplitHostPort(addr)
	if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n > 65535 {
		ps.add(path, "%q is not host:port", addr)
	}
}

func (ps *Problems) choice(path, got string, allowed ...string) {
	if !slices.Contains(allowed, got) {
		ps.add(path, "%q must be one of %s%s", got, strings.Join(allowed, ", "), suggest(got, allowed))
	}
}

func (ps *Problems) between(path string, n, low, high int) {
	if n < low || n > high {
		ps.add(path, "must be from %d to %d, not %d", low, high, n)
	}
}

func (ps *Problems) positive(path string, d time.Duration) {
	if d <= 0 {
		ps.add(path, "must be more than 0, not %v", d)
	}
}

// each takes joined errors apart.
func each(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		var out []error
		for _, e := range j.Unwrap() {
			out = append(out, each(e)...)
		}
		return out
	}
	return []error{err}
}
