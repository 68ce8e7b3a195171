package proxy

import "testing"

// TestCopyState: every event in every state, as transcripts.
func TestCopyState(t *testing.T) {
	events := map[copyEvent]map[copyState]copyState{
		copyAsked:   {noCopy: copyWanted, copyWanted: copyWanted, copyUnsynced: copyWanted, copyLoads: copyWanted},
		copyTaken:   {noCopy: noCopy, copyWanted: noCopy, copyUnsynced: noCopy, copyLoads: copyLoads},
		copySent:    {noCopy: copyUnsynced, copyWanted: copyUnsynced, copyUnsynced: copyUnsynced, copyLoads: copyUnsynced},
		copyLoading: {noCopy: copyLoads, copyWanted: copyLoads, copyUnsynced: copyLoads, copyLoads: copyLoads},
		copyOver:    {noCopy: noCopy, copyWanted: noCopy, copyUnsynced: noCopy, copyLoads: noCopy},
		copyDropped: {noCopy: noCopy, copyWanted: noCopy, copyUnsynced: noCopy, copyLoads: copyLoads},
	}
	for e, to := range events {
		for from, want := range to {
			if got := from.after(e); got != want {
				t.Errorf("event %d in state %d: %d, want %d", e, from, got, want)
			}
		}
	}
	for _, script := range []struct {
		name   string
		events []copyEvent
		end    copyState
	}{
		{"simple protocol", []copyEvent{copyAsked, copyTaken}, noCopy},
		{"extended protocol", []copyEvent{copyAsked, copyTaken, copySent}, copyUnsynced},
		{"Sync sent ahead and answered", []copyEvent{copyAsked, copyTaken, copySent, copyOver}, noCopy},
		{"a second COPY after the Sync", []copyEvent{copyAsked, copyTaken, copySent, copyAsked}, copyWanted},
		{"rows for several shards", []copyEvent{copyLoading, copyTaken, copyOver}, noCopy},
		{"the backend is gone before it is sent data", []copyEvent{copyAsked, copyDropped}, noCopy},
		{"one of several shards is gone", []copyEvent{copyLoading, copyDropped}, copyLoads},
	} {
		var s copyState
		for _, e := range script.events {
			s = s.after(e)
		}
		if s != script.end {
			t.Errorf("%s: %d, want %d", script.name, s, script.end)
		}
	}
}

// TestCopyDropped: a COPY does not outlive the backend that has asked for its data.
func TestCopyDropped(t *testing.T) {
	s := holding(nil)
	s.pipe.noteCopy(copyAsked)
	if s.held.drop(); s.pipe.copy != noCopy {
		t.Errorf("the COPY of a closed backend is in state %d", s.pipe.copy)
	}
}
