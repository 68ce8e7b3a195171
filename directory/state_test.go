package directory

import "testing"

func TestStateOf(t *testing.T) {
	s := New(64, "a", []Shard{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}, {Name: "c", Weight: 1}})
	s.Tables = []Table{{Database: "app", Schema: "public", Name: "t", Kind: Sharded}}
	set := func(shard int, state ShardState, weight int) {
		shards := append([]Shard{}, s.Shards...)
		shards[shard].State, shards[shard].Weight = state, weight
		s.SetShards(shards, nil)
	}
	expect := func(name string, want ShardState) {
		t.Helper()
		if got := s.StateOf(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	expect("b", ShardActive)
	set(1, ShardReadOnly, 1)
	expect("b", ShardReadOnly)
	set(1, ShardDraining, 1)
	expect("b", ShardDraining) // the rows of app are there
	s.SetPlacement("app", "", s.Balanced(s.PlacementOf("app", "")))
	expect("b", ShardEmpty)
	set(2, ShardActive, 0)
	expect("c", ShardActive) // not yet empty
	s.SetPlacement("app", "", s.Balanced(s.PlacementOf("app", "")))
	expect("c", ShardEmpty)
	s.Moves = []Move{{ID: "l", Kind: MoveLeave, Shard: "b"}, {ID: "j", Kind: MoveJoin, Shard: "d"}}
	expect("b", ShardLeaving)
	expect("d", ShardJoining)
	expect("a", ShardActive)
}
