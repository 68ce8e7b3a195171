package proxy

import (
	"sync"
	"time"

	"weft/pool"
)

// Between its decision and its COMMIT the deciding transaction is idle, and holds the gate and
// its row locks. If weft stands still just then, the shard ends the deciding transaction: the
// decision sets a bound for its idleness. Other proxies find the transaction ended and undo what
// is prepared. While weft does not stand still, but other participants take long to prepare,
// weft keeps the deciding transaction awake.

const (
	// briefly bounds how long the deciding transaction may be idle.
	briefly = 3 * time.Second
	// awakeEvery is how often weft speaks to the idle deciding transaction, and awakeTimeout how
	// long its answer may take.
	awakeEvery   = 1 * time.Second
	awakeTimeout = 2 * time.Second
)

// keepAwake keeps a transaction awake on a backend that the session does not talk to. The
// session must call stop before it talks to the backend again.
func (re *reach) keepAwake(c *pool.Conn) (stop func()) {
	var mu sync.Mutex
	over := false
	var timer *time.Timer
	speak := re.s.srv.guarded("commit", func() {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		_ = c.Conn().SetDeadline(time.Now().Add(awakeTimeout))
		_, err := c.Exec("SELECT")
		_ = c.Conn().SetDeadline(time.Time{})
		c.UnnamedGone()
		if over = err != nil; !over { // after an error the session's COMMIT on this backend fails
			timer.Reset(awakeEvery)
		}
	})
	mu.Lock()
	timer = time.AfterFunc(awakeEvery, speak)
	mu.Unlock()
	return func() {
		timer.Stop()
		mu.Lock()
		over = true
		mu.Unlock()
	}
}
