package primary

import (
	"testing"
	"time"
)

func TestLag(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(1000, 0).Add(time.Duration(s) * time.Second) }
	var l Lag
	if _, _, ok := l.Of(5, at(0)); ok {
		t.Error("the lag behind an unknown primary is known")
	}
	expect := func(replayed LSN, now int, behind time.Duration, bytes uint64) {
		t.Helper()
		if d, b, ok := l.Of(replayed, at(now)); !ok || d != behind || b != bytes {
			t.Errorf("replayed %s at %d: %s, %d bytes, %v", replayed, now, d, b, ok)
		}
	}
	l.Mark(at(0), 100)
	expect(100, 60, 0, 0) // a primary that does nothing leaves no standby behind
	expect(120, 60, 0, 0)
	expect(90, 10, 10*time.Second, 10)
	l.Mark(at(5), 100)
	expect(90, 10, 5*time.Second, 10)
	l.Mark(at(10), 200)
	l.Mark(at(20), 300)
	expect(300, 21, 0, 0)
	expect(250, 21, 11*time.Second, 50)
	expect(199, 21, 16*time.Second, 101)
	expect(1, 21, 16*time.Second, 299) // at least
	for replayed, want := range map[LSN]time.Time{300: at(20), 400: at(20), 299: at(10), 100: at(5), 99: {}} {
		if fresh := l.Fresh(replayed); !fresh.Equal(want) {
			t.Errorf("a standby that has replayed %s is as of %s", replayed, fresh)
		}
	}
	l.Fork(210) // the rest was lost
	expect(205, 30, 0, 0)
	l.Mark(at(40), 220)
	expect(205, 41, 31*time.Second, 15)
	for i := range 2 * maxMarks {
		l.Mark(at(50+i), LSN(1000+i))
	}
	if len(l.marks) != maxMarks {
		t.Errorf("%d marks", len(l.marks))
	}
}
