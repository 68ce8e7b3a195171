package table

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weft/catalog"
	"weft/directory"
)

// world is a proxy p1 beside p2, which is alive, and p3, which is gone.
type world struct {
	*Keeper
	log      bytes.Buffer
	running  []string // jobs that this proxy works on
	guarded  bool
	away     string // the shard that has no primary
	failure  error
	lookedUp map[string][]*catalog.Relation
	did      []string
}

func newWorld() *world {
	w := &world{guarded: true}
	w.Keeper = New(Config{
		Proxy: "p1", Log: slog.New(slog.NewTextHandler(&w.log, nil)), Mover: w,
		Away:     func(shard string) bool { return w.away == shard },
		Alive:    func(_ context.Context, proxy string) bool { return proxy == "p2" },
		LookedUp: func() map[string][]*catalog.Relation { return w.lookedUp },
		Turn: func(databases []string, wants func(string) bool) []string {
			return slices.DeleteFunc(slices.Clone(databases), func(name string) bool { return !wants(name) })
		},
	})
	return w
}

func (w *world) do(what string) error {
	w.did = append(w.did, what)
	return w.failure
}

func (w *world) Running(id string) bool { return slices.Contains(w.running, id) }

func (w *world) Recover(_ context.Context, t directory.Table) error { return w.do("recover " + t.Name) }

func (w *world) SettleIDs(_ context.Context, t directory.Table) error {
	return w.do("settle " + t.Name)
}
func (w *world) Guarded(*directory.Snapshot, string) bool { return w.guarded }
func (w *world) GuardTables(_ context.Context, _ *directory.Snapshot, db string) error {
	return w.do("guard " + db)
}

func (w *world) ResumeLookup(_ context.Context, database string, table catalog.Name, l catalog.Lookup) error {
	return w.do("resume " + database + "." + table.Name + "." + l.Name)
}

// does fails unless Recover does these things.
func (w *world) does(t *testing.T, when string, snap *directory.Snapshot, want ...string) {
	t.Helper()
	w.did = nil
	w.Keeper.Recover(t.Context(), snap)
	slices.Sort(want)
	slices.Sort(w.did)
	if !slices.Equal(w.did, want) {
		t.Errorf("%s: did %q, want %q", when, w.did, want)
	}
}

// moving is a table that a job of a proxy declares.
func moving(name, proxy string) directory.Table {
	return directory.Table{Database: "app", Schema: "public", Name: name, State: directory.Declaring, Job: directory.Job{ID: "job of " + name, Proxy: proxy}}
}

// TestTables: moves of tables are gone on with if their proxy is gone, or is this one and does not work on them.
func TestTables(t *testing.T) {
	w := newWorld()
	snap := &directory.Snapshot{Tables: []directory.Table{
		moving("own", "p1"), moving("running", "p1"), moving("others", "p2"), moving("left", "p3"),
		{Database: "app", Schema: "public", Name: "done", State: directory.Active},
	}}
	w.running = []string{"job of running"}
	w.does(t, "at first", snap, "recover own", "recover left")
	w.failure = errors.New("a shard is down")
	w.does(t, "a failure", snap, "recover own", "recover left")
	if n := strings.Count(w.log.String(), "unfinished move of a table"); n != 2 {
		t.Errorf("the log tells of %d tables: %s", n, &w.log)
	}
}

// TestIDs: limits of ids are settled for tables that are declared.
func TestIDs(t *testing.T) {
	w := newWorld()
	raised := directory.Table{Database: "app", Schema: "public", Name: "orders", State: directory.Active}
	raised.IDs.Raised = true
	beside := moving("items", "p2")
	beside.IDs.Raised = true
	w.failure = errors.New("a shard is down")
	w.does(t, "raised", &directory.Snapshot{Tables: []directory.Table{raised, beside}}, "settle orders")
	if !strings.Contains(w.log.String(), "an old constraint of routed ids") {
		t.Errorf("log: %s", &w.log)
	}
}

// TestLookups: lookups that are not public are gone on with if their proxy is gone, or is this one and does not work on them.
func TestLookups(t *testing.T) {
	w := newWorld()
	w.running = []string{"lookup running"}
	w.lookedUp = map[string][]*catalog.Relation{"app": {{
		Name: catalog.Name{Schema: "public", Name: "orders"},
		Lookups: []catalog.Lookup{
			{Name: "done", Public: true}, {Name: "own", Job: "p1"}, {Name: "running", Job: "p1"}, {Name: "others", Job: "p2"}, {Name: "left", Job: "p3"},
		},
	}}}
	w.failure = errors.New("a shard is down")
	w.does(t, "at first", &directory.Snapshot{}, "resume app.orders.own", "resume app.orders.left")
	if n := strings.Count(w.log.String(), "unfinished lookup"); n != 2 {
		t.Errorf("the log tells of %d lookups: %s", n, &w.log)
	}
}

// TestGuards: guards that are missing are made, after a pause if that fails.
func TestGuards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		snap := &directory.Snapshot{Tables: []directory.Table{{Database: "app", Schema: "public", Name: "orders", State: directory.Active}}}
		w.does(t, "guarded", snap)
		w.guarded, w.failure = false, errors.New("a shard is down")
		w.away = "s"
		snap.Shards = []directory.Shard{{Name: "s"}}
		w.does(t, "a shard has no primary", snap)
		w.away = ""
		w.does(t, "not guarded", snap, "guard app")
		time.Sleep(time.Minute)
		w.does(t, "not guarded yet", snap, "guard app")
		if n := strings.Count(w.log.String(), "are not guarded"); n != 1 {
			t.Errorf("the log tells %d times: %s", n, &w.log)
		}
		w.failure = nil
		w.does(t, "in the pause", snap)
		time.Sleep(time.Minute)
		w.does(t, "after the pause", snap, "guard app")
		w.does(t, "not guarded again", snap, "guard app")
	})
}

// TestEnds: a proxy that ends does not tell of what it could not do.
func TestEnds(t *testing.T) {
	w := newWorld()
	w.guarded, w.failure = false, context.Canceled
	ctx, stop := context.WithCancel(t.Context())
	stop()
	w.Keeper.Recover(ctx, &directory.Snapshot{Tables: []directory.Table{moving("left", "p3")}})
	if len(w.did) != 2 || w.log.Len() > 0 {
		t.Errorf("did %q, log %s", w.did, &w.log)
	}
}
