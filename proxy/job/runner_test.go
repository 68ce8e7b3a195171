package job

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/reshard/carrier"
	"weft/schema"
)

func carries(id, proxy string, state directory.MoveState) directory.Move {
	return directory.Move{ID: id, Database: "db", Kind: directory.MoveBuckets, Proxy: proxy, State: state}
}

// TestWhichJobsBegin: a proxy runs its own jobs and those of the dead, none that is paused or has
// failed, and one change of the shards at a time.
func TestWhichJobsBegin(t *testing.T) {
	declaring := carries("declares", "p1", directory.MovePreparing)
	declaring.Group = "g"
	w := newWorld(
		carries("own", "p1", directory.MoveRunning),
		carries("paused", "p1", directory.MovePaused),
		carries("failed", "p1", directory.MoveFailed),
		carries("of the dead", "p2", directory.MoveRunning),
		carries("of the living", "p3", directory.MoveRunning),
		carries("paused of the dead", "p2", directory.MovePaused),
		declaring,
	)
	w.dead = []string{"p2"}
	w.snap.Tables = append(w.snap.Tables, directory.Table{Database: "db", Schema: "public", Name: "new", Group: "g", Kind: directory.Sharded, State: directory.Declaring})
	runs(t, w, func() {
		time.Sleep(interval)
		synctest.Wait()
	})
	for id, want := range map[string]int{"own": 1, "paused": 0, "failed": 0, "of the dead": 1, "of the living": 0, "paused of the dead": 0, "declares": 0} {
		if got := w.count("carry " + id); got != want {
			t.Errorf("job %q was begun %d times, want %d", id, got, want)
		}
	}
	if !slices.Equal(w.points, []string{"move-adopted"}) {
		t.Errorf("points %q", w.points)
	}
	for id, want := range map[string]string{"of the dead": "p1", "of the living": "p3", "paused of the dead": "p2"} {
		if got := w.snap.FindMove(id).Proxy; got != want {
			t.Errorf("job %q is of proxy %s, want %s", id, got, want)
		}
	}
	if w.calls[0] != "enroll" {
		t.Errorf("calls begin with %q", w.calls[0])
	}
}

// TestAdoptOnce: a job that another proxy has adopted meanwhile, or that is over, is left alone.
func TestAdoptOnce(t *testing.T) {
	stale := carries("j", "p2", directory.MoveRunning)
	for name, now := range map[string][]directory.Move{
		"adopted": {carries("j", "p3", directory.MoveRunning)},
		"over":    nil,
	} {
		w := newWorld(now...)
		w.dead = []string{"p2"}
		if w.adopt(context.Background(), &stale) {
			t.Errorf("%s: adopted again", name)
		}
		if m := w.snap.FindMove("j"); m != nil && m.Proxy != "p3" {
			t.Errorf("%s: the job is of proxy %s", name, m.Proxy)
		}
	}
	w := newWorld(stale)
	w.dead, w.unknown = []string{"p2"}, errors.New("no etcd")
	if w.adopt(context.Background(), &stale) {
		t.Error("adopted without the directory")
	}
}

// TestOneAtATime: shards join and leave in the order of their jobs.
func TestOneAtATime(t *testing.T) {
	w := newWorld(
		directory.Move{ID: "first", Kind: directory.MoveLeave, Shard: "b", Proxy: "p3", State: directory.MovePreparing},
		directory.Move{ID: "second", Kind: directory.MoveLeave, Shard: "b", Proxy: "p1", State: directory.MovePreparing},
	)
	runs(t, w, func() {
		time.Sleep(2 * interval)
		synctest.Wait()
		if w.now().FindMove("second") == nil {
			t.Error("the second job ran before the first was over")
		}
		w.change(func(next *directory.Snapshot) { next.EndMove("first") })
		time.Sleep(2 * interval)
		synctest.Wait()
		// A shard whose removal was begun by a process that is gone stays.
		if p := w.now().FindPast("second"); p == nil || p.State != directory.MoveCancelled {
			t.Errorf("the second job became %+v", p)
		}
	})
}

// TestBegunAgain: a job that stops with an error is begun again after a moment, one that was paused
// is not complained about, and no job runs twice at once.
func TestBegunAgain(t *testing.T) {
	w := newWorld(carries("j", "p1", directory.MoveRunning))
	w.carrying = func(context.Context, string) error {
		time.Sleep(3 * interval)
		return errors.New("shard b does not answer")
	}
	runs(t, w, func() {
		time.Sleep(interval + 3*interval + again/2)
		synctest.Wait()
		if n := w.count("carry j"); n != 1 {
			t.Errorf("begun %d times before the pause was over", n)
		}
		if text := w.log.String(); strings.Count(text, "a move of rows has stopped") != 1 || !strings.Contains(text, "shard b does not answer") {
			t.Errorf("log: %s", text)
		}
		time.Sleep(again)
		synctest.Wait()
		if n := w.count("carry j"); n != 2 {
			t.Errorf("begun %d times", n)
		}
	})
	w = newWorld(carries("j", "p1", directory.MoveRunning))
	w.carrying = func(context.Context, string) error { return carrier.ErrPaused }
	runs(t, w, func() { time.Sleep(2 * interval) })
	if w.log.Len() > 0 {
		t.Errorf("log: %s", &w.log)
	}
}

