package proxy

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weft/directory"
	"weft/parser"
	"weft/pgerr"
	"weft/planner"
	"weft/pool"
	"weft/proxy/admit"
	"weft/proxy/chronicle"
	"weft/proxy/gate"
	"weft/proxy/hub"
	"weft/proxy/leftover"
	"weft/proxy/password"
	"weft/proxy/peer"
	"weft/schema"
	"weft/sequence"
	"weft/tally"
	"weft/wire"
)

// Server accepts clients and runs their sessions.
type Server struct {
	cfg       Config // as it was at the start; conf is the one in effect
	now       atomic.Pointer[Config]
	log       *slog.Logger
	pool      *pool.Pool
	memory    memory
	sequences *sequence.Allocator
	mover     *schema.Mover
	metrics   *metrics
	panics    *Panics
	counts    counts

	ctx  context.Context
	stop context.CancelCauseFunc
	crew crew // sessions and background goroutines
	// stopPool and poolDone: the pool runs until the last session has given its backend
	// back.
	stopPool context.CancelFunc
	poolDone sync.WaitGroup
	drain    farewell

	readiness readiness
	service   *pool.Spares
	gates     *gate.Keeper
	// homeless lets clients log in while the home shard is down.
	homeless homeless

	budget    budget
	passwords *password.Cache

	circle *peer.Circle // the other proxies
	asked  *peer.Asked  // answers questions of other proxies
	hubs   *hub.Hubs
	door   *admit.Door

	register *register
	moving   moving
	keeper   keeper
	left     *leftover.Keeper // ends transactions that were left over
}

// counts is what is counted of statements.
type counts struct {
	statements *tally.Table
	heat       *warmth
	chronicle  *chronicle.Chronicle // what was hot
	tapes      tapes
}

// memory is what sessions share about texts they have seen, so that it is found out once.
type memory struct {
	texts        *parser.Cache
	scanners     sync.Pool
	routers      sync.Pool
	plans        *planner.Cache
	envs         *environments
	translations translations
}

