package heat

import (
	"fmt"
	"testing"
)

// A job carries cold buckets first: when it has come a fifth of its way, the bucket of a key with a
// fifth of the work has not moved.
func TestColdFirst(t *testing.T) {
	w := newWorld(t, "cold", plain, plain)
	c := w.conn(0, "postgres")
	const hot = 42
	u := &updates{}
	l := w.start(u.account(hot))
	place := w.bucketOf(c, hot)
	w.eventually(func() error {
		rows := w.answer(c, fmt.Sprintf("select over_mean from weft.heat where bucket = %d and database = current_database()", place))
		if len(rows) != 1 || rows[0]["over_mean"].(float64) < 6 {
			return fmt.Errorf("bucket %d: %v", place, rows)
		}
		return nil
	})
	before := w.places()
	other := map[string]string{"shard-0": "shard-1", "shard-1": "shard-0"}[before[place]]
	// The hot bucket is the first by number. Rounds are small, and none gives way: buckets of such rounds come after the hot ones.
	job := w.answer(c, fmt.Sprintf("select weft.move_buckets('%d-%d', '%s', until => 20, pause_target => '10ms', max_pause => '1min')", place, len(before)-1, other))
	w.eventually(func() error {
		if rows := w.answer(c, "select job, state, reason from weft.moves"); len(rows) != 1 || rows[0]["state"] != "paused" {
			return fmt.Errorf("%v", rows)
		}
		return nil
	})
	now := w.places()
	moved, left := 0, 0
	for b := place; b < len(before); b++ {
		if before[b] != now[b] {
			moved++
		} else if now[b] != other {
			left++
		}
	}
	t.Logf("of buckets %d to %d, %d have moved and %d have not", place, len(before)-1, moved, left)
	if now[place] != before[place] && left > 0 {
		t.Errorf("the hot bucket %d is among the first %d that have moved", place, moved)
	}
	for _, id := range job[0] {
		w.answer(c, fmt.Sprintf("select weft.resume_moves('%s')", id))
	}
	w.wait(c, job)
	for b, at := range w.places() {
		if b >= place && at != other {
			t.Errorf("bucket %d is on %s", b, at)
		}
	}
	l.halt()
	w.whole(c, u)
}
