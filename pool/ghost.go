package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"weft/pgerr"
)

// PostgreSQL does not notice that its client has closed the connection before it writes to it or
// reads from it. A backend that weft gives up in the middle of a statement goes on with it, for ever
// if the statement waits for a lock that is never released, and holds its own locks meanwhile. A cancel
// request may have been lost on the way, or have come between two statements. Such a backend is a
// ghost. ghosts remembers it and has it ended, as PostgreSQL would if it noticed, and tells which
// ones there still are.
//
// Invariants:
//
//   - Every backend that is closed while Busy, and whose start is known, is a ghost from before the
//     pool forgets its connection until its shard says that there is no such process. Process IDs are
//     used again, so the start of the process is compared, too. An idle backend is no ghost:
//     PostgreSQL ends it at once.
//   - Only the very process is ended, and never one that commits or waits for a standby.
//   - A shard that does not answer keeps its ghosts; it gets no new ones meanwhile, because it accepts
//     no login. So their number is about that of the server's connections, and maxGhosts is not
//     reached.
//   - One goroutine looks after the ghosts of a database on a shard, and ends with the last of them.

// Ghost is a backend whose connection weft has closed while the backend may have been in the middle
// of a statement.
type Ghost struct {
	Process
	Database string
	Since    time.Time // when the connection was closed
}

const (
	// ghostPause is how long a backend may take to end by itself before it is looked for. The pause
	// doubles each time, up to ghostSlowest.
	ghostPause   = 100 * time.Millisecond
	ghostSlowest = 5 * time.Second
	// ghostTold is how long a ghost lasts before the log tells of it.
	ghostTold = 30 * time.Second
	// ghostGrace is how long a pool that ends may take to have its ghosts ended.
	ghostGrace = 3 * time.Second
	// maxGhosts bounds the memory for ghosts.
	maxGhosts = 10000
)

// ghosts are the ghosts of a pool.
type ghosts struct {
	// ask runs a query on a database of a shard as weft itself; nil: there are no ghosts.
	ask     func(ctx context.Context, shard, database, sql string) ([][]string, error)
	guarded func(where string, f func()) func()
	log     *slog.Logger

	ctx   context.Context // ends the goroutines
	stop  context.CancelFunc
	wg    sync.WaitGroup
	hurry chan struct{} // closed when the pool ends

	mu     sync.Mutex
	haunts map[haunt]*haunted
	number int
	full   bool // maxGhosts has been reached, and the log has told
	closed bool // the pool ends, and has no new ghosts
}

// haunt is a database on a shard.
type haunt struct{ shard, database string }

// haunted is a database that has ghosts.
type haunted struct {
	list  []*ghost
	fresh chan struct{} // delivers when a ghost is added
}

// ghost is a Ghost and what is known about it.
type ghost struct {
	Ghost
	commits bool // the ghost commits, and must not be ended
	// cancel sends the ghost a cancel request, for shards that do not let weft end backends; nil if a
	// request could do harm.
	cancel func(ctx context.Context) error
	ended  bool // the shard was told to end the ghost
	told   bool // the log has told of the ghost
}

func newGhosts(c *Config) *ghosts {
	g := &ghosts{ask: c.Ask, guarded: c.Guard, log: c.Log, hurry: make(chan struct{}), haunts: map[haunt]*haunted{}}
	g.ctx, g.stop = context.WithCancel(context.Background())
	return g
}

// haunt notes that the backend is closed in the middle of a statement.
func (c *Conn) haunt() {
	if c.lane.shard.standby != nil {
		// A read on a standby holds nothing that others wait for: a cancel request is enough.
		p := c.lane.shard.pool
		p.farewells.Go(p.conf().Guard("cancel request to a standby", func() { _ = c.requestCancel(context.Background()) }))
		return
	}
	x := &ghost{
		Ghost:   Ghost{Process: Process{c.Shard(), c.pid, c.started}, Database: c.lane.key.Database, Since: time.Now()},
		commits: c.commits,
	}
	if !c.commits && !c.owes && !c.Opening() {
		// A cancel request hits one of several statements, and those behind it run: see Opening.
		x.cancel = c.requestCancel
	}
	c.lane.shard.pool.ghosts.add(x)
}

// add remembers a ghost.
func (g *ghosts) add(x *ghost) {
	if g.ask == nil || x.Started == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	if g.number >= maxGhosts {
		if !g.full {
			g.log.Warn("too many backends go on after their connections were closed: the latest are not looked after", "backends", g.number)
		}
		g.full = true
		return
	}
	g.number++
	at := haunt{x.Shard, x.Database}
	h := g.haunts[at]
	if h == nil {
		h = &haunted{fresh: make(chan struct{}, 1)}
		g.haunts[at] = h
		g.wg.Go(g.guarded("ghosts", func() { g.watch(at, h) }))
	}
	h.list = append(h.list, x)
	select {
	case h.fresh <- struct{}{}:
	default:
	}
}

