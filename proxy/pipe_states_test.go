package proxy

import (
	"testing"

	"weft/wire"
)

// TestCourse: every event in both courses, and what each course does with each type of message.
func TestCourse(t *testing.T) {
	to := map[courseEvent]course{messageFails: skipsToSync, sessionFails: heeds, messagesResume: heeds}
	for from := heeds; from <= skipsToSync; from++ {
		for e, want := range to {
			if got := from.after(e); got != want {
				t.Errorf("event %d in course %d: %d, want %d", e, from, got, want)
			}
		}
		for typ := range 256 {
			want := from == skipsToSync && typ != wire.Sync && typ != wire.Terminate
			if got := from.skips(byte(typ)); got != want {
				t.Errorf("course %d skips %q: %t, want %t", from, byte(typ), got, want)
			}
		}
	}
}

// TestSyncState: every event in every state, beside the two facts that a state stands for.
func TestSyncState(t *testing.T) {
	type facts struct{ unsynced, ahead bool }
	states := map[facts]syncState{{}: atRest, {ahead: true}: sentAhead, {unsynced: true}: owesSync, {unsynced: true, ahead: true}: owesSyncAhead}
	events := map[syncEvent]func(facts) facts{
		extends:    func(f facts) facts { f.unsynced = true; return f },
		sendsAhead: func(f facts) facts { f.ahead = true; return f },
		syncs:      func(facts) facts { return facts{} },
	}
	for f, from := range states {
		p := pipe{sync: from}
		if p.isUnsynced() != f.unsynced || p.isAhead() != f.ahead {
			t.Errorf("state %d: unsynced %t, ahead %t, want %+v", from, p.isUnsynced(), p.isAhead(), f)
		}
		for e, do := range events {
			if got, want := from.after(e), states[do(f)]; got != want {
				t.Errorf("event %d in state %d: %d, want %d", e, from, got, want)
			}
		}
	}
}

// TestPipeTranscript: messages of which one fails, up to their Sync, and messages whose backend
// ends the session.
func TestPipeTranscript(t *testing.T) {
	p := &newSession(nil, nil, nil, "", "").pipe
	is := func(when string, c course, s syncState) {
		t.Helper()
		if p.course != c || p.sync != s {
			t.Errorf("%s: course %d, state %d, want %d, %d", when, p.course, p.sync, c, s)
		}
	}
	is("the session begins", heeds, atRest)
	p.awaitSync()
	is("Parse", heeds, owesSync)
	p.noteAhead()
	is("Flush", heeds, owesSyncAhead)
	p.s.implicit.noteWrite()
	p.skipToSync()
	is("an error", skipsToSync, owesSyncAhead)
	p.skipToSync()
	is("a second error", skipsToSync, owesSyncAhead)
	p.resume()
	is("Sync", heeds, owesSyncAhead)
	if p.synced(); p.s.implicit.isPiped() {
		t.Error("messages that are in sync have written")
	}
	is("ReadyForQuery", heeds, atRest)

	p.noteAhead()
	is("a long simple query", heeds, sentAhead)
	p.awaitSync()
	is("Parse behind the query", heeds, owesSyncAhead)
	p.skipToSync()
	p.endSkipping()
	is("FATAL", heeds, owesSyncAhead)
	p.synced()
	is("the backend is gone", heeds, atRest)
}
