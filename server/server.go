package server

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weft/config"
	"weft/dashboard"
	"weft/directory"
	"weft/http"
	"weft/proxy"
	"weft/span"
)

// frontend is the part of proxy.Server that a Server runs.
type frontend interface {
	Serve(ctx context.Context, l net.Listener) error
	Ready(ctx context.Context, verbose bool) (missing []string, err error)
	Drain(ctx context.Context) error
	Yield(ctx context.Context)
	Cancel(pid int32, key []byte) bool
	Answer(channel, challenge, message []byte) ([]byte, bool)
	Reconfigure(proxy.Config) error
	Close() error
}

// Server is one running proxy with everything it needs.
type Server struct {
	opt      Options
	config   atomic.Pointer[config.Config] // in effect
	reading  sync.Mutex                    // held by whoever reads the file again
	log      *slog.Logger
	metrics  *prometheus.Registry
	tracer   *span.Tracer // nil if not configured
	current  *directory.Current
	front    atomic.Pointer[frontend]   // nil until the directory is there
	http     *http.Server               // nil if not configured, and during a takeover until this process accepts clients
	tls      atomic.Pointer[tls.Config] // in effect for clients; nil without TLS
	listener net.Listener
	// standbys is the listener of listen_standby, nil if that is not configured.
	standbys net.Listener
	// httpListener is that of http, nil if HTTP is not configured.
	httpListener net.Listener
	place        place
	closers      []func() error // of what Start opened, in that order

	ctx      context.Context // of the background goroutines
	cancel   context.CancelFunc
	running  sync.WaitGroup
	draining atomic.Bool
	leaving  atomic.Bool // /readyz fails, clients are still taken
	handed   atomic.Bool // another process takes clients in the place of this one

	lease lease

	ended  chan struct{} // closed with the first failure or by Close
	endOne sync.Once
	err    error // why; valid when ended is closed

	closing sync.Once
}

// Start returns a server that accepts clients. It waits for the directory as
// long as ctx lives; later ctx plays no part.
func Start(ctx context.Context, opt Options) (*Server, error) {
	return start(ctx, opt, newProxy)
}

// maker makes the frontend once there is a snapshot.
type maker func(parts, func() *directory.Snapshot, prometheus.Registerer) (frontend, error)

func start(ctx context.Context, opt Options, front maker) (*Server, error) {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Store != nil && len(opt.Config.Etcd.Endpoints) == 0 {
		// Not used, so it need not be there; the rest must be right.
		opt.Config.Etcd.Endpoints = []string{"127.0.0.1:2379"}
	}
	s := &Server{opt: opt, log: opt.Log, listener: opt.Listener, metrics: newRegistry(opt.Version), ended: make(chan struct{})}
	s.opt.mock, s.opt.panics = rand.Text(), proxy.NewPanics(s.log)
	s.config.Store(&s.opt.Config)
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := s.start(ctx, front); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, make maker) error {
	if err := s.opt.Config.Validate(); err != nil {
		return err
	}
	// Files are read before anything that waits, so that a mistake in one is said at once.
	parts, err := loadParts(s.opt)
	if err != nil {
		return err
	}
	if parts.tls != nil {
		s.tls.Store(parts.tls)
	}
	if err := s.takeSeat(ctx); err != nil {
		return err
	}
	if err := s.openHTTP(); err != nil {
		return err
	}
	store, err := s.openStore(ctx)
	if err != nil {
		return err
	}
	s.current = directory.NewCurrent(store, s.log)
	registerDirectory(s.metrics, s.current)
	first, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	s.background("directory", func(ctx context.Context) error {
		err := s.current.Run(ctx)
		failed(err)
		return err
	})
	if _, err := s.current.Wait(first); err != nil {
		return fmt.Errorf("directory: %w", err)
	}
	id := s.newID(ctx, store)
	if err := s.startTracing(ctx, id); err != nil {
		return err
	}
	parts.tracer = s.tracer
	parts.settings, parts.reload = s.settings, s.Reload
	parts.store, parts.current, parts.id = store, s.current, id
	var secret [32]byte
	_, _ = rand.Read(secret[:])
	parts.secret = secret[:]
	if err := s.join(id); err != nil {
		return err
	}
	parts.beside = s.place.beside
	front, err := make(parts, s.current.Snapshot, s.metrics)
	if err != nil {
		return err
	}
	s.front.Store(&front)
	s.serveBeside(front)
	if err := s.listen(); err != nil {
		return err
	}
	if err := s.register(ctx, store, parts.id, parts.secret); err != nil {
		return err
	}
	s.background("accept", func(ctx context.Context) error { return front.Serve(ctx, s.listener) })
	if s.standbys != nil {
		s.background("accept for standbys", func(ctx context.Context) error { return front.Serve(ctx, proxy.ForStandbys(s.standbys)) })
		s.log.Info("accepting clients that read standbys", "listen", s.standbys.Addr().String(), "target", s.opt.Config.Replicas.ListenTarget)
	}
	if s.http == nil {
		s.startHTTP()
	}
	s.takeOver()
	s.log.Info("accepting clients", "listen", s.Addr().String(), "cluster", s.opt.Config.Cluster)
	return nil
}

