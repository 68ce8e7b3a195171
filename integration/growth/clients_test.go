package growth

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// seen is one statement of a client.
type seen struct {
	at     time.Duration // since the clients began
	took   time.Duration
	tenant int32
	write  bool
	mover  bool // of a client that works for tenants that go
}

// clients read and write rows of random tenants, at a steady pace, until they are stopped.
type clients struct {
	began time.Time
	end   atomic.Bool
	wg    sync.WaitGroup
	mu    sync.Mutex
	seen  []seen
	// sides are the tenants that stay and those that go, as soon as that is known. A client works for one side from
	// then on: one that waits for a row on its way would do less for the tenants that stay, too.
	sides atomic.Pointer[[2][]int32]
}

// rest is how long a client rests between two statements, so that the machine has time for rows
// that move as a machine of one's own would.
const rest = 4 * time.Millisecond

// start lets a client work on a connection, for tenants that go or for such that stay. Of its statements 3 of 10 are updates
// that add one.
func (c *clients) start(t *testing.T, conn *pgx.Conn, mover bool, tenants, each int) {
	c.wg.Go(func() {
		var mine []seen
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.seen = append(c.seen, mine...)
		}()
		for !c.end.Load() && !t.Failed() {
			s := seen{tenant: rand.Int32N(int32(tenants)), write: rand.IntN(10) < 3, mover: mover}
			if sides := c.sides.Load(); sides != nil {
				side := sides[0]
				if mover {
					side = sides[1]
				}
				s.tenant = side[rand.IntN(len(side))]
			}
			began := time.Now()
			err := ask(conn, &s, rand.IntN(each))
			s.at, s.took = began.Sub(c.began), time.Since(began)
			if err != nil {
				t.Errorf("tenant %d: %v", s.tenant, err)
				return
			}
			mine = append(mine, s)
			time.Sleep(rest)
		}
	})
}

func ask(conn *pgx.Conn, s *seen, id int) error {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	if s.write {
		tag, err := conn.Exec(ctx, "update event set v = v + 1 where tenant = $1 and id = $2", s.tenant, id)
		if err == nil && tag.RowsAffected() != 1 {
			err = fmt.Errorf("row %d: %s", id, tag)
		}
		return err
	}
	var v int64
	return conn.QueryRow(ctx, "select v from event where tenant = $1 and id = $2", s.tenant, id).Scan(&v)
}

// stop ends the clients.
func (c *clients) stop() {
	c.end.Store(true)
	c.wg.Wait()
}

// writes counts the updates.
func (c *clients) writes() (n int64) {
	for _, s := range c.seen {
		if s.write {
			n++
		}
	}
	return n
}

// figures is what statements of a span of time have cost.
type figures struct {
	perSecond     float64
	p50, p99, max time.Duration
}

// between returns the figures of the statements that a condition selects in a span of time.
func (c *clients) between(from, to time.Duration, is func(seen) bool) (f figures) {
	var took []time.Duration
	for _, s := range c.seen {
		if s.at >= from && s.at < to && is(s) {
			took = append(took, s.took)
		}
	}
	if len(took) == 0 || to <= from {
		return f
	}
	slices.Sort(took)
	return figures{float64(len(took)) / (to - from).Seconds(), took[len(took)/2], took[len(took)*99/100], took[len(took)-1]}
}

func (f figures) String() string {
	return fmt.Sprintf("%.0f/s, p50 %s, p99 %s, max %s", f.perSecond, f.p50.Round(10*time.Microsecond), f.p99.Round(10*time.Microsecond), f.max.Round(time.Millisecond))
}
