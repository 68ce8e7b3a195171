package pool

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Process is a server process that a proxy is connected to. Process IDs are reused, so the start
// of the process is part of it: in microseconds, as its server reports it.
type Process struct {
	Shard   string `json:"shard"`
	PID     int32  `json:"pid"`
	Started int64  `json:"started"`
}

// processes holds all connections of the pool, also those outside the limits.
type processes struct {
	mu   sync.Mutex
	open map[*Conn]bool
	// opened counts the connections ever opened; more is closed when the next one opens.
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

// of lists the connections to a shard.
func (b *processes) of(sh *Shard) []*Conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []*Conn
	for c := range b.open {
		if c.lane.shard == sh {
			out = append(out, c)
		}
	}
	return out
}

// Processes lists the server processes that the pool is connected to, including those of weft's
// own work, but not those of standbys, and returns how many connections were ever opened. If that count is known, Processes
// first waits up to wait for another connection to open.
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
		if c.started != 0 && c.lane.shard.standby == nil {
			list = append(list, Process{c.Shard(), c.pid, c.started})
		}
	}
	return list, b.opened
}

// mustRegister reports whether the backend belongs to those that register and has not.
func (c *Conn) mustRegister() bool {
	return !c.own && c.lane.shard.standby == nil && c.registered.Load() == 0 && c.lane.shard.pool.conf().Registrar != nil
}

// Unregistered lists the backends of a database that are used for clients and have not
// registered. Any goroutine may call it.
func (p *Pool) Unregistered(database string) []*Conn {
	p.processes.mu.Lock()
	defer p.processes.mu.Unlock()
	var out []*Conn
	for c := range p.processes.open {
		if c.lane.key.Database == database && c.mustRegister() {
			out = append(out, c)
		}
	}
	return out
}

// Outdated lists the backends of a database that are registered under another epoch than the one given. Any goroutine may call
// it.
func (p *Pool) Outdated(database string, epoch int64) []*Conn {
	p.processes.mu.Lock()
	defer p.processes.mu.Unlock()
	var out []*Conn
	for c := range p.processes.open {
		if e := c.registered.Load(); e != 0 && e != epoch && c.lane.key.Database == database {
			out = append(out, c)
		}
	}
	return out
}

// Process returns the backend's process.
func (c *Conn) Process() Process { return Process{c.Shard(), c.pid, c.started} }

// Registered notes that another connection has registered the backend.
func (c *Conn) Registered(epoch int64) { c.registered.Store(epoch) }

// AmongSQL is an SQL condition on a row of pg_stat_activity: the row is one of the processes in
// list, which are all of one shard.
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