// openHTTP listens for HTTP, and serves it unless the old process still does.
func (s *Server) openHTTP() error {
	if s.opt.Config.HTTP.Listen == "" {
		return nil
	}
	l, err := s.open(httpSocket, s.opt.Config.HTTP.Listen)
	if err != nil {
		return fmt.Errorf("http: %w", err)
	}
	s.httpListener = l
	if s.place.hand == nil {
		s.startHTTP()
	}
	return nil
}

// startHTTP serves HTTP, if it is configured.
func (s *Server) startHTTP() {
	if s.httpListener == nil {
		return
	}
	cfg := s.opt.Config.HTTP
	users := make([]http.User, len(cfg.Users))
	for i, u := range cfg.Users {
		users[i] = http.User(u)
	}
	hc := http.Config{
		Ready: s.Ready, Metrics: s.metrics, Pprof: cfg.Pprof, Users: users, PrivateMetrics: cfg.PrivateMetrics, Log: s.log, Guard: s.opt.panics.Guarded,
	}
	if cfg.Dashboard {
		hc.Dashboard = dashboard.New(dashboard.Config{Proxy: s.desk, Log: s.log, Guard: s.opt.panics.Guarded})
	}
	if cfg.TLS {
		// Clients of HTTP are asked for passwords, not for certificates. The certificate may be another one after a reload.
		hc.TLS = &tls.Config{MinVersion: s.tls.Load().MinVersion, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &s.tls.Load().Certificates[0], nil
		}}
	}
	s.http = http.Start(hc, s.httpListener)
	s.closers = append(s.closers, s.http.Close)
}

// desk returns the proxy as its dashboard sees it, nil until there is one.
func (s *Server) desk() dashboard.Proxy {
	f := s.front.Load()
	if f == nil {
		return nil
	}
	if p, ok := (*f).(interface{ Desk() proxy.Desk }); ok {
		return p.Desk()
	}
	return nil
}

func (s *Server) startTracing(ctx context.Context, id string) (err error) {
	cfg := s.opt.Config.Tracing
	if cfg.Endpoint == "" {
		return nil
	}
	s.tracer, err = span.New(ctx, span.Config{Endpoint: cfg.Endpoint, Ratio: float64(cfg.Ratio), Version: s.opt.Version, Proxy: id, Log: s.log})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func() error {
		// What the collector does not take by then is lost.
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := s.tracer.Close(ctx); err != nil {
			s.log.Warn("the last traces were not sent", "err", err)
		}
		return nil
	})
	return nil
}

// newID returns an ID for this proxy that the others of the cluster leave free. If the directory has just gone away,
// any will do.
func (s *Server) newID(ctx context.Context, store directory.Store) string {
	var others []directory.Proxy
	if registry, ok := store.(directory.Registry); ok {
		var err error
		if others, err = registry.Proxies(ctx); err != nil {
			s.log.Warn("the other proxies are not known: numbers of their sessions may be like those here", "err", err)
		}
	}
	return proxy.NewID(others)
}

// openStore waits out an etcd that is away. Only one that asks for a password
// can be away here.
func (s *Server) openStore(ctx context.Context) (directory.Store, error) {
	if s.opt.Store != nil {
		return s.opt.Store, nil
	}
	for warned := false; ; {
		store, err := OpenDirectory(s.opt.Config, s.log)
		if err == nil {
			s.closers = append(s.closers, store.Close)
			return store, nil
		}
		if !errors.Is(err, directory.ErrUnavailable) {
			return nil, err
		}
		if !warned {
			s.log.Warn("waiting for the directory", "err", err)
			warned = true
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		}
	}
}

func (s *Server) listen() (err error) {
	if s.listener == nil {
		if s.listener, err = s.open(clientSocket, s.opt.Config.Listen); err != nil {
			return fmt.Errorf("listen for clients: %w", err)
		}
	}
	if at := s.opt.Config.ListenStandby; at != "" {
		if s.standbys, err = s.open(standbySocket, at); err != nil {
			return fmt.Errorf("listen for clients that read standbys: %w", err)
		}
	}
	return nil
}

// hangUp takes no more clients. Doing it twice does no harm.
func (s *Server) hangUp() {
	for _, l := range []net.Listener{s.listener, s.standbys} {
		if l != nil {
			_ = l.Close()
		}
	}
}