// TestLateRounds: a round is ended when it has stood for max_pause and the grace, and not again
// before as long has passed.
func TestLateRounds(t *testing.T) {
	m := carries("j", "p3", directory.MoveRunning)
	m.Options.MaxPause, m.Round = 2*time.Second, &directory.Round{Key: "k"}
	hold := directory.Move{ID: "h", Kind: directory.MoveJoin, Shard: "c", Proxy: "p3", State: directory.MovePreparing, Round: &directory.Round{Key: "hold", Pause: 9 * time.Second}}
	w := newWorld(m, hold)
	w.fails["settle"] = []error{errors.New("the deciding shard is away")}
	runs(t, w, func() {
		for _, step := range []struct {
			after   time.Duration
			settled int
			held    bool
		}{{2900 * time.Millisecond, 0, true}, {600 * time.Millisecond, 1, true}, {2400 * time.Millisecond, 1, true}, {time.Second, 2, true}, {4 * time.Second, 3, false}} {
			time.Sleep(step.after)
			synctest.Wait()
			if n := w.count("settle k"); n != step.settled {
				t.Errorf("settled %d times, want %d", n, step.settled)
			}
			if held := w.now().Holding() != nil; held != step.held {
				t.Errorf("the hold stands: %v", held)
			}
		}
	})
	if text := w.log.String(); strings.Count(text, "a round of a move cannot be ended") != 1 {
		t.Errorf("log: %s", text)
	}
}

// TestRoundsByKey: the next round of a job has its own time.
func TestRoundsByKey(t *testing.T) {
	m := carries("j", "p3", directory.MoveRunning)
	at := func(key string) *directory.Snapshot {
		m := m
		if key != "" {
			m.Round = &directory.Round{Key: key}
		}
		return &directory.Snapshot{Moves: []directory.Move{m}}
	}
	w, now := newWorld(), time.Now()
	long := carrier.DefaultMaxPause + grace
	for i, step := range []struct {
		key   string
		after time.Duration
		late  int
	}{{"1", 0, 0}, {"1", long - 1, 0}, {"2", 2, 0}, {"2", long, 1}, {"2", 1, 0}, {"", 1, 0}, {"2", long, 0}, {"2", long, 1}} {
		now = now.Add(step.after)
		if got := len(w.late(at(step.key), now)); got != step.late {
			t.Errorf("step %d: %d late rounds, want %d", i, got, step.late)
		}
	}
}

// TestPauseAndResume: Pause waits for rounds, and changes neither jobs that have failed nor jobs that
// change the set of shards.
func TestPauseAndResume(t *testing.T) {
	busy := carries("busy", "p3", directory.MoveRunning)
	busy.Round = &directory.Round{Key: "k"}
	join := directory.Move{ID: "join", Kind: directory.MoveJoin, Shard: "c", State: directory.MovePreparing}
	w := newWorld(busy, carries("failed", "p1", directory.MoveFailed), join)
	all := func(*directory.Move) bool { return true }
	synctest.Test(t, func(t *testing.T) {
		go func() {
			time.Sleep(time.Second)
			w.change(func(next *directory.Snapshot) { next.FindMove("busy").Round = nil })
		}()
		began := time.Now()
		ids, err := w.Pause(t.Context(), "for a test", all)
		if err != nil || !slices.Equal(ids, []string{"busy", "failed"}) || time.Since(began) < time.Second {
			t.Errorf("%q %v after %s", ids, err, time.Since(began))
		}
	})
	for id, want := range map[string]directory.MoveState{"busy": directory.MovePaused, "failed": directory.MoveFailed, "join": directory.MovePreparing} {
		if got := w.snap.FindMove(id).State; got != want {
			t.Errorf("%s is %s", id, got)
		}
	}
	if m := w.snap.FindMove("busy"); m.Reason != "for a test" {
		t.Errorf("reason %q", m.Reason)
	}
	ids, err := w.Resume(t.Context(), all)
	if err != nil || !slices.Equal(ids, []string{"busy", "failed"}) || w.snap.FindMove("busy").State != directory.MovePreparing {
		t.Errorf("resumed %q %v", ids, err)
	}
	version := w.snap.Version
	if ids, err := w.Resume(t.Context(), all); len(ids) > 0 || err != nil || w.snap.Version != version {
		t.Errorf("resumed again %q %v", ids, err)
	}
	if w.calls[len(w.calls)-1] != "reach "+pgerr.New("", "%d", version).Message {
		t.Errorf("this proxy has not heard of version %d: %q", version, w.calls)
	}
}

