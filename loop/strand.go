package loop

import (
	"iter"
	"sync"
)

// strand is a coroutine, on whose stack tasks run one after the other.
type strand struct {
	next func() (struct{}, bool)
	// yield lets the carrier go on. The task that runs on the strand calls it.
	yield func(struct{}) bool
	// task runs on the strand; nil if none does. A strand that is resumed without a task ends.
	task *Task
}

func newStrand() *strand {
	s := &strand{}
	s.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		for s.yield = yield; s.task != nil; yield(struct{}{}) {
			t := s.task
			if c := t.run(t); c != nil {
				t.wants = &c.in
			}
			t.out.Store(false)
			s.task = nil
		}
	})
	return s
}

// keptStrands is how many strands without a task are kept. Each has a stack, which has grown to what sessions need.
const keptStrands = 32

// strands are strands without a task.
type strands struct {
	mu   sync.Mutex
	list []*strand
}

// take returns a strand, the one that was used last if there is one: its stack may still be in the processor's cache.
func (s *strands) take() *strand {
	s.mu.Lock()
	n := len(s.list)
	if n == 0 {
		s.mu.Unlock()
		return newStrand()
	}
	last := s.list[n-1]
	s.list = s.list[:n-1]
	s.mu.Unlock()
	return last
}

// put takes back a strand whose task rests or has ended.
func (s *strands) put(one *strand) {
	s.mu.Lock()
	full := len(s.list) >= keptStrands
	if !full {
		s.list = append(s.list, one)
	}
	s.mu.Unlock()
	if full {
		one.next()
	}
}

// end ends all strands.
func (s *strands) end() {
	s.mu.Lock()
	list := s.list
	s.list = nil
	s.mu.Unlock()
	for _, one := range list {
		one.next()
	}
}
