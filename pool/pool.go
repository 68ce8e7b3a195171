package pool

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/directory"
	"weft/pgerr"
	"weft/tally"
)

// Pool holds the connections to all shards.
type Pool struct {
	cfg atomic.Pointer[Config] // replaced as a whole, never changed: see Reconfigure
	// farewells waits for the connections being closed in the background.
	farewells sync.WaitGroup

	keys      keyring
	rights    rights
	processes processes
	ghosts    *ghosts

	mu        sync.Mutex
	shards    map[string]*Shard
	databases map[string]*Database
	paused    bool // all shards are paused, see Pause
	drains    atomic.Uint64
}

// Stats counts what happened on a shard since the start.
type Stats struct {
	Timeouts atomic.Int64 // times a session waited in vain
	// Refusals is how many of Timeouts were sessions that were refused because of overload.
	Refusals atomic.Int64
}

// New returns a pool. It dials nothing before the first Acquire.
func New(cfg Config) (*Pool, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	p := &Pool{shards: map[string]*Shard{}, databases: map[string]*Database{}, ghosts: newGhosts(&cfg)}
	p.cfg.Store(&cfg)
	return p, nil
}

func (p *Pool) conf() *Config { return p.cfg.Load() }

// Reconfigure changes the configuration. Connections stay, except those of users whose login on
// the shards has changed: these are closed as soon as they are idle.
func (p *Pool) Reconfigure(cfg Config) error {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return err
	}
	old := p.cfg.Swap(&cfg)
	p.Retire(func(k Key) bool {
		a, b := old.Users[k.User], cfg.Users[k.User]
		return a.ServerUser != b.ServerUser || a.ServerPassword != b.ServerPassword || a.Role != b.Role
	})
	for _, sh := range p.all() {
		sh.mu.Lock()
		sh.serveQueue() // there may be more room
		sh.mu.Unlock()
	}
	return nil
}

// Config returns the configuration with defaults filled in.
func (p *Pool) Config() Config { return *p.conf() }

// Shard returns the connections to a shard of the snapshot. When the shard's servers have
// changed, connections to those that have left are not used again.
func (p *Pool) Shard(s *directory.Shard) *Shard {
	p.mu.Lock()
	defer p.mu.Unlock()
	sh := p.shards[s.Name]
	if sh == nil {
		sh = &Shard{Name: s.Name, pool: p, lanes: map[Key]*Lane{}, users: map[string]int{}, Times: tally.NewHistogram(tally.Durations), Queued: tally.NewHistogram(tally.Durations)}
		sh.spec.Store(s)
		sh.Raise(s.Generation(), s.Ruling)
		sh.pauses.all = p.paused
		sh.pauses.set()
		p.shards[s.Name] = sh
		return sh
	}
	if old := sh.spec.Load(); old != s {
		if sh.spec.Store(s); !old.Reaches(s) {
			sh.respecify(old, s)
		}
	}
	sh.Raise(s.Generation(), s.Ruling)
	return sh
}

// Database returns what the sessions on a database share.
func (p *Pool) Database(name string) *Database {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.databases[name]
	if d == nil {
		d = newDatabase(name)
		p.databases[name] = d
	}
	return d
}

// ForgetEffects makes the next session on each database ask again what its functions do: they
// may have been changed without weft.
func (p *Pool) ForgetEffects() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.databases {
		d.Effects.Store(nil)
	}
}

// Retire closes connections of matching keys as soon as they are idle: after ALTER ROLE … SET a
// new login has other defaults, and DROP DATABASE fails while a connection is open.
func (p *Pool) Retire(match func(Key) bool) {
	for _, sh := range p.all() {
		sh.retire(match)
	}
}

// retire is Retire on one shard.
func (sh *Shard) retire(match func(Key) bool) {
	sh.ahead.drop(match)
	sh.dismiss(match, true)
}

// everyKey matches all keys.
func everyKey(Key) bool { return true }

