package sequence

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weft/pgerr"
	"weft/pgserver/pgtest"
)

// counter is a home shard: it counts, each draw when it is let, and notes how
// many values each draw was asked for.
type counter struct {
	mu    sync.Mutex
	last  map[Name]int64
	sizes []int
	busy  map[Name]bool
	both  bool // two draws of one sequence at once

	gate chan struct{} // a draw takes one, if not nil
	fail func(n int) error
	most int // values per draw; 0 is no limit
}

func newCounter() *counter { return &counter{last: map[Name]int64{}, busy: map[Name]bool{}} }

func (c *counter) Draw(ctx context.Context, name Name, n int) ([]int64, error) {
	c.mu.Lock()
	c.sizes = append(c.sizes, n)
	c.both = c.both || c.busy[name]
	c.busy[name] = true
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.busy[name] = false
		c.mu.Unlock()
	}()
	if c.gate != nil {
		select {
		case <-c.gate:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		if err := c.fail(n); err != nil {
			return nil, err
		}
	}
	if c.most > 0 {
		n = min(n, c.most)
	}
	out := make([]int64, n)
	for i := range out {
		c.last[name]++
		out[i] = c.last[name]
	}
	return out, nil
}

// twice: two draws of one sequence were under way at once. A draw that nobody
// waits for any more may still be.
func (c *counter) twice() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.both
}

func (c *counter) drawn() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.sizes)
}

// waiting returns when n stand in the line.
func waiting(t *testing.T, a *Allocator, name Name, n int) {
	t.Helper()
	for deadline := time.Now().Add(pgtest.Patience); ; time.Sleep(time.Millisecond) {
		l := a.lock(name)
		have := 0
		for w := l.first; w != nil; w = w.next {
			have++
		}
		l.mu.Unlock()
		if have == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d wait, want %d", have, n)
		}
	}
}

var orders = Name{Database: "app", Role: "alice", Sequence: "public.orders_id_seq"}

func TestUnique(t *testing.T) {
	src := newCounter()
	names := []Name{orders, {"app", "bob", "public.orders_id_seq"}, {"app", "", "public.x"}}
	a := New(src, Config{})
	defer a.Close()
	const sessions, takes = 50, 400
	seen := make([]map[Name][]int64, sessions)
	var wg sync.WaitGroup
	for s := range sessions {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(s)))
			seen[s] = map[Name][]int64{}
			for range takes {
				name, n := names[rnd.IntN(len(names))], 1
				if rnd.IntN(8) == 0 {
					n += rnd.IntN(30)
				}
				got, err := a.Take(context.Background(), name, 0, n, nil)
				if err != nil || len(got) != n {
					t.Errorf("%d values, %v", len(got), err)
					return
				}
				seen[s][name] = append(seen[s][name], got...)
			}
		})
	}
	wg.Wait()
	for _, name := range names {
		all := map[int64]bool{}
		for s := range sessions {
			if !slices.IsSorted(seen[s][name]) {
				t.Errorf("session %d: values of %v go backwards", s, name)
			}
			for _, v := range seen[s][name] {
				if all[v] {
					t.Fatalf("%v: %d twice", name, v)
				}
				all[v] = true
			}
		}
	}
	if src.twice() {
		t.Error("two draws of one sequence at once")
	}
	if n := len(src.drawn()); n > sessions*takes/4 {
		t.Errorf("%d draws for %d takes", n, sessions*takes)
	}
}

// TestAdapt: a quiet sequence has no holes, a busy one large blocks.
func TestAdapt(t *testing.T) {
	src := newCounter()
	a := New(src, Config{MaxBlock: 100})
	defer a.Close()
	clock := time.Unix(0, 0)
	a.now = func() time.Time { return clock }
	take := func(n int) int64 {
		t.Helper()
		v, err := a.Take(context.Background(), orders, 0, n, nil)
		if err != nil {
			t.Fatal(err)
		}
		return v[n-1]
	}
	for i := range 10 {
		clock = clock.Add(2 * time.Second)
		if got := take(1); got != int64(i+1) {
			t.Fatalf("quiet: value %d is %d", i, got)
		}
	}
	if got, want := src.drawn(), slices.Repeat([]int{1}, 10); !slices.Equal(got, want) {
		t.Errorf("quiet draws %v", got)
	}
	src.sizes = nil
	for range 2 + 4 + 8 + 16 + 32 + 64 + 100 + 100 {
		clock = clock.Add(time.Microsecond)
		take(1)
	}
	if got := src.drawn(); !slices.Equal(got, []int{2, 4, 8, 16, 32, 64, 100, 100}) {
		t.Errorf("busy draws %v", got)
	}
	src.sizes = nil
	clock = clock.Add(3500 * time.Millisecond) // 100 → 12
	take(12)
	clock = clock.Add(500 * time.Millisecond) // neither busy nor quiet
	take(12)
	clock = clock.Add(time.Hour)
	take(1)
	take(500) // more than any block
	if got := src.drawn(); !slices.Equal(got, []int{12, 12, 1, 500}) {
		t.Errorf("draws after a pause %v", got)
	}
}

