package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weft/auth"
	"weft/config"
	"weft/directory"
	"weft/heat/ferry"
	"weft/heat/limit"
	"weft/heat/queue"
	"weft/heat/throttle"
	"weft/proxy"
	"weft/proxy/target"
)

// newProxy is the maker of all but the tests of this package.
func newProxy(p parts, snapshot func() *directory.Snapshot, metrics prometheus.Registerer) (frontend, error) {
	var dir proxy.Directory
	if d, ok := p.store.(proxy.Directory); ok { // a store that lists no proxies cannot tell when all know a change
		dir = faithful{d, snapshot}
	}
	cfg := p.proxyConfig()
	cfg.Snapshot, cfg.Directory, cfg.Current, cfg.Proxy = snapshot, dir, p.current, p.id
	cfg.Keeps.Entries = p.current
	cfg.Peers = proxy.Peers{Secret: p.secret}
	if p.beside != nil { // not a nil pointer in an interface
		cfg.Peers.Beside = p.beside
	}
	cfg.Keeps.Throttles, _ = p.store.(directory.Throttles)
	cfg.Keeps.Failovers, _ = p.store.(directory.Failovers)
	cfg.Keeps.Points, _ = p.store.(directory.Points)
	cfg.Keeps.Losses, _ = p.store.(directory.Losses)
	cfg.Settings, cfg.Reload, cfg.Metrics, cfg.Tracer = p.settings, p.reload, metrics, p.tracer
	p.current.ClearByHand()
	srv, err := proxy.New(cfg)
	if err != nil {
		return nil, err // not srv: a nil *proxy.Server is no nil frontend
	}
	return srv, nil
}

// proxyConfig is what the configuration says of a proxy.
func (p parts) proxyConfig() proxy.Config {
	cfg := p.opt.Config
	return proxy.Config{
		Auth:                  p.auth,
		TLS:                   p.tls,
		RequireTLS:            cfg.TLS.Required(),
		ProxyProtocol:         cfg.Balancers(),
		Pool:                  withLoops(withFailover(withService(poolConfig(cfg.Pool, cfg.Auth.Users, p.opt.Log), cfg.Service), cfg.Failover), cfg),
		ServiceUser:           cfg.Service.User,
		AdminDatabase:         cfg.AdminDatabase,
		AdminUsers:            cfg.AdminUsers,
		MaxClients:            cfg.Limits.MaxClients,
		MaxClientsPerUser:     cfg.Limits.MaxClientsPerUser,
		MaxClientsPerDatabase: cfg.Limits.MaxClientsPerDatabase,
		UserClients:           userClients(cfg.Auth.Users),
		AuthFailures:          cfg.Limits.AuthFailures,
		Gather:                proxy.Gather{MaxBytes: int64(cfg.Gather.MaxBytes), Off: !cfg.Gather.Scatter, MaxParallelShards: cfg.Gather.MaxParallelShards, Replicas: replicas(cfg)},
		StartupTimeout:        cfg.Limits.StartupTimeout,
		Drain:                 proxy.Drain{Timeout: cfg.Limits.DrainTimeout, Idle: map[string]proxy.DrainIdle{config.DrainSpread: proxy.DrainSpread, config.DrainKeep: proxy.DrainKeep}[cfg.Limits.DrainIdle]},
		ReadyShards:           float64(cfg.HTTP.ReadyShards),
		MaxQueryBytes:         int(cfg.Limits.MaxQueryBytes),
		Memory:                int64(cfg.Limits.Memory),
		Statements:            proxy.Statements{Bytes: int64(cfg.Statements.MaxBytes), Slow: cfg.Log.SlowStatement},
		Heat:                  heatConfig(cfg, p.opt.LookEvery),
		Version:               p.opt.Version,
		StopAt:                p.opt.StopAt,
		Log:                   p.opt.Log,
		Panics:                p.opt.panics,
	}
}

// replicas is what the configuration says of reads on standbys.
func replicas(cfg config.Config) proxy.Replicas {
	r := cfg.Replicas
	t, _ := target.Parse(r.Target) // the file has been checked
	there, _ := target.Parse(r.ListenTarget)
	causal := map[string]target.Causal{"on": target.On, "off": target.Off}[r.Causal]
	users := map[string]target.Target{}
	for i := range cfg.Auth.Users {
		if u := &cfg.Auth.Users[i]; u.Target != "" {
			users[u.Name], _ = target.Parse(u.Target)
		}
	}
	return proxy.Replicas{
		Target: t, Users: users, There: there, MaxLag: r.MaxLag, Causal: causal, CausalWait: r.CausalWait, MaxLagBytes: uint64(r.MaxLagBytes), Refuse: r.Fallback == config.FallbackRefuse, Zone: cfg.Zone,
	}
}

// heatConfig is what the configuration says of hot keys and of throttles.
func heatConfig(cfg config.Config, lookEvery time.Duration) proxy.Heat {
	h, users := cfg.Heat, cfg.Auth.Users
	plans := map[string]proxy.PlanMode{config.PlanAdvise: proxy.AdvisePlan, config.PlanAuto: proxy.AutoPlan}
	modes := map[string]throttle.Mode{config.ThrottleObserve: throttle.Observe, config.ThrottleAuto: throttle.Enforce}
	rows := map[string]queue.Mode{config.ThrottleObserve: queue.Observe, config.ThrottleAuto: queue.Auto}
	limits := map[string]limit.Mode{config.ThrottleObserve: limit.Observe, config.ThrottleAuto: limit.Auto}
	reads := map[string]ferry.Mode{config.ThrottleObserve: ferry.Observe, config.CoalesceOn: ferry.On}
	out := proxy.Heat{
		Rows: rows[h.Rows], Limit: limits[h.Limit], Coalesce: reads[h.Coalesce],

		Samples: h.Samples, Hashed: h.Keys == config.KeysHashed, History: cfg.HTTP.HasDashboard(), Exempt: map[string]bool{},
		Plan: plans[h.Plan], LookEvery: lookEvery,
		Throttle: throttle.Auto{Mode: modes[h.Throttle], Max: h.MaxThrottles, Lasts: h.ThrottleFor},
	}
	for i := range users {
		if users[i].Exempt {
			out.Exempt[users[i].Name] = true
		}
	}
	return out
}

// userClients are the bounds of users who have their own.
func userClients(users []auth.User) map[string]int {
	out := map[string]int{}
	for i := range users {
		if n := users[i].MaxClients; n > 0 {
			out[users[i].Name] = n
		}
	}
	return out
}
