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
		Paused: func(string) (time.Duration, bool) { return pause, over },
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
