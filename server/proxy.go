package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"weft/directory"
	"weft/proxy"
)

// newProxy is the maker of all but the tests of this package.
func newProxy(p parts, snapshot func() *directory.Snapshot, metrics prometheus.Registerer) (frontend, error) {
	cfg := p.opt.Config
	dir, _ := p.store.(proxy.Directory) // a store that lists no proxies cannot tell when all know a change
	srv, err := proxy.New(proxy.Config{
		Snapshot:       snapshot,
		Directory:      dir,
		Entries:        p.current,
		Reach:          p.current.Reach,
		Proxy:          p.id,
		Auth:           p.auth,
		TLS:            p.tls,
		RequireTLS:     cfg.TLS.Required(),
		Pool:           withService(poolConfig(cfg.Pool, cfg.Auth.Users, p.opt.Log), cfg.Service),
		ServiceUser:    cfg.Service.User,
		AdminDatabase:  cfg.AdminDatabase,
		AdminUsers:     cfg.AdminUsers,
		MaxClients:     cfg.Limits.MaxClients,
		Gather:         proxy.Gather{MaxBytes: int64(cfg.Gather.MaxBytes), Off: !cfg.Gather.Scatter, MaxParallelShards: cfg.Gather.MaxParallelShards},
		StartupTimeout: cfg.Limits.StartupTimeout,
		DrainTimeout:   cfg.Limits.DrainTimeout,
		MaxQueryBytes:  int(cfg.Limits.MaxQueryBytes),
		Version:        p.opt.Version,
		StopAt:         p.opt.StopAt,
		Log:            p.opt.Log,
		Metrics:        metrics,
	})
	if err != nil {
		return nil, err // not srv: a nil *proxy.Server is no nil frontend
	}
	return srv, nil
}
