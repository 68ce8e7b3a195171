package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"weft/pgserver"
)

const (
	// interval is the time between two looks at the servers.
	interval = 500 * time.Millisecond
	// answerLimit bounds how long a server may take to say where it is.
	answerLimit = 2 * time.Second
	// candidateLimit bounds how long all standbys together may take to say how much of the
	// dead primary's log they have.
	candidateLimit = 5 * time.Second
	// joinLimit bounds how long Open waits for standbys to catch up.
	joinLimit = 30 * time.Second
	// strayLimit is the default of Config.StrayLimit.
	strayLimit = 20 * time.Second
)

// Config says which servers a shard has.
type Config struct {
	// Name of the shard, for messages.
	Name string

	// Servers has one entry per data directory. The first is made with initdb if none
	// exists; the others are copies.
	Servers []pgserver.Config

	// Async: commits do not wait for standbys.
	Async bool

	// StrayLimit is how long a standby may run without following the primary, before the
	// standby is copied anew: its primary may not have the log any more that it needs.
	// Default 20 seconds.
	StrayLimit time.Duration

	// Complete: the shard was there before. Then a shard without any data directory is
	// lost data, and not new.
	Complete bool

	// Log gets what happens to servers. Default: none.
	Log *slog.Logger
}

// Supervisor runs the servers of one shard.
type Supervisor struct {
	cfg     Config
	log     *slog.Logger
	servers []*server
	primary *server
	quorum  *quorum

	conn *pgconn.PgConn // to the primary, to ask for its standbys; nil: none now

	ended    chan struct{} // has an entry when a process has ended
	repaired chan repair
	orders   chan order
	repairs  sync.WaitGroup
	watchers sync.WaitGroup // each waits for a process's end

	published atomic.Pointer[[]Status]
}

// New returns a supervisor of servers that do not run yet.
func New(cfg Config) *Supervisor {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.StrayLimit == 0 {
		cfg.StrayLimit = strayLimit
	}
	s := &Supervisor{
		cfg: cfg, log: cfg.Log.With("shard", cfg.Name), quorum: newQuorum(),
		ended: make(chan struct{}, 1), repaired: make(chan repair, len(cfg.Servers)), orders: make(chan order),
	}
	for _, c := range cfg.Servers {
		if c.Name == "" {
			c.Name = filepath.Base(c.Dir)
		}
		if len(cfg.Servers) > 1 {
			settings := pgserver.ReplicationSettings()
			maps.Copy(settings, c.Settings)
			c.Settings = settings
		}
		s.servers = append(s.servers, &server{cfg: c})
	}
	s.publish()
	return s
}

// Open starts all servers and returns when standbys follow the primary, and commits wait
// for them. made says that the shard is new. After an error the caller calls Stop too.
func (s *Supervisor) Open(ctx context.Context) (made bool, err error) {
	defer s.publish()
	if made, err = s.findPrimary(ctx); err != nil {
		return false, err
	}
	if err := s.startPrimary(ctx); err != nil {
		return false, err
	}
	var up errgroup.Group
	for _, m := range s.standbys() {
		if m.runs() {
			continue
		}
		up.Go(func() error {
			srv, err := s.bringUp(ctx, task{cfg: m.cfg, primary: s.primary.srv})
			if err != nil {
				return fmt.Errorf("%s: %w", m.name(), err)
			}
			m.started(srv, time.Now())
			return nil
		})
	}
	if err := up.Wait(); err != nil {
		return false, err
	}
	for _, m := range s.standbys() {
		s.watch(m.srv)
	}
	return made, s.awaitJoined(ctx)
}

// startPrimary starts the primary, unless the primary runs.
func (s *Supervisor) startPrimary(ctx context.Context) error {
	m := s.primary
	if m.runs() {
		return nil
	}
	srv, err := m.cfg.Start(ctx)
	if err != nil {
		return err
	}
	m.started(srv, time.Now())
	s.watch(srv)
	return nil
}

// standbys are all servers but the primary.
func (s *Supervisor) standbys() []*server {
	var out []*server
	for _, m := range s.servers {
		if m != s.primary {
			out = append(out, m)
		}
	}
	return out
}

// watch makes Run look when a process ends.
func (s *Supervisor) watch(srv *pgserver.Server) {
	s.watchers.Go(func() {
		<-srv.Done()
		select {
		case s.ended <- struct{}{}:
		default: // Run will look anyway
		}
	})
}

