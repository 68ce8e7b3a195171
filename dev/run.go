package dev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"weft/dev/patroni"
	"weft/directory/embedded"
	"weft/pgserver"
	"weft/server"
)

// drainLimit is how long running transactions may take after a signal.
const drainLimit = 10 * time.Second

// cluster is one run.
type cluster struct {
	opts   Options
	state  *state
	shards []*shard
	etcd   *embedded.Server
	proxy  *server.Server
	report *report
	// password is that of the dashboard.
	password string
	control  *control

	keepers   sync.WaitGroup
	stopKeeps context.CancelFunc
}

// Run runs the cluster until ctx ends, and returns nil if it then stopped in good
// order. Nothing it started is left when it returns.
func Run(ctx context.Context, opts Options) error {
	o, err := opts.withDefaults()
	if err != nil {
		return err
	}
	if err := makeDir(o.Dir); err != nil {
		return err
	}
	l, err := acquire(o.Dir, o.Listen)
	if err != nil {
		return err
	}
	c := &cluster{opts: o, report: newReport(o.Out)}
	err = c.run(ctx)
	return errors.Join(err, l.release())
}

// run holds the lock.
func (c *cluster) run(ctx context.Context) error {
	inst, err := c.prepare()
	if err != nil {
		return err
	}
	// Bound before anything else starts: a taken port should be known at once,
	// and clients that come early wait instead of being refused.
	listener, err := listen(c.opts.Listen, "--listen")
	if err != nil {
		return err
	}
	defer listener.Close() // by then usually closed by the proxy
	if err := checkPort(c.opts.HTTP, "--http"); err != nil {
		return err
	}
	c.report.begin(inst, c.state, c.opts.Dir)
	err = c.start(ctx, listener)
	if err == nil && c.opts.Demo {
		err = c.loadDemo(ctx)
	}
	if err == nil {
		c.report.ready(c)
		err = c.wait(ctx)
	}
	if ctx.Err() != nil {
		c.report.stopping()
		err = nil // asked to stop: whatever broke off because of it is no failure
	}
	return errors.Join(err, c.stop())
}

// prepare settles what this run is made of.
func (c *cluster) prepare() (pgserver.Install, error) {
	old, err := loadState(c.opts.Dir)
	if err != nil {
		return pgserver.Install{}, err
	}
	if old != nil && old.blank(c.opts.Dir) {
		old = nil
	}
	if c.state, err = settle(old, c.opts); err != nil {
		return pgserver.Install{}, err
	}
	inst, err := pgserver.Find(c.opts.PGBin)
	if err != nil {
		return pgserver.Install{}, err
	}
	switch {
	case c.state.PGMajor == 0:
		c.state.PGMajor = inst.Major
	case c.state.PGMajor != inst.Major && c.opts.PGBin == "":
		if inst, err = pgserver.FindMajor(c.state.PGMajor); err != nil {
			return pgserver.Install{}, fmt.Errorf("%s was made by PostgreSQL %d: %w; say where it is with --pg-bin, or choose another directory with --dir",
				c.opts.Dir, c.state.PGMajor, err)
		}
	}
	if err := c.choosePorts(); err != nil {
		return pgserver.Install{}, err
	}
	program := ""
	if c.state.Patroni {
		if program, err = patroni.Find(); err != nil {
			return pgserver.Install{}, err
		}
	}
	for i := range c.state.Shards {
		c.shards = append(c.shards, newShard(i, c.state, c.opts, inst, program))
	}
	if old == nil {
		// From here on the directory holds a cluster, if only a part of one.
		// What changes in an existing one is saved when it has worked.
		err = c.state.save(c.opts.Dir)
	}
	return inst, err
}

// start brings everything up. What it started is in c, also when it fails.
func (c *cluster) start(ctx context.Context, listener net.Listener) error {
	// Before the shards: etcd looks whether its port is free by listening on it
	// for a moment, and a server forked in that moment would hold it.
	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	up, upCtx := errgroup.WithContext(ctx)
	for _, s := range c.shards {
		up.Go(func() error { return c.startShard(upCtx, s) })
	}
	if err := up.Wait(); err != nil {
		return err
	}
	c.state.Complete = true
	if err := c.state.save(c.opts.Dir); err != nil {
		return err
	}
	keepCtx, cancel := context.WithCancel(context.Background())
	c.stopKeeps = cancel
	for _, s := range c.shards {
		c.keepers.Go(func() { s.Run(keepCtx) })
	}
	var err error
	if c.control, err = openControl(c.opts.Dir, c.shards); err != nil {
		return err
	}
	store, err := c.etcd.Store(clusterName)
	if err != nil {
		return err
	}
	if err := declare(ctx, store, c.state, c.shards, durability(c.state.Replicas, c.opts.Async)); err != nil {
		return err
	}
	return c.startProxy(ctx, store, listener)
}

func (c *cluster) startEtcd(ctx context.Context) error {
	began := time.Now()
	srv, err := embedded.Start(ctx, embedded.Config{
		Dir:    filepath.Join(c.opts.Dir, "etcd"),
		Listen: loopback(c.state.EtcdPort),
		Log:    slog.New(errorsOnly{c.opts.Log.Handler()}).With("part", "etcd"),
	})
	if err != nil {
		return err
	}
	c.etcd = srv
	c.report.step(began, "etcd", "listens on %s", loopback(c.state.EtcdPort))
	return nil
}

func (c *cluster) startShard(ctx context.Context, s *shard) error {
	began := time.Now()
	made, err := s.Open(ctx)
	if err == nil {
		err = s.createDatabase(ctx)
	}
	var port *pgserver.PortError
	if errors.As(err, &port) {
		return fmt.Errorf("%s: %w: stop that, or choose other ports for the shards with --port-base", s.name, port)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	what := "started"
	if made {
		what = "made and started"
	}
	where := s.primary()
	if others := s.others(); len(others) > 0 {
		where += ", standby on " + strings.Join(others, ", ")
	}
	c.report.step(began, s.name, "%s, listens on %s", what, where)
	return nil
}

// wait returns when the run has to end.
func (c *cluster) wait(ctx context.Context) error {
	proxyEnd := make(chan error, 1)
	go func() { proxyEnd <- c.proxy.Wait() }() // ends when stop closes the proxy
	select {
	case <-ctx.Done():
		return nil
	case err := <-c.etcd.Err():
		return fmt.Errorf("etcd ended: %w", err)
	case err := <-proxyEnd:
		return fmt.Errorf("the proxy failed: %w", err)
	}
}

// stop ends whatever runs, in the order that hurts clients least: transactions
// finish while the shards still answer. Abort makes every step short.
func (c *cluster) stop() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	finished := make(chan struct{})
	defer close(finished)
	go func() {
		select {
		case <-c.opts.Abort:
			cancel()
		case <-finished:
		}
	}()
	began := time.Now()
	var errs []error
	if c.proxy != nil {
		drain, cancelDrain := context.WithTimeout(ctx, drainLimit)
		// Transactions that did not end in time are cut off; that is no failure.
		_ = c.proxy.Drain(drain)
		cancelDrain()
		errs = append(errs, c.proxy.Close())
	}
	if c.control != nil {
		errs = append(errs, c.control.close())
	}
	if c.stopKeeps != nil {
		c.stopKeeps()
		c.keepers.Wait()
	}
	var stops errgroup.Group
	for _, s := range c.shards {
		stops.Go(func() error { return s.Stop(ctx) })
	}
	errs = append(errs, stops.Wait())
	if c.etcd != nil {
		errs = append(errs, c.etcd.Close())
	}
	c.report.stopped(began)
	return errors.Join(errs...)
}
