package reshard

import (
	"fmt"
	"testing"

	"weft/directory"
)

// barrier returns the barrier of a round that carries buckets 3 and 70, in a phase; "" stands
// for a job between rounds.
func barrier(phase directory.Phase) *Barrier {
	s := &directory.Snapshot{Version: 9, BucketCount: 128, Placement: make([]uint16, 128)}
	m := directory.Move{ID: "m", Database: "app", Kind: directory.MoveBuckets}
	if phase != "" {
		m.Round = &directory.Round{Key: "k", Phase: phase, Pairs: []directory.Pair{{From: "a", To: "b", Buckets: []int{3}}, {From: "c", To: "b", Buckets: []int{70}}}}
	}
	s.Moves = []directory.Move{{ID: "j", Kind: directory.MoveJoin}, m}
	return BarrierOf(s, "app")
}

var phases = []directory.Phase{"", directory.HoldWrites, directory.HoldAll, directory.Carried}

// touches are the ways a statement can meet a round.
var touches = []struct {
	name string
	t    Touch
}{
	{"nothing", Touch{}},
	{"read other", Touch{Access: Read, Buckets: []int{4}}},
	{"read unit", Touch{Access: Read, Buckets: []int{4, 70}}},
	{"read all", Touch{Access: Read, All: true}},
	{"write other", Touch{Access: Write, Buckets: []int{4}}},
	{"write unit", Touch{Access: Write, Buckets: []int{3}}},
	{"write all", Everything()},
}

// histories are what a transaction may have done before.
var histories = []struct {
	name string
	make func(n *Notes)
}{
	{"idle", func(*Notes) {}},
	{"unnoted", func(n *Notes) { n.Unnoted(1) }},
	{"read other", func(n *Notes) { n.Note(1, touches[1].t) }},
	{"reads unit", func(n *Notes) { n.Note(1, touches[2].t) }},
	{"has read unit", func(n *Notes) { n.Note(1, touches[2].t); n.StatementOver() }},
	{"reads all", func(n *Notes) { n.Note(1, touches[3].t) }},
	{"wrote other", func(n *Notes) { n.Note(1, touches[4].t) }},
	{"wrote unit", func(n *Notes) { n.Note(1, touches[5].t) }},
	{"wrote all", func(n *Notes) { n.Note(1, touches[6].t) }},
	{"repeatable, reads all", func(n *Notes) { n.Note(1, touches[3].t); n.Repeatable() }},
	{"repeatable, wrote unit", func(n *Notes) { n.Note(1, touches[5].t); n.Repeatable() }},
	{"over", func(n *Notes) { n.Note(1, touches[6].t); n.Repeatable(); n.Unnoted(2); n.Over() }},
}

// TestBarrierAwaits is the table of whom a barrier waits for, by phase.
func TestBarrierAwaits(t *testing.T) {
	want := map[string]string{ // ✓ by phase: none, writes, all, carried
		"idle":                   "----",
		"unnoted":                "✓✓✓✓",
		"read other":             "----",
		"reads unit":             "--✓✓",
		"has read unit":          "----",
		"reads all":              "--✓✓",
		"wrote other":            "----",
		"wrote unit":             "-✓✓✓",
		"wrote all":              "-✓✓✓",
		"repeatable, reads all":  "----",
		"repeatable, wrote unit": "-✓✓✓",
		"over":                   "----",
	}
	for _, h := range histories {
		got := ""
		for _, phase := range phases {
			var n Notes
			h.make(&n)
			got += mark(barrier(phase).Awaits(&n))
		}
		if got != want[h.name] {
			t.Errorf("%s: got %s, want %s", h.name, got, want[h.name])
		}
	}
}

// TestBarrierHolds is the table of what a barrier holds, for every history, touch and phase.
func TestBarrierHolds(t *testing.T) {
	// What a transaction is held for that has touched nothing that matters.
	fresh := map[string]string{
		"nothing": "----", "read other": "----", "read unit": "--✓-", "read all": "--✓✓",
		"write other": "----", "write unit": "-✓✓-", "write all": "-✓✓✓",
	}
	free := map[string]bool{"unnoted": true, "wrote unit": true, "wrote all": true, "repeatable, wrote unit": true}
	for _, h := range histories {
		for _, touch := range touches {
			got := ""
			for _, phase := range phases {
				var n Notes
				h.make(&n)
				got += mark(barrier(phase).Holds(&n, touch.t))
			}
			want := fresh[touch.name]
			if free[h.name] || h.name == "repeatable, reads all" && touch.t.Access == Read {
				want = "----"
			}
			if got != want {
				t.Errorf("%s, then %s: got %s, want %s", h.name, touch.name, got, want)
			}
		}
	}
}

