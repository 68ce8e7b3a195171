package handover

import (
	"context"
	"errors"
	"strings"
	"testing"

	"weft/directory"
	"weft/pgerr"
	"weft/primary"
)

// TestAccept: only a primary of the shard's system is accepted, if its timeline is not over. A reset lets a lower timeline count again.
func TestAccept(t *testing.T) {
	s, _ := newProxy(t)
	accept := func(at string, kind primary.Kind, generation string) error {
		t.Helper()
		g, err := primary.ParseGeneration(generation)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Accept(t.Context(), at, func(context.Context, *directory.Shard) (primary.Sighting, error) {
			return primary.Sighting{Kind: kind, Generation: g}, nil
		})
		return err
	}
	expect := func(generation, at string, r primary.Ruling) {
		t.Helper()
		if sh, err := s.Load(t.Context()); err != nil || sh.Generation().String() != generation || sh.Primary != at || sh.Ruling != r {
			t.Errorf("%v, %+v", err, sh)
		}
	}
	if _, err := s.change(t.Context(), func(sh *directory.Shard) error {
		sh.Raise(primary.Generation{System: "7", Timeline: 2, Fork: 0x60}, "b:1")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{
		"weft apply":         accept("c:1", primary.Primary, "7/2@0/50"),
		"Promote":            accept("a:1", primary.Standby, "7/2"),
		"--adopt s":          accept("a:1", primary.Primary, "8/2@0/50"),
		"weft shard reset s": accept("a:1", primary.Primary, "7/1"),
	} {
		if e := pgerr.From(err); err == nil || !strings.Contains(e.Hint, want) {
			t.Errorf("%v, want a hint with %q", err, want)
		}
	}
	_, err := s.Accept(t.Context(), "a:1", func(context.Context, *directory.Shard) (primary.Sighting, error) {
		return primary.Sighting{}, errors.New("it sleeps")
	})
	if err == nil || !strings.Contains(err.Error(), "it sleeps") {
		t.Errorf("a server that does not answer: %v", err)
	}
	expect("7/2@0/60", "b:1", primary.Ruling{})
	if err := accept("a:1", primary.Primary, "7/2@0/50"); err != nil {
		t.Fatal(err)
	}
	expect("7/2@0/50", "a:1", primary.Ruling{Number: 1, Timeline: 2, Address: "a:1"})
	if _, err := s.Fence(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := accept("b:1", primary.Primary, "7/2@0/60"); err == nil || !strings.Contains(pgerr.From(err).Hint, "weft fence --shard s --end") {
		t.Errorf("a fenced timeline: %v", err)
	}
	if err := s.Reset(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	expect("7/0", "", primary.Ruling{Number: 2})
	if err := s.Reset(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	expect("/0", "", primary.Ruling{Number: 3})
}
