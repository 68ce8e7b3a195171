package patroni

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"weft/dev/supervisor"
	"weft/pgserver"
)

const (
	// interval is the time between two questions who is primary.
	interval = 500 * time.Millisecond
	// answerLimit bounds how long Patroni may take to answer.
	answerLimit = 3 * time.Second
	// openLimit bounds how long a shard may take to come up: Patroni waits for the
	// end of a lease that an earlier run has left.
	openLimit = 2 * time.Minute
	// aloneLimit is how long the last primary is waited for before the others start.
	aloneLimit = 10 * time.Second
	// joinLimit bounds how long Open waits for standbys to follow.
	joinLimit = time.Minute
	// orderLimit bounds how long Patroni may take to find another primary.
	orderLimit = time.Minute
	// stopLimit bounds how long Patroni may take to end.
	stopLimit = 20 * time.Second
	// restartPause is the time after which a dead Patroni is started again.
	restartPause = time.Second
)

// Config says which servers a shard has, and where Patroni and etcd are.
type Config struct {
	// Name of the shard, which Patroni calls scope.
	Name string
	// Servers has one entry per data directory. The first is made if none exists.
	Servers []pgserver.Config
	// Program is the path of patroni.
	Program string
	// Etcd is the host:port at which Patroni finds etcd.
	Etcd string
	// Dir holds Patroni's configurations and logs.
	Dir string
	// Async: commits do not wait for a standby.
	Async bool
	// Complete: the shard was there before.
	Complete bool
	// Log gets what happens. Default: none.
	Log *slog.Logger
}

// Find returns the path of patroni, or an error that says what to type.
func Find() (string, error) {
	path, err := exec.LookPath("patroni")
	if err != nil {
		return "", errors.New("patroni is not in PATH: apt install patroni, or leave out --patroni")
	}
	return path, nil
}

// Shard runs the servers of one shard under Patroni.
type Shard struct {
	cfg     Config
	log     *slog.Logger
	members []*member

	published atomic.Pointer[[]supervisor.Status]
}

// New returns a shard whose servers do not run yet.
func New(cfg Config) *Shard {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Shard{cfg: cfg, log: cfg.Log.With("shard", cfg.Name)}
	for _, c := range cfg.Servers {
		if c.Name == "" {
			c.Name = filepath.Base(c.Dir)
		}
		s.members = append(s.members, &member{cfg: c, file: filepath.Join(cfg.Dir, c.Name+".yml")})
	}
	s.publish(view{})
	return s
}

// Open starts all servers, and returns when the shard has a primary and the standbys follow
// it. After an error the caller calls Stop too.
func (s *Shard) Open(ctx context.Context) (made bool, err error) {
	// The directory above too: Patroni removes and makes data directories in it.
	for _, dir := range []string{filepath.Dir(s.members[0].cfg.Dir), s.cfg.Dir} {
		if err := s.members[0].cfg.Own(dir); err != nil {
			return false, err
		}
	}
	for _, m := range s.members {
		if err := s.prepare(ctx, m); err != nil {
			return false, err
		}
	}
	first, made, err := s.findPrimary(ctx)
	if err != nil {
		return false, err
	}
	if first != nil {
		// Alone at first: a standby that starts while there is no primary may not find the
		// primary later.
		if err := first.start(s.cfg.Program); err != nil {
			return false, err
		}
		if err := s.await(ctx, aloneLimit, s.serves(ctx)); ctx.Err() != nil {
			return false, err
		}
	}
	for _, m := range s.members {
		if m.process() == nil {
			if err := m.start(s.cfg.Program); err != nil {
				return false, err
			}
		}
	}
	if err := s.await(ctx, openLimit, s.serves(ctx)); err != nil {
		return false, err
	}
	return made, s.awaitJoined(ctx)
}

// awaitJoined waits until standbys follow the primary. Patroni starts a standby again and
// again whose directory was half rewound when an earlier run was killed: a standby that does
// not follow in time is copied anew.
func (s *Shard) awaitJoined(ctx context.Context) error {
	err := s.await(ctx, joinLimit/3, s.whole)
	if err == nil || ctx.Err() != nil {
		return err
	}
	v, err := s.look(ctx)
	for _, m := range s.members {
		if follows, _ := v.standby(m.name()); err == nil && !follows && m.name() != v.leader() {
			s.log.Warn("standby does not follow: copying the primary", "server", m.name())
			if _, err := call(ctx, http.MethodPost, m.api, "/reinitialize", map[string]bool{"force": true}); err != nil {
				s.log.Error("patroni does not copy the primary", "server", m.name(), "err", err)
			}
		}
	}
	err = s.await(ctx, joinLimit, s.whole)
	if err != nil && ctx.Err() == nil {
		s.log.Warn("standbys do not follow yet", "err", err)
		return nil
	}
	return err
}

// findPrimary returns the server that was most probably the primary last, and makes the
// first one of a new shard. nil is returned where only Patroni can tell.
func (s *Shard) findPrimary(ctx context.Context) (last *member, made bool, err error) {
	var there []*member
	var controls []pgserver.Control
	for _, m := range s.members {
		if !m.cfg.Exists() {
			continue
		}
		c, err := m.cfg.Control(ctx)
		if err != nil {
			return nil, false, err
		}
		there, controls = append(there, m), append(controls, c)
	}
	if len(there) > 0 {
		if i := lastPrimary(controls); i >= 0 {
			last = there[i]
		}
		return last, false, nil
	}
	first := s.members[0]
	if s.cfg.Complete {
		return nil, false, fmt.Errorf("%s is gone: put it back, or remove %s to start with an empty cluster", first.cfg.Dir, filepath.Dir(first.cfg.Dir))
	}
	return first, true, first.cfg.Unmanaged(ctx)
}

