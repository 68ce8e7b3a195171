package hold

import (
	"testing"
	"time"

	"weft/directory"
)

// TestAges: a round keeps its age through its phases, and loses it when it is over.
func TestAges(t *testing.T) {
	var a ages
	now := time.Now()
	snap := func(keys ...string) *directory.Snapshot {
		s := &directory.Snapshot{}
		for _, k := range keys {
			m := directory.Move{ID: k}
			if k != "" {
				m.Round = &directory.Round{Key: k}
			}
			s.Moves = append(s.Moves, m)
		}
		return s
	}
	a.follow(snap("a", ""), now)
	a.follow(snap("a", "b"), now.Add(time.Second))
	now = now.Add(3 * time.Second)
	for key, want := range map[string]time.Duration{"a": 3 * time.Second, "b": 2 * time.Second, "c": 0, "": 0} {
		if got := a.of(key, now); got != want {
			t.Errorf("%q has stood for %s, want %s", key, got, want)
		}
	}
	a.follow(snap("b"), now)
	a.follow(snap("a", "b"), now)
	if got := a.of("a", now); got != 0 {
		t.Errorf("a round that has come again has stood for %s", got)
	}
	if got := a.of("b", now); got != 2*time.Second {
		t.Errorf("b has stood for %s", got)
	}
}
