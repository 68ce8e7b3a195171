package loop

import (
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// stallAfter is how long a task may run in the loop before the watcher makes it leave.
const stallAfter = 5 * time.Millisecond

// Loop watches descriptors and runs tasks. One goroutine at a time is its driver.
type Loop struct {
	poller poller // its bell is rung where the driver must look at the inbox

	// turn counts changes of the driver and of what it does: even while the driver looks for work, odd while a task runs. What makes
	// an odd turn even ends the driver's right to the loop, unless it is the driver.
	turn atomic.Uint64
	// The driver alone touches these.
	events events
	now    []*Task
	done   int // how many of now have been resumed

	mu    sync.Mutex
	inbox []*Task
	rung  bool

	conns  atomic.Pointer[[]atomic.Pointer[Conn]]
	growth sync.Mutex
	marks  atomic.Int32

	strands strands
	// dozes: the watcher waits for awake, because nothing has happened for a while.
	dozes  atomic.Bool
	awake  chan struct{}
	stalls atomic.Uint64
	closed atomic.Bool
	ended  chan struct{}
}

// New starts a loop.
func New() (*Loop, error) {
	l := &Loop{ended: make(chan struct{}), awake: make(chan struct{}, 1)}
	var err error
	if l.poller, err = newPoller(); err != nil {
		return nil, err
	}
	table := make([]atomic.Pointer[Conn], 256)
	l.conns.Store(&table)
	go l.drive()
	go l.watch()
	return l, nil
}

// Close ends the loop. Its tasks and Conns must have ended.
func (l *Loop) Close() {
	if l.closed.CompareAndSwap(false, true) {
		close(l.ended)
		l.poller.ring()
	}
}

// Stalls counts how often a task was made to leave because it held up the others.
func (l *Loop) Stalls() uint64 { return l.stalls.Load() }

// Adopt makes conn a Conn of the loop. A connection that is no TCP connection is returned as it is.
func (l *Loop) Adopt(conn net.Conn) net.Conn {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return conn
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return conn
	}
	c := &Conn{fd: -1, mark: l.marks.Add(1), local: tcp.LocalAddr(), peer: tcp.RemoteAddr()}
	c.loop.Store(l)
	c.in.ready, c.out.ready = true, true
	c.uses.Store(1)
	if err := raw.Control(func(fd uintptr) {
		c.fd, _ = copyOf(fd)
	}); err != nil || c.fd < 0 {
		return conn
	}
	if err := l.add(c); err != nil {
		closeFile(c.fd)
		return conn
	}
	_ = tcp.Close() // the copy stays open, and Go's poller forgets the connection
	return c
}

// add begins to watch c.
func (l *Loop) add(c *Conn) error {
	l.remember(c)
	err := l.poller.add(c.fd, c.mark)
	if err != nil {
		l.forget(c)
	}
	return err
}

// remember enters c into the table of Conns.
func (l *Loop) remember(c *Conn) {
	l.growth.Lock()
	defer l.growth.Unlock()
	table := *l.conns.Load()
	if c.fd >= len(table) {
		larger := make([]atomic.Pointer[Conn], max(2*len(table), c.fd+1))
		for i := range table {
			larger[i].Store(table[i].Load())
		}
		l.conns.Store(&larger)
		table = larger
	}
	table[c.fd].Store(c)
}

// forget takes c out of the table of Conns. The descriptor is still open.
func (l *Loop) forget(c *Conn) {
	l.growth.Lock()
	(*l.conns.Load())[c.fd].CompareAndSwap(c, nil)
	l.growth.Unlock()
}

// post makes the driver resume t.
func (l *Loop) post(t *Task) {
	l.mu.Lock()
	l.inbox = append(l.inbox, t)
	first := !l.rung
	l.rung = true
	l.mu.Unlock()
	if first {
		l.poller.ring()
	}
}

// drive serves the loop until the loop ends or another goroutine has become the driver.
func (l *Loop) drive() {
	for rounds := 0; ; rounds++ {
		for ev, ok := l.events.next(l.poller); ok; ev, ok = l.events.next(l.poller) {
			if !l.serve(ev) {
				return
			}
		}
		for l.done < len(l.now) {
			t := l.now[l.done]
			l.now[l.done] = nil
			l.done++
			if !l.resume(t) {
				return
			}
		}
		l.now, l.done = l.now[:0], 0
		if l.closed.Load() {
			l.poller.close()
			l.strands.end()
			return
		}
		if rounds%64 == 63 {
			runtime.Gosched()
		}
		l.poller.ask(&l.events)
	}
}

// serve does what an event asks for. It returns false if the caller is no longer the driver.
func (l *Loop) serve(ev event) bool {
	if ev.bell {
		l.empty()
		return true
	}
	table := *l.conns.Load()
	c := table[ev.fd].Load()
	if c == nil || c.mark != ev.mark {
		return true // closed meanwhile, or watched by another loop
	}
	if ev.output {
		if t := c.out.signal(ev.failed); t != nil {
			t.loop.post(t)
		}
	}
	if ev.input {
		switch t := c.in.signal(ev.ended); {
		case t == nil:
		case t.loop != l: // the Conn has moved, and this event had come before
			t.loop.post(t)
		default:
			return l.resume(t)
		}
	}
	return true
}

// empty takes what is in the inbox.
func (l *Loop) empty() {
	l.poller.hush()
	l.mu.Lock()
	l.now = append(l.now, l.inbox...)
	clear(l.inbox)
	l.inbox, l.rung = l.inbox[:0], false
	l.mu.Unlock()
}

// resume runs t until it waits. It returns false if the caller is no longer the driver: then t has been carried on here.
func (l *Loop) resume(t *Task) bool {
	for {
		mine := l.turn.Add(1)
		t.turn.Store(mine)
		if l.dozes.Load() && l.dozes.CompareAndSwap(true, false) {
			l.awake <- struct{}{}
		}
		s := t.carry()
		still := l.turn.CompareAndSwap(mine, mine+1)
		if s != nil && !s.arm(t) {
			if !still {
				l.post(t)
				return false
			}
			continue // ready meanwhile
		}
		return still
	}
}

// abandon makes another goroutine the driver, for t is about to wait for something else. Code of t calls it.
func (l *Loop) abandon(t *Task) {
	t.out.Store(true)
	if turn := t.turn.Load(); l.turn.CompareAndSwap(turn, turn+1) {
		go l.drive()
	}
}

// dozeAfter is how many times in a row the watcher finds that nothing has happened before it dozes.
const dozeAfter = 20

// watch looks for tasks that hold up the loop.
func (l *Loop) watch() {
	tick := time.NewTicker(stallAfter)
	defer tick.Stop()
	var last uint64
	for same := 0; ; {
		select {
		case <-l.ended:
			return
		case <-tick.C:
		}
		turn := l.turn.Load()
		if turn == last && turn%2 == 1 && l.turn.CompareAndSwap(turn, turn+1) {
			l.stalls.Add(1)
			go l.drive()
		}
		if same++; turn != last {
			same = 0
		}
		if last = turn; same >= dozeAfter && l.doze(turn) {
			tick.Stop()
			select {
			case <-l.ended:
				return
			case <-l.awake:
			}
			tick.Reset(stallAfter)
			same = 0
		}
	}
}

// doze says that the watcher waits for awake, unless something has happened since a turn. A driver that has not seen this has
// changed the turn before.
func (l *Loop) doze(turn uint64) bool {
	l.dozes.Store(true)
	return l.turn.Load() == turn || !l.dozes.CompareAndSwap(true, false)
}
