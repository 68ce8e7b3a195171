package ledger

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"weft/directory"
	"weft/primary"
	"weft/twopc"
)

// Config is what a Ledger needs. All fields are required, except where it says otherwise.
type Config struct {
	Log   *slog.Logger
	Proxy string
	Views func() map[string]*primary.View
	// Fates asks the shards what has become of transactions: see twopc.Resolver.
	Fates func(ctx context.Context, database string, list []twopc.Decision) ([]twopc.Fate, error)
	// Store keeps what was found. Nil: only this proxy does.
	Store directory.Losses
}

// Ledger is a list of transactions that a failover can still harm. Its methods may be called by several goroutines.
type Ledger struct {
	cfg Config

	mu      sync.Mutex
	entries map[string]*Entry // by key
	order   []string          // keys, the oldest first; some may have gone
	full    bool              // entries were left out since the last failover that was looked at
	own     []directory.Loss  // what was found, if there is no Store
	counts  map[string]uint64 // by state
}

// Entry is a transaction of several shards that its deciding shard has committed, as far as is known.
type Entry struct {
	Database string
	// Decision has the deciding shard and the members with their servers.
	Decision twopc.Decision
	// Committed is when the deciding shard had answered, and Ended is when all that was answered had been answered.
	Committed, Ended time.Time
	// Told says that the client was told COMMIT.
	Told bool
	// lost are shards that are known to have lost their parts: the transaction is noted as half. Another failover can still take what is left.
	lost []string
}

const (
	interval = 250 * time.Millisecond
	// within bounds one question to the shards, or to the directory.
	within = 10 * time.Second
	// batch is how many transactions are asked about at once.
	batch = 500
	// MaxEntries bounds a Ledger. An entry has some 400 bytes, and two rows or more on shards.
	MaxEntries = 20_000
)

// New returns a Ledger without entries.
func New(cfg Config) *Ledger {
	return &Ledger{cfg: cfg, entries: map[string]*Entry{}, counts: map[string]uint64{}}
}

// Risky reports whether a failover of a shard, which has a server as its primary, could lose what the server has answered: there are other servers, and none
// of them is waited for.
func Risky(v *primary.View, replicated bool) bool {
	return v != nil && v.State != primary.Unknown && len(v.Servers) > 1 && !replicated
}

// Server is the text by which weft.server() identifies the server of a generation.
func Server(g primary.Generation) string { return fmt.Sprintf("%s/%08X", g.System, g.Timeline) }

// Add enters a transaction.
func (l *Ledger) Add(e *Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) >= MaxEntries {
		l.dropOldest()
	}
	l.entries[e.Decision.Key] = e
	l.order = append(l.order, e.Decision.Key)
}

// dropOldest makes room for an entry.
func (l *Ledger) dropOldest() {
	for i, key := range l.order {
		if _, there := l.entries[key]; there {
			delete(l.entries, key)
			l.order = l.order[i+1:]
			if !l.full {
				l.full = true
				l.cfg.Log.Warn("more transactions of several shards wait for asynchronous standbys than are remembered: a failover may harm some that weft.failover_transactions does not list",
					"remembered", MaxEntries)
			}
			return
		}
	}
}

// Holds reports whether the decision and the parts of a transaction are still needed here.
func (l *Ledger) Holds(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, held := l.entries[key]
	return held
}

// Run looks until ctx ends.
func (l *Ledger) Run(ctx context.Context) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		l.look(ctx)
	}
}

// look lets go of the entries that no failover can harm any more, and asks about those whose shards have failed over.
func (l *Ledger) look(ctx context.Context) {
	states := statesOf(l.cfg.Views())
	moved := map[string][]*Entry{} // by database
	l.mu.Lock()
	if len(l.entries) == 0 {
		l.order, l.full = nil, false
	}
	for key, e := range l.entries {
		switch e.judge(states) {
		case safe:
			delete(l.entries, key)
		case replaced:
			moved[e.Database] = append(moved[e.Database], e)
		}
	}
	if len(l.order) > 2*len(l.entries)+1000 {
		l.order = slices.DeleteFunc(l.order, func(key string) bool { return l.entries[key] == nil })
	}
	l.mu.Unlock()
	for database, list := range moved {
		for some := range slices.Chunk(list, batch) {
			l.ask(ctx, database, some)
		}
	}
}

// standing is how a transaction stands.
type standing uint8

const (
	risky    standing = iota // a failover can still harm it, or a shard has no primary now
	safe                     // no failover can harm it
	replaced                 // a shard has another primary than the one that committed, and all have one
)

// state is what is known of the servers of a shard.
type state struct {
	steady bool
	server string
	// alone says that nothing can take the server's place, and safe is a time before which all that was answered is on what can.
	alone bool
	safe  time.Time
}

func statesOf(views map[string]*primary.View) map[string]state {
	out := make(map[string]state, len(views))
	for name, v := range views {
		if v.State != primary.Unknown { // else servers cannot be asked
			out[name] = state{v.State == primary.Steady, Server(v.Generation), v.Horizon.Alone, v.Horizon.Safe}
		}
	}
	return out
}

