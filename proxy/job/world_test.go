package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"weft/directory"
	"weft/schema"
	"weft/twopc"
)

// world is proxy p1 of a cluster with shards a, the home shard, and b, without servers and etcd.
type world struct {
	*Runner

	mu      sync.Mutex
	snap    *directory.Snapshot
	log     bytes.Buffer
	dead    []string // proxies that are not alive
	live    directory.Live
	calls   []string
	points  []string
	unknown error // why the directory cannot be changed
	// fails are the errors of calls, by their name; each is returned once, in order.
	fails map[string][]error
	// carrying works on a job that carries rows.
	carrying func(ctx context.Context, id string) error
	rounds   []string // that the home shard remembers
	waited   []string // what jobs said that they wait for
	rows     map[string][][]string
	wg       sync.WaitGroup
}

func newWorld(moves ...directory.Move) *world {
	w := &world{fails: map[string][]error{}, rows: map[string][][]string{}}
	w.snap = &directory.Snapshot{
		Version: 1, Cluster: "c", Home: "a", BucketCount: 4, Placement: []uint16{0, 0, 0, 0},
		Shards: []directory.Shard{{Name: "a", Hosts: []string{"ha:1"}, Weight: 1}, {Name: "b", Hosts: []string{"hb:1"}, Weight: 1}},
		Tables: []directory.Table{{Database: "db", Schema: "public", Name: "t", Kind: directory.Sharded, Columns: []directory.Column{{Name: "id", Type: 20, TypeName: "bigint", Mod: -1}}, Vindex: directory.Vindex{Kind: "hash"}, State: directory.Active}},
		Moves:  moves,
	}
	w.live = directory.Live{Proxies: []directory.Proxy{{ID: "p1", Epoch: 1, Serves: directory.Served{Version: 1000, Cleared: 1000}}}}
	w.Runner = New(Config{
		Proxy: "p1", Log: slog.New(slog.NewTextHandler(&w.log, nil)), Directory: w, Snapshot: w.now,
		Reach:  func(_ context.Context, version int64) error { return w.called(fmt.Sprint("reach ", version)) },
		Spread: func(context.Context, int64) error { return w.called("spread") },
		Rows:   rows{w}, Shards: shards{w}, Left: left{w},
		Declare: func(_ context.Context, m directory.Move) error { return w.called("declare " + m.ID) },
		Dial: func(_ context.Context, shard, database string) (twopc.Conn, error) {
			return conn{w, shard}, w.called("dial " + shard + "/" + database)
		},
		Install: func(_ context.Context, shard, database string) error {
			return w.called("install " + shard + "/" + database)
		},
		Load:   func(context.Context, string) map[int32]float64 { return nil },
		Enroll: func(context.Context, *directory.Snapshot) { _ = w.called("enroll") },
		StopAt: func(p twopc.Point) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.points = append(w.points, string(p))
		},
		Spawn: func(work string, f func()) {
			_ = w.called(work)
			w.wg.Go(f)
		},
	})
	w.carry = func(ctx context.Context, id string) error {
		_ = w.called("carry " + id)
		if w.carrying != nil {
			return w.carrying(ctx, id)
		}
		return nil
	}
	w.settle = func(_ context.Context, m *directory.Move) error { return w.called("settle " + m.Round.Key) }
	return w
}

// called notes a call, and returns the error it is to have.
func (w *world) called(what string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, what)
	name, _, _ := strings.Cut(what, " ")
	if list := w.fails[name]; len(list) > 0 {
		w.fails[name] = list[1:]
		return list[0]
	}
	return nil
}

// count is how often something was called.
func (w *world) count(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, c := range w.calls {
		if c == what {
			n++
		}
	}
	return n
}

func (w *world) now() *directory.Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.snap
}

// change changes the directory as another process does.
func (w *world) change(f func(next *directory.Snapshot)) {
	_, _ = w.Update(context.Background(), func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		f(next)
		return next, nil
	})
}

// Load, Update, Cleared and Live implement Directory.
func (w *world) Load(context.Context) (*directory.Snapshot, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.snap, w.unknown
}

