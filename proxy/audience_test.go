package proxy

import "testing"

// TestAudience: every event in every state, and the audience before comes back.
func TestAudience(t *testing.T) {
	want := map[audience]map[audienceEvent]audience{
		tellsClient:  {runsPart: tellsPart, runsUnsent: tellsSink, runsProgram: tellsProgram},
		tellsPart:    {runsPart: tellsPart, runsUnsent: tellsSink, runsProgram: tellsProgram},
		tellsSink:    {runsPart: tellsSink, runsUnsent: tellsSink, runsProgram: tellsProgram},
		tellsProgram: {runsPart: tellsPart, runsUnsent: tellsSink, runsProgram: tellsProgram},
	}
	for from, events := range want {
		for e, to := range events {
			o := &newSession(nil, nil, nil, "", "").out
			o.audience = from
			during := func() error {
				if o.audience != to || o.isQuiet() != (to == tellsPart || to == tellsSink) || (o.sink != nil) != (e != runsPart) {
					t.Errorf("event %d in state %d: %d, quiet %t, sink %v, want %d", e, from, o.audience, o.isQuiet(), o.sink, to)
				}
				return nil
			}
			if e == runsPart {
				_, _ = o.quietly(during)
			} else {
				_, _ = o.hear(e, &overheard{}, during)
			}
			if o.audience != from || o.sink != nil {
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
			_, _ = o.hear(runsProgram, &overheard{}, func() error {
				is("a message of a program", tellsProgram)
				_, _ = o.quietly(func() error { is("a part of it", tellsPart); return nil })
				is("after that part", tellsProgram)
				return nil
			})
			is("after the message of the program", tellsSink)
			return nil
		})
		is("after the statement of weft", tellsPart)
		return nil
	})
	is("after", tellsClient)
}
