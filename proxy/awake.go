package proxy

import (
	"sync"
	"time"

	"weft/pool"
)

// Between its decision and its COMMIT the deciding transaction is idle, with the gate
// and the rows that it has locked. Should weft stand still just then, its shard ends
// it: the decision comes with a bound for the idleness. Other proxies find it ended
// and undo what is prepared. While weft does not stand still, and others take long to
// prepare, it keeps the deciding transaction awake.

const (
	// briefly bounds how long the deciding transaction may be idle.
	briefly = 3 * time.Second
	// awakeEvery is how often it is spoken to meanwhile, and awakeTimeout how long that may
	// take.
	awakeEvery   = 1 * time.Second
	awakeTimeout = 2 * time.Second
)

// keepAwake keeps the transaction of a backend awake that the session does not talk to.
// The function that it returns ends that, before anybody talks to it again.
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
		c.UnnamedBy = 0
		if over = err != nil; !over { // otherwise whoever commits hears of it
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
