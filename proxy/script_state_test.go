package proxy

import "testing"

// TestScriptState: every event in every state, beside the facts that a state stands for.
func TestScriptState(t *testing.T) {
	type facts struct{ running, own, failed bool }
	states := map[facts]scriptState{
		{}:                                       noScript,
		{running: true}:                          scriptRuns,
		{running: true, own: true}:               scriptOwns,
		{running: true, failed: true}:            scriptFailed,
		{running: true, own: true, failed: true}: scriptFailedOwning,
	}
	events := map[scriptEvent]func(facts) facts{
		scriptBegins:        func(f facts) facts { f.running = true; return f },
		scriptBeginsInBlock: func(f facts) facts { f.running, f.own = true, true; return f },
		scriptOpens:         func(f facts) facts { f.own = f.running; return f },
		scriptYields:        func(f facts) facts { f.own = false; return f },
		scriptFails:         func(f facts) facts { f.failed = f.running; return f },
		scriptEnds:          func(facts) facts { return facts{} },
	}
	for f, from := range states {
		k := script{state: from}
		if k.isRunning() != f.running || k.ownsBlock() != f.own || k.hasFailed() != f.failed {
			t.Errorf("state %d: running %t, own %t, failed %t, want %+v", from, k.isRunning(), k.ownsBlock(), k.hasFailed(), f)
		}
		for e, do := range events {
			if got, want := from.after(e), states[do(f)]; got != want {
				t.Errorf("event %d in state %d: %d, want %d", e, from, got, want)
			}
		}
	}
}

// TestScriptTranscript: a text that commits halfway, and whose last statement fails.
func TestScriptTranscript(t *testing.T) {
	var k script
	for _, step := range []struct {
		when string
		e    scriptEvent
		want scriptState
	}{
		{"an error before", scriptFails, noScript},
		{"the text", scriptBegins, scriptRuns},
		{"its first statement", scriptOpens, scriptOwns},
		{"COMMIT", scriptYields, scriptRuns},
		{"a statement after it", scriptOpens, scriptOwns},
		{"an error", scriptFails, scriptFailedOwning},
		{"the block is rolled back", scriptYields, scriptFailed},
		{"the end", scriptEnds, noScript},
		{"a text among extended messages", scriptBeginsInBlock, scriptOwns},
		{"BEGIN", scriptYields, scriptRuns},
		{"an error in the client's block", scriptFails, scriptFailed},
		{"the end", scriptEnds, noScript},
	} {
		if k.note(step.e); k.state != step.want {
			t.Errorf("%s: %d, want %d", step.when, k.state, step.want)
		}
	}
}