// watch looks after the ghosts of a database until there are none.
func (g *ghosts) watch(at haunt, h *haunted) {
	for pause := ghostPause; g.rest(h, &pause); pause = min(2*pause, ghostSlowest) {
		g.mu.Lock()
		list := slices.Clone(h.list)
		g.mu.Unlock()
		there, err := g.lay(at, list)
		g.mu.Lock()
		h.list = slices.DeleteFunc(h.list, func(x *ghost) bool {
			gone := err == nil && slices.Contains(list, x) && !there[x.Process]
			if gone && x.told {
				g.log.Info("a backend has ended at last", "shard", x.Shard, "pid", x.PID, "since", x.Since)
			}
			return gone
		})
		for _, x := range h.list {
			if !x.told && time.Since(x.Since) > ghostTold {
				x.told = true
				g.log.Warn("a backend goes on after its connection was closed", "shard", x.Shard, "database", x.Database, "pid", x.PID, "since", x.Since, "err", err)
			}
		}
		over := g.over(h)
		if over {
			delete(g.haunts, at)
		}
		g.count()
		g.mu.Unlock()
		if over {
			return
		}
	}
}

// rest pauses. A new ghost makes pauses short again. It reports false if there is no more time.
func (g *ghosts) rest(h *haunted, pause *time.Duration) bool {
	timer := time.NewTimer(*pause)
	defer timer.Stop()
	hurry := g.hurry
	for {
		select {
		case <-timer.C:
			return true
		case <-h.fresh:
			*pause = ghostPause
			timer.Reset(*pause)
		case <-hurry:
			*pause, hurry = ghostPause, nil
			timer.Reset(*pause)
		case <-g.ctx.Done():
			return false
		}
	}
}

// over reports whether there is nothing left to do about a database. A pool that ends does not wait
// for backends that will end by themselves. mu is held.
func (g *ghosts) over(h *haunted) bool {
	select {
	case <-g.hurry:
		return !slices.ContainsFunc(h.list, func(x *ghost) bool { return !x.ended && !x.commits })
	default:
		return len(h.list) == 0
	}
}

// count counts the ghosts. mu is held.
func (g *ghosts) count() {
	g.number = 0
	for _, h := range g.haunts {
		g.number += len(h.list)
	}
	g.full = g.full && g.number >= maxGhosts
}

// lay asks a shard which of the ghosts are there, and has them ended. Without an error, those that
// it does not return are gone.
func (g *ghosts) lay(at haunt, list []*ghost) (there map[Process]bool, err error) {
	there, err = g.find(at, list)
	restless := slices.DeleteFunc(slices.Clone(list), func(x *ghost) bool { return x.commits || err == nil && !there[x.Process] })
	if len(restless) == 0 {
		return there, err
	}
	if err == nil {
		// The statement that ends the ghosts leaves out those that wait for a standby.
		_, failed := g.ask(g.ctx, at.shard, at.database, "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE wait_event IS DISTINCT FROM 'SyncRep' AND "+AmongSQL(processesOf(restless)))
		if failed == nil {
			for _, x := range restless {
				x.ended = true
			}
			return there, nil
		}
	}
	g.cancel(restless)
	return there, err
}

// find asks a shard which of the ghosts are there.
func (g *ghosts) find(at haunt, list []*ghost) (map[Process]bool, error) {
	rows, err := g.ask(g.ctx, at.shard, at.database, "SELECT pid, "+startedSQL+" FROM pg_catalog.pg_stat_activity WHERE "+AmongSQL(processesOf(list)))
	if e := (*pgerr.Error)(nil); errors.As(err, &e) && (e.Code == pgerr.InvalidCatalogName || e.Code == pgerr.UndefinedObject) {
		return nil, nil // a database that is gone has no backends, and a shard that is gone is no shard
	}
	if err != nil {
		return nil, err
	}
	there := map[Process]bool{}
	for _, r := range rows {
		pid, err := strconv.ParseInt(r[0], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("process id: %w", err)
		}
		started, err := strconv.ParseInt(r[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("start of a process: %w", err)
		}
		there[Process{at.shard, int32(pid), started}] = true
	}
	return there, nil
}

func processesOf(list []*ghost) []Process {
	out := make([]Process, len(list))
	for i, x := range list {
		out[i] = x.Process
	}
	return out
}

// cancel sends cancel requests to ghosts, a few at a time.
func (g *ghosts) cancel(list []*ghost) {
	const atOnce = 4
	var wg sync.WaitGroup
	turns := make(chan struct{}, atOnce)
	for _, x := range list {
		if x.cancel == nil {
			continue
		}
		turns <- struct{}{}
		wg.Go(g.guarded("ghosts", func() {
			defer func() { <-turns }()
			_ = x.cancel(g.ctx) // the next look tells
		}))
	}
	wg.Wait()
}

// end has the ghosts ended that there are, and returns when their shards have been told, or after
// ghostGrace.
func (g *ghosts) end() {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		close(g.hurry)
	}
	g.mu.Unlock()
	defer time.AfterFunc(ghostGrace, g.stop).Stop()
	g.wg.Wait()
}

// Ghosts lists the backends of a shard whose connections weft has closed in the middle of a
// statement, and that may still be at it, the longest first.
func (p *Pool) Ghosts(shard string) []Ghost {
	g := p.ghosts
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []Ghost
	for at, h := range g.haunts {
		if at.shard != shard {
			continue
		}
		for _, x := range h.list {
			out = append(out, x.Ghost)
		}
	}
	slices.SortFunc(out, func(a, b Ghost) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.PID, b.PID)) })
	return out
}
