package heat

import "testing"

// TestHandful: keys are held in proportion to their uses, wherever these stand.
func TestHandful(t *testing.T) {
	const rounds, uses = 4000, 40
	held := map[uint64]int{}
	for range rounds {
		var h Handful
		for i := range uses {
			id := uint64(i)
			if i >= uses/2 {
				id = 100 // half of the uses, all at the end
			}
			if h.Holds() {
				h.Hold(Key{ID: id})
			}
		}
		if len(h.Keys()) != MaxKeys || h.Uses() != uses {
			t.Fatalf("%d keys of %d uses", len(h.Keys()), h.Uses())
		}
		for _, k := range h.Keys() {
			held[k.ID]++
		}
	}
	if half := float64(held[100]) / (rounds * MaxKeys); half < 0.47 || half > 0.53 {
		t.Errorf("a key of half of the uses is %.2f of what is held", half)
	}
	if first := float64(held[0]) / (rounds * MaxKeys); first < 0.018 || first > 0.032 {
		t.Errorf("the first of %d uses is %.3f of what is held", uses, first)
	}
}

// TestHandfulOfFew: fewer uses than there is room for are all held.
func TestHandfulOfFew(t *testing.T) {
	var h Handful
	if len(h.Keys()) != 0 {
		t.Error("keys are held before there was a use")
	}
	for i := range MaxKeys - 1 {
		if !h.Holds() {
			t.Fatal("a use is left out though there is room")
		}
		h.Hold(Key{ID: uint64(i)})
	}
	for i, k := range h.Keys() {
		if k.ID != uint64(i) {
			t.Errorf("key %d is %d", i, k.ID)
		}
	}
	if len(h.Keys()) != MaxKeys-1 {
		t.Errorf("%d keys are held", len(h.Keys()))
	}
}
