package roster

import (
	"errors"
	"testing"

	"weft/primary"
)

// TestEnterGeneration: the directory learns a generation that is higher than the one it has, and no other.
func TestEnterGeneration(t *testing.T) {
	w := newWorld()
	enter := func(shard, generation, at string) error {
		t.Helper()
		g, err := primary.ParseGeneration(generation)
		if err != nil {
			t.Fatal(err)
		}
		return w.EnterGeneration(t.Context(), shard, &primary.View{Generation: g, Primary: at})
	}
	before := w.stored
	for _, g := range []string{"700/1", "701/2@0/60"} {
		if err := enter("b", g, "b2"); err != nil || w.stored != before {
			t.Errorf("%s is entered: %v", g, err)
		}
	}
	if err := enter("c", "700/2@0/60", "b2"); err != nil || w.stored != before {
		t.Errorf("a shard that is gone: %v", err)
	}
	w.down = errors.New("no etcd")
	if err := enter("b", "700/2@0/60", "b2"); !errors.Is(err, w.down) {
		t.Errorf("without a directory: %v", err)
	}
	w.down = nil
	if err := enter("b", "700/2@0/60", "b2"); err != nil {
		t.Fatal(err)
	}
	if sh, _ := w.stored.Shard("b"); sh.Generation().String() != "700/2@0/60" || sh.Primary != "b2" {
		t.Errorf("the directory has %+v", sh)
	}
	// The generation was seen before an operator has ruled.
	b, _ := w.stored.Shard("b")
	b.Reset()
	if err := enter("b", "700/2@0/60", "b2"); err != nil || b.Timeline != 0 {
		t.Errorf("a generation from before a ruling is entered: %v, %+v", err, b)
	}
	b.Ruling = primary.Ruling{}
	// Another proxy was first, and this one does not know yet.
	sh, _ := w.stored.Shard("b")
	sh.Timeline, sh.Fork, sh.Primary = 3, 0x70, "b1"
	if err := enter("b", "700/2@0/60", "b2"); err != nil || sh.Timeline != 3 {
		t.Errorf("a later generation is lowered: %v, %+v", err, sh)
	}
}
