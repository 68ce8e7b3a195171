package storetest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weft/directory"
	"weft/pgserver/pgtest"
)

// Patience is how long the suite waits for what should happen soon.
const Patience = pgtest.Patience

// Run runs the suite. open returns a store that holds nothing; a second call
// returns another one.
func Run(t *testing.T, open func(t *testing.T) directory.Store) {
	for name, test := range map[string]func(*testing.T, directory.Store){
		"empty":                   testEmpty,
		"create":                  testCreate,
		"create once":             testCreateOnce,
		"update":                  testUpdate,
		"no change":               testNoChange,
		"refuse":                  testRefuse,
		"abort":                   testAbort,
		"compare-and-set":         testCompareAndSet,
		"watch":                   testWatch,
		"watch empty":             testWatchEmpty,
		"watch end":               testWatchEnd,
		"register":                testRegister,
		"acknowledge":             testAcknowledge,
		"entries":                 testEntries,
		"broken entry":            testBrokenEntry,
		"pin":                     testPin,
		"many entries":            testManyEntries,
		"big":                     testBig,
		"acknowledge late":        testAcknowledgeLate,
		"clear":                   testClear,
		"throttles":               testThrottles,
		"failovers":               testFailovers,
		"points":                  testPoints,
		"level":                   testLevel,
		"losses":                  testLosses,
		"throttle ends":           testThrottleEnds,
		"throttle bound":          testThrottleBound,
		"throttle without an end": testThrottleDeclared,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// Cluster is a small valid first snapshot.
func Cluster() *directory.Snapshot {
	return directory.New(64, "a", []directory.Shard{
		{Name: "a", Hosts: []string{"127.0.0.1:5432"}, Options: map[string]string{"sslmode": "disable"}, Weight: 1},
		{Name: "b", Hosts: []string{"127.0.0.1:5433", "127.0.0.1:5434"}, Weight: 2},
	})
}

// Create stores Cluster.
func Create(t *testing.T, s directory.Store) *directory.Snapshot {
	t.Helper()
	snap, err := s.Update(t.Context(), func(*directory.Snapshot) (*directory.Snapshot, error) { return Cluster(), nil })
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// SetWeight makes one change to the first shard.
func SetWeight(w int) func(*directory.Snapshot) (*directory.Snapshot, error) {
	return func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		next.Shards[0].Weight = w
		return next, nil
	}
}

// SetHost makes a change that is possible whatever is declared.
func SetHost(h string) func(*directory.Snapshot) (*directory.Snapshot, error) {
	return func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		next.Shards[0].Hosts[0] = h
		return next, nil
	}
}

func testEmpty(t *testing.T, s directory.Store) {
	if _, err := s.Load(t.Context()); !errors.Is(err, directory.ErrNoCluster) {
		t.Fatalf("Load of an empty store: %v, want ErrNoCluster", err)
	}
}

func testCreate(t *testing.T, s directory.Store) {
	made := Create(t, s)
	got, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.Version == 0 || got.Version != made.Version {
		t.Errorf("version %d, Update said %d", got.Version, made.Version)
	}
	if got.Cluster != made.Cluster || got.BucketCount != 64 || got.Home != "a" || len(got.Shards) != 2 {
		t.Errorf("loaded %+v", got)
	}
	if b, ok := got.Shard("b"); !ok || strings.Join(b.Hosts, " ") != "127.0.0.1:5433 127.0.0.1:5434" || b.Weight != 2 {
		t.Errorf("shard b: %+v", b)
	}
	if a, _ := got.Shard("a"); a.Options["sslmode"] != "disable" {
		t.Errorf("shard a: %+v", a)
	}
}

// testCreateOnce: of many that create at once, one wins and the rest see it.
func testCreateOnce(t *testing.T, s directory.Store) {
	var mu sync.Mutex
	ids := map[string]int{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			got, err := s.Update(t.Context(), func(old *directory.Snapshot) (*directory.Snapshot, error) {
				if old != nil {
					return old, nil
				}
				return Cluster(), nil
			})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			ids[got.Cluster]++
			mu.Unlock()
		})
	}
	wg.Wait()
	if len(ids) != 1 {
		t.Errorf("%d clusters were created: %v", len(ids), ids)
	}
}

