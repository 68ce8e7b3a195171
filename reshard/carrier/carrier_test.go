package carrier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"weft/directory"
	"weft/pgerr"
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

// TestMayHold: a proxy that stood still neither goes on with a round that another proxy has ended,
// nor overwrites the round of the proxy that has its job now.
func TestMayHold(t *testing.T) {
	round := func(key string) *directory.Round { return &directory.Round{Key: key, Phase: directory.HoldWrites} }
	for _, tc := range []struct {
		name  string
		move  directory.Move
		phase directory.Phase
		want  error
	}{
		{"first phase", directory.Move{Proxy: "p"}, directory.HoldWrites, nil},
		{"second phase", directory.Move{Proxy: "p", Round: round("k")}, directory.HoldAll, nil},
		{"told, and not heard of it", directory.Move{Proxy: "p", Round: round("k")}, directory.HoldWrites, nil},
		{"ended by another", directory.Move{Proxy: "p"}, directory.HoldAll, errOverruled},
		{"one of before is not settled", directory.Move{Proxy: "p", Round: round("k0")}, directory.HoldWrites, errOverruled},
		{"adopted", directory.Move{Proxy: "q"}, directory.HoldWrites, errGone},
		{"adopted, and at work", directory.Move{Proxy: "q", Round: round("k2")}, directory.HoldAll, errGone},
		{"paused", directory.Move{Proxy: "p", State: directory.MovePaused}, directory.HoldWrites, ErrPaused},
	} {
		if got := mayHold(&tc.move, "p", "k", tc.phase); !errors.Is(got, tc.want) || tc.want == nil && got != nil {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// prepared is a Rows whose PrepareMove fails.
type prepared struct {
	Rows
	err error
}

func (p *prepared) PrepareMove(context.Context, *directory.Snapshot, directory.Move) (*schema.MoveSizes, error) {
	return nil, p.err
}

// entry is a directory with one job.
type entry struct {
	Directory
	snap    *directory.Snapshot
	updates int
}

func (e *entry) Load(context.Context) (*directory.Snapshot, error) { return e.snap, nil }

func (e *entry) Update(_ context.Context, fn func(*directory.Snapshot) (*directory.Snapshot, error)) (*directory.Snapshot, error) {
	next, err := fn(e.snap)
	if err == nil {
		e.snap, e.updates = next, e.updates+1
	}
	return next, err
}

// TestPrepare: a job waits for a shard that is down, and says so once. What does not pass fails the job.
func TestPrepare(t *testing.T) {
	dir := &entry{snap: &directory.Snapshot{Moves: []directory.Move{{ID: "j", Proxy: "p", State: directory.MoveRunning}}}}
	rows := &prepared{err: fmt.Errorf("prepare: %w", pgerr.New(pgerr.ConnectionFailure, "shard a is down"))}
	c := New(Config{Directory: dir, Rows: rows})
	for range 3 {
		if err := c.Run(t.Context(), "j", "p"); !errors.Is(err, rows.err) {
			t.Fatal(err)
		}
		if m := dir.snap.FindMove("j"); m.State != directory.MoveRunning || !strings.Contains(m.Waits, "shard a is down") || dir.updates != 1 {
			t.Errorf("%+v after %d updates", m, dir.updates)
		}
	}
	rows.err = fmt.Errorf("note: %w", directory.ErrUnavailable)
	if err := c.Run(t.Context(), "j", "p"); !errors.Is(err, rows.err) {
		t.Fatal(err)
	}
	if m := dir.snap.FindMove("j"); m.State != directory.MoveRunning || m.Waits != rows.err.Error() {
		t.Errorf("%+v", m)
	}
	rows.err = pgerr.New(pgerr.UndefinedTable, "no such table")
	if err := c.Run(t.Context(), "j", "p"); !errors.Is(err, rows.err) {
		t.Fatal(err)
	}
	if m := dir.snap.FindMove("j"); m.State != directory.MoveFailed || !strings.Contains(m.Reason, "no such table") {
		t.Errorf("%+v", m)
	}
}

// finished is a Rows that has nothing to carry, and whose FinishMove fails.
type finished struct {
	Rows
	err error
}

func (f *finished) PrepareMove(context.Context, *directory.Snapshot, directory.Move) (*schema.MoveSizes, error) {
	return &schema.MoveSizes{}, nil
}

func (f *finished) FinishMove(context.Context, *directory.Snapshot, directory.Move) error {
	return f.err
}

// TestFinish: a job whose rows are all carried says what keeps it from its end.
func TestFinish(t *testing.T) {
	dir := &entry{snap: &directory.Snapshot{Moves: []directory.Move{{ID: "j", Proxy: "p", State: directory.MoveRunning}}, Targets: map[string][]uint16{"j": {}}}}
	rows := &finished{err: pgerr.New(pgerr.ConnectionFailure, "shard a is down")}
	c := New(Config{Directory: dir, Rows: rows, Log: slog.New(slog.DiscardHandler)})
	if err := c.Run(t.Context(), "j", "p"); !errors.Is(err, rows.err) {
		t.Fatal(err)
	}
	if m := dir.snap.FindMove("j"); m.State != directory.MoveFinishing || m.Waits != rows.err.Error() {
		t.Errorf("%+v", m)
	}
	rows.err = nil
	if err := c.Run(t.Context(), "j", "p"); err != nil || len(dir.snap.Moves) > 0 {
		t.Errorf("%v, %+v", err, dir.snap.Moves)
	}
}

// TestMaxPause: rounds last as long as the job says, and longer only where a job may stretch them.
func TestMaxPause(t *testing.T) {
	for _, c := range []struct {
		options directory.MoveOptions
		tries   int
		want    time.Duration
	}{
		{directory.MoveOptions{}, 0, DefaultMaxPause},
		{directory.MoveOptions{}, 9, DefaultMaxPause},
		{directory.MoveOptions{MaxPause: time.Second}, 9, time.Second},
		{directory.MoveOptions{Stretch: true}, 1, DefaultMaxPause},
		{directory.MoveOptions{Stretch: true}, 2, 2 * DefaultMaxPause},
		{directory.MoveOptions{Stretch: true}, 5, 4 * DefaultMaxPause},
		{directory.MoveOptions{Stretch: true}, 1000, mostStretched},
		{directory.MoveOptions{MaxPause: time.Minute, Stretch: true}, 1000, time.Minute},
	} {
		if got := maxPause(c.options, c.tries); got != c.want {
			t.Errorf("%+v after %d tries: %s, want %s", c.options, c.tries, got, c.want)
		}
	}
	c := Carrier{failed: map[int]int{3: 1, 5: 4}}
	if n := c.tries([]directory.Pair{{Buckets: []int{1, 3}}, {Buckets: []int{5}}}); n != 4 {
		t.Errorf("%d tries", n)
	}
}

// TestLongestPause: a round says itself how long it may hold statements, or its job does.
func TestLongestPause(t *testing.T) {
	for _, tc := range []struct {
		job, round, want time.Duration
	}{{0, 0, 500 * time.Millisecond}, {time.Second, 0, time.Second}, {time.Second, 4 * time.Second, 4 * time.Second}, {0, 2 * time.Second, 2 * time.Second}} {
		m := &directory.Move{Options: directory.MoveOptions{MaxPause: tc.job}, Round: &directory.Round{Pause: tc.round}}
		if got := LongestPause(m); got != tc.want {
			t.Errorf("job %s, round %s: %s", tc.job, tc.round, got)
		}
	}
	if got := LongestPause(&directory.Move{}); got != 500*time.Millisecond {
		t.Errorf("no round: %s", got)
	}
}