// awaitJoined waits until every standby may be promoted. A standby that takes very
// long joins later, under Run.
func (s *Supervisor) awaitJoined(ctx context.Context) error {
	if len(s.servers) == 1 {
		return nil
	}
	end := time.Now().Add(joinLimit)
	for {
		s.adapt(ctx)
		joined := 0
		for _, m := range s.standbys() {
			if s.mayReplace(m) {
				joined++
			}
		}
		switch {
		case joined == len(s.servers)-1:
			return nil
		case time.Now().After(end):
			s.log.Warn("standbys do not follow yet", "joined", joined, "of", len(s.servers)-1)
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(interval / 2):
		}
	}
}

// Run keeps the shard alive until ctx ends.
func (s *Supervisor) Run(ctx context.Context) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		s.look(ctx)
		s.publish()
		select {
		case <-ctx.Done():
		case <-s.ended:
		case r := <-s.repaired:
			s.join(ctx, r)
		case o := <-s.orders:
			o.reply <- s.obey(ctx, o.what)
		case <-tick.C:
			s.adapt(ctx)
		}
	}
}

// look replaces a primary that has died, and begins repairs of dead standbys.
func (s *Supervisor) look(ctx context.Context) {
	if !s.primary.runs() && !time.Now().Before(s.primary.due) {
		s.replace(ctx)
	}
	if !s.primary.runs() || s.primary.frozen {
		return
	}
	told := true
	for _, m := range s.standbys() {
		if m.repairing || m.runs() && !m.strays {
			continue
		}
		if s.quorum.drop(m.name()) {
			told = false
		}
		now := time.Now()
		if m.due.IsZero() && m.srv != nil && !m.strays && m.cfg.IsStandby() {
			s.log.Error("standby died", "server", m.name(), "err", m.srv.Err())
			if m.hasty(now) {
				m.delay(now)
			}
		}
		if !m.due.After(now) {
			s.beginRepair(ctx, m)
		}
	}
	if !told {
		s.tell()
	}
}

// adapt asks the primary for its standbys, and makes commits wait for those that
// stream.
func (s *Supervisor) adapt(ctx context.Context) {
	if len(s.servers) == 1 || !s.primary.runs() {
		return
	}
	var now int64
	var all []standing
	err := errors.New("frozen")
	if !s.primary.frozen {
		now, all, err = s.ask(ctx)
	}
	at := time.Now()
	seen := map[string]bool{}
	var alive []standing
	for _, st := range all {
		for _, m := range s.standbys() {
			if m.name() == st.name && m.runs() && !m.frozen && !m.strays && !m.repairing {
				alive = append(alive, st)
				seen[st.name] = st.streaming
			}
		}
	}
	for _, m := range s.standbys() {
		if err != nil || seen[m.name()] || m.frozen || m.repairing {
			m.followed = at
		}
		if m.runs() && at.Sub(m.followed) > s.cfg.StrayLimit {
			s.log.Warn("standby does not follow the primary", "server", m.name())
			m.strays = true
		}
	}
	if err == nil && s.quorum.look(now, alive) {
		s.tell()
	}
}

// tell tells the primary whom commits wait for.
func (s *Supervisor) tell() {
	names := s.quorum.names
	if s.cfg.Async {
		names = nil
	}
	if err := s.primary.srv.SetSynchronous(names...); err != nil {
		s.log.Error("synchronous_standby_names not set", "err", err)
	}
}

// mayReplace reports whether a standby may be promoted.
func (s *Supervisor) mayReplace(m *server) bool {
	if m == s.primary || !m.runs() || m.frozen || m.repairing || m.strays {
		return false
	}
	if s.cfg.Async {
		return slices.Contains(s.quorum.names, m.name())
	}
	return s.quorum.proven[m.name()]
}

// Stop ends all servers, the primary first: so every standby has all of its log. Run is
// over, or was not called.
func (s *Supervisor) Stop(ctx context.Context) error {
	s.hangUp()
	s.repairs.Wait()
	for len(s.repaired) > 0 {
		if r := <-s.repaired; r.err == nil {
			r.server.srv = r.srv
		}
	}
	var errs []error
	if s.primary != nil && s.primary.srv != nil {
		errs = append(errs, s.primary.stop(ctx))
	}
	var stops errgroup.Group
	for _, m := range s.standbys() {
		if m.srv != nil {
			stops.Go(func() error { return m.stop(ctx) })
		}
	}
	errs = append(errs, stops.Wait())
	s.watchers.Wait()
	s.publish()
	return errors.Join(errs...)
}
