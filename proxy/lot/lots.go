package lot

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"weft/directory"
	"weft/pgerr"
	"weft/sequence"
)

// Conn is a connection of the service user to a database of a shard.
type Conn interface {
	Exec(sql string) ([][]string, error)
	// Interrupt ends a running Exec, from another goroutine.
	Interrupt()
	Terminate()
}

// Config is what Lots needs. All fields are required.
type Config struct {
	Snapshot func() *directory.Snapshot
	// Dial opens a connection to a shard whose database has what weft keeps there, and waits while the shard has no primary.
	Dial func(ctx context.Context, shard, database string) (Conn, error)
	// Draw draws n values of a sequence from the home shard, and returns the first and the last of those that follow each other.
	Draw func(ctx context.Context, database, sequence string, n int, increment int64) (low, high int64, err error)
	// Epoch changes when sequences of a database are set to other values.
	Epoch func(snap *directory.Snapshot, database string) int64
	// Spawn runs f in the background, and passes a context that ends when the proxy does.
	Spawn func(f func(ctx context.Context))
}

const (
	// firstLot is how many values a lot has at first, and mostLot how many it has at most. A lot that is used up makes the next one
	// growth times as large.
	firstLot, mostLot, growth = 1 << 13, 1 << 20, 8
	// lookEvery is after how many statements lots are looked at, to be refilled before they are used up.
	lookEvery = 256
	// attempts is how often a lot is drawn anew because sequences were set to other values meanwhile.
	attempts = 5
	// patience is how long a change of a lot waits for transactions that have used the one before.
	patience = "5s"
	// blockPatience is the same if the client's own transaction may have used it.
	blockPatience = "500ms"
	// voidPatience is how long the end of a lot waits.
	voidPatience = "1s"
	// earlyPatience is the same for a change that no client waits for: while it waits, nobody draws.
	earlyPatience = "100ms"
)

// Lots knows which shards have lots. Its methods may be called by several goroutines.
type Lots struct {
	cfg Config

	mu    sync.RWMutex
	known map[name]*known
}

type name struct{ database, sequence string }

// known is what is known of the lots of one sequence.
type known struct {
	name
	turn chan struct{} // holds a value while a goroutine changes lots
	// seen is the snapshot for which all shards were found to have lots.
	seen atomic.Pointer[directory.Snapshot]
	uses atomic.Int64 // statements that have asked for lots
	// given counts the lots that this proxy has given to shards.
	given atomic.Int64

	// epoch is that of the lots, shards has the shards that have one, and size is that of the next lot. Whoever has the turn
	// touches them.
	epoch  int64
	shards map[string]bool
	size   int
	last   int // the size of the lots that were given last, which may be smaller near the end of the sequence
}

// New returns Lots that know of none.
func New(cfg Config) *Lots { return &Lots{cfg: cfg, known: map[name]*known{}} }

// Sure reports whether all shards are known to have lots of a sequence, for a statement that is about to draw from them.
func (l *Lots) Sure(snap *directory.Snapshot, database, seq string) bool {
	l.mu.RLock()
	k := l.known[name{database, seq}]
	l.mu.RUnlock()
	if k == nil || k.seen.Load() != snap {
		return false
	}
	if k.uses.Add(1)%lookEvery == 0 {
		l.look(snap, k)
	}
	return true
}

// Ensure returns when all shards have lots of a sequence, whose name is qualified and quoted. open says that the client has a transaction open.
func (l *Lots) Ensure(ctx context.Context, snap *directory.Snapshot, database, seq string, open bool) error {
	k := l.find(name{database, seq})
	if err := k.take(ctx); err != nil {
		return err
	}
	defer k.give()
	if k.seen.Load() == snap {
		return nil
	}
	if epoch := l.cfg.Epoch(snap, database); k.epoch != epoch {
		k.epoch, k.shards = epoch, map[string]bool{}
	}
	var lacking []string
	for i := range snap.Shards {
		if s := snap.Shards[i].Name; s != snap.Home && !k.shards[s] {
			lacking = append(lacking, s)
		}
	}
	wait := patience
	if open {
		wait = blockPatience
	}
	if err := l.fill(ctx, snap, k, lacking, 1, wait); err != nil {
		return err
	}
	for _, s := range lacking {
		k.shards[s] = true
	}
	k.seen.Store(snap)
	return nil
}