// judge tells how the transaction stands.
func (e *Entry) judge(states map[string]state) standing {
	out := safe
	for i := -1; i < len(e.Decision.Members); i++ {
		m := e.Decision.Decider
		if i >= 0 {
			m = e.Decision.Members[i]
		}
		s, known := states[m.Shard]
		switch {
		case !known || slices.Contains(e.lost, m.Shard):
		case !s.steady:
			return risky
		case s.server != m.Server:
			out = replaced
		case out == safe && !m.Replicated && !s.alone && !e.Ended.Before(s.safe):
			out = risky
		}
	}
	return out
}

// ask finds out what has become of transactions of a database, one of whose shards has another primary.
func (l *Ledger) ask(ctx context.Context, database string, list []*Entry) {
	ctx, stop := context.WithTimeout(ctx, within)
	defer stop()
	decisions := make([]twopc.Decision, len(list))
	for i, e := range list {
		decisions[i] = e.Decision
	}
	asked := time.Now()
	fates, err := l.cfg.Fates(ctx, database, decisions)
	if err != nil {
		l.cfg.Log.Debug("what has become of transactions after a failover is not known yet", "database", database, "transactions", len(list), "err", err)
		return
	}
	var harmed []directory.Loss
	var gone []string
	for i := range fates {
		f, e := &fates[i], list[i]
		state := f.State()
		if f.Open || state == "" {
			continue
		}
		if state == twopc.StateLost {
			gone = append(gone, f.Key)
		}
		// A client that was not told COMMIT knows that the transaction may not be there; who reads the list does not, if it was half before.
		if state == twopc.StateHalf || e.Told || e.lost != nil {
			told := e.Told
			harmed = append(harmed, l.loss(database, *f, &told, e.Committed))
		}
	}
	if l.note(ctx, harmed) != nil {
		return // asked again
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range fates {
		if !fates[i].Open {
			list[i].follow(&fates[i], asked)
		}
	}
	for _, key := range gone {
		delete(l.entries, key)
	}
}

// follow notes which servers have the transaction, as of a time, and which shards have lost it.
func (e *Entry) follow(f *twopc.Fate, at time.Time) {
	d := &e.Decision
	d.Members = slices.Clone(d.Members) // package leftover has the old ones
	for i := -1; i < len(d.Members); i++ {
		m := &d.Decider
		if i >= 0 {
			m = &d.Members[i]
		}
		if slices.Contains(f.Kept, m.Shard) {
			m.Server = f.Servers[m.Shard]
		}
	}
	e.lost, e.Ended = f.Lost, at
}

// loss is a transaction as the directory keeps it.
func (l *Ledger) loss(database string, f twopc.Fate, told *bool, committed time.Time) directory.Loss {
	n, _ := twopc.ParseName(f.Key)
	return directory.Loss{
		GID: f.Key, Database: database, State: f.State(), Decider: n.Decider, Kept: f.Kept, Lost: f.Lost, Told: told, Committed: committed, Found: time.Now(), Proxy: n.Incarnation,
	}
}

// Report notes a transaction that a resolver has found.
func (l *Ledger) Report(ctx context.Context, database string, f twopc.Fate) error {
	if l.Holds(f.Key) {
		return nil // look knows more of it
	}
	return l.note(ctx, []directory.Loss{l.loss(database, f, nil, time.Time{})})
}

// note keeps what was found.
func (l *Ledger) note(ctx context.Context, harmed []directory.Loss) error {
	if len(harmed) == 0 {
		return nil
	}
	if l.cfg.Store != nil {
		ctx, stop := context.WithTimeout(ctx, within)
		defer stop()
		fresh, err := l.cfg.Store.NoteLosses(ctx, harmed)
		if err != nil {
			l.cfg.Log.Warn("transactions that a failover has harmed could not be noted in the directory", "transactions", len(harmed), "err", err)
			return err
		}
		if harmed = fresh; len(harmed) == 0 {
			return nil
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cfg.Store == nil {
		l.own = slices.DeleteFunc(l.own, func(old directory.Loss) bool {
			return slices.ContainsFunc(harmed, func(h directory.Loss) bool { return h.GID == old.GID })
		})
		if l.own = append(l.own, harmed...); len(l.own) > directory.MaxLosses {
			l.own = l.own[len(l.own)-directory.MaxLosses:]
		}
	}
	states := map[string]int{}
	for i := range harmed {
		states[harmed[i].State]++
		l.counts[harmed[i].State]++
	}
	l.cfg.Log.Error("a failover has lost transactions of several shards, or parts of them", "lost", states[twopc.StateLost], "half", states[twopc.StateHalf], "one", harmed[0].GID, "next", "weft.failover_transactions")
	return nil
}

// All returns what the directory keeps, the latest first.
func (l *Ledger) All(ctx context.Context) ([]directory.Loss, error) {
	var all []directory.Loss
	if l.cfg.Store != nil {
		ctx, stop := context.WithTimeout(ctx, within)
		defer stop()
		var err error
		if all, err = l.cfg.Store.Losses(ctx); err != nil {
			return nil, err
		}
	} else {
		l.mu.Lock()
		all = slices.Clone(l.own)
		l.mu.Unlock()
	}
	slices.Reverse(all)
	return all, nil
}

// Counts returns how many transactions this proxy has found harmed, by state.
func (l *Ledger) Counts() map[string]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return map[string]uint64{twopc.StateLost: l.counts[twopc.StateLost], twopc.StateHalf: l.counts[twopc.StateHalf]}
}
