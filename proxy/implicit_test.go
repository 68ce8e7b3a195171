package proxy

import (
	"testing"

	"weft/parser"
)

// TestImplicitBlock: every event in every state, beside the two facts that a state stands for.
func TestImplicitBlock(t *testing.T) {
	type facts struct{ open, piped bool }
	states := map[facts]implicitBlock{{}: untouched, {piped: true}: piped, {open: true}: opened, {open: true, piped: true}: widened}
	events := map[pipeEvent]func(facts) facts{
		pipeWrites:  func(f facts) facts { f.piped = true; return f },
		pipeOpens:   func(f facts) facts { f.open = true; return f },
		pipeClaimed: func(f facts) facts { f.open = false; return f },
		pipeSyncs:   func(f facts) facts { f.piped = false; return f },
		pipeCloses:  func(f facts) facts { f.open = false; return f },
	}
	for f, from := range states {
		im := implicit{block: from}
		if im.isOpen() != f.open || im.isPiped() != f.piped {
			t.Errorf("state %d: open %t, piped %t, want %+v", from, im.isOpen(), im.isPiped(), f)
		}
		for e, do := range events {
			if got, want := from.after(e), states[do(f)]; got != want {
				t.Errorf("event %d in state %d: %d, want %d", e, from, got, want)
			}
		}
	}
}

// TestImplicitRun: every event in every state, beside the two facts that a state stands for.
func TestImplicitRun(t *testing.T) {
	type facts struct{ begun, ended bool }
	states := map[facts]implicitRun{{}: ranNothing, {begun: true}: begunRun, {ended: true}: endedRun, {begun: true, ended: true}: begunAnew}
	events := map[runEvent]func(facts) facts{
		runsStatement: func(f facts) facts { f.begun = true; return f },
		runsCommand:   func(f facts) facts { return f },
		runsEnd:       func(f facts) facts { f.begun = false; return f },
		runEnds:       func(f facts) facts { f.ended = true; return f },
		runSyncs:      func(facts) facts { return facts{} },
	}
	for f, from := range states {
		im := implicit{run: from}
		if im.hasBegun() != f.begun || im.hasEnded() != f.ended {
			t.Errorf("state %d: begun %t, ended %t, want %+v", from, im.hasBegun(), im.hasEnded(), f)
		}
		for e, do := range events {
			if got, want := from.after(e), states[do(f)]; got != want {
				t.Errorf("event %d in state %d: %d, want %d", e, from, got, want)
			}
		}
	}
}

// TestImplicitTranscript: a transaction of messages that goes on to another shard, and one that
// a COMMIT without BEGIN ends.
func TestImplicitTranscript(t *testing.T) {
	var im implicit
	is := func(when string, block implicitBlock, run implicitRun) {
		t.Helper()
		if im.block != block || im.run != run {
			t.Errorf("%s: block %d, run %d, want %d, %d", when, im.block, im.run, block, run)
		}
	}
	im.noteWrite()
	im.noteExecuted(nil)
	is("INSERT", piped, begunRun)
	im.block = im.block.after(pipeOpens)
	is("another shard", widened, begunRun)
	im.claim()
	is("BEGIN", piped, begunRun)
	im.forgetWrites()
	im.noteSync()
	is("Sync", untouched, ranNothing)

	im.noteWrite()
	im.noteExecuted(nil)
	im.noteEnded(true)
	is("COMMIT", untouched, begunAnew)
	im.noteExecuted(&parser.Facts{Statements: 1, Effects: parser.TxEnd})
	is("COMMIT executed", untouched, endedRun)
	im.noteExecuted(&parser.Facts{Statements: 1, Effects: parser.TxBegin})
	is("BEGIN executed", untouched, endedRun)
	im.noteExecuted(&parser.Facts{Statements: 1})
	is("SELECT", untouched, begunAnew)
}