// TestEpoch: what was drawn before somebody set the sequence is void, also if
// the draw is still under way.
func TestEpoch(t *testing.T) {
	src := newCounter()
	a := New(src, Config{})
	defer a.Close()
	a.now = func() time.Time { return time.Unix(0, 0) }
	take := func(epoch int64) int64 {
		t.Helper()
		v, err := a.Take(context.Background(), orders, epoch, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		return v[0]
	}
	for want := range int64(4) { // blocks of one, two and four
		if v := take(1); v != want+1 {
			t.Fatalf("%d, want %d", v, want+1)
		}
	}
	src.mu.Lock()
	src.last[orders] = 1000
	src.mu.Unlock()
	if v := take(1); v != 5 {
		t.Errorf("the same epoch gives %d, not the rest of the block", v)
	}
	if v := take(2); v != 1001 {
		t.Errorf("the new epoch gives %d", v)
	}
	if v := take(1); v != 1002 {
		t.Errorf("an old epoch after that gives %d", v)
	}

	for l := a.lines[orders]; len(l.block) > 0; {
		take(2)
	}
	src.gate = make(chan struct{})
	old := make(chan int64, 1)
	go func() { old <- take(2) }()
	waiting(t, a, orders, 1)
	fresh := make(chan int64, 1)
	go func() { fresh <- take(3) }()
	waiting(t, a, orders, 2)
	src.mu.Lock()
	before := src.last[orders]
	src.mu.Unlock()
	src.gate <- struct{}{} // of epoch 2
	src.gate <- struct{}{}
	void := int64(src.drawn()[len(src.drawn())-2])
	if a, b := <-old, <-fresh; a <= before+void || b <= before+void {
		t.Errorf("%d and %d come from a draw of the old epoch, up to %d", a, b, before+void)
	}
}

// TestOrder: who came first is served first, entirely, whatever they want.
func TestOrder(t *testing.T) {
	src := newCounter()
	src.gate = make(chan struct{}, 100)
	src.most = 3 // the home shard gives less than asked for
	a := New(src, Config{})
	defer a.Close()
	wants := []int{1, 5, 1, 10, 2}
	got := make([][]int64, len(wants))
	var wg sync.WaitGroup
	for i, n := range wants {
		wg.Go(func() {
			var err error
			if got[i], err = a.Take(context.Background(), orders, 0, n, []int64{-1}); err != nil {
				t.Error(err)
			}
		})
		waiting(t, a, orders, i+1)
	}
	for range 100 {
		select {
		case src.gate <- struct{}{}:
		default:
		}
	}
	wg.Wait()
	next := int64(1)
	for i, n := range wants {
		if len(got[i]) != n+1 || got[i][0] != -1 {
			t.Fatalf("%d: %v", i, got[i])
		}
		for _, v := range got[i][1:] {
			if v != next {
				t.Fatalf("%d: %v, want %d next", i, got[i], next)
			}
			next++
		}
	}
}

// TestError: the home shard's error reaches those who waited for that draw, and
// nobody after them.
func TestError(t *testing.T) {
	end := pgerr.New("2200H", "nextval: reached maximum value of sequence")
	src := newCounter()
	src.gate = make(chan struct{})
	src.fail = func(int) error { return end }
	a := New(src, Config{})
	defer a.Close()
	errs := make(chan error)
	for i := range 5 {
		go func() {
			_, err := a.Take(context.Background(), orders, 0, 1, nil)
			errs <- err
		}()
		waiting(t, a, orders, i+1)
	}
	src.gate <- struct{}{} // for the first alone
	if err := <-errs; !errors.Is(err, end) {
		t.Fatal(err)
	}
	waiting(t, a, orders, 4)
	select {
	case err := <-errs:
		t.Fatalf("another failed with the first: %v", err)
	case src.gate <- struct{}{}: // for the four who came meanwhile
	}
	for range 4 {
		if err := <-errs; !errors.Is(err, end) {
			t.Fatal(err)
		}
	}
	src.fail = nil
	close(src.gate)
	if v, err := a.Take(context.Background(), orders, 0, 1, nil); err != nil || v[0] != 1 {
		t.Errorf("after the failure: %v, %v", v, err)
	}
	none := sourceFunc(func(context.Context, Name, int) ([]int64, error) { return nil, nil })
	b := New(none, Config{})
	defer b.Close()
	if _, err := b.Take(context.Background(), orders, 0, 1, nil); pgerr.From(err).Code != pgerr.InternalError {
		t.Errorf("a draw of nothing: %v", err)
	}
}

type sourceFunc func(context.Context, Name, int) ([]int64, error)

func (f sourceFunc) Draw(ctx context.Context, name Name, n int) ([]int64, error) {
	return f(ctx, name, n)
}

// TestErrorLeavesRest: at the end of a sequence, who wants less than the first
// may still get what is left.
func TestErrorLeavesRest(t *testing.T) {
	src := newCounter()
	a := New(src, Config{})
	defer a.Close()
	a.now = func() time.Time { return time.Unix(0, 0) }
	for range 2 { // 1; then 2 and 3, of which 3 stays
		if _, err := a.Take(context.Background(), orders, 0, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	src.gate = make(chan struct{})
	src.fail = func(int) error { return pgerr.New("2200H", "reached maximum value") }
	failed := make(chan error)
	go func() {
		_, err := a.Take(context.Background(), orders, 0, 2, nil)
		failed <- err
	}()
	waiting(t, a, orders, 1)
	got := make(chan int64)
	go func() {
		v, err := a.Take(context.Background(), orders, 0, 1, nil)
		if err != nil {
			t.Error(err)
			v = []int64{0}
		}
		got <- v[0]
	}()
	waiting(t, a, orders, 2)
	src.gate <- struct{}{}
	if err := <-failed; pgerr.From(err).Code != "2200H" {
		t.Error(err)
	}
	if v := <-got; v != 3 {
		t.Errorf("the one who wants less gets %d", v)
	}
}

// TestCancel: who leaves takes nothing from the others, and when all have left
// the draw is given up.
func TestCancel(t *testing.T) {
	src := newCounter()
	src.gate = make(chan struct{})
	a := New(src, Config{})
	defer a.Close()
	because := errors.New("because")
	ctxs := make([]context.CancelCauseFunc, 5)
	errs := make([]chan error, 5)
	vals := make([]int64, 5)
	for i := range 5 {
		ctx, cancel := context.WithCancelCause(context.Background())
		ctxs[i], errs[i] = cancel, make(chan error, 1)
		go func() {
			v, err := a.Take(ctx, orders, 0, 1, nil)
			if err == nil {
				vals[i] = v[0]
			}
			errs[i] <- err
		}()
		waiting(t, a, orders, i+1)
	}
	for _, i := range []int{0, 2, 4} { // first, middle, last
		ctxs[i](because)
		if err := <-errs[i]; !errors.Is(err, because) {
			t.Errorf("%d: %v", i, err)
		}
	}
	waiting(t, a, orders, 2)
	close(src.gate)
	if err := errors.Join(<-errs[1], <-errs[3]); err != nil || vals[1] != 1 || vals[3] != 2 {
		t.Errorf("%v, values %v", err, vals)
	}

	src.gate = make(chan struct{})
	ctx, cancel := context.WithCancelCause(context.Background())
	left := make(chan error)
	go func() {
		_, err := a.Take(ctx, Name{Sequence: "stuck"}, 0, 1, nil)
		left <- err
	}()
	waiting(t, a, Name{Sequence: "stuck"}, 1)
	cancel(because)
	if err := <-left; !errors.Is(err, because) {
		t.Error(err)
	}
	a.draws.Wait() // the draw ends although nobody opens the gate
	if _, err := a.Take(ctx, Name{Sequence: "other"}, 0, 1, nil); !errors.Is(err, because) {
		t.Errorf("a Take of a context that has ended: %v", err)
	}
}

// TestCancelRandomly: sessions come and go while draws fail and end at random.
// No value is given twice, and nobody waits for ever.
func TestCancelRandomly(t *testing.T) {
	src := newCounter()
	var draws atomic.Int64
	src.fail = func(int) error {
		if draws.Add(1)%7 == 0 {
			return errors.New("away")
		}
		return nil
	}
	src.most = 20
	slow := sourceFunc(func(ctx context.Context, name Name, n int) ([]int64, error) {
		select {
		case <-time.After(time.Duration(rand.IntN(300)) * time.Microsecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return src.Draw(ctx, name, n)
	})
	a := New(slow, Config{MaxBlock: 16, MaxSequences: 3})
	defer a.Close()
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	var epoch atomic.Int64
	for s := range 40 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(2, uint64(s)))
			for range 200 {
				name := Name{Sequence: fmt.Sprint(rnd.IntN(5))}
				ctx, stop := context.WithTimeout(context.Background(), time.Duration(50+rnd.IntN(3000))*time.Microsecond)
				if rnd.IntN(100) == 0 {
					epoch.Add(1)
				}
				got, err := a.Take(ctx, name, epoch.Load(), 1+rnd.IntN(12), nil)
				stop()
				if err != nil && len(got) > 0 {
					t.Errorf("%v and values", err)
				}
				mu.Lock()
				for _, v := range got {
					key := fmt.Sprint(name.Sequence, ":", v)
					if seen[key] {
						t.Errorf("%s twice", key)
					}
					seen[key] = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if src.twice() {
		t.Error("two draws of one sequence at once")
	}
}

func TestBounded(t *testing.T) {
	src := newCounter()
	a := New(src, Config{MaxSequences: 10})
	defer a.Close()
	for i := range 1000 {
		if _, err := a.Take(context.Background(), Name{Sequence: fmt.Sprint(i)}, 0, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	// The goroutine of the last draws may have been about to end.
	if n := len(a.lines); n > 20 {
		t.Errorf("%d sequences are remembered", n)
	}
}

func TestClose(t *testing.T) {
	src := newCounter()
	src.gate = make(chan struct{})
	a := New(src, Config{})
	errs := make(chan error)
	for i := range 3 {
		go func() {
			_, err := a.Take(context.Background(), orders, 0, maxDraw, nil) // one draw each
			errs <- err
		}()
		waiting(t, a, orders, i+1)
	}
	a.Close()
	for range 3 {
		if err := <-errs; pgerr.From(err).Code != pgerr.AdminShutdown {
			t.Error(err)
		}
	}
	if _, err := a.Take(context.Background(), orders, 0, 1, nil); pgerr.From(err).Code != pgerr.AdminShutdown {
		t.Error(err)
	}
}

func TestDrawTimeout(t *testing.T) {
	src := newCounter()
	src.gate = make(chan struct{})
	a := New(src, Config{DrawTimeout: 10 * time.Millisecond})
	defer a.Close()
	if _, err := a.Take(context.Background(), orders, 0, 1, nil); pgerr.From(err).Code != pgerr.ConnectionFailure {
		t.Error(err)
	}
}

func TestHitDoesNotAllocate(t *testing.T) {
	a := New(newCounter(), Config{MaxBlock: 1 << 20})
	defer a.Close()
	l := a.lock(orders)
	l.block = make([]int64, 1<<20)
	l.mu.Unlock()
	var dst [4]int64
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := a.Take(context.Background(), orders, 0, 4, dst[:0]); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []Config{{MaxBlock: -1}, {MaxSequences: -1}, {Busy: -1}, {Quiet: -1}, {DrawTimeout: -1}} {
		if c.Validate() == nil {
			t.Errorf("%+v is valid", c)
		}
	}
	if err := (Config{}).Validate(); err != nil {
		t.Error(err)
	}
}

func BenchmarkTake(b *testing.B) {
	a := New(newCounter(), Config{})
	defer a.Close()
	b.RunParallel(func(pb *testing.PB) {
		var dst [1]int64
		for pb.Next() {
			if _, err := a.Take(context.Background(), orders, 0, 1, dst[:0]); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
