package proxy

import (
	"strings"
	"testing"
	"time"

	"weft/directory"
)

// TestMoveOptions: options are read as PostgreSQL users write them, and stay as they are if not
// given.
func TestMoveOptions(t *testing.T) {
	for _, tc := range []struct {
		args map[string]string
		want directory.MoveOptions
		err  string
	}{
		{args: nil, want: directory.MoveOptions{Duty: 7}},
		{args: map[string]string{"max_pause": "2s", "pause_target": "150"}, want: directory.MoveOptions{MaxPause: 2 * time.Second, PauseTarget: 150 * time.Millisecond, Duty: 7}},
		{args: map[string]string{"rate": "20MB"}, want: directory.MoveOptions{Rate: 20 << 20, Duty: 7}},
		{args: map[string]string{"rate": "1.5 kB/s"}, want: directory.MoveOptions{Rate: 1536, Duty: 7}},
		{args: map[string]string{"rate": "0"}, want: directory.MoveOptions{Duty: 7}},
		{args: map[string]string{"duty": "50", "until": "5%"}, want: directory.MoveOptions{Duty: 50, Until: 5}},
		{args: map[string]string{"verify": "rows"}, want: directory.MoveOptions{Verify: "rows", Duty: 7}},
		{args: map[string]string{"verify": "counts"}, want: directory.MoveOptions{Duty: 7}},
		{args: map[string]string{"max_pause": "soon"}, err: `max_pause "soon" is not a time`},
		{args: map[string]string{"max_pause": ""}, err: `max_pause "" is not a time`},
		{args: map[string]string{"max_pause": "-1s"}, err: "is not between"},
		{args: map[string]string{"max_pause": "1ms"}, err: "is not between"},
		{args: map[string]string{"pause_target": "600ms"}, err: "pause_target 600ms is more than max_pause 500ms"},
		{args: map[string]string{"rate": "20mb"}, err: `rate "20mb" is not a number of bytes in a second`},
		{args: map[string]string{"rate": "-1"}, err: "is not a number of bytes"},
		{args: map[string]string{"rate": "NaN"}, err: "is not a number of bytes"},
		{args: map[string]string{"duty": "0"}, err: `duty "0" is not a percentage from 1 to 100`},
		{args: map[string]string{"until": "101"}, err: `until "101" is not a percentage`},
		{args: map[string]string{"verify": "all"}, err: "neither 'counts' nor 'rows'"},
	} {
		got := directory.MoveOptions{Duty: 7}
		err := moveOptions(tc.args, &got)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%v: %v, want %s", tc.args, err, tc.err)
			}
			continue
		}
		if err != nil || got != tc.want {
			t.Errorf("%v: %+v, %v; want %+v", tc.args, got, err, tc.want)
		}
	}
}
