package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Client runs one statement.
type Client func(ctx context.Context, r *rand.Rand) error

// Run is clients that work until they are stopped.
type Run struct {
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu    sync.Mutex
	began time.Time
	took  []time.Duration
	err   error // the first one
}

// Start lets clients work in a closed loop: each sends its next statement a pause after the last answer. The seed decides which
// keys they choose.
func Start(seed uint64, pause time.Duration, clients ...Client) *Run {
	return start(seed, clients, func(ctx context.Context, _ *rand.Rand, _ time.Time) {
		if pause > 0 {
			sleep(ctx, pause)
		}
	})
}

// Open lets clients work in an open loop: each sends statements at random times, so many in a second on average, and later only
// if the last answer has not come.
func Open(seed uint64, rate float64, clients ...Client) *Run {
	return start(seed, clients, func(ctx context.Context, r *rand.Rand, due time.Time) {
		sleep(ctx, time.Until(due.Add(time.Duration(r.ExpFloat64()/rate*float64(time.Second)))))
	})
}

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func start(seed uint64, clients []Client, wait func(ctx context.Context, r *rand.Rand, last time.Time)) *Run {
	ctx, stop := context.WithCancel(context.Background())
	run := &Run{stop: stop, began: time.Now()}
	for i, c := range clients {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		run.wg.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				if err := c(context.WithoutCancel(ctx), r); err != nil {
					run.fail(fmt.Errorf("client %d: %w", i, err))
					return
				}
				run.add(time.Since(began))
				wait(ctx, r, began)
			}
		})
	}
	return run
}

func (r *Run) add(took time.Duration) {
	r.mu.Lock()
	r.took = append(r.took, took)
	r.mu.Unlock()
}

func (r *Run) fail(err error) {
	r.mu.Lock()
	if r.err == nil {
		r.err = err
	}
	r.mu.Unlock()
}

// Stop ends the clients and waits for them. It returns the first error that one had, and may be called again.
func (r *Run) Stop() error {
	r.stop()
	r.wg.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Reset begins a measurement.
func (r *Run) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began, r.took = time.Now(), r.took[:0]
}

// Times returns what was measured since Reset.
func (r *Run) Times() Times {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Times{Took: slices.Sorted(slices.Values(r.took)), Over: time.Since(r.began)}
}

// Times are the times of statements, in order, over a while.
type Times struct {
	Took []time.Duration
	Over time.Duration
}

// Rate is how many statements there were in a second, 0 if nothing was measured.
func (t Times) Rate() float64 {
	if t.Over <= 0 {
		return 0
	}
	return float64(len(t.Took)) / t.Over.Seconds()
}

// Quantile is the time in milliseconds that a share q of the statements did not exceed.
func (t Times) Quantile(q float64) float64 {
	if len(t.Took) == 0 {
		return 0
	}
	return float64(t.Took[min(int(q*float64(len(t.Took))), len(t.Took)-1)]) / 1e6
}

// Together are the times of several measurements that were made at once.
func Together(all ...Times) (out Times) {
	for _, t := range all {
		out.Took, out.Over = append(out.Took, t.Took...), max(out.Over, t.Over)
	}
	slices.Sort(out.Took)
	return out
}
