package proxy

import "testing"

// TestAudience: every event in every state, and the audience before comes back.
func TestAudience(t *testing.T) {
	want := map[audience]map[audienceEvent]audience{
		tellsClient: {runsPart: tellsPart, runsUnsent: tellsSink},
		tellsPart:   {runsPart: tellsPart, runsUnsent: tellsSink},
		tellsSink:   {runsPart: tellsSink, runsUnsent: tellsSink},
	}
	for from, events := range want {
		for e, to := range events {
			o := &newSession(nil, nil, nil, "", "").out
			o.audience = from
			during := func() error {
				if o.audience != to || o.isQuiet() != (to != tellsClient) || (o.sink != nil) != (e == runsUnsent) {
					t.Errorf("event %d in state %d: %d, quiet %t, sink %v, want %d", e, from, o.audience, o.isQuiet(), o.sink, to)
				}
				return nil
			}
			if e == runsPart {
				_, _ = o.quietly(during)
			} else {
				_, _ = o.divert(&overheard{}, during)
			}
			if o.audience != from {
				t.Errorf("event %d in state %d: %d afterwards", e, from, o.audience)
			}
		}
	}
}

// TestAudienceTranscript: a statement that has parts, one of which runs statements of weft's own.
func TestAudienceTranscript(t *testing.T) {
	o := &newSession(nil, nil, nil, "", "").out
	is := func(when string, want audience) {
		t.Helper()
		if o.audience != want {
			t.Errorf("%s: %d, want %d", when, o.audience, want)
		}
	}
	is("before", tellsClient)
	_, _ = o.quietly(func() error {
		is("a part", tellsPart)
		_, _ = o.divert(&overheard{}, func() error {
			is("a statement of weft", tellsSink)
			_, _ = o.quietly(func() error { is("a part of it", tellsSink); return nil })
			is("after its part", tellsSink)
			return nil
		})
		is("after the statement of weft", tellsPart)
		return nil
	})
	is("after", tellsClient)
}