// Refill gives shards another lot of a sequence, a larger one, where the one that they have is nearly used up. It reports whether a shard
// has got one.
func (l *Lots) Refill(ctx context.Context, snap *directory.Snapshot, database, seq string, shards []string) (given bool, err error) {
	k := l.find(name{database, seq})
	if err := k.take(ctx); err != nil {
		return false, err
	}
	defer k.give()
	k.grow()
	before := k.given.Load()
	err = l.fill(ctx, snap, k, shards, int64(k.size/2), patience)
	return k.given.Load() > before, err
}

// look refills lots in the background that are nearly used up.
func (l *Lots) look(snap *directory.Snapshot, k *known) {
	select {
	case k.turn <- struct{}{}:
	default:
		return // somebody is at it
	}
	l.cfg.Spawn(func(ctx context.Context) {
		defer k.give()
		for shard := range k.shards {
			// A failure is none yet: the next look, or whoever finds the lot used up, tries again.
			_ = l.fill(ctx, snap, k, []string{shard}, int64(k.size/4), earlyPatience)
		}
	})
}

func (l *Lots) find(n name) *known {
	l.mu.RLock()
	k := l.known[n]
	l.mu.RUnlock()
	if k != nil {
		return k
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if k = l.known[n]; k == nil {
		k = &known{name: n, turn: make(chan struct{}, 1), size: firstLot, shards: map[string]bool{}}
		l.known[n] = k
	}
	return k
}

func (k *known) take(ctx context.Context) error {
	select {
	case k.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (k *known) give() { <-k.turn }

// grow makes the next lot larger, if the last one had the size that was wanted.
func (k *known) grow() {
	if k.last == k.size {
		k.size = min(k.size*growth, mostLot)
	}
}

// fill gives new lots to those shards whose lots have fewer values left than least.
func (l *Lots) fill(ctx context.Context, snap *directory.Snapshot, k *known, shards []string, least int64, patience string) error {
	if len(shards) == 0 {
		return nil
	}
	state, err := l.homeState(ctx, snap, k, patience)
	if err != nil {
		return err
	}
	if state.Cycle || state.Increment < 0 {
		return pgerr.New(pgerr.FeatureNotSupported, "a trigger draws from sequence %s, which counts down or cycles", k.sequence).
			WithHint("Shards get values in advance from sequences that count up and end. Let the trigger give the column a value.")
	}
	// What is left is for all shards, and for the home shard.
	rest := (state.Max - state.Last) / state.Increment / int64(2*len(snap.Shards))
	size := int(min(int64(k.size), max(rest, 1)))
	k.last = size
	g, ctx := errgroup.WithContext(ctx)
	for _, shard := range shards {
		g.Go(func() (err error) {
			defer pgerr.Recovered(&err)
			for range attempts {
				if err = l.fillOne(ctx, k, shard, filling{size: size, least: min(least, int64(size)), increment: state.Increment, patience: patience}); !errors.Is(err, errVoid) {
					return err
				}
			}
			return err
		})
	}
	return g.Wait()
}

// homeState returns the sequence as the home shard has it, and notes there that shards are given lots of it.
func (l *Lots) homeState(ctx context.Context, snap *directory.Snapshot, k *known, patience string) (sequence.State, error) {
	c, err := l.cfg.Dial(ctx, snap.Home, k.database)
	if err != nil {
		return sequence.State{}, err
	}
	defer c.Terminate()
	defer context.AfterFunc(ctx, c.Interrupt)()
	rows, err := c.Exec(patiently(patience, sequence.NoteSQL(k.sequence)+"; "+sequence.ExactStateSQL(k.sequence)))
	if err != nil {
		return sequence.State{}, err
	}
	return sequence.ReadState(rows)
}

// errVoid says that sequences were set to other values while a lot was drawn.
var errVoid = pgerr.New(pgerr.SerializationFailure, "sequences were set to other values meanwhile").WithHint("Run the transaction again.")

// filling says how a lot is made.
type filling struct {
	size             int
	least, increment int64
	patience         string
}

// fillOne gives a new lot to one shard, if its lot has too few values left. It holds no lock on the shard while it draws: whoever has locked
// the sequence on the home shard may be waiting for a lock there.
func (l *Lots) fillOne(ctx context.Context, k *known, shard string, f filling) error {
	c, err := l.cfg.Dial(ctx, shard, k.database)
	if err != nil {
		return err
	}
	defer c.Terminate()
	defer context.AfterFunc(ctx, c.Interrupt)()
	if enough, err := hasEnough(c, f, patiently(f.patience, sequence.LotSQL(k.sequence))); err != nil || enough {
		return err
	}
	epoch := l.cfg.Epoch(l.cfg.Snapshot(), k.database)
	low, high, err := l.cfg.Draw(ctx, k.database, k.sequence, f.size, f.increment)
	if err != nil {
		return err
	}
	if err := begin(c, f.patience); err != nil {
		return err
	}
	given, err := offer(c, k, f, low, high)
	// Void comes after all proxies have learnt of another epoch, and waits for the lock. So a lot of the old epoch is either seen here
	// or ended by Void.
	if err == nil && given && l.cfg.Epoch(l.cfg.Snapshot(), k.database) != epoch {
		err = errVoid
	}
	if err != nil || !given {
		_, failed := c.Exec("ROLLBACK")
		return errors.Join(err, failed)
	}
	if _, err := c.Exec("COMMIT"); err != nil {
		return err
	}
	k.given.Add(1)
	return nil
}

// patiently returns statements as a transaction that waits for locks no longer than that.
func patiently(patience, statements string) string {
	return "BEGIN; SET LOCAL lock_timeout = '" + patience + "'; " + statements + "; COMMIT"
}

// hasEnough reports whether the lot of a shard, which a text asks for, has enough values left.
func hasEnough(c Conn, f filling, ask string) (bool, error) {
	rows, err := c.Exec(ask)
	if err != nil {
		return false, err
	}
	lot, err := sequence.ReadLot(rows)
	return lot.Left >= f.least, err
}

// offer gives values to a shard, unless another proxy has done so meanwhile.
func offer(c Conn, k *known, f filling, low, high int64) (given bool, err error) {
	if enough, err := hasEnough(c, f, sequence.LotSQL(k.sequence)); err != nil || enough {
		return false, err
	}
	_, err = c.Exec(sequence.GiveSQL(k.sequence, f.increment, low, high))
	return err == nil, err
}

// begin begins a transaction that may change lots. The statements that follow see what others have committed before.
func begin(c Conn, patience string) error {
	_, err := c.Exec("BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '" + patience + "'; " + sequence.LotsLock)
	return err
}

// Void ends all lots of a database: its sequences have been set to other values, and all proxies know.
func (l *Lots) Void(ctx context.Context, snap *directory.Snapshot, database string) error {
	noted, err := l.noted(ctx, snap, database)
	if err != nil || !noted {
		return err
	}
	shards := slices.DeleteFunc(slices.Clone(snap.Shards), func(s directory.Shard) bool { return s.Name == snap.Home })
	g, ctx := errgroup.WithContext(ctx)
	for i := range shards {
		g.Go(func() (err error) {
			defer pgerr.Recovered(&err)
			c, err := l.cfg.Dial(ctx, shards[i].Name, database)
			if err != nil {
				return err
			}
			defer c.Terminate()
			defer context.AfterFunc(ctx, c.Interrupt)()
			if err := begin(c, voidPatience); err != nil {
				return err
			}
			_, err = c.Exec(sequence.VoidSQL + "; COMMIT")
			return err
		})
	}
	return g.Wait()
}

// noted reports whether shards may have lots.
func (l *Lots) noted(ctx context.Context, snap *directory.Snapshot, database string) (bool, error) {
	c, err := l.cfg.Dial(ctx, snap.Home, database)
	if err != nil {
		return false, err
	}
	defer c.Terminate()
	defer context.AfterFunc(ctx, c.Interrupt)()
	rows, err := c.Exec(sequence.NotedSQL)
	return len(rows) > 0, err
}