// New returns a server that is ready to Serve.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, log: cfg.Log, panics: cfg.Panics, memory: memory{texts: parser.NewCache(cfg.FactsBytes)},
	}
	s.register, s.keeper.s = newRegister(s), s
	s.keeper.owns = newOwns(s)
	s.moving.fences = newFences(s)
	s.moving.holds, s.keeper.roster, s.keeper.copies = newHolds(s), newRoster(s), newCopies(s)
	s.keeper.seeker = newSeeker(s)
	if err := s.register.startLoops(cfg.Pool.Loops); err != nil {
		return nil, err
	}
	s.hook(&cfg.Pool)
	p, err := pool.New(cfg.Pool)
	if err != nil {
		return nil, err
	}
	s.circle, s.asked = newCircle(s), peer.NewAsked(cfg.Peers.Secret, cfg.Peers.Beside, s.answer)
	s.pool, s.service = p, pool.NewSpares(p)
	s.gates = gate.New(gate.Config{Dial: s.dialGate, Spawn: func(f func()) { s.crew.Go(s.guarded("gates", f)) }})
	s.keeper.guard = gate.NewGuard(gate.GuardConfig{Log: s.log, Dial: s.dialService})
	s.passwords = newPasswords(s)
	s.now.Store(&cfg)
	s.memory.routers.New = func() any { return new(router) }
	s.keeper.floors, s.keeper.lots, s.keeper.durable = newFloors(s), newLots(s), newDurable(s)
	s.keeper.failovers, s.keeper.halts, s.keeper.points = newFailovers(s), newHalts(s), newPoints(s)
	s.keeper.ledger = newLedger(s)
	s.sequences = sequence.New(source{s}, sequence.Config{})
	s.mover = schema.New(schema.Config{Shards: dialer{srv: s}, Directory: cfg.Directory, Entries: cfg.Keeps.Entries, Proxy: cfg.Proxy, Service: cfg.ServiceUser, Log: cfg.Log, Step: s.keeper.stopAtStep})
	s.keeper.vigil = newVigil(s)
	s.left = newLeftover(s)
	s.moving.jobs = newJobs(s)
	s.counts = counts{statements: tally.NewTable(cfg.Statements.Bytes), heat: newWarmth()}
	s.counts.chronicle = newChronicle(s)
	s.keeper.verdicts = newVerdicts(s)
	s.keeper.throttles, s.keeper.queues, s.keeper.limits = newThrottler(s), newQueues(s), newLimiter(s)
	s.keeper.outlook.s = s
	s.memory.plans, s.memory.envs = planner.NewCache(cfg.PlanBytes), newEnvironments()
	s.memory.scanners.New = func() any { return new(parser.Scanner) }
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	s.hubs, s.door = newHubs(s), newDoor(s)
	s.metrics = newMetrics(s, cfg.Metrics)
	poolCtx, stopPool := context.WithCancel(context.Background())
	s.stopPool = stopPool
	s.poolDone.Go(s.kept("pool", func(context.Context) { _ = p.Run(poolCtx) }))
	s.keeper.pulse.beat(time.Now())
	s.crew.Go(s.kept("heartbeat", s.keeper.beat))
	s.crew.Go(s.kept("watcher", s.watch))
	s.crew.Go(s.kept("servers of shards", s.keeper.seeker.Run))
	s.crew.Go(s.kept("addresses of servers", s.findServers))
	s.crew.Go(s.kept("durability", s.keeper.durable.Run))
	s.crew.Go(s.kept("failovers", s.keeper.failovers.Run))
	s.crew.Go(s.kept("ledger", s.keeper.ledger.Run))
	s.crew.Go(s.kept("halts", s.keeper.halts.Run))
	s.crew.Go(s.kept("backup points", s.keeper.points.Run))
	s.crew.Go(s.kept("heat", func(ctx context.Context) { s.counts.heat.run(ctx, func() Heat { return s.conf().Heat }, s.bucketCount) }))
	s.crew.Go(s.kept("history of heat", s.counts.chronicle.Run))
	s.crew.Go(s.kept("verdicts", s.keeper.verdicts.judge.Run))
	s.crew.Go(s.kept("throttles", s.keeper.throttles.Run))
	s.crew.Go(s.kept("queues", s.keeper.queues.Run))
	s.crew.Go(s.kept("limits", s.keeper.limits.Run))
	s.crew.Go(s.kept("outlook", s.keeper.outlook.run))
	s.crew.Go(s.kept("rounds of moves", s.moving.holds.Run))
	s.crew.Go(s.kept("moves of rows", s.moving.jobs.Run))
	s.crew.Go(s.kept("late rounds of moves", s.moving.jobs.WatchRounds))
	s.crew.Go(s.kept("hubs", s.followHubs))
	s.crew.Go(s.kept("moves of tables", s.recoverLeft))
	s.crew.Go(s.kept("resolver", s.resolveLeft))
	s.crew.Go(s.kept("identity of servers", s.keeper.keepDirectory))
	s.crew.Go(s.kept("deadlocks", newLookout(s).Run))
	s.crew.Go(s.kept("other proxies", s.watchPeers))
	return s, nil
}

// Serve accepts clients on l until l or the server is closed.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	_, there := l.(forStandbys)
	s.register.mu.Lock()
	if s.drain.begun.Load() {
		s.register.mu.Unlock()
		return l.Close()
	}
	s.register.listeners[l] = true
	s.register.mu.Unlock()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		conn, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			// Out of descriptors, most likely: that passes.
			s.log.Warn("accept failed", "err", err)
			select {
			case <-time.After(50 * time.Millisecond):
				continue
			case <-s.ctx.Done():
				return nil
			}
		}
		conn = s.register.loops.Adopt(conn)
		if !s.crew.Go(s.guarded("startup", func() { s.handle(conn, there) })) {
			conn.Close()
		}
	}
}

// spareStarts is how many connections may be in startup beside those that could become
// clients: cancel requests, and clients that will be told why they are turned away.
const spareStarts = 100