// lastPrimary returns the index of the server of the highest timeline. Out of several the
// one is taken that is no standby; -1 says that there is no such one. Patroni marks a
// primary as a standby while it starts the primary, so the mark alone says little.
func lastPrimary(controls []pgserver.Control) int {
	newest := 0
	for _, c := range controls {
		newest = max(newest, c.Timeline)
	}
	var all, unmarked []int
	for i, c := range controls {
		if c.Timeline != newest {
			continue
		}
		all = append(all, i)
		if !c.Standby {
			unmarked = append(unmarked, i)
		}
	}
	switch {
	case len(unmarked) == 1:
		return unmarked[0]
	case len(all) == 1:
		return all[0]
	default:
		return -1
	}
}

// serves returns what reports whether the shard has a primary that runs. Patroni's view alone
// may be that of an earlier run, until its lease ends.
func (s *Shard) serves(ctx context.Context) func(view) bool {
	return func(v view) bool {
		for _, m := range s.members {
			if m.name() == v.leader() {
				return takesWrites(ctx, m.addr(), m.cfg.User)
			}
		}
		return false
	}
}

// takesWrites reports whether a server answers, and is no standby.
func takesWrites(ctx context.Context, addr, user string) bool {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	conn, err := pgconn.Connect(ctx, "postgres://"+user+"@"+addr+"/postgres?sslmode=disable&target_session_attrs=read-write")
	if err != nil {
		return false
	}
	return conn.Close(ctx) == nil
}

// prepare writes the configuration of a server's Patroni, which does not run yet.
func (s *Shard) prepare(ctx context.Context, m *member) error {
	if err := m.endOld(ctx); err != nil {
		return err
	}
	if err := pgserver.CheckPort(m.addr()); err != nil {
		return err
	}
	port, err := pgserver.FreePort()
	if err != nil {
		return err
	}
	m.api = fmt.Sprintf("127.0.0.1:%d", port)
	text, err := s.settings(m)
	if err != nil {
		return err
	}
	return m.cfg.OwnFile(m.file, text)
}

// whole reports whether the shard has a primary that all others follow, and commits wait
// for one of them.
func (s *Shard) whole(v view) bool {
	if v.leader() == "" {
		return false
	}
	synced := s.cfg.Async || len(s.members) == 1
	for _, m := range s.members {
		if m.name() == v.leader() {
			continue
		}
		follows, sync := v.standby(m.name())
		if !follows {
			return false
		}
		synced = synced || sync
	}
	return synced
}

// await asks Patroni until the shard is as wanted.
func (s *Shard) await(ctx context.Context, limit time.Duration, ok func(view) bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		v, err := s.look(ctx)
		if err == nil {
			s.publish(v)
			if ok(v) {
				return nil
			}
		}
		for _, m := range s.members {
			if p := m.process(); p != nil && p.Err() != nil {
				return fmt.Errorf("patroni of %s ended: %w (log: %s.log)", m.name(), p.Err(), m.file)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not as it should be, see %s: %w", s.cfg.Name, s.cfg.Dir, context.Cause(ctx))
		case <-time.After(interval / 4):
		}
	}
}

// Run starts a Patroni again that has died, and asks who is primary, until ctx ends.
func (s *Shard) Run(ctx context.Context) {
	var keepers sync.WaitGroup
	defer keepers.Wait()
	for _, m := range s.members {
		keepers.Go(func() { s.keep(ctx, m) })
	}
	last := ""
	for {
		if v, err := s.look(ctx); err == nil {
			s.publish(v)
			if now := v.leader(); now != "" && now != last {
				if last != "" {
					s.log.Warn("patroni has another primary", "server", now, "before", last)
				}
				last = now
			}
		} else {
			s.publish(view{})
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
	}
}

// keep starts one Patroni again whenever it dies.
func (s *Shard) keep(ctx context.Context, m *member) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.process().Done():
		}
		s.log.Error("patroni died", "server", m.name(), "err", m.process().Err())
		select {
		case <-ctx.Done():
			return
		case <-time.After(restartPause):
		}
		if err := m.start(s.cfg.Program); err != nil {
			s.log.Error("patroni does not start", "server", m.name(), "err", err)
		}
	}
}

// publish makes what Patroni says that of Servers.
func (s *Shard) publish(v view) {
	out := make([]supervisor.Status, 0, len(s.members))
	for _, m := range s.members {
		st := supervisor.Status{Shard: s.cfg.Name, Address: m.addr(), Dir: m.cfg.Dir, Role: supervisor.Standby, PID: m.cfg.PID(), Frozen: m.isFrozen()}
		if m.name() == v.leader() {
			st.Role = supervisor.Primary
		} else {
			follows, sync := v.standby(m.name())
			st.Replaces = follows && (sync || s.cfg.Async)
		}
		out = append(out, st)
	}
	s.published.Store(&out)
}

// Servers returns the servers as they were a moment ago. Any goroutine may call it.
func (s *Shard) Servers() []supervisor.Status { return *s.published.Load() }

// Stop ends all servers. Run is over, or was not called.
func (s *Shard) Stop(ctx context.Context) error {
	leader := ""
	if v, err := s.look(ctx); err == nil {
		leader = v.leader()
	}
	var errs []error
	for _, primary := range []bool{false, true} {
		var stops errgroup.Group
		for _, m := range s.members {
			if (m.name() == leader) == primary {
				stops.Go(func() error { return m.stop(ctx) })
			}
		}
		errs = append(errs, stops.Wait())
	}
	return errors.Join(errs...)
}