// dismiss closes connections of matching keys as soon as they are idle. With forget a new login may have other parameters.
func (sh *Shard) dismiss(match func(Key) bool, forget bool) {
	sh.mu.Lock()
	var gone []*Conn
	for _, l := range sh.lanes {
		if !match(l.key) {
			continue
		}
		l.epoch++
		if forget {
			l.welcome = nil
		}
		for _, c := range l.idle {
			c.inIdle = false
			sh.forget(l)
			gone = append(gone, c)
		}
		sh.idle -= len(l.idle)
		l.idle = nil
	}
	sh.serveQueue()
	sh.mu.Unlock()
	for _, c := range gone {
		c.hangUp()
	}
}

// InUse counts the connections of matching keys that sessions hold.
func (p *Pool) InUse(match func(Key) bool) int {
	n := 0
	for _, sh := range p.all() {
		sh.mu.Lock()
		for _, l := range sh.lanes {
			if match(l.key) {
				n += l.open - len(l.idle)
			}
		}
		sh.mu.Unlock()
	}
	return n
}

// Shards calls f for each shard that has been used.
func (p *Pool) Shards(f func(*Shard)) {
	for _, sh := range p.primaries() {
		f(sh)
	}
}

// primaries returns all shards, and all returns their standbys too.
func (p *Pool) primaries() []*Shard {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]*Shard, 0, len(p.shards))
	for _, sh := range p.shards {
		out = append(out, sh)
	}
	return out
}

func (p *Pool) all() []*Shard {
	out := p.primaries()
	for _, sh := range out {
		out = append(out, sh.Standbys()...)
	}
	return out
}

// allPaused reports whether PAUSE is in force for all shards.
func (p *Pool) allPaused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused
}

// Run looks after idle connections until ctx ends, then closes them all and has the backends ended
// that go on without one.
func (p *Pool) Run(ctx context.Context) error {
	tick := time.NewTicker(p.conf().HealthInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			p.Retire(everyKey)
			p.farewells.Wait()
			p.ghosts.end()
			return nil
		case now := <-tick.C:
			tick.Reset(p.conf().HealthInterval)
			for _, sh := range p.all() {
				sh.sweep(now)
			}
		}
	}
}

// LaneStats is what SHOW POOLS tells about one lane.
type LaneStats struct {
	Shard   string
	Key     Key
	Open    int
	Idle    int
	Waiting int
}

// Lanes returns the state of every lane, except those of standbys.
func (p *Pool) Lanes() []LaneStats {
	var out []LaneStats
	for _, sh := range p.primaries() {
		sh.mu.Lock()
		for _, l := range sh.lanes {
			out = append(out, LaneStats{Shard: sh.Name, Key: l.key, Open: l.open, Idle: len(l.idle), Waiting: l.waiting})
		}
		sh.mu.Unlock()
	}
	return out
}

// Reachable reports whether a server answers at the address of the shard's primary, or at any if it is not known which server that is. A
// refused login is an answer too, unless the server refuses because it cannot take connections now or has too many.
func (sh *Shard) Reachable(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, sh.pool.conf().ConnectTimeout)
	defer stop()
	hosts := sh.hosts()
	var failed failures
	for i, host := range hosts {
		err := sh.reach(ctx, host, shareOf(ctx, len(hosts)-i))
		if err == nil {
			return nil
		}
		failed.add(host, err)
	}
	return failed.error(sh)
}

// reach is Reachable for one server.
func (sh *Shard) reach(ctx context.Context, host string, limit time.Duration) error {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	pc, err := sh.connConfig(Key{Database: "postgres", User: "postgres"}, host)
	if err != nil {
		return err
	}
	c, err := pgconn.ConnectConfig(ctx, pc)
	if err == nil {
		return c.Close(ctx)
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code != pgerr.CannotConnectNow && pg.Code != pgerr.TooManyConnections {
		return nil
	}
	return sh.dialError(host, err)
}
