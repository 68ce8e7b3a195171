package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"

	"weft/directory/etcd"
)

// Config says where the server keeps its data and listens.
type Config struct {
	Dir    string       // created if absent; survives a restart
	Listen string       // host:port for clients; port 0 picks a free one
	Log    *slog.Logger // default: slog.Default()
	// NoFsync: what was written survives the death of this process, but not of the
	// machine. For tests.
	NoFsync bool
}

// Server is a one-member etcd in this process.
type Server struct {
	cfg      Config
	etcd     *embed.Etcd
	endpoint string

	closing sync.Once // etcd panics when closed twice

	mu     sync.Mutex
	rpc    []*grpc.Server
	stores []*etcd.Store // closed with the server
}

// Start returns a server that answers. It does not lock Dir against a second
// process beyond what etcd's own files do: the caller does.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("embedded etcd: %w", err)
	}
	s := &Server{}
	e, err := s.listen(cfg)
	if err != nil {
		return nil, err
	}
	s.etcd = e
	select {
	case <-e.Server.ReadyNotify():
		return s, nil
	case err = <-e.Err():
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return nil, errors.Join(fmt.Errorf("embedded etcd in %s: %w", cfg.Dir, err), s.Close())
}

// portTries is how many ports are tried where any will do.
const portTries = 10

// listen starts etcd on cfg.Listen. The port is asked for here first: etcd's own message for
// a port in use comes wrapped in many lines, and port 0 must be resolved before it is
// advertised. Another process may take a resolved port before etcd does: then the next one
// is tried.
func (s *Server) listen(cfg Config) (*embed.Etcd, error) {
	for try := 1; ; try++ {
		s.cfg = cfg
		l, err := net.Listen("tcp", cfg.Listen)
		if err != nil {
			return nil, fmt.Errorf("embedded etcd: %w", err)
		}
		s.cfg.Listen = l.Addr().String()
		_ = l.Close()
		s.endpoint = "http://" + s.cfg.Listen
		member := memberConfig(s.cfg)
		member.ServiceRegister = s.serving
		e, err := embed.StartEtcd(member)
		if err == nil {
			return e, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) || s.cfg.Listen == cfg.Listen || try == portTries {
			return nil, fmt.Errorf("embedded etcd in %s: %w", cfg.Dir, err)
		}
	}
}

func memberConfig(cfg Config) *embed.Config {
	c := embed.NewConfig()
	c.Name = "weft"
	c.Dir = cfg.Dir
	client := url.URL{Scheme: "http", Host: cfg.Listen}
	c.ListenClientUrls = []url.URL{client}
	c.AdvertiseClientUrls = []url.URL{client}
	// A lone member has no peers, but etcd insists on an address for them.
	// Port 0 keeps it from colliding with anything.
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	c.ListenPeerUrls = []url.URL{peer}
	c.AdvertisePeerUrls = []url.URL{peer}
	c.InitialCluster = c.Name + "=" + peer.String()
	// A lone member elects itself when its timer runs out: make that soon.
	c.TickMs, c.ElectionMs = 10, 100
	// Keep the last revisions only: a watch that falls behind loads the snapshot again.
	c.AutoCompactionMode = embed.CompactorModeRevision
	c.AutoCompactionRetention = "1000"
	c.UnsafeNoFsync = cfg.NoFsync
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcd.ZapLogger(cfg.Log))
	return c
}

// serving is called by etcd with each gRPC server it makes.
func (s *Server) serving(g *grpc.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rpc = append(s.rpc, g)
}

// hangUp closes every client's connection.
func (s *Server) hangUp() {
	s.mu.Lock()
	rpc := s.rpc
	s.rpc = nil
	s.mu.Unlock()
	for _, g := range rpc {
		g.Stop()
	}
}

// Endpoint is the URL clients connect to.
func (s *Server) Endpoint() string { return s.endpoint }

// Err yields an error if the server dies by itself; what it yields once Close
// was called means nothing.
func (s *Server) Err() <-chan error { return s.etcd.Err() }

// Store opens the directory of the cluster of that name. Close closes it; the
// caller may do so before.
func (s *Server) Store(cluster string) (*etcd.Store, error) {
	st, err := etcd.Open(etcd.Config{Endpoints: []string{s.endpoint}, Prefix: etcd.Prefix(cluster), Log: s.cfg.Log})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stores = append(s.stores, st)
	return st, nil
}

// Close stops the server and the stores it handed out, and returns when its
// files and port are free.
func (s *Server) Close() (err error) {
	s.closing.Do(func() { err = s.close() })
	return err
}

func (s *Server) close() error {
	s.mu.Lock()
	stores := s.stores
	s.stores = nil
	s.mu.Unlock()
	var errs []error
	for _, st := range stores {
		errs = append(errs, st.Close())
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Left to itself etcd waits 5 s for other processes to end their
		// streams, and a proxy never ends the stream of its lease. What was
		// acknowledged is in the log already.
		s.hangUp()
		s.etcd.Close()
	}()
	select {
	case <-done:
	case <-time.After(15 * time.Second):
		errs = append(errs, errors.New("embedded etcd: did not stop within 15s"))
	}
	return errors.Join(errs...)
}