func (w *world) Update(_ context.Context, fn func(*directory.Snapshot) (*directory.Snapshot, error)) (*directory.Snapshot, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unknown != nil {
		return nil, w.unknown
	}
	if list := w.fails["update"]; len(list) > 0 {
		w.fails["update"] = list[1:]
		return nil, list[0]
	}
	next, err := fn(w.snap)
	if err != nil {
		return nil, err
	}
	if next != w.snap {
		next.Version = w.snap.Version + 1
		w.snap = next
		for i := range next.Moves {
			w.waited = append(w.waited, next.Moves[i].Waits)
		}
	}
	return w.snap, nil
}

func (w *world) Cleared(context.Context, int64) error { return w.called("cleared") }

func (w *world) Live(context.Context) (directory.Live, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.live, w.unknown
}

// rows implements carrier.Rows.
type rows struct{ w *world }

func (r rows) PrepareMove(context.Context, *directory.Snapshot, directory.Move) (*schema.MoveSizes, error) {
	return nil, errors.New("no rows")
}

func (r rows) Fence(ctx context.Context, database string, _ []string, list func(context.Context) (directory.Live, error)) (directory.Live, error) {
	if err := r.w.called("fence " + database); err != nil {
		return directory.Live{}, err
	}
	return list(ctx)
}

func (r rows) OpenCarriage(context.Context, *directory.Snapshot, directory.Move, []directory.Pair) (*schema.Carriage, error) {
	return nil, errors.New("no rows")
}

func (r rows) FinishMove(_ context.Context, _ *directory.Snapshot, m directory.Move) error {
	return r.w.called("finish " + m.ID)
}

// shards implements Shards.
type shards struct{ w *world }

func (s shards) CheckJoin(_ context.Context, _ *directory.Snapshot, shard string) error {
	return s.w.called("check " + shard)
}

func (s shards) EquipShard(_ context.Context, _ *directory.Snapshot, shard string) error {
	return s.w.called("equip " + shard)
}

func (s shards) MatchReferences(_ context.Context, _ *directory.Snapshot, shard string) (func(), error) {
	return func() { _ = s.w.called("release") }, s.w.called("match " + shard)
}

func (s shards) JoinShard(_ context.Context, _ *directory.Snapshot, shard string) error {
	return s.w.called("joined " + shard)
}

func (s shards) NoteRounds(_ context.Context, home, database, _ string, list []schema.MoveRound) error {
	if err := s.w.called("note"); err != nil {
		return err
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	for _, r := range list {
		s.w.rounds = append(s.w.rounds, fmt.Sprint(home, "/", database, " ", r.Ways, " ", r.Outcome))
	}
	return nil
}

// left implements Left.
type left struct{ w *world }

func (l left) Alive(_ context.Context, proxy string) bool { return !slices.Contains(l.w.dead, proxy) }

func (l left) Resolver() *twopc.Resolver {
	return &twopc.Resolver{Cluster: l.w.snap.Cluster, Dial: func(_ context.Context, shard, _ string) (twopc.Conn, error) { return conn{l.w, shard}, nil }}
}
func (l left) Take(nonce string) { _ = l.w.called("take " + nonce) }
func (l left) Drop(nonce string) { _ = l.w.called("drop " + nonce) }

// conn is a connection to a shard of a world.
type conn struct {
	w     *world
	shard string
}

func (c conn) Interrupt() {}
func (c conn) Terminate() {}

// Exec answers with the rows of the world for this shard, or with a count of 0 decisions.
func (c conn) Exec(sql string) ([][]string, error) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if strings.Contains(sql, "weft.decision") {
		if list := c.w.rows["decisions"]; len(list) > 0 {
			c.w.rows["decisions"] = list[1:]
			return list[:1], nil
		}
		return [][]string{{"0"}}, nil
	}
	return c.w.rows[c.shard], nil
}

// runs calls f while Run and WatchRounds of a world are under way, with a clock of its own.
func runs(t *testing.T, w *world, f func()) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		ctx, stop := context.WithCancel(context.Background())
		w.wg.Go(func() { w.Run(ctx) })
		w.wg.Go(func() { w.WatchRounds(ctx) })
		f()
		stop()
		w.wg.Wait()
	})
}
