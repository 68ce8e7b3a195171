package directory

import (
	"errors"
	"strings"
	"testing"

	"weft/primary"
)

// TestGeneration: the generation of a shard only grows, and is kept by the store and by copies.
func TestGeneration(t *testing.T) {
	s := sample()
	sh := &s.Shards[0]
	gen := func(timeline uint32, fork primary.LSN) primary.Generation {
		return primary.Generation{System: "700", Timeline: timeline, Fork: fork}
	}
	if sh.Raise(gen(2, 5), "a:1") {
		t.Error("the generation of an unknown system is entered")
	}
	sh.System = "700"
	before, err := s.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"timeline", "fork", "primary"} {
		if strings.Contains(string(before.Head), word) {
			t.Errorf("a reader of an older version finds %q before any failover", word)
		}
	}
	steps := []struct {
		g    primary.Generation
		at   string
		want bool
		now  string
	}{
		{gen(1, 0), "a:1", false, "700/0"},
		{primary.Generation{System: "701", Timeline: 3}, "a:1", false, "700/0"},
		{gen(2, 0), "b:1", true, "700/2 b:1"},
		{gen(2, 0x60), "b:1", true, "700/2@0/60 b:1"},
		{gen(2, 0x60), "b:1", false, "700/2@0/60 b:1"},
		{gen(2, 0x50), "c:1", false, "700/2@0/60 b:1"},
		{gen(1, 0), "a:1", false, "700/2@0/60 b:1"},
		{gen(2, 0x60), "c:1", true, "700/2@0/60 c:1"},
		{gen(4, 0x90), "a:1", true, "700/4@0/90 a:1"},
	}
	for _, step := range steps {
		old := s.Clone()
		if got := sh.Raise(step.g, step.at); got != step.want {
			t.Errorf("%s at %s: changed %v", step.g, step.at, got)
		}
		if now := strings.TrimSpace(sh.Generation().String() + " " + sh.Primary); now != step.now {
			t.Errorf("after %s at %s: %s, want %s", step.g, step.at, now, step.now)
		}
		if err := s.ValidateChange(old); err != nil {
			t.Errorf("%s at %s: %v", step.g, step.at, err)
		}
	}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	e, err := s.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	var d Decoder
	for name, part := range e.Parts {
		d.Add(name, part)
	}
	if back, err := d.Decode(e.Head, 9); err != nil || back.Shards[0].Generation() != gen(4, 0x90) || back.Shards[0].Primary != "a:1" {
		t.Errorf("decoded: %+v, %v", back, err)
	}
	text, err := s.EncodeCopy()
	if err != nil {
		t.Fatal(err)
	}
	if c, err := DecodeCopy(text); err != nil || c.Snapshot.Shards[0].Generation() != gen(4, 0x90) || c.Snapshot.Shards[0].Primary != "" {
		t.Errorf("copied: %s, %v", text, err)
	}
	if s.Shards[0].Primary != "a:1" {
		t.Error("EncodeCopy changes the snapshot")
	}
	for name, change := range map[string]func(*Shard){
		"a lower timeline": func(sh *Shard) { sh.Timeline = 3 },
		"another fork":     func(sh *Shard) { sh.Fork = 0x91 },
		"no fork":          func(sh *Shard) { sh.Fork = 0 },
	} {
		next := s.Clone()
		change(&next.Shards[0])
		if err := next.ValidateChange(s); err == nil || !strings.Contains(err.Error(), "go back") {
			t.Errorf("%s: %v", name, err)
		}
	}
	adopted := s.Clone()
	adopted.Shards[0].Adopt("800")
	if err := adopted.ValidateChange(s); err != nil || adopted.Shards[0].Generation() != (primary.Generation{System: "800"}) {
		t.Errorf("another server: %v", err)
	}
	ruled := s.Clone()
	ruled.Shards[0].Accept(gen(4, 0x80), "c:1")
	if err := errors.Join(ruled.Validate(), ruled.ValidateChange(s)); err != nil || ruled.Shards[0].Generation() != gen(4, 0x80) || ruled.Shards[0].Primary != "c:1" {
		t.Errorf("an accepted server: %v", err)
	}
	if err := s.ValidateChange(ruled); err == nil {
		t.Error("a ruling is taken back")
	}
	reset := ruled.Clone()
	reset.Shards[0].Reset()
	if err := errors.Join(reset.Validate(), reset.ValidateChange(ruled)); err != nil || reset.Shards[0].Generation() != gen(0, 0) || reset.Shards[0].Ruling != (primary.Ruling{Number: 2}) {
		t.Errorf("a reset: %v, %+v", err, reset.Shards[0])
	}
	next := s.Clone()
	next.Shards[0].Raise(gen(5, 0xA0), "b:1")
	if diff := Diff(s, next); len(diff) != 1 || !strings.Contains(diff[0], "timeline 5, and b:1 is its primary") {
		t.Errorf("diff: %q", diff)
	}
	for _, change := range []func(*Shard){func(sh *Shard) { sh.Timeline = 0 }, func(sh *Shard) { sh.System = "" }} {
		bad := s.Clone()
		change(&bad.Shards[0])
		if err := bad.Validate(); err == nil {
			t.Errorf("%+v is valid", bad.Shards[0])
		}
	}
}
