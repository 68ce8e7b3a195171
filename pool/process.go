package pool

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Process is a server process that a proxy is connected to. Process IDs are used again, so the
// time at which it began goes along: in microseconds, as its server tells it.
type Process struct {
	Shard   string `json:"shard"`
	PID     int32  `json:"pid"`
	Started int64  `json:"started"`
}

// processes are all that there are, also those outside the limits.
type processes struct {
	mu   sync.Mutex
	open map[*Conn]bool
	// opened is how many there have been, more is closed with the next one.
	opened uint64
	more   chan struct{}
}

func (b *processes) add(c *Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		b.open = map[*Conn]bool{}
	}
	b.open[c] = true
	b.opened++
	if b.more != nil {
		close(b.more)
		b.more = nil
	}
}

func (b *processes) remove(c *Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, c)
}

// Processes lists the server processes that the pool is connected to, those of weft's own work
// included, and how many there have been. If that is as many as the caller knows of, it waits for
// a while for one more.
func (p *Pool) Processes(known uint64, wait time.Duration) (list []Process, opened uint64) {
	b := &p.processes
	b.mu.Lock()
	if b.opened == known {
		if b.more == nil {
			b.more = make(chan struct{})
		}
		more := b.more
		b.mu.Unlock()
		select {
		case <-more:
		case <-time.After(wait):
		}
		b.mu.Lock()
	}
	defer b.mu.Unlock()
	list = make([]Process, 0, len(b.open))
	for c := range b.open {
		if c.started != 0 {
			list = append(list, Process{c.Shard(), c.PID, c.started})
		}
	}
	return list, b.opened
}

// AmongSQL is a condition on pg_stat_activity: that a row is one of these backends, which are of one
// shard.
func AmongSQL(list []Process) string {
	var b strings.Builder
	fmt.Fprintf(&b, "(pid, %s) IN (VALUES ", startedSQL)
	for i, x := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "(%d, %d::bigint)", x.PID, x.Started)
	}
	b.WriteByte(')')
	return b.String()
}
