package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"weft/config"
)

// startDev runs `weft dev` for its PostgreSQL servers and its etcd; the proxy in it only declares tables.
func (l *lab) startDev(ctx context.Context) error {
	if l.opts.WeftBin == "" {
		l.progress("building weft")
		bin, err := l.build(ctx, "weft/cmd/weft", "weft")
		if err != nil {
			return err
		}
		l.opts.WeftBin = bin
	}
	listen, err := freeAddr()
	if err != nil {
		return err
	}
	web, err := freeAddr()
	if err != nil {
		return err
	}
	base, err := freePorts(l.opts.Shards)
	if err != nil {
		return err
	}
	args := []string{
		l.opts.WeftBin, "dev", "--demo=false", "--shards", strconv.Itoa(l.opts.Shards), "--listen", listen, "--http", web,
		"--dir", l.devDir(), "--port-base", strconv.Itoa(base), "--pg-bin", l.install.Bin,
	}
	l.progress("starting weft dev")
	p, err := l.spawn("weft-dev", false, args...)
	if err != nil {
		return err
	}
	if err := p.waitReady(ctx, time.Minute, func() error { return readyz(ctx, web) }); err != nil {
		return err
	}
	for i := range l.opts.Shards {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(base+i))
		l.shards = append(l.shards, target{Title: fmt.Sprintf("shard %d", i), endpoint: endpoint{Addr: addr, Database: shardedDatabase}})
	}
	l.admin = target{Title: "weft dev", endpoint: endpoint{Addr: listen, Database: shardedDatabase}}
	l.server = target{Name: targetDirect, Title: "PostgreSQL", endpoint: endpoint{Addr: l.shards[0].Addr}}
	return nil
}

// startWeft runs the proxy that is measured: a second one on the cluster of weft dev, in the production form. Prepared
// mode with more clients than the pool has connections gets a third one with a larger pool.
func (l *lab) startWeft(ctx context.Context, name, title string) (target, error) {
	e, err := l.serve(ctx, name, l.opts.Pool, variants[name])
	if err != nil {
		return target{}, err
	}
	t := target{Name: name, Title: title, endpoint: e}
	if clients, ok := l.opts.needsPrepared(); ok && clients > l.opts.Pool {
		e, err := l.serve(ctx, name+"-prepared", clients, variants[name])
		if err != nil {
			return target{}, err
		}
		t.prepared = &e
		if name == targetWeft {
			l.notes = append(l.notes, fmt.Sprintf("Proxies have %d connections to a server; in prepared mode as many as clients, for pgbench "+
				"would otherwise wait for itself.", l.opts.Pool))
		}
	}
	return t, nil
}

// variants say how the configurations of targets differ from that of weft.
var variants = map[string]func(*config.Config){
	targetCold: func(c *config.Config) { c.Heat.Samples = 0 },
	targetLoop: func(c *config.Config) { c.Loop = config.LoopAuto },
}

// serve starts one `weft serve`; name is also that of its log and its configuration. vary changes the configuration, and may be nil.
func (l *lab) serve(ctx context.Context, name string, pool int, vary func(*config.Config)) (endpoint, error) {
	listen, err := freeAddr()
	if err != nil {
		return endpoint{}, err
	}
	web, err := freeAddr()
	if err != nil {
		return endpoint{}, err
	}
	file := filepath.Join(l.dir, name+".yaml")
	if err := l.writeConfig(file, listen, web, pool, vary); err != nil {
		return endpoint{}, err
	}
	p, err := l.spawn(name, false, l.opts.WeftBin, "serve", "-c", file)
	if err != nil {
		return endpoint{}, err
	}
	e := endpoint{Addr: listen, PID: p.pid(), HTTP: web}
	return e, p.waitReady(ctx, 15*time.Second, func() error {
		if err := readyz(ctx, web); err != nil {
			return err
		}
		return answers(ctx, target{endpoint: e})
	})
}

// writeConfig writes the configuration that weft dev left for further proxies, with addresses and a pool of its own.
func (l *lab) writeConfig(file, listen, web string, pool int, vary func(*config.Config)) error {
	cfg, err := config.Load(filepath.Join(l.devDir(), "weft.yaml"))
	if err != nil {
		return err
	}
	cfg.Listen = listen
	cfg.HTTP = config.HTTP{Listen: web, Pprof: true, Users: []config.HTTPUser{{Name: profiler, Password: profiler}}}
	cfg.Pool.MaxPerShard, cfg.Pool.MaxPerUser = pool, pool // pgbench is one user, and would wait for itself
	cfg.Pool.IdleTimeout = idleTimeout
	if vary != nil {
		vary(&cfg)
	}
	text, err := cfg.Marshal()
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// startBaseline runs the bare relay of package passthrough.
func (l *lab) startBaseline(ctx context.Context) (target, error) {
	bin, err := l.build(ctx, "weft/bench/passthrough", "passthrough")
	if err != nil {
		return target{}, err
	}
	listen, err := freeAddr()
	if err != nil {
		return target{}, err
	}
	p, err := l.spawn("passthrough", false, bin, "-listen", listen, "-server", l.server.Addr)
	if err != nil {
		return target{}, err
	}
	t := target{Name: targetBaseline, Title: "Go relay", endpoint: endpoint{Addr: listen, PID: p.pid()}}
	l.notes = append(l.notes, "Go relay is passthrough: one goroutine and one server connection per client, "+
		"frames counted but not looked at.")
	return t, p.waitReady(ctx, 10*time.Second, func() error { return answers(ctx, t) })
}

func (l *lab) devDir() string { return filepath.Join(l.dir, "dev") }

func (l *lab) build(ctx context.Context, pkg, name string) (string, error) {
	bin := filepath.Join(l.dir, name)
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", bin, pkg).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return bin, nil
}

func readyz(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("readyz: %s", res.Status)
	}
	return nil
}
