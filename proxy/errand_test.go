package proxy

import (
	"testing"
	"time"

	"weft/pgerr"
)

// TestErrand: a request is seen once, by the program that it was meant for, and no program after that.
func TestErrand(t *testing.T) {
	s := newSession(nil, nil, nil, "", "")
	re := &s.reach
	end := re.beginProgram()
	inner := re.beginProgram()
	re.mu.Lock()
	re.errand.note(re, errCancelled())
	re.mu.Unlock()
	inner()
	if err := re.programStopped(false); err == nil || pgerr.From(err).Code != pgerr.QueryCanceled {
		t.Errorf("stopped by %v", err)
	}
	if err := re.programStopped(false); err != nil {
		t.Errorf("stopped again by %v", err)
	}
	re.mu.Lock()
	re.errand.note(re, errCancelled())
	re.mu.Unlock()
	end()
	end = re.beginProgram()
	if err := re.programStopped(false); err != nil {
		t.Errorf("stopped by what was meant for another program: %v", err)
	}
	end()
}

// TestErrandTimeout: statement_timeout goes off once, and not at all if a shard has heeded it.
func TestErrandTimeout(t *testing.T) {
	s := newSession(nil, nil, nil, "", "")
	re := &s.reach
	s.record.inEffect.statementTimeout = time.Hour
	defer re.beginProgram()()
	if err := re.programStopped(true); err != nil || re.errand.limit != nil {
		t.Errorf("%v, limit %v", err, re.errand.limit)
	}
}