// register lists this proxy in the directory, if the store keeps a list, and
// returns when it is listed and serves what was current then. Clients come in
// only after that: whoever waits for a version to be acknowledged by all must
// not miss us.
func (s *Server) register(ctx context.Context, store directory.Store, id string, secret directory.Secret) error {
	reg, ok := store.(directory.Registry)
	if !ok {
		return nil
	}
	p := directory.Proxy{ID: id, Version: s.opt.Version, Connections: s.opt.Config.Pool.MaxPerShard, Secret: secret, TLS: s.opt.Config.TLS.Cert != ""}
	p.Host, _ = os.Hostname() // a list without it is still a list
	p.Address = advertised(s.opt.Config.Advertise, s.Addr(), p.Host)
	if a := s.HTTPAddr(); a != nil {
		p.HTTP = a.String()
	}
	listed := make(chan int64, 1)
	s.background("register", func(ctx context.Context) error {
		return reg.Register(ctx, p, s.current, func(epoch int64) {
			if s.lease.got(epoch) {
				listed <- epoch
				return
			}
			s.running.Go(s.opt.panics.Guarded("new lease", func() { _ = s.serveAs(s.ctx, store, epoch) }))
		})
	})
	select {
	case epoch := <-listed:
		return s.serveAs(ctx, store, epoch)
	case <-s.ended:
		return s.err
	case <-ctx.Done():
		return fmt.Errorf("register in the directory: %w", context.Cause(ctx))
	}
}

// lease is the epoch of this proxy's newest lease.
type lease struct {
	mu    sync.Mutex
	epoch int64
}

// got notes a new lease, and reports whether it is the first.
func (l *lease) got(epoch int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.epoch
	l.epoch = epoch
	return was == 0
}

// serveUnder serves under an epoch, unless there is another lease since.
func (s *Server) serveUnder(epoch int64) {
	s.lease.mu.Lock()
	defer s.lease.mu.Unlock()
	if s.lease.epoch == epoch {
		s.current.ServeAs(epoch)
	}
}

// serveAs makes the proxy serve under the epoch of a new lease, as soon as it serves what was current
// when it got the lease: what changed while it had none, nobody has told it.
func (s *Server) serveAs(ctx context.Context, store directory.Store, epoch int64) error {
	for {
		snap, err := store.Load(ctx)
		switch {
		case err == nil:
			if _, err = s.current.Reach(ctx, snap.Version); err != nil {
				return err
			}
			s.serveUnder(epoch)
			return nil
		case !errors.Is(err, directory.ErrUnavailable):
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// advertised is the address at which others reach this proxy.
func advertised(configured string, listen net.Addr, host string) string {
	if configured != "" {
		return configured
	}
	if a, ok := listen.(*net.TCPAddr); ok && a.IP.IsUnspecified() && host != "" {
		return net.JoinHostPort(host, strconv.Itoa(a.Port))
	}
	return listen.String()
}

// background runs f until Close, again if it ends in a panic. If it fails by itself the server has
// failed.
func (s *Server) background(what string, f func(context.Context) error) {
	s.running.Go(func() {
		err := s.opt.panics.Keep(s.ctx, what, f)
		if s.ctx.Err() != nil || s.draining.Load() || s.handed.Load() && err == nil {
			return
		}
		if err == nil {
			err = errors.New("ended without being asked to")
		}
		s.end(fmt.Errorf("%s: %w", what, err))
	})
}

func (s *Server) end(err error) {
	s.endOne.Do(func() {
		s.err = err
		close(s.ended)
	})
}

// Addr is where clients connect.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// StandbyAddr is where clients connect that read standbys, or nil.
func (s *Server) StandbyAddr() net.Addr {
	if s.standbys == nil {
		return nil
	}
	return s.standbys.Addr()
}

// HTTPAddr is where HTTP is served, or nil.
func (s *Server) HTTPAddr() net.Addr {
	if s.httpListener == nil {
		return nil
	}
	return s.httpListener.Addr()
}

// Ready returns nil when queries can be served, else why not, and what is missing.
func (s *Server) Ready(ctx context.Context, verbose bool) (missing []string, err error) {
	if s.draining.Load() || s.leaving.Load() {
		return nil, errors.New("draining")
	}
	f := s.front.Load()
	if f == nil {
		return nil, errors.New("waiting for the directory")
	}
	return (*f).Ready(ctx, verbose)
}

// Drain accepts no more clients and returns when the sessions have ended or
// ctx is over, whichever is first, with an error in the second case.
func (s *Server) Drain(ctx context.Context) error {
	s.draining.Store(true)
	s.hangUp()
	return (*s.front.Load()).Drain(ctx)
}

// Wait returns when the server has failed or was closed: the failure, or nil.
func (s *Server) Wait() error {
	<-s.ended
	return s.err
}

// Close ends everything, sessions included, and waits.
func (s *Server) Close() error {
	var errs []error
	s.closing.Do(func() {
		s.draining.Store(true) // what ends from here on was asked to
		s.hangUp()
		// Sessions before the background: they need the snapshot to the end.
		if f := s.front.Load(); f != nil {
			errs = append(errs, (*f).Close())
		}
		if s.http == nil && s.httpListener != nil {
			_ = s.httpListener.Close()
		}
		s.cancel()
		s.running.Wait()
		for i := len(s.closers) - 1; i >= 0; i-- {
			errs = append(errs, s.closers[i]())
		}
		s.leaveSeat() // last: the next process listens on the same ports as soon as the seat is free
		s.end(nil)
	})
	return errors.Join(errs...)
}
