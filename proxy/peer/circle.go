package peer

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"weft/directory"
	"weft/wire"
)

const (
	// maxRelays bounds how many cancel requests are passed on at once: who sends them
	// need not have logged in.
	maxRelays = 16
	// relayTimeout bounds how long a client waits until its cancel request has been
	// passed on.
	relayTimeout = 2 * time.Second
)

// Proxies says which proxies are alive.
type Proxies interface {
	Proxies(ctx context.Context) ([]directory.Proxy, error)
}

// Circle is all other proxies of the cluster.
type Circle struct {
	live    Proxies
	self    string
	log     *slog.Logger
	guarded func(work string, f func()) func()
	relays  chan struct{}
}

// NewCircle returns the proxies in live but for self. guarded wraps what runs on a
// goroutine of its own. live is nil for a proxy without a directory, which is alone.
func NewCircle(live Proxies, self string, log *slog.Logger, guarded func(work string, f func()) func()) *Circle {
	return &Circle{live: live, self: self, log: log, guarded: guarded, relays: make(chan struct{}, maxRelays)}
}

// Ask asks all at once. answers are those that came, in any order; silent says of the
// other proxies why they gave none.
func (c *Circle) Ask(ctx context.Context, q Question) (answers [][]byte, silent []error) {
	if c.live == nil {
		return nil, nil
	}
	ctx, stop := context.WithTimeout(ctx, Timeout)
	defer stop()
	var mu sync.Mutex
	err := c.each(ctx, "question to a proxy", func(other directory.Proxy) {
		answer, err := Ask(ctx, other, q)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			silent = append(silent, fmt.Errorf("proxy %s at %s did not answer: %w", other.ID, other.Address, err))
			return
		}
		answers = append(answers, answer)
	})
	if err != nil {
		return nil, []error{fmt.Errorf("the directory does not say which proxies there are: %w", err)}
	}
	return answers, silent
}

// Cancel passes a cancel request on to all others and waits until they have dealt with
// it: a client that has been answered relies on that. The others do not pass it on
// again. Cancel reports false if the request was not passed on.
func (c *Circle) Cancel(ctx context.Context, p *wire.Packet) bool {
	if c.live == nil || p.Relayed {
		return false
	}
	select {
	case c.relays <- struct{}{}:
		defer func() { <-c.relays }()
	default:
		return false
	}
	ctx, stop := context.WithTimeout(ctx, relayTimeout)
	defer stop()
	err := c.each(ctx, "cancel request", func(other directory.Proxy) {
		if err := Cancel(ctx, other, p.PID, p.Secret); err != nil {
			c.log.Warn("a cancel request cannot be passed on", "proxy", other.ID, "address", other.Address, "err", err)
		}
	})
	if err != nil {
		c.log.Warn("a cancel request is not passed on: the directory does not say which proxies there are", "err", err)
	}
	return true
}

// each calls f for every other proxy, all at once, and waits.
func (c *Circle) each(ctx context.Context, work string, f func(directory.Proxy)) error {
	live, err := c.live.Proxies(ctx)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for _, other := range live {
		if other.ID != c.self {
			wg.Go(c.guarded(work, func() { f(other) }))
		}
	}
	wg.Wait()
	return nil
}
