package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/plan"
	"weft/tally"
	"weft/twopc"
)

// Transactions that were left over, because their proxy or a shard died, are ended by whichever
// proxy finds them: the same way on every shard and, for changes of schemas, in the directory.

// change is what a pending change does to the declarations if it commits (Do), and what it
// undoes if it does not (Undo).
type change struct {
	Do   []*plan.Change `json:"do,omitempty"`
	Undo []plan.Name    `json:"undo,omitempty"`
}

func (c change) encode() string {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // cannot happen: the fields are names and numbers only
	}
	return string(b)
}

// leaveToResolver leaves a commit to the resolver. If nothing is left to do about the commit,
// its decision is put down for deletion.
func (cm *commit) leaveToResolver() {
	a := cm.agreement
	if a == nil {
		return
	}
	cm.agreement = nil
	cm.s.srv.metrics.commits[a.Outcome()].Add(cm.s.id, tally.Now()-a.began)
	cm.s.srv.keeper.hands.drop(a.name.Nonce)
	if a.Outcome() == twopc.Committed && a.Settled() && !a.told {
		cm.s.srv.keeper.forgets.add(ownKey{a.name.Decider, cm.s.db.Name}, a.decision.Key)
	}
}

// stopAt lets tests end the process at this point.
func (k *keeper) stopAt(p twopc.Point) {
	if k.s.cfg.StopAt != nil {
		k.s.cfg.StopAt(p)
	}
}

// stopAtStep lets tests end the process at a step of a job of package schema.
func (k *keeper) stopAtStep(name string) {
	k.stopAt(twopc.Point(strings.ReplaceAll(name, " ", "-")))
}

// forgets are the decisions that can be deleted, by shard and database.
type forgets struct {
	mu   sync.Mutex
	keys map[ownKey][]string
	n    int
}

// maxForgets bounds the decisions in forgets. Decisions that are left out are found by
// sweeping.
const maxForgets = 100_000

func (f *forgets) add(at ownKey, key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n >= maxForgets {
		return
	}
	if f.keys == nil {
		f.keys = map[ownKey][]string{}
	}
	f.keys[at] = append(f.keys[at], key)
	f.n++
}

func (f *forgets) take() map[ownKey][]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	keys := f.keys
	f.keys, f.n = nil, 0
	return keys
}

// forgetBatch is how many decisions are deleted at once.
const forgetBatch = 500

// forgetAll deletes the decisions that are no longer needed. Decisions that it fails to delete
// are found by sweeping.
func (k *keeper) forgetAll(ctx context.Context) {
	for at, keys := range k.forgets.take() {
		k.stopAt(twopc.BeforeForget)
		c, err := k.s.dialService(ctx, at.shard, at.database)
		if err != nil {
			continue
		}
		stop := context.AfterFunc(ctx, c.Interrupt)
		for batch := range slices.Chunk(keys, forgetBatch) {
			if _, err = c.Exec(twopc.ForgetSQL(batch)); err != nil {
				break
			}
		}
		stop()
		c.Terminate()
		k.stopAt(twopc.AfterForget)
	}
}

// Intervals of the work on what was left over.
const (
	resolveInterval = time.Second
	sweepInterval   = 3 * time.Second
	forgetInterval  = 250 * time.Millisecond
)

func (k *keeper) resolver() *twopc.Resolver {
	return &twopc.Resolver{Cluster: k.s.cfg.Snapshot().Cluster, Dial: k.s.dialService, Log: k.s.log, StopAt: k.s.cfg.StopAt}
}

// resolveLeft ends the transactions that were left over, on each shard separately: a shard that
// does not answer does not hold up the others. It returns when ctx ends.
func (k *keeper) resolveLeft(ctx context.Context) {
	var wg sync.WaitGroup
	defer k.s.service.End()
	defer wg.Wait()
	var busy sync.Map
	once := func(name string, do func(context.Context)) {
		if _, at := busy.LoadOrStore(name, true); at {
			return
		}
		wg.Go(k.s.guarded("resolver", func() {
			defer busy.Delete(name)
			ctx, cancel := context.WithTimeout(ctx, settleTimeout)
			defer cancel()
			do(ctx)
		}))
	}
	tick := time.NewTicker(forgetInterval)
	defer tick.Stop()
	var resolved, swept time.Time
	round := 0
	var last *directory.Snapshot
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		snap := k.s.cfg.Snapshot()
		if snap == nil || k.s.cfg.Proxy == "" {
			continue
		}
		k.leaveVacated(last, snap)
		last = snap
		once("forget", k.forgetAll)
		now := time.Now()
		if now.Sub(resolved) >= resolveInterval {
			resolved = now
			k.s.service.CloseIdle(now.Add(-serviceIdle))
			for i := range snap.Shards {
				shard := snap.Shards[i].Name
				once("resolve "+shard, func(ctx context.Context) { k.resolveOn(ctx, snap, shard) })
			}
		}
		if now.Sub(swept) >= sweepInterval {
			swept = now
			round++
			for i := range snap.Shards {
				shard := snap.Shards[i].Name
				once("sweep "+shard, func(ctx context.Context) { k.sweep(ctx, snap, shard, round) })
				once("refresh "+shard, func(ctx context.Context) { k.refreshOwn(ctx, snap, shard) })
			}
		}
	}
}

