package seek

import (
	"slices"
	"strings"
	"testing"
	"time"

	"weft/directory"
	"weft/pool"
)

// change changes the shard in the directory.
func (w *world) change(f func(*directory.Shard)) {
	w.set(func() {
		next := w.snap.Clone()
		f(&next.Shards[0])
		w.snap = next
	})
}

// snapshot returns the directory.
func (w *world) snapshot() *directory.Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.snap
}

// cleared waits until this proxy has let go as the directory says.
func (w *world) cleared(want bool) {
	w.t.Helper()
	for end := time.Now().Add(2 * time.Minute); w.Cleared(w.snapshot()) != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("cleared is not %v", want)
		}
	}
}

// TestDrain: a shard is drained step by step, and the drain ends when another server is the primary.
func TestDrain(t *testing.T) {
	w := newWorld(t)
	w.await("start", func() bool { return w.lead == "a:1" })
	w.set(func() { w.busy = true })
	w.change(func(s *directory.Shard) { s.Drain = &directory.Drain{Key: "k", For: time.Hour} })
	w.await("it is drained", func() bool { return w.drained == pool.DrainBegun })
	if w.Cleared(w.snapshot()) {
		t.Error("cleared while a session uses the shard")
	}
	w.set(func() { w.busy = false })
	w.cleared(true)
	w.change(func(s *directory.Shard) { s.Drain = &directory.Drain{Key: "k", For: time.Hour, Shut: true} })
	w.await("it is shut", func() bool { return w.drained == pool.DrainShut })
	w.set(func() { w.servers["a:1"] = "refuses" })
	w.Suspect(t.Context(), "s")
	w.await("the primary stops", func() bool { return w.sought && w.drained == pool.DrainShut })
	w.set(func() { w.servers["b:1"] = "primary 2" })
	w.await("b is promoted", func() bool { return w.lead == "b:1" && !w.sought && w.drained == pool.DrainNone })
	w.await("the directory", func() bool { return slices.Contains(w.ended, "s k") && w.snap.Shards[0].Drain == nil })
	w.cleared(true)
}

// TestDrainEnds: a drain ends by itself, also if the process that began it has died, and by an operator's word.
func TestDrainEnds(t *testing.T) {
	w := newWorld(t)
	w.await("start", func() bool { return w.lead == "a:1" })
	w.change(func(s *directory.Shard) { s.Drain = &directory.Drain{Key: "k", For: time.Millisecond} })
	w.await("its time is over", func() bool {
		return w.drained == pool.DrainNone && slices.Contains(w.ended, "s k") && strings.Contains(w.log.String(), "the time of a drain is over")
	})
	w.change(func(s *directory.Shard) { s.Drain = &directory.Drain{Key: "l", For: time.Hour} })
	w.await("it is drained again", func() bool { return w.drained == pool.DrainBegun })
	w.change(func(s *directory.Shard) { s.EndDrain("") })
	w.await("an operator ends it", func() bool { return w.drained == pool.DrainNone })
}

// TestFence: nothing is sent to the primary any more, though it answers, until there is another one.
func TestFence(t *testing.T) {
	w := newWorld(t)
	w.await("start", func() bool { return w.lead == "a:1" })
	w.change(func(s *directory.Shard) { s.LetGo() })
	w.await("it is fenced", func() bool { return w.fenced == 1 && w.sought })
	w.cleared(true)
	w.set(func() { w.servers["b:1"] = "primary 2" })
	w.await("b is promoted", func() bool { return w.lead == "b:1" && !w.sought })
	w.change(func(s *directory.Shard) { s.Fence = 2 })
	w.await("it is fenced", func() bool { return w.fenced == 2 && w.sought })
	w.change(func(s *directory.Shard) { s.Fence = 0 })
	w.await("that is taken back", func() bool { return w.fenced == 0 && !w.sought })
}
