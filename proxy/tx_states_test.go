package proxy

import (
	"testing"

	"weft/pool"
)

// TestBlockState: every event in every state, beside the two facts that a state stands for.
func TestBlockState(t *testing.T) {
	type facts struct{ open, sealed bool }
	states := map[facts]blockState{{}: blockClosed, {sealed: true}: blockClosedSealed, {open: true}: blockOpen, {open: true, sealed: true}: blockSealed}
	events := map[blockEvent]func(facts) facts{
		blockStarts:          func(facts) facts { return facts{open: true} },
		blockWidens:          func(f facts) facts { return facts{open: true, sealed: f.sealed} },
		blockFound:           func(facts) facts { return facts{open: true, sealed: true} },
		blockSeals:           func(f facts) facts { f.sealed = true; return f },
		blockChains:          func(f facts) facts { return facts{open: true, sealed: f.sealed} },
		blockChainsUnsettled: func(facts) facts { return facts{open: true, sealed: true} },
		blockEnds:            func(facts) facts { return facts{} },
	}
	for f, from := range states {
		b := block{state: from}
		if b.isOpen() != f.open || b.isSealed() != f.sealed {
			t.Errorf("state %d: open %t, sealed %t, want %+v", from, b.isOpen(), b.isSealed(), f)
		}
		for e, do := range events {
			if got, want := from.after(e), states[do(f)]; got != want {
				t.Errorf("event %d in state %d: %d, want %d", e, from, got, want)
			}
		}
	}
}

// TestBlockTranscript: messages that set too much before their block is opened, and a block that
// ends with AND CHAIN.
func TestBlockTranscript(t *testing.T) {
	var b block
	is := func(when string, want blockState) {
		t.Helper()
		if b.state != want {
			t.Errorf("%s: %d, want %d", when, b.state, want)
		}
	}
	b.seal()
	is("too many settings", blockClosedSealed)
	b.startPiped(&pool.Conn{})
	is("another shard", blockSealed)
	b.end()
	is("Sync", blockClosed)

	b.seal()
	b.start(plainBegin)
	is("BEGIN after too many settings", blockOpen)
	b.seal()
	is("set_config of a row", blockSealed)
	b.start("BEGIN READ ONLY")
	is("BEGIN of the next block", blockOpen)
}

// TestSnapshotState: every event in every state.
func TestSnapshotState(t *testing.T) {
	to := map[snapshotEvent]snapshotState{snapshotsBegin: snapped, snapshotsGated: snappedAtomically, snapshotsSerial: heldToOne, snapshotsFail: noSnapshot}
	for e, want := range to {
		for from := noSnapshot; from <= heldToOne; from++ {
			b := block{snapshots: from}
			b.noteSnapshots(e)
			if b.snapshots != want || b.isSnapped() != (want != noSnapshot) {
				t.Errorf("event %d in state %d: %d, want %d", e, from, b.snapshots, want)
			}
		}
	}
}

// TestKeepsTo: a SERIALIZABLE block stays on its first shard, any other goes where it likes.
func TestKeepsTo(t *testing.T) {
	one, two := &pool.Lane{}, &pool.Lane{}
	for state := noSnapshot; state <= heldToOne; state++ {
		b := block{snapshots: state}
		for i, want := range []bool{true, true, state != heldToOne} {
			if got := b.keepsTo([]*pool.Lane{one, one, two}[i]); got != want {
				t.Errorf("state %d, use %d: %v, want %v", state, i, got, want)
			}
		}
	}
}

// TestNotice: every event in every state.
func TestNotice(t *testing.T) {
	one, two := &pool.Conn{}, &pool.Conn{}
	for _, c := range []struct {
		from    notice
		do      string
		to      notice
		on      *pool.Conn
		refused bool
	}{
		{noNotice, "may", perhapsNotice, one, false},
		{noNotice, "notifies", sureNotice, one, false},
		{noNotice, "notifies elsewhere", sureNotice, two, false},
		{perhapsNotice, "may", perhapsNotice, one, false},
		{perhapsNotice, "notifies", sureNotice, one, false},
		{perhapsNotice, "notifies elsewhere", sureNotice, two, false},
		{sureNotice, "may", perhapsNotice, one, false},
		{sureNotice, "notifies", sureNotice, one, false},
		{sureNotice, "notifies elsewhere", sureNotice, one, true},
	} {
		b := block{notice: c.from}
		if c.from != noNotice {
			b.notifier = one
		}
		var before *pool.Conn
		switch c.do {
		case "may":
			b.mayHaveNotifiedOn(one)
		case "notifies":
			before = b.notifiesOn(one)
		default:
			before = b.notifiesOn(two)
		}
		if b.notice != c.to || b.notifier != c.on || (before == one) != c.refused {
			t.Errorf("%s in state %d: %d, refused by %p, want %+v", c.do, c.from, b.notice, before, c)
		}
	}
}

// TestBlockEvents: what a block of piped messages keeps, and how much it remembers.
func TestBlockEvents(t *testing.T) {
	c := &pool.Conn{}
	b := block{replay: []string{"SET a = 1"}, sets: true}
	b.startPiped(c)
	if !b.isOpen() || !b.plain || len(b.replay) != 1 || !b.sets || b.writer != c || b.clock != c {
		t.Errorf("widened: %+v", b)
	}
	b.noteJoined(&pool.Conn{})
	if b.clock != c {
		t.Error("the second participant's now() is the block's")
	}
	for len(b.replay) < maxReplay {
		if !b.remember("SET b = 2") {
			t.Fatal("a text was not remembered")
		}
	}
	if b.isSealed() || b.remember("SET c = 3") || !b.isSealed() || len(b.replay) != maxReplay {
		t.Error("a block that remembers too much is not sealed")
	}
	if b.startPiped(c); !b.isSealed() {
		t.Error("messages that set too much are widened to a block that shards can join")
	}
	b.forgetReplay(2 * maxReplay)
	b.forgetReplay(1)
	if len(b.replay) != 1 {
		t.Errorf("%d texts are left", len(b.replay))
	}
	b.noteError("42P01")
	if b.barred {
		t.Error("any error bars a block")
	}
	b.noteError(barredCode)
	b.changed("a", "0")
	b.changed("a", "1")
	if before := b.takeBefore(); !b.barred || before["a"] != "0" || b.takeBefore() != nil {
		t.Errorf("barred %t, before %v", b.barred, before)
	}
	if b.end(); b.isOpen() || b.replay != nil || b.clock != nil {
		t.Errorf("ended: %+v", b)
	}
}
