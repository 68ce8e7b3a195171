package verdict

import (
	"testing"

	"weft/heat"
)

// A key with a fifth of all statements is seen to be warm within a second, before its verdict has begun, and no longer a few
// seconds after the key has left.
func TestWarming(t *testing.T) {
	for seed := range uint64(5) {
		s := newSimulation(t, seed, 2)
		for range 30 {
			s.second()
		}
		s.hot, s.chance = 7, 0.2
		name := heat.Name{Database: "app", Group: 1, ID: mix(s.hot)}
		const quarter = 0.25
		took := 0.0
		for ; !s.warming()[name]; took += quarter {
			if s.pass(quarter); took > 10 {
				t.Fatalf("seed %d: %v", seed, s.warming())
			}
		}
		if keys := s.warming(); took > 0.75 || len(keys) != 1 {
			t.Errorf("seed %d: %v after %v seconds", seed, keys, took)
		}
		for range 40 {
			s.pass(quarter)
		}
		s.chance, took = 0, 0
		for ; s.warming()[name]; took += quarter {
			s.pass(quarter)
		}
		if took > 4 {
			t.Errorf("seed %d: warm for %v seconds after the key has left", seed, took)
		}
	}
}

// A long statement has much of a moment, and does not make its key warm.
func TestWarmingByOne(t *testing.T) {
	s := newSimulation(t, 1, 1)
	s.second()
	s.recent[0].Add(&heat.Sample{
		Weight: 1, Busy: 3e9, Database: "app", User: "u", Way: heat.One, Shard: place("", 4), Keys: [heat.MaxKeys]heat.Key{{Group: 1, Bucket: 4, ID: 99}}, KeyCount: 1,
	})
	if keys := s.warming(); len(keys) != 0 {
		t.Errorf("%v", keys)
	}
}
