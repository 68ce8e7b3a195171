package primary

import (
	"testing"
	"time"
)

// What an earlier primary had answered is on the present one up to the last probe that found less than the fork.
func TestSurvived(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	var j Judge
	j.SetHosts([]string{"a", "b"}, at(0))
	primary := func(s int, address string, timeline, parent uint32, fork, lsn LSN) {
		j.See(address, Sighting{
			Kind: Primary, At: at(s), Generation: Generation{System: "7", Timeline: timeline, Fork: fork}, Parent: parent, LSN: lsn, Started: at(int(timeline)),
		}, at(s))
	}
	refuses := func(s int, address string) { j.See(address, Sighting{Kind: Refused, At: at(s)}, at(s)) }
	refuses(0, "b")
	primary(1, "a", 1, 0, 0, 100)
	primary(2, "a", 1, 0, 0, 200)
	primary(3, "a", 1, 0, 0, 300)
	refuses(4, "a")
	primary(5, "b", 2, 1, 250, 260)
	if got := j.View(at(5)).Survived(1); !got.Equal(at(2)) {
		t.Errorf("after one failover: %v", got)
	}
	primary(6, "b", 2, 1, 250, 400)
	refuses(7, "b")
	primary(8, "a", 3, 2, 400, 410)
	v := j.View(at(8))
	if got := v.Survived(1); !got.Equal(at(2)) {
		t.Errorf("of the first timeline: %v", got)
	}
	if got := v.Survived(2); !got.Equal(at(6)) {
		t.Errorf("of the second timeline: %v", got)
	}
	if !v.Survived(3).IsZero() || !v.Survived(9).IsZero() {
		t.Error("of timelines that are not over")
	}
	// A server that has never been on the third timeline.
	refuses(9, "a")
	primary(10, "b", 4, 2, 405, 500)
	v = j.View(at(10))
	for timeline := range uint32(4) {
		if got := v.Survived(timeline); !got.IsZero() {
			t.Errorf("of timeline %d, and the primary has another parent: %v", timeline, got)
		}
	}
	for i := range uint32(20) {
		primary(11+int(i), "b", 5+i, 4+i, 500, 500)
	}
	if n := len(j.View(at(40)).passages); n != maxPassages {
		t.Errorf("%d are remembered", n)
	}
}
