package carrier

import (
	"testing"
	"time"

	"weft/directory"
	"weft/schema"
)

// TestPause: a job rests for its share of time, for its rate, and after a round that came to
// nothing.
func TestPause(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		report Report
		took   time.Duration
		opts   directory.MoveOptions
		want   time.Duration
	}{
		{Report{Writes: 100 * ms, Outcome: schema.Carried}, 110 * ms, directory.MoveOptions{}, 100 * ms},
		{Report{Writes: 100 * ms, Outcome: schema.Carried}, 110 * ms, directory.MoveOptions{Duty: 20}, 400 * ms},
		{Report{Writes: 100 * ms, Outcome: schema.Carried}, 110 * ms, directory.MoveOptions{Duty: 100}, 0},
		{Report{Writes: 100 * ms, Bytes: 1000, Outcome: schema.Carried}, 110 * ms, directory.MoveOptions{Duty: 100, Rate: 1000}, 890 * ms},
		{Report{Writes: 100 * ms, Bytes: 10, Outcome: schema.Carried}, 110 * ms, directory.MoveOptions{Rate: 1000}, 100 * ms},
		{Report{Outcome: "max_pause is over"}, 110 * ms, directory.MoveOptions{Duty: 100}, afterGivingWay},
	} {
		if got := pause(&tc.report, tc.took, tc.opts); got != tc.want {
			t.Errorf("%+v %+v: %s, want %s", tc.report, tc.opts, got, tc.want)
		}
	}
}
