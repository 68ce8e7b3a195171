package growth

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// progress is how much of its quota a shard had at each moment.
type progress struct {
	began time.Time
	mu    sync.Mutex
	at    []time.Duration
	part  []float64 // in percent
}

func newProgress(began time.Time) *progress { return &progress{began: began} }

// watch looks at the jobs twice a second until stop is called.
func (p *progress) watch(t *testing.T, c *pgx.Conn) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			var part float64
			if err := c.QueryRow(ctx, "select coalesce(max(100.0 * buckets_done / buckets), 0)::float8 from weft.moves where buckets > 0").Scan(&part); err != nil {
				if ctx.Err() == nil {
					t.Errorf("weft.moves: %v", err)
				}
				return
			}
			p.note(time.Since(p.began), part)
			time.Sleep(500 * time.Millisecond)
		}
	})
	return func() { cancel(); wg.Wait() }
}

func (p *progress) note(at time.Duration, part float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.part = append(p.at, at), append(p.part, part)
}

// percent returns the part at the end of each second.
func (p *progress) percent(seconds int) []float64 {
	out, last := make([]float64, seconds), 0
	now := 0.0
	for i := range out {
		for last < len(p.at) && p.at[last] <= time.Duration(i+1)*time.Second {
			now = p.part[last]
			last++
		}
		out[i] = now
	}
	return out
}

func TestProgress(t *testing.T) {
	var p progress
	p.note(1500*time.Millisecond, 10)
	p.note(1900*time.Millisecond, 20)
	p.note(3100*time.Millisecond, 100)
	for i, want := range []float64{0, 20, 20, 100, 100} {
		if got := p.percent(5)[i]; got != want {
			t.Errorf("second %d: %g, want %g", i, got, want)
		}
	}
}