func testUpdate(t *testing.T, s directory.Store) {
	first := Create(t, s)
	second, err := s.Update(t.Context(), SetWeight(7))
	if err != nil {
		t.Fatal(err)
	}
	if second.Version <= first.Version {
		t.Errorf("version went from %d to %d", first.Version, second.Version)
	}
	if first.Shards[0].Weight != 1 {
		t.Error("Update changed the snapshot it was given before")
	}
	got, err := s.Load(t.Context())
	if err != nil || got.Shards[0].Weight != 7 || got.Version != second.Version {
		t.Errorf("loaded %+v, %v", got, err)
	}
}

func testNoChange(t *testing.T, s directory.Store) {
	first := Create(t, s)
	for name, fn := range map[string]func(*directory.Snapshot) (*directory.Snapshot, error){
		"same":  func(old *directory.Snapshot) (*directory.Snapshot, error) { return old, nil },
		"equal": func(old *directory.Snapshot) (*directory.Snapshot, error) { return old.Clone(), nil },
	} {
		got, err := s.Update(t.Context(), fn)
		if err != nil || got.Version != first.Version {
			t.Errorf("%s: version %v, %v; want %d unchanged", name, got, err, first.Version)
		}
	}
}

func testRefuse(t *testing.T, s directory.Store) {
	Create(t, s)
	for place, change := range map[string]func(*directory.Snapshot){
		"cluster":            func(n *directory.Snapshot) { n.Cluster = "other" },
		"bucket_count":       func(n *directory.Snapshot) { n.BucketCount = 128 },
		"home":               func(n *directory.Snapshot) { n.Home = "b" },
		"shards[0].hosts[0]": func(n *directory.Snapshot) { n.Shards[0].Hosts[0] = "nowhere" },
	} {
		_, err := s.Update(t.Context(), func(old *directory.Snapshot) (*directory.Snapshot, error) {
			next := old.Clone()
			change(next)
			return next, nil
		})
		var p *directory.Problem
		if !errors.As(err, &p) || p.Place != place {
			t.Errorf("%s: %v", place, err)
		}
	}
	if got, err := s.Load(t.Context()); err != nil || got.BucketCount != 64 {
		t.Errorf("a refused change was stored: %+v, %v", got, err)
	}
}

func testAbort(t *testing.T, s directory.Store) {
	first := Create(t, s)
	stop := errors.New("stop")
	_, err := s.Update(t.Context(), func(*directory.Snapshot) (*directory.Snapshot, error) { return nil, stop })
	if err != stop { // the error must come back unwrapped
		t.Errorf("got %v", err)
	}
	if got, _ := s.Load(t.Context()); got == nil || got.Version != first.Version {
		t.Errorf("an aborted update was stored: %+v", got)
	}
}

// testCompareAndSet: concurrent increments lose none.
func testCompareAndSet(t *testing.T, s directory.Store) {
	const writers, each = 6, 8
	Create(t, s)
	if _, err := s.Update(t.Context(), SetWeight(0)); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	versions := map[int64]int{}
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				got, err := s.Update(t.Context(), func(old *directory.Snapshot) (*directory.Snapshot, error) {
					return SetWeight(old.Shards[0].Weight + 1)(old)
				})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				versions[got.Version] = got.Shards[0].Weight
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	got, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.Shards[0].Weight != writers*each {
		t.Errorf("%d increments left %d", writers*each, got.Shards[0].Weight)
	}
	if len(versions) != writers*each {
		t.Errorf("%d updates got %d different versions", writers*each, len(versions))
	}
}