// databases are the databases with declared tables: only these can have transactions of several
// shards.
func databases(snap *directory.Snapshot) []string {
	var out []string
	for i := range snap.Tables {
		if d := snap.Tables[i].Database; !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// checkPrepared finds out, once, whether a shard can prepare transactions.
func (k *keeper) checkPrepared(ctx context.Context, shard, database string) {
	if _, done := k.checked.Load(shard); done {
		return
	}
	c, err := k.s.dialService(ctx, shard, database)
	if err != nil {
		return
	}
	defer c.Terminate()
	defer context.AfterFunc(ctx, c.Interrupt)()
	if rows, err := c.Exec("SHOW max_prepared_transactions"); err == nil && len(rows) == 1 {
		k.checked.Store(shard, true)
		if rows[0][0] == "0" {
			k.warnUnable(shard)
		}
	}
}

// resolveOn ends the transactions that are in doubt on a shard.
func (k *keeper) resolveOn(ctx context.Context, snap *directory.Snapshot, shard string) {
	in := databases(snap)
	if len(in) == 0 {
		k.checkPrepared(ctx, shard, "postgres")
		return
	}
	found, err := k.findLeft(ctx, shard, in)
	if err != nil || len(found) == 0 {
		return // a shard that does not answer is the pool's business
	}
	r := k.resolver()
	var live map[string]bool
	_, err = r.Resolve(ctx, found, func(d twopc.InDoubt) twopc.Urgency {
		if d.Judge(false, false, true) == twopc.LetBe || d.Participant != shard {
			return twopc.LetBe // too young, or of another shard on this server
		}
		if d.Incarnation == k.s.cfg.Proxy {
			return d.Judge(true, k.hands.has(d.Nonce), true)
		}
		if live == nil {
			live = k.live(ctx)
		}
		return d.Judge(false, false, (live[d.Incarnation] || len(live) == 0) && !k.silent.hung(d.Incarnation))
	})
	if err != nil && ctx.Err() == nil {
		k.s.log.Warn("transactions are in doubt", "shard", shard, "err", err)
	}
}

// findLeft lists the cluster's prepared transactions on a shard. Any database shows them, so
// findLeft asks the first one that lets weft in: others may have been dropped there.
func (k *keeper) findLeft(ctx context.Context, shard string, in []string) ([]twopc.InDoubt, error) {
	var c twopc.Conn
	var err error
	for _, database := range in {
		if c, err = k.s.dialService(ctx, shard, database); !closedDatabase(err) {
			k.checkPrepared(ctx, shard, database)
			break
		}
	}
	if err != nil {
		return nil, err
	}
	defer c.Terminate()
	defer context.AfterFunc(ctx, c.Interrupt)()
	rows, err := c.Exec(twopc.FindSQL(k.s.cfg.Snapshot().Cluster))
	if err != nil {
		return nil, err
	}
	return twopc.ReadFound(shard, rows), nil
}

// closedDatabase reports whether the server has answered, but does not let weft into the
// database.
func closedDatabase(err error) bool {
	e := (*pgerr.Error)(nil)
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case pgerr.InvalidCatalogName, pgerr.ObjectNotInPrerequisiteState, pgerr.InsufficientPrivilege, pgerr.TooManyConnections:
		return true
	}
	return false
}

// live returns the IDs of the registered proxies, or none if they cannot be found out.
func (k *keeper) live(ctx context.Context) map[string]bool {
	out := map[string]bool{}
	if k.s.cfg.Directory == nil {
		return out
	}
	list, err := k.s.cfg.Directory.Proxies(ctx)
	if err != nil {
		return out
	}
	for _, p := range list {
		out[p.ID] = true
	}
	return out
}

// sweepAtOnce bounds the databases of a shard that are swept in one round: no client waits for
// the sweep, and a proxy should cost little beside many databases.
const sweepAtOnce = 4

// sweep guards the gates of a shard, and removes decisions that were left over from some of its
// databases in each round.
func (k *keeper) sweep(ctx context.Context, snap *directory.Snapshot, shard string, round int) {
	r := k.resolver()
	all := databases(snap)
	k.guardGates(ctx, shard, all)
	for i := range min(len(all), sweepAtOnce) {
		database := all[(round*sweepAtOnce+i)%len(all)]
		err := r.Sweep(ctx, shard, database, func(d twopc.Decision) bool {
			n, ok := twopc.ParseName(d.Key)
			return !ok || n.Incarnation == k.s.cfg.Proxy && k.hands.has(n.Nonce) || d.Announced && k.announced(ctx, d.Key)
		})
		if err != nil && ctx.Err() == nil {
			k.s.log.Debug("decisions could not be swept", "shard", shard, "database", database, "err", err)
		}
	}
}

// announced reports whether a change of schemas is still in the directory. It reports true if
// that cannot be found out.
func (k *keeper) announced(ctx context.Context, key string) bool {
	if k.s.cfg.Directory == nil {
		return true
	}
	snap, err := k.s.cfg.Directory.Load(ctx)
	return err != nil || snap.FindPending(key) != nil
}

// arbitrateTimeout bounds how long a client waits for the outcome of a COMMIT whose answer was
// lost.
const arbitrateTimeout = 10 * time.Second

// arbitrate returns how a transaction ended, or Open if that cannot be found out in time.
func (k *keeper) arbitrate(ctx context.Context, n twopc.Name, database string) twopc.Outcome {
	ctx, cancel := context.WithTimeout(ctx, arbitrateTimeout)
	defer cancel()
	r := k.resolver()
	for {
		o, err := r.Decide(ctx, database, n, twopc.Force)
		if err == nil {
			return o
		}
		select {
		case <-ctx.Done():
			return twopc.Open
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// settleTimeout bounds one attempt to settle something that was left over.
const settleTimeout = 15 * time.Second

// settleLeft settles the pending changes whose proxy or session is gone.
func (k *keeper) settleLeft(ctx context.Context, snap *directory.Snapshot) {
	for _, p := range snap.Pending {
		n, ok := twopc.ParseName(p.ID)
		if !ok || p.Proxy == k.s.cfg.Proxy && k.hands.has(n.Nonce) || p.Proxy != k.s.cfg.Proxy && k.alive(ctx, p.Proxy) {
			continue
		}
		err := k.settlePending(ctx, p, n)
		if err != nil && !errors.Is(err, twopc.ErrUndecided) && ctx.Err() == nil {
			k.s.log.Warn("unfinished change of a schema", "database", p.Database, "err", err)
		}
	}
}

// settlePending finds out how a change ended, ends it on all shards, and tells every proxy. The
// entry in the directory was made after the row of the decision, so the deciding shard knows
// the outcome. As a resolver it needs no Driver: the deciding transaction has ended, or is ended
// first, and the others are made to end as it has.
func (k *keeper) settlePending(ctx context.Context, p directory.Pending, n twopc.Name) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	r := k.resolver()
	outcome, err := twopc.ParseOutcome(p.Outcome), error(nil)
	if outcome == twopc.Open {
		outcome, err = r.Decide(ctx, p.Database, n, twopc.Force)
	}
	if err != nil {
		return err
	}
	var late error
	for _, shard := range p.Shards {
		n.Participant = shard
		late = errors.Join(late, r.Finish(ctx, twopc.InDoubt{Name: n, Shard: shard, Database: p.Database}, outcome))
	}
	if late != nil && p.Outcome != "" {
		return late // all proxies know the outcome already
	}
	var c change
	if err := json.Unmarshal([]byte(p.Change), &c); err != nil && p.Outcome == "" {
		return err
	}
	told := news{database: p.Database, schema: true, resequence: true, pending: p.ID, outcome: outcome, late: late != nil}
	if outcome == twopc.Committed {
		told.changes = c.Do
	} else {
		told.undo = c.Undo
	}
	return errors.Join(late, k.publish(ctx, told))
}

// warnUnable says once that a shard cannot prepare transactions.
func (k *keeper) warnUnable(shard string) {
	if _, said := k.unable.LoadOrStore(shard, true); !said {
		k.s.log.Warn("max_prepared_transactions is 0: transactions cannot write on this shard and others. Set it to at least pool.max_per_shard and restart the server", "shard", shard)
	}
}
