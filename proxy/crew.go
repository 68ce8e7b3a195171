package proxy

import "sync"

// crew is the goroutines of a server. Unlike a sync.WaitGroup, a crew may be asked for a goroutine while another
// goroutine waits for the end of all: the last connections come in while a server closes.
type crew struct {
	mu     sync.Mutex
	gone   sync.Cond // signals that running has become 0
	ending bool      // Wait has been called
	// running is the number of goroutines.
	running int
}

// Go runs f in a goroutine and reports true. Go reports false, and runs nothing, once Wait has found no goroutine
// running. A goroutine of the crew can therefore always start another one.
func (c *crew) Go(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending && c.running == 0 {
		return false
	}
	c.running++
	go func() {
		defer c.leave()
		f()
	}()
	return true
}

// enter counts a goroutine that a goroutine of the crew is about to start elsewhere. leave ends it.
func (c *crew) enter() {
	c.mu.Lock()
	c.running++
	c.mu.Unlock()
}

// leave ends a goroutine of the crew.
func (c *crew) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	if c.running == 0 && c.gone.L != nil {
		c.gone.Broadcast()
	}
}

// Wait waits until no goroutine is left.
func (c *crew) Wait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending, c.gone.L = true, &c.mu
	for c.running > 0 {
		c.gone.Wait()
	}
}