// TestBarrierIsComplete: once a barrier waits for nobody, nobody whom it does not hold can
// touch the round's buckets: whatever is noted after it, the barrier still waits for nobody
// who is not on the new shard.
func TestBarrierIsComplete(t *testing.T) {
	for _, phase := range phases[1:3] {
		b := barrier(phase)
		for _, h := range histories {
			for _, touch := range touches {
				var n Notes
				h.make(&n)
				if b.Awaits(&n) || b.Holds(&n, touch.t) {
					continue
				}
				n.Note(b.Version, touch.t)
				if b.Awaits(&n) {
					t.Errorf("%s: %s, then %s passes and is in the way", phase, h.name, touch.name)
				}
			}
		}
	}
}

func TestNotesAreBounded(t *testing.T) {
	var n Notes
	for b := range 4 * maxNoted {
		n.Note(1, Touch{Access: Write, Buckets: []int{b, b}})
	}
	if !n.written.all || len(n.written.list) > maxNoted {
		t.Errorf("%d buckets noted", len(n.written.list))
	}
	if n.Over(); !n.Idle() || !n.written.empty() {
		t.Error("not idle after the end")
	}
}

func TestBarrierOfOtherDatabase(t *testing.T) {
	s := &directory.Snapshot{Moves: []directory.Move{{ID: "m", Database: "app", Kind: directory.MoveDrain}}}
	for db, want := range map[string]bool{"app": true, "other": false} {
		if got := BarrierOf(s, db) != nil; got != want {
			t.Errorf("%s: %v", db, got)
		}
	}
	var none *Barrier
	if none.Holds(&Notes{}, Everything()) {
		t.Error("no barrier holds")
	}
}

// TestRemapped: the notes of a transaction that is older than the buckets of values say nothing.
func TestRemapped(t *testing.T) {
	for _, phase := range phases {
		b := barrier(phase)
		b.remapped = 5
		for since, want := range map[int64]bool{4: true, 5: false, 6: false} {
			var n Notes
			n.Note(since, touches[4].t)
			n.Note(7, touches[4].t)
			if got := b.Awaits(&n); got != want {
				t.Errorf("%s: a transaction since %d is awaited: %v", phase, since, got)
			}
			if want && b.Holds(&n, Everything()) {
				t.Errorf("%s: a transaction since %d is held by who waits for it", phase, since)
			}
		}
		if b.Awaits(&Notes{}) {
			t.Error("an idle session is awaited")
		}
	}
}

func mark(b bool) string {
	return fmt.Sprint(map[bool]string{true: "✓", false: "-"}[b])
}

// TestBarrierOfShards: a shard that joins holds writes over several shards in every database, one
// that leaves holds whatever begins.
func TestBarrierOfShards(t *testing.T) {
	snap := &directory.Snapshot{Version: 7, Placement: make([]uint16, 64), Moves: []directory.Move{{ID: "j", Kind: directory.MoveJoin}}}
	idle, writer := Notes{}, Notes{}
	writer.Note(6, Touch{Access: Write, Buckets: []int{3}})
	everywhere := Touch{Access: Write, All: true}
	if b := BarrierOf(snap, "any"); b == nil || b.Holds(&idle, everywhere) || b.Awaits(&writer) {
		t.Errorf("a job without a round holds, or is not noticed: %+v", b)
	}
	snap.Moves[0].Round = &directory.Round{Key: "k", Phase: directory.HoldWrites}
	b := BarrierOf(snap, "any")
	if !b.Holds(&idle, everywhere) || b.Holds(&idle, Touch{Access: Write, Buckets: []int{3}}) || b.Holds(&idle, Touch{Access: Read, All: true}) || b.Awaits(&writer) {
		t.Error("a shard that joins holds writes over several shards, and nothing else")
	}
	snap.Moves[0].Kind, snap.Moves[0].Round.Phase = directory.MoveLeave, directory.HoldAll
	b = BarrierOf(snap, "any")
	if !b.Holds(&idle, Touch{}) || b.Holds(&writer, everywhere) || !b.Awaits(&writer) || b.Awaits(&idle) {
		t.Error("a shard that leaves holds what begins, and waits for the rest")
	}
}
