package directory

import (
	"fmt"
	"testing"
	"time"
)

func TestConclude(t *testing.T) {
	s := &Snapshot{Moves: []Move{
		{ID: "j", Kind: MoveJoin, Shard: "shard-2", Reason: "waits", User: "ada"},
		{ID: "l", Kind: MoveLeave, Shard: "shard-1", Reason: "stopped by ada"},
		{ID: "m", Kind: MoveBuckets},
	}, Targets: map[string][]uint16{"m": {0}}}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s.Conclude("j", MoveDone, now)
	s.Conclude("l", MoveCancelled, now)
	s.Conclude("m", MoveDone, now) // the home shard remembers it
	s.Conclude("never", MoveDone, now)
	if len(s.Moves) != 0 || len(s.Targets) != 0 || len(s.Past) != 2 {
		t.Fatalf("left: %+v, %v; past: %+v", s.Moves, s.Targets, s.Past)
	}
	want := PastMove{ID: "j", Kind: MoveJoin, Shard: "shard-2", State: MoveDone, User: "ada", Ended: now}
	if p := s.FindPast("j"); p == nil || *p != want {
		t.Errorf("got %+v, want %+v", p, want)
	}
	if p := s.FindPast("l"); p == nil || p.State != MoveCancelled || p.Reason != "stopped by ada" {
		t.Errorf("got %+v", p)
	}
	if p := s.FindPast("m"); p != nil {
		t.Errorf("got %+v", p)
	}
	for i := range 2 * keepPast {
		id := fmt.Sprint(i)
		s.Moves = append(s.Moves, Move{ID: id, Kind: MoveJoin})
		s.Conclude(id, MoveDone, now)
	}
	if len(s.Past) != keepPast || s.Past[0].ID != fmt.Sprint(2*keepPast-1) {
		t.Errorf("%d are remembered, the last is %q", len(s.Past), s.Past[0].ID)
	}
}