// handle runs a client's connection from its first byte.
func (s *Server) handle(conn net.Conn, there bool) {
	// Set the deadline first: Close overrides the deadline of connections that it finds
	// registered.
	_ = conn.SetDeadline(time.Now().Add(s.conf().StartupTimeout))
	s.register.mu.Lock()
	if s.drain.begun.Load() {
		s.register.mu.Unlock()
		conn.Close()
		return
	}
	if len(s.register.starting) >= s.conf().MaxClients+spareStarts {
		s.register.mu.Unlock()
		// Do not read: a client that opens so many connections may never send anything.
		_, _ = conn.Write(wire.AppendError(nil, pgerr.Fatal(pgerr.TooManyConnections, "sorry, too many clients already").
			WithHint("Too many clients are logging in at once.")))
		conn.Close()
		return
	}
	s.register.starting[conn] = true
	s.register.mu.Unlock()
	sess := s.protect(conn, func() *Session { return s.start(conn, there) })
	s.register.mu.Lock()
	delete(s.register.starting, conn)
	s.register.mu.Unlock()
	if sess == nil {
		conn.Close()
		return
	}
	// The startup dialogue needs a deep stack, a waiting session does not: a new goroutine
	// begins with a small stack.
	if c := sess.client.Watched(); c != nil {
		s.register.runInLoop(sess, c)
		return
	}
	s.crew.Go(s.guarded("session", func() { s.run(sess) }))
}

// run runs a session to its end, or until the session rests.
func (s *Server) run(sess *Session) (rests bool) {
	defer func() {
		if !rests {
			sess.client.Task().Leave()
			s.end(sess)
		}
	}()
	return sess.protected()
}

// end takes a session apart, whatever state it is in.
func (s *Server) end(sess *Session) {
	s.moving.holds.Leave(blocking{sess})
	defer s.moving.holds.Gone(blocking{sess})
	s.register.mu.Lock()
	s.register.dismiss(sess)
	s.register.mu.Unlock()
	s.guarded("end of a session", func() {
		sess.close()
		if sess.db != nil {
			sess.prepared.forgetStatements()
			sess.held.closeLanes()
		}
	})()
	sess.client.Close()
	if sess.account.traced != nil {
		sess.account.traced.End()
	}
	s.metrics.clientGone()
}

// admit registers a session that got through startup, unless there are too many sessions or
// the server is about to end.
func (r *register) admit(sess *Session) *pgerr.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.s.drain.begun.Load() {
		return pgerr.Fatal(pgerr.CannotConnectNow, "the database system is shutting down")
	}
	if limit := r.s.conf().MaxClients; len(r.sessions) >= limit {
		return pgerr.Fatal(pgerr.TooManyConnections, "sorry, too many clients already").
			WithHint("weft's limits.max_clients is %d.", limit)
	}
	if limit, own := r.s.conf().clientsOf(sess.login.user); limit > 0 && r.byUser[sess.login.user] >= limit {
		e := pgerr.Fatal(pgerr.TooManyConnections, "too many connections for role %q", sess.login.user)
		if own {
			return e.WithHint("max_clients of the user in weft's auth.users is %d.", limit)
		}
		return e.WithHint("weft's limits.max_clients_per_user is %d.", limit)
	}
	if limit := r.s.conf().MaxClientsPerDatabase; limit > 0 && r.byDatabase[sess.database()] >= limit {
		return pgerr.Fatal(pgerr.TooManyConnections, "too many connections for database %q", sess.database()).
			WithHint("weft's limits.max_clients_per_database is %d.", limit)
	}
	for ok := true; ok; _, ok = r.sessions[sess.id] {
		r.lastID = (r.lastID + 1) % firstID
		sess.id = r.block + r.lastID
	}
	sess.log = r.s.log.With("session", sess.id)
	r.sessions[sess.id] = sess
	r.byUser[sess.login.user]++
	r.byDatabase[sess.database()]++
	return nil
}

// dismiss undoes admit. mu is held.
func (r *register) dismiss(sess *Session) {
	delete(r.sessions, sess.id)
	for _, c := range []struct {
		count map[string]int
		name  string
	}{{r.byUser, sess.login.user}, {r.byDatabase, sess.database()}} {
		if c.count[c.name]--; c.count[c.name] <= 0 {
			delete(c.count, c.name)
		}
	}
}

