package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/twopc"
)

func joining(id string) directory.Move {
	return directory.Move{
		ID: id, Kind: directory.MoveJoin, Shard: "c", Proxy: "p1", State: directory.MovePreparing,
		Join: &directory.Shard{Name: "c", Hosts: []string{"hc:1"}, Weight: 1}, Options: directory.MoveOptions{Stay: true},
	}
}

func leaving(id string) directory.Move {
	return directory.Move{ID: id, Kind: directory.MoveLeave, Shard: "b", Proxy: "p1", State: directory.MovePreparing}
}

// inOrder reports whether calls has all of want, in their order.
func inOrder(calls []string, want ...string) bool {
	for _, c := range calls {
		if len(want) > 0 && c == want[0] {
			want = want[1:]
		}
	}
	return len(want) == 0
}

// TestJoin: a shard is looked at, equipped and made equal while writes are held, in this order, and
// its job is remembered as done.
func TestJoin(t *testing.T) {
	w := newWorld()
	synctest.Test(t, func(t *testing.T) {
		if err := w.Join(t.Context(), joining("j")); err != nil {
			t.Fatal(err)
		}
		if !inOrder(w.calls, "spread", "check c") {
			t.Errorf("calls %q", w.calls)
		}
		if err := w.Join(t.Context(), joining("k")); pgerr.From(err).Code != pgerr.ObjectInUse {
			t.Errorf("a second join: %v", err)
		}
		w.start(t.Context(), w.now().FindMove("j"))
		w.wg.Wait()
	})
	if !inOrder(w.calls, "cleared", "check c", "equip c", "fence db", "cleared", "match c", "spread", "release", "joined c") {
		t.Errorf("calls %q", w.calls)
	}
	if !slices.Equal(w.points, []string{"join-checked", "join-equipped", "join-held", "join-matched", "join-entered"}) {
		t.Errorf("points %q", w.points)
	}
	if _, there := w.snap.Shard("c"); !there || len(w.snap.Moves) > 0 || w.snap.FindPast("j").State != directory.MoveDone {
		t.Errorf("%+v", w.snap)
	}
}

// TestJoinOfABadServer: the job of a server that cannot join is over at once.
func TestJoinOfABadServer(t *testing.T) {
	w := newWorld()
	bad := pgerr.New(pgerr.ObjectNotInPrerequisiteState, "the server has tables")
	w.fails["check"] = []error{bad}
	if err := w.Join(t.Context(), joining("j")); !errors.Is(err, bad) {
		t.Errorf("%v", err)
	}
	if len(w.snap.Moves) > 0 || w.snap.FindPast("j").State != directory.MoveCancelled || len(w.running) > 0 {
		t.Errorf("%+v", w.snap)
	}
}

// TestJoinLater: errors that pass let a shard join later, others end its job.
func TestJoinLater(t *testing.T) {
	for name, tc := range map[string]struct {
		call   string
		err    error
		failed bool
	}{
		"transactions are open":     {"cleared", context.DeadlineExceeded, false},
		"a table is locked":         {"equip", pgerr.New(pgerr.LockNotAvailable, "locked"), false},
		"a table was just dropped":  {"match", pgerr.New(pgerr.UndefinedTable, "gone"), false},
		"a shard cannot be fenced":  {"fence", errors.New("away"), false},
		"the server has other data": {"check", pgerr.New(pgerr.ObjectNotInPrerequisiteState, "other data"), true},
		"the server is away":        {"check", pgerr.New(pgerr.ConnectionFailure, "away"), false},
		"the server goes down":      {"equip", fmt.Errorf("database db: %w", pgerr.New(pgerr.AdminShutdown, "going down")), false},
		"the directory is away":     {"match", directory.ErrUnavailable, false},
		"a proxy is not told":       {"spread", directory.ErrUnavailable, false},
		"the server has no room":    {"equip", pgerr.New("53100", "disk full"), true},
	} {
		w := newWorld(joining("j"))
		w.fails[tc.call] = []error{tc.err}
		synctest.Test(t, func(t *testing.T) {
			err := w.join(t.Context(), "j")
			if _, there := w.snap.Shard("c"); there == tc.failed || (err != nil) != tc.failed {
				t.Errorf("%s: joined %v, %v", name, there, err)
			}
		})
		if m := w.snap.FindMove("j"); tc.failed && (m.State != directory.MoveFailed || m.Reason != tc.err.Error()) {
			t.Errorf("%s: %+v", name, m)
		}
		if waited := slices.Contains(w.waited, tc.err.Error()); waited == tc.failed && tc.call != "cleared" {
			t.Errorf("%s: the job said that it waits for %q", name, w.waited)
		}
		if later := strings.Contains(w.log.String(), "a shard joins later"); later == tc.failed {
			t.Errorf("%s: log %s", name, &w.log)
		}
	}
}