func testWatch(t *testing.T, s directory.Store) {
	first := Create(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(chan *directory.Snapshot, 100)
	done := make(chan error, 1)
	var again atomic.Int64
	go func() {
		for {
			err := s.Watch(ctx, func(n *directory.Snapshot) { seen <- n })
			if ctx.Err() != nil {
				done <- err
				return
			}
			again.Add(1) // as on a machine so slow that a request takes too long: the caller calls again
		}
	}()

	if got := next(t, seen); got.Version != first.Version {
		t.Errorf("first call has version %d, want %d", got.Version, first.Version)
	}
	const changes = 20
	var newest int64
	for i := range changes {
		got, err := s.Update(t.Context(), SetWeight(100+i))
		if err != nil {
			t.Fatal(err)
		}
		newest = got.Version
	}
	last := first.Version
	for last < newest {
		got := next(t, seen)
		if got.Version < last || got.Version == last && again.Load() == 0 {
			t.Fatalf("version %d came after %d", got.Version, last)
		}
		last = got.Version
		if last == newest && got.Shards[0].Weight != 100+changes-1 {
			t.Errorf("newest snapshot: %+v", got)
		}
	}
	cancel()
	if err := next(t, done); !errors.Is(err, context.Canceled) {
		t.Errorf("Watch ended with %v, want context.Canceled", err)
	}
}

func testWatchEmpty(t *testing.T, s directory.Store) {
	err := s.Watch(t.Context(), func(*directory.Snapshot) { t.Error("called without a cluster") })
	if !errors.Is(err, directory.ErrNoCluster) {
		t.Errorf("Watch of an empty store: %v, want ErrNoCluster", err)
	}
}

// testWatchEnd: a context that is over ends each call with its error.
func testWatchEnd(t *testing.T, s directory.Store) {
	Create(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Watch(ctx, func(*directory.Snapshot) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("Watch: %v", err)
	}
	if _, err := s.Load(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Load: %v", err)
	}
	if _, err := s.Update(ctx, SetWeight(3)); !errors.Is(err, context.Canceled) {
		t.Errorf("Update: %v", err)
	}
}

func testRegister(t *testing.T, s directory.Store) {
	reg, ok := s.(directory.Registry)
	if !ok {
		t.Skip("this store keeps no list of proxies")
	}
	if list, err := reg.Proxies(t.Context()); err != nil || len(list) != 0 {
		t.Fatalf("proxies of an empty store: %v, %v", list, err)
	}
	start := func(id string) (stop func(), epoch int64) {
		ctx, cancel := context.WithCancel(t.Context())
		epochs, done := make(chan int64, 10), make(chan error, 1)
		go func() {
			done <- reg.Register(ctx, directory.Proxy{ID: id, Address: "127.0.0.1:1"}, NewServing(7), func(e int64) { epochs <- e })
		}()
		return func() {
			cancel()
			if err := next(t, done); err != nil {
				t.Errorf("Register %s: %v", id, err)
			}
		}, next(t, epochs)
	}
	stop1, epoch1 := start("one")
	stop2, epoch2 := start("two")
	if epoch2 <= epoch1 {
		t.Errorf("epochs %d, %d", epoch1, epoch2)
	}
	list, err := reg.Proxies(t.Context())
	if err != nil || len(list) != 2 || list[0].ID != "one" || list[0].Epoch != epoch1 || list[0].Serves.Version != 7 || list[1].ID != "two" || list[1].Epoch != epoch2 {
		t.Errorf("proxies: %+v, %v", list, err)
	}
	live, err := reg.Live(t.Context())
	if err != nil || live.Newest != epoch2 || live.Revision < epoch2 || !live.Has("one", epoch1) || live.Has("one", epoch2) {
		t.Errorf("live: %+v, %v", live, err)
	}
	if again, err := reg.Live(t.Context()); err != nil || !again.Same(live) {
		t.Errorf("nobody has come or gone: %+v, %v", again, err)
	}
	stop3, _ := start("three")
	stop3()
	if later, err := reg.Live(t.Context()); err != nil || later.Same(live) || len(later.Proxies) != 2 {
		t.Errorf("one has come and gone: %+v, %v", later, err)
	}
	stop1()
	if list, err = reg.Proxies(t.Context()); err != nil || len(list) != 1 || list[0].ID != "two" {
		t.Errorf("after one left: %+v, %v", list, err)
	}
	stop2()
}

func next[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(Patience):
		t.Fatalf("nothing came within %v", Patience)
		panic("unreachable")
	}
}
