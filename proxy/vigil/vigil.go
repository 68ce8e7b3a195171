package vigil

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"weft/directory"
	"weft/pool"
	"weft/proxy/peer"
)

const (
	// silentAfter is how many missing answers make a proxy silent.
	silentAfter = 2
	// rememberFor is how long the backends of a proxy that the directory no longer knows
	// are looked after.
	rememberFor = time.Minute
	// judgeTimeout bounds one attempt to end what a hung proxy has left.
	judgeTimeout = 15 * time.Second
)

const (
	// AskEvery is how long a proxy may keep its answer back while there is nothing new, and how often
	// proxies are looked for in the directory.
	AskEvery = 500 * time.Millisecond
	// AnswerTimeout is how long an answer of a proxy or a shard may take.
	AnswerTimeout = time.Second
	// SteadyFor is how long a proxy must have had the processor before it judges another one: so
	// long that the other proxy misses the answers that make it silent.
	SteadyFor = silentAfter*AnswerTimeout + AskEvery
)

// Config is what a Vigil needs. All fields are required.
type Config struct {
	// Self is the id of this proxy.
	Self string
	Log  *slog.Logger
	// Proxies lists the proxies that the directory knows.
	Proxies func(context.Context) ([]directory.Proxy, error)
	// Backends asks a proxy for its backends. The proxy may keep the answer back while it has opened
	// no more than known.
	Backends func(ctx context.Context, other directory.Proxy, known uint64) (peer.Backends, error)
	// Exec runs a query on a shard.
	Exec func(ctx context.Context, shard, sql string) ([][]string, error)
	// Steady reports whether this proxy has had the processor for the last SteadyFor.
	Steady func() bool
	// Guarded returns f for a goroutine that may panic.
	Guarded func(f func()) func()
}

// Vigil watches the other proxies. Its methods may be called by several goroutines.
type Vigil struct {
	cfg   Config
	lives lives
}

// New returns a Vigil.
func New(cfg Config) *Vigil { return &Vigil{cfg: cfg} }

// Hung reports whether a proxy stands still, as far as can be known.
func (v *Vigil) Hung(id string) bool { return v.lives.hung(id) }

// Run watches until ctx ends.
func (v *Vigil) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(AskEvery)
	defer tick.Stop()
	var others []directory.Proxy
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asking, stop := context.WithTimeout(ctx, AnswerTimeout)
		if list, err := v.cfg.Proxies(asking); err == nil {
			others = v.lives.follow(others, list)
		}
		stop()
		for _, other := range others {
			if other.ID != v.cfg.Self && v.lives.begin(other.ID) {
				wg.Go(v.cfg.Guarded(func() { v.watch(ctx, other) }))
			}
		}
	}
}

// watch asks a proxy until an answer is missing.
func (v *Vigil) watch(ctx context.Context, other directory.Proxy) {
	defer v.lives.end(other.ID)
	for ctx.Err() == nil && v.ask(ctx, other) {
	}
	if v.lives.missed(other.ID) >= silentAfter && v.cfg.Steady() && ctx.Err() == nil {
		v.judge(ctx, other.ID)
	}
}

// ask asks a proxy once. It reports whether the proxy has answered.
func (v *Vigil) ask(ctx context.Context, other directory.Proxy) bool {
	ctx, stop := context.WithTimeout(ctx, AnswerTimeout)
	defer stop()
	answer, err := v.cfg.Backends(ctx, other, v.lives.known(other.ID))
	if err != nil {
		return false
	}
	v.lives.heard(other.ID, answer)
	return true
}

const (
	// livesSQL counts the backends that have begun a statement in the last 1.5 s: without one a silent
	// proxy counts as hung. A condition on the backends follows.
	livesSQL = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity WHERE query_start > pg_catalog.clock_timestamp() - interval '1500 ms' AND "
	// endSQL ends the backends that wait in the middle of a transaction. A condition on the backends
	// follows.
	endSQL = "SELECT pid, pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE xact_start IS NOT NULL AND (state LIKE 'idle in transaction%' OR wait_event_type = 'Client') AND "
)

// judge ends the transactions of a proxy that has fallen silent, unless one of its backends shows
// that the proxy works, or no shard answers.
func (v *Vigil) judge(ctx context.Context, id string) {
	ctx, stop := context.WithTimeout(ctx, judgeTimeout)
	defer stop()
	left, answers := v.lives.left(id), 0
	for shard, rows := range v.onBackends(ctx, left, livesSQL) {
		if len(rows) == 1 && rows[0][0] != "0" {
			v.cfg.Log.Debug("a proxy does not answer, but works", "proxy", id, "shard", shard)
			return
		}
		answers += len(rows)
	}
	if answers == 0 {
		return
	}
	if v.lives.setHangs(id) {
		v.cfg.Log.Warn("a proxy stands still: its open transactions are ended", "proxy", id)
	}
	for shard, rows := range v.onBackends(ctx, left, endSQL) {
		for _, row := range rows {
			v.cfg.Log.Warn("ended a transaction of a proxy that stands still", "proxy", id, "shard", shard, "pid", row[0])
		}
	}
}

// onBackends runs a query, with a condition that selects these backends, on all their
// shards at once, and returns the rows of the shards that answer.
func (v *Vigil) onBackends(ctx context.Context, left map[string][]pool.Process, sql string) map[string][][]string {
	var mu sync.Mutex
	var wg sync.WaitGroup
	out := map[string][][]string{}
	ctx, stop := context.WithTimeout(ctx, AnswerTimeout)
	defer stop()
	for shard, list := range left {
		wg.Go(v.cfg.Guarded(func() {
			rows, err := v.cfg.Exec(ctx, shard, sql+pool.AmongSQL(list))
			if err != nil {
				v.cfg.Log.Debug("the backends of a proxy could not be looked at", "shard", shard, "err", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			out[shard] = rows
		}))
	}
	wg.Wait()
	return out
}