// TestNoDirectory: a proxy whose cluster never changes has no jobs.
func TestNoDirectory(t *testing.T) {
	r := New(Config{})
	r.Run(t.Context())
	r.WatchRounds(t.Context())
	if ids, err := r.Pause(t.Context(), "", nil); ids != nil || err != nil {
		t.Error(ids, err)
	}
	if ids, err := r.Resume(t.Context(), nil); ids != nil || err != nil {
		t.Error(ids, err)
	}
}

// TestHistory: rounds are written at most once a second, at the end of a run, and before their job
// is over; what cannot be written is kept.
func TestHistory(t *testing.T) {
	w := newWorld(carries("j", "p1", directory.MoveRunning))
	w.fails["note"] = []error{errors.New("home is away")}
	synctest.Test(t, func(t *testing.T) {
		cfg := w.carrier(t.Context())
		round := func(outcome string, writes time.Duration) {
			cfg.Observe(carrier.Report{
				Job: "j", Pairs: []directory.Pair{{From: "a", To: "b", Buckets: []int{1, 2}}}, Outcome: outcome, Rows: 10, Bytes: 100, Writes: writes,
			})
		}
		round(schema.Carried, time.Millisecond) // fails
		round("max_pause is over", time.Millisecond)
		if len(w.rounds) != 0 || !strings.Contains(w.log.String(), "rounds of a move are not noted") {
			t.Errorf("%q, log: %s", w.rounds, &w.log)
		}
		time.Sleep(saveEvery + 1)
		round("", time.Millisecond)
		want := []string{"a/db a -> b: 1-2 " + schema.Carried, "a/db a -> b: 1-2 max_pause is over", "a/db a -> b: 1-2 not known here"}
		if !slices.Equal(w.rounds, want) {
			t.Errorf("%q", w.rounds)
		}
		round("last", time.Millisecond)
		if err := cfg.Rows.FinishMove(t.Context(), w.snap, w.snap.Moves[0]); err != nil || len(w.rounds) != 4 || w.calls[len(w.calls)-1] != "finish j" {
			t.Errorf("%v %q %q", err, w.rounds, w.calls)
		}
		w.history.flush(t.Context(), "j")
		if len(w.history.saved)+len(w.history.unsaved) != 0 {
			t.Errorf("kept: %v %v", w.history.saved, w.history.unsaved)
		}
	})
	c := w.Counts()
	if c.Rows != 40 || c.Bytes != 400 || c.Outcomes["carried"] != 1 || c.Outcomes["gave_way"] != 3 || c.Writes.Read().Count != 4 || c.Reads.Read().Count != 0 {
		t.Errorf("%+v", c)
	}
}

// TestUnsavedIsBounded: a home shard that is away for long costs no memory without bound.
func TestUnsavedIsBounded(t *testing.T) {
	w := newWorld(carries("j", "p1", directory.MoveRunning))
	w.history.saved["j"] = time.Now().Add(time.Hour)
	for range maxUnsaved + 10 {
		w.history.note(t.Context(), &carrier.Report{Job: "j"})
	}
	if n := len(w.history.unsaved["j"]); n != maxUnsaved {
		t.Errorf("%d rounds are kept", n)
	}
}

// TestDeclareThen: the tables of a job that follows another one are declared before rows move, as soon as that can be
// done.
func TestDeclareThen(t *testing.T) {
	for name, tc := range map[string]struct {
		err   error
		state directory.MoveState
		reads string
	}{
		"done":            {nil, directory.MovePreparing, ""},
		"a shard is away": {pgerr.New(pgerr.ConnectionFailure, "away"), directory.MovePreparing, "away"},
		"bad rows":        {pgerr.New("23502", "nulls"), directory.MoveFailed, "nulls"},
	} {
		m := carries("j", "p1", directory.MovePreparing)
		m.Kind, m.Then = directory.MoveDeclare, &directory.Then{Job: "j"}
		w := newWorld(m)
		w.fails["declare"] = []error{tc.err}
		w.start(t.Context(), w.now().FindMove("j"))
		w.wg.Wait()
		if now := w.snap.FindMove("j"); now.State != tc.state || !strings.Contains(now.Waits+now.Reason, tc.reads) || w.count("declare j") != 1 || w.count("carry j") != 0 {
			t.Errorf("%s: %+v, calls %q", name, now, w.calls)
		}
	}
}