// each calls f for each session, until f returns false.
func (r *register) each(f func(*Session) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, sess := range r.sessions {
		if !f(sess) {
			return
		}
	}
}

// connected reports whether the client of a session is still there.
func (r *register) connected(id int32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.sessions[id]
	return ok
}

// database is the name of the database that the client has asked for.
func (s *Session) database() string {
	if s.db == nil {
		return s.srv.cfg.AdminDatabase
	}
	return s.db.Name
}

// holders calls f for each session that holds a backend now.
func (r *register) holders(f func(sess *Session, c *pool.Conn)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, sess := range r.sessions {
		sess.reach.mu.Lock()
		if sess.reach.current != nil {
			f(sess, sess.reach.current)
		}
		for _, c := range sess.reach.legs {
			f(sess, c)
		}
		sess.reach.mu.Unlock()
	}
}

// newSecret returns n random bytes, such as a cancel key.
func newSecret(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return b
}

// Drain stops taking work: no new clients; idle sessions end as Config.Drain says, others when their
// transaction ends. It returns when all sessions have ended or ctx is done.
func (s *Server) Drain(ctx context.Context) error {
	end, ok := ctx.Deadline()
	if !ok {
		end = time.Now().Add(s.conf().Drain.Timeout)
	}
	s.register.mu.Lock()
	s.drain.begin(s.conf().Drain.Idle, time.Now(), end)
	for l := range s.register.listeners {
		l.Close()
	}
	s.register.mu.Unlock()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		s.register.mu.Lock()
		n := len(s.register.sessions) + len(s.register.starting)
		s.register.stopStarting()
		now := time.Now()
		for _, sess := range s.register.sessions {
			if s.drain.due(sess.id, now) {
				sess.wake()
			}
		}
		s.register.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// closeGrace is how long a client may take to read its last message.
const closeGrace = 2 * time.Second

// stopStarting turns away the clients that are still in startup. mu is held.
func (r *register) stopStarting() {
	for conn := range r.starting {
		_ = conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// stopWork cancels what backends compute for gathered statements: a server does not notice
// that no session waits for its answer.
func (s *Server) stopWork(working []*pool.Conn) {
	ctx, stop := context.WithTimeout(context.Background(), closeGrace)
	defer stop()
	var wg sync.WaitGroup
	for _, c := range working {
		wg.Go(s.guarded("cancel", func() { _ = c.CancelOrGiveUp(ctx) }))
	}
	wg.Wait()
}

// Close ends all sessions and goroutines at once and waits for them.
func (s *Server) Close() error {
	s.register.mu.Lock()
	s.drain.begun.Store(true)
	for l := range s.register.listeners {
		l.Close()
	}
	var working []*pool.Conn
	for _, sess := range s.register.sessions {
		sess.reach.killed.CompareAndSwap(nil, pgerr.Fatal(pgerr.AdminShutdown, "terminating connection due to administrator command"))
		sess.wake()
		// A client that does not read must not hold up Close.
		_ = sess.client.Conn().SetWriteDeadline(time.Now().Add(closeGrace))
		sess.reach.mu.Lock()
		for _, c := range append(slices.Clone(sess.reach.legs), sess.reach.current, sess.reach.settling) {
			if c != nil && sess.reach.interrupt.active {
				c.BeginCancel()
				working = append(working, c)
			}
			if c != nil {
				_ = c.Conn().SetDeadline(time.Unix(1, 0))
			}
		}
		sess.reach.mu.Unlock()
	}
	s.register.stopStarting()
	s.register.mu.Unlock()
	s.hubs.Close()
	s.stopWork(working)
	s.stop(pgerr.Fatal(pgerr.AdminShutdown, "terminating connection due to administrator command"))
	s.crew.Wait()
	s.sequences.Close()
	s.stopPool()
	s.poolDone.Wait()
	s.register.loops.Close()
	return nil
}

// every calls f with the cluster after each interval until ctx is done, if the cluster is
// known.
func (s *Server) every(ctx context.Context, interval time.Duration, f func(*directory.Snapshot)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if snap := s.cfg.Snapshot(); snap != nil {
			f(snap)
		}
	}
}
