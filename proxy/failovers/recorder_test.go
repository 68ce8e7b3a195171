package failovers

import (
	"log/slog"
	"testing"
	"time"

	"weft/primary"
)

// TestRecorder: a failover is noted once, with what it may have lost.
func TestRecorder(t *testing.T) {
	pause, over := time.Duration(0), true
	r := New(Config{
		Log: slog.New(slog.DiscardHandler), Proxy: "p", Waiting: func(string) int64 { return 3 },
		Paused: func(string) (time.Duration, bool) { return pause, over }, Hasty: func(string) bool { return false },
	})
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	view := func(ms int, state primary.State, address string, timeline uint32, fork, lsn primary.LSN) *primary.View {
		return &primary.View{
			State: state, Since: at(ms), Primary: address, Generation: primary.Generation{System: "7", Timeline: timeline, Fork: fork},
			Servers: []primary.Server{{Address: address, Seen: primary.Sighting{Kind: primary.Primary, At: at(ms), LSN: lsn}}},
		}
	}
	for _, v := range []*primary.View{
		view(0, primary.Steady, "a:1", 1, 0, 0x50), view(100, primary.Steady, "a:1", 1, 0, 0x60), view(200, primary.Steady, "a:1", 1, 0, 0x80),
		view(250, primary.Seeking, "a:1", 1, 0, 0), view(500, primary.Seeking, "a:1", 1, 0, 0),
		view(750, primary.Steady, "b:1", 2, 0x65, 0x70), view(800, primary.Steady, "b:1", 2, 0x65, 0x75),
		view(900, primary.Steady, "c:1", 3, 0x90, 0x95), view(950, primary.Steady, "d:1", 4, 0, 0x95),
	} {
		if over = v.State == primary.Steady; over && !v.Since.Equal(at(750)) {
			r.look("s", v)
			continue
		}
		// The new primary is settled for a while, before clients use it.
		over = false
		if r.look("s", v); len(r.All(t.Context())) > 0 {
			t.Error("a failover is noted before clients go on")
		}
		pause, over = 600*time.Millisecond, true
		r.look("s", v)
		pause = 0
	}
	list := r.All(t.Context())
	if len(list) != 3 {
		t.Fatalf("%+v", list)
	}
	f := list[2]
	lost, known := f.Lost()
	if f.From != "a:1" || f.To != "b:1" || f.Timeline != 2 || lost != 0x80-0x65 || !known || !f.Kept.Equal(at(100)) {
		t.Errorf("lossy: %+v, %d", f, lost)
	}
	if p := f.Pause(); p.Sessions != 3 || p.Millis != 600 {
		t.Errorf("pause %+v", p)
	}
	if lost, known := list[1].Lost(); lost != 0 || !known || list[1].Pause().Millis != 0 {
		t.Errorf("not lossy: %+v", list[1])
	}
	if _, known := list[0].Lost(); known {
		t.Errorf("without a fork: %+v", list[0])
	}
	c := r.Counts()
	if c[Count{"s", "yes"}] != 1 || c[Count{"s", "no"}] != 1 || c[Count{"s", "unknown"}] != 1 {
		t.Errorf("%v", c)
	}
}

// TestWaited: what no standby had received is not lost, if all commits have waited for a standby.
func TestWaited(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	for _, c := range []struct {
		what     string
		names    []string    // synchronous_standby_names at probes of the old primary, which write 0x10 each
		received primary.LSN // by the standby
		fork     primary.LSN
		hasty    bool
		lost     uint64
		count    string
	}{
		{"synchronous", []string{"b", "b", "b", "b"}, 0x35, 0x36, false, 0, "no"},
		{"asynchronous", []string{"", "", "", ""}, 0x35, 0x36, false, 0x40 - 0x36, "yes"},
		{"by default not waited for", []string{"b", "b", "b", "b"}, 0x35, 0x36, true, 0x40 - 0x36, "yes"},
		{"synchronous too late", []string{"", "", "b", "b"}, 0x35, 0x36, false, 0x40 - 0x36, "yes"},
		{"synchronous in time", []string{"", "b", "b", "b"}, 0x35, 0x36, false, 0, "no"},
		{"synchronous no more", []string{"b", "b", "b", ""}, 0x35, 0x36, false, 0x40 - 0x36, "yes"},
		{"the wrong server is promoted", []string{"b", "b", "b", "b"}, 0x3a, 0x36, false, 0x3a - 0x36, "yes"},
	} {
		t.Run(c.what, func(t *testing.T) {
			r := New(Config{
				Log: slog.New(slog.DiscardHandler), Proxy: "p", Waiting: func(string) int64 { return 0 },
				Paused: func(string) (time.Duration, bool) { return 0, true }, Hasty: func(string) bool { return c.hasty },
			})
			old := primary.Generation{System: "7", Timeline: 1}
			for i, names := range c.names {
				r.look("s", &primary.View{State: primary.Steady, Primary: "a:1", Generation: old, Servers: []primary.Server{
					{Address: "a:1", Role: primary.Leads, Seen: primary.Sighting{Kind: primary.Primary, At: at(100 * i), LSN: primary.LSN(0x10 * (i + 1)), SyncNames: names, Generation: old}},
					{Address: "b:1", Role: primary.Follows, Seen: primary.Sighting{Kind: primary.Standby, At: at(100 * i), Received: c.received, Generation: old}},
				}})
			}
			r.look("s", &primary.View{State: primary.Steady, Since: at(900), Primary: "b:1", Generation: primary.Generation{System: "7", Timeline: 2, Fork: c.fork}, Servers: []primary.Server{
				{Address: "b:1", Role: primary.Leads, Seen: primary.Sighting{Kind: primary.Primary, At: at(900), LSN: 0x50}},
			}})
			list := r.All(t.Context())
			if len(list) != 1 {
				t.Fatalf("%+v", list)
			}
			if lost, known := list[0].Lost(); lost != c.lost || !known || r.Counts()[Count{"s", c.count}] != 1 {
				t.Errorf("lost %#x (%v), counted as %v", lost, known, r.Counts())
			}
		})
	}
}