// TestJoinUnderAnOldName: a shard joins when no decision names the shard that had its name before.
func TestJoinUnderAnOldName(t *testing.T) {
	w := newWorld(joining("j"))
	key := twopc.Name{Cluster: "c", Incarnation: "p1", Nonce: "0a", Decider: "a"}.Key()
	w.rows["decisions"] = [][]string{{"t"}, {key, "b@1/1 c@2/1", "5000"}, {"t"}, {key, "b@1/1", "5000"}}
	synctest.Test(t, func(t *testing.T) {
		if err := w.join(t.Context(), "j"); err != nil {
			t.Error(err)
		}
	})
	if _, there := w.snap.Shard("c"); !there || !strings.Contains(strings.Join(w.waited, "; "), "names an earlier shard c") {
		t.Errorf("joined %v, waited for %q", there, w.waited)
	}
}

// TestJoinGivesWay: a shard does not join by schemas that have changed, by a round that was lifted, or
// among proxies that the shards do not know.
func TestJoinGivesWay(t *testing.T) {
	for name, happens := range map[string]func(w *world){
		"a schema has been changed meanwhile": func(w *world) {
			w.change(func(next *directory.Snapshot) { next.Schemas = map[string]int64{"db": 7} })
		},
		"the hold has been lifted": func(w *world) {
			w.change(func(next *directory.Snapshot) { next.FindMove("j").Round = nil })
		},
		"a proxy has come or gone": func(w *world) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.live.Newest++
		},
	} {
		w := newWorld(joining("j"))
		once := false
		stop := w.cfg.StopAt
		w.cfg.StopAt = func(p twopc.Point) {
			if stop(p); p == "join-held" && !once {
				once = true
				happens(w)
			}
		}
		synctest.Test(t, func(t *testing.T) {
			if err := w.join(t.Context(), "j"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		if n := w.count("equip c"); n != 2 || !strings.Contains(w.log.String(), name) {
			t.Errorf("%s: equipped %d times, log %s", name, n, &w.log)
		}
		if m := w.snap.Holding(); m != nil {
			t.Errorf("%s: statements are held by %+v", name, m)
		}
	}
}

// TestJoinedWaits: the job of a shard that has joined is over when the jobs are that bring buckets, and
// fails with them.
func TestJoinedWaits(t *testing.T) {
	for _, failed := range []bool{false, true} {
		brings := carries("brings", "p1", directory.MoveRunning)
		brings.Shard = "b"
		m := joining("j")
		m.Shard, m.State = "b", directory.MoveRunning
		w := newWorld(brings, m)
		synctest.Test(t, func(t *testing.T) {
			go func() {
				time.Sleep(time.Minute)
				w.change(func(next *directory.Snapshot) {
					if failed {
						next.FindMove("brings").State, next.FindMove("brings").Reason = directory.MoveFailed, "no room"
					} else {
						next.EndMove("brings")
					}
				})
			}()
			began := time.Now()
			if err := w.join(t.Context(), "j"); (err != nil) != failed || time.Since(began) < time.Minute {
				t.Errorf("%v after %s", err, time.Since(began))
			}
		})
		if m := w.snap.FindMove("j"); failed != (m != nil && m.State == directory.MoveFailed && strings.Contains(m.Reason, "no room")) {
			t.Errorf("%+v", m)
		}
	}
}

// TestLeave: a shard leaves while all statements are held, if no transaction needs it.
func TestLeave(t *testing.T) {
	w := newWorld()
	w.rows["decisions"] = [][]string{{"3"}, {"0"}} // confirmed a moment later
	synctest.Test(t, func(t *testing.T) {
		if err := w.Leave(t.Context(), leaving("j")); err != nil {
			t.Fatal(err)
		}
	})
	if _, there := w.snap.Shard("b"); there || w.snap.FindPast("j").State != directory.MoveDone {
		t.Errorf("%+v", w.snap)
	}
	if !inOrder(w.calls, "spread", "install b/db", "dial b/db", "dial b/db", "fence db", "cleared", "dial a/postgres", "dial b/postgres", "spread") {
		t.Errorf("calls %q", w.calls)
	}
	if !slices.Equal(w.points, []string{"leave-held", "leave-entered"}) {
		t.Errorf("points %q", w.points)
	}
}

// TestMayNotLeave: a shard that something needs stays, and statements go on.
func TestMayNotLeave(t *testing.T) {
	gid := func(decider string) [][]string {
		return [][]string{{"of another program"}, {twopc.Name{Cluster: "c", Incarnation: "p1", Nonce: "0a", Decider: decider, Participant: "a"}.String()}}
	}
	for name, tc := range map[string]struct {
		make  func(w *world)
		code  string
		tries int
	}{
		"decisions":           {func(w *world) { w.rows["decisions"] = slices.Repeat([][]string{{"3"}}, 1000) }, pgerr.ObjectInUse, 0},
		"it decides":          {func(w *world) { w.rows["a"] = gid("b") }, pgerr.ObjectInUse, leaveAttempts},
		"prepared there":      {func(w *world) { w.rows["b"] = gid("a") }, pgerr.ObjectInUse, leaveAttempts},
		"open transactions":   {func(w *world) { w.fails["cleared"] = slices.Repeat([]error{context.DeadlineExceeded}, 9) }, pgerr.ObjectInUse, leaveAttempts},
		"buckets":             {func(w *world) { w.snap.Placement = []uint16{0, 1, 0, 0} }, pgerr.ObjectNotInPrerequisiteState, 0},
		"another job":         {func(w *world) { w.snap.Moves = []directory.Move{joining("other")} }, pgerr.ObjectInUse, 0},
		"a proxy is not told": {func(w *world) { w.fails["spread"] = []error{pgerr.New("XX000", "silent")} }, "XX000", 0},
	} {
		w := newWorld()
		tc.make(w)
		synctest.Test(t, func(t *testing.T) {
			if err := w.Leave(t.Context(), leaving("j")); err == nil || pgerr.From(err).Code != tc.code {
				t.Errorf("%s: %v", name, err)
			}
		})
		if _, there := w.snap.Shard("b"); !there || w.snap.Holding() != nil || w.snap.FindMove("j") != nil || len(w.running) > 0 {
			t.Errorf("%s: %+v", name, w.snap)
		}
		if n := w.count("fence db"); n != tc.tries {
			t.Errorf("%s: tried %d times", name, n)
		}
	}
}

// TestRetire: a shard that is being drained leaves when its buckets have gone, however long that
// takes, and stays if it is not being drained any more.
func TestRetire(t *testing.T) {
	for _, kept := range []bool{false, true} {
		m := leaving("j")
		m.Drain = true
		w := newWorld(m)
		w.snap.Placement = []uint16{0, 1, 0, 0}
		w.snap.Shards[1].State = directory.ShardDraining
		synctest.Test(t, func(t *testing.T) {
			go func() {
				time.Sleep(time.Minute)
				w.change(func(next *directory.Snapshot) {
					i := slices.IndexFunc(next.Moves, func(m directory.Move) bool { return m.Kind == directory.MoveDrain })
					next.SetPlacement("db", "", []uint16{0, 0, 0, 0})
					next.Placement = []uint16{0, 0, 0, 0}
					next.EndMove(next.Moves[i].ID)
					if kept {
						next.Shards[1].State = directory.ShardActive
					}
				})
			}()
			if err := w.retire(t.Context(), "j"); (err != nil) != kept {
				t.Errorf("kept %v: %v", kept, err)
			}
		})
		if _, there := w.snap.Shard("b"); there != kept {
			t.Errorf("kept %v: %+v, log %s", kept, w.snap, &w.log)
		}
		if m := w.snap.FindMove("j"); kept && (m.State != directory.MoveFailed || !strings.Contains(m.Reason, "not being drained any more")) {
			t.Errorf("%+v", m)
		}
	}
}

// TestRetireLater: a shard that cannot leave because a server or the directory is away leaves later, and its job says
// what it waits for.
func TestRetireLater(t *testing.T) {
	for name, tc := range map[string]struct {
		call string
		err  error
	}{
		"a shard is away":       {"dial", pgerr.New(pgerr.ConnectionFailure, "away")},
		"the shard goes down":   {"install", pgerr.New(pgerr.AdminShutdown, "going down")},
		"the directory is away": {"update", directory.ErrUnavailable},
	} {
		m := leaving("j")
		m.Drain = true
		w := newWorld(m)
		w.snap.Shards[1].State = directory.ShardDraining
		w.fails[tc.call] = []error{tc.err}
		synctest.Test(t, func(t *testing.T) {
			if err := w.retire(t.Context(), "j"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		if _, there := w.snap.Shard("b"); there || !slices.Contains(w.waited, tc.err.Error()) {
			t.Errorf("%s: there %v, the job said that it waits for %q", name, there, w.waited)
		}
	}
}
