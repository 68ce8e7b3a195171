package loop

import "sync/atomic"

// Task is code that runs in a loop. One goroutine at a time carries a task: the driver of its loop, or, after Leave, a
// goroutine of its own.
type Task struct {
	loop *Loop
	run  func(t *Task) (rest *Conn)
	// strand is the stack that the task runs on; nil while the task rests.
	strand *strand
	// wants is what the task waits for. The task sets it before it yields, and the carrier takes it afterwards.
	wants *side
	// turn is the loop's turn in which the task was resumed last.
	turn atomic.Uint64
	// out: the task has left the loop.
	out atomic.Bool
}

// Go calls run as a task of the loop. Any goroutine may call Go. If run returns a Conn, the task rests until input has come for that
// Conn, without a stack, and then run is called again. run must not end by runtime.Goexit.
func (l *Loop) Go(run func(t *Task) (rest *Conn)) {
	l.post(&Task{loop: l, run: run})
}

// Leave makes the task an ordinary goroutine: it may wait for anything. A nil task has none to leave.
func (t *Task) Leave() {
	if t != nil && !t.out.Load() {
		t.loop.abandon(t)
	}
}

// Return makes the task wait in the loop again, from the next time on that it waits for a Conn.
func (t *Task) Return() {
	if t != nil {
		t.out.Store(false)
	}
}

// Out reports whether the task has left the loop.
func (t *Task) Out() bool { return t == nil || t.out.Load() }

// pause lets the carrier go on until s is ready. The task's own code calls it.
func (t *Task) pause(s *side) {
	t.wants = s
	t.strand.yield(struct{}{})
}

// carry runs the task until it waits, rests or ends. It returns what the task waits for, nil if the task has ended.
func (t *Task) carry() *side {
	s := t.strand
	if s == nil {
		s = t.loop.strands.take()
		s.task, t.strand = t, s
	}
	s.next()
	if s.task == nil {
		t.strand = nil
		t.loop.strands.put(s)
	}
	wants := t.wants
	t.wants = nil
	return wants
}
