package own

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weft/directory"
	"weft/schema"
)

// world is the databases of a cluster, as far as Tables see them.
type world struct {
	*Tables
	log      bytes.Buffer
	prepared int              // what the servers have as max_prepared_transactions
	down     map[string]error // by database
	hangs    bool
	made     map[place]int // how often tables were installed
	unable   []string      // shards that cannot prepare
}

func newWorld() *world {
	w := &world{prepared: 10, down: map[string]error{}, made: map[place]int{}}
	w.Tables = New(Config{
		Log: slog.New(slog.NewTextHandler(&w.log, nil)),
		Install: func(ctx context.Context, shard, database string) (*schema.Own, error) {
			if w.hangs {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			if err := w.down[database]; err != nil {
				return nil, err
			}
			w.made[place{shard, database}]++
			return &schema.Own{Key: "secret", MaxPrepared: w.prepared}, nil
		},
		Unable: func(shard string) { w.unable = append(w.unable, shard) },
		Turn: func(databases []string, wants func(string) bool) []string {
			return slices.DeleteFunc(slices.Clone(databases), func(name string) bool { return !wants(name) })
		},
	})
	return w
}

// ensure fails if tables cannot be had.
func (w *world) ensure(t *testing.T, shard, database string) {
	t.Helper()
	if own, err := w.Ensure(t.Context(), shard, database); err != nil || own.Key != "secret" {
		t.Errorf("%s/%s: %v, %v", shard, database, own, err)
	}
}

// has fails unless tables were installed so often in database app of shards a and b, and in other of shard a.
func (w *world) has(t *testing.T, when string, aApp, bApp, aOther int) {
	t.Helper()
	want := map[place]int{{"a", "app"}: aApp, {"b", "app"}: bApp, {"a", "other"}: aOther}
	maps.DeleteFunc(want, func(_ place, n int) bool { return n == 0 })
	if !maps.Equal(w.made, want) {
		t.Errorf("%s: installed %v, want %v", when, w.made, want)
	}
}

// TestEnsure: tables are installed once in each database of a shard, and again after it was forgotten.
func TestEnsure(t *testing.T) {
	w := newWorld()
	for range 2 {
		w.ensure(t, "a", "app")
		w.ensure(t, "b", "app")
		w.ensure(t, "a", "other")
	}
	w.has(t, "once", 1, 1, 1)
	w.Forget("app")
	w.ensure(t, "a", "app")
	w.ensure(t, "b", "app")
	w.ensure(t, "a", "other")
	w.has(t, "app is forgotten", 2, 2, 1)
	w.ForgetAll()
	w.ensure(t, "a", "app")
	w.ensure(t, "a", "other")
	w.has(t, "all are forgotten", 3, 2, 2)
}

// TestFailed: what could not be installed is tried again at the next call; a shard that does not answer is left in time.
func TestFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.down["app"] = errors.New("permission denied")
		if _, err := w.Ensure(t.Context(), "a", "app"); !errors.Is(err, w.down["app"]) {
			t.Error(err)
		}
		delete(w.down, "app")
		w.hangs = true
		began := time.Now()
		if _, err := w.Ensure(t.Context(), "a", "app"); err == nil || time.Since(began) != installTimeout {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		w.hangs = false
		w.ensure(t, "a", "app")
		w.has(t, "at last", 1, 0, 0)
	})
}

// TestUnable: a server that prepares no transactions is told of, and asked again each time.
func TestUnable(t *testing.T) {
	w := newWorld()
	w.prepared = 0
	w.ensure(t, "a", "app")
	w.prepared = 10
	w.ensure(t, "a", "app")
	w.ensure(t, "a", "app")
	w.has(t, "restarted with more", 2, 0, 0)
	if !slices.Equal(w.unable, []string{"a"}) {
		t.Errorf("unable: %q", w.unable)
	}
}

// TestRefresh: each database of a shard is brought up to date once, and after a pause if that fails.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.prepared = 0 // nothing is remembered for sessions
		snap := &directory.Snapshot{Tables: []directory.Table{{Database: "app", Name: "orders"}, {Database: "other", Name: "notes"}}}
		w.down["other"] = errors.New("permission denied")
		w.Refresh(t.Context(), snap, "a")
		w.Refresh(t.Context(), snap, "a")
		w.has(t, "other fails", 1, 0, 0)
		if n := strings.Count(w.log.String(), "could not be brought up to date"); n != 1 {
			t.Errorf("the log tells of a failure %d times", n)
		}
		delete(w.down, "other")
		w.Refresh(t.Context(), snap, "a")
		w.has(t, "in the pause", 1, 0, 0)
		time.Sleep(time.Minute)
		w.Refresh(t.Context(), snap, "a")
		w.Refresh(t.Context(), snap, "b")
		w.ForgetAll()
		delete(w.made, place{"b", "other"})
		w.has(t, "after the pause", 1, 1, 1)
		w.Refresh(t.Context(), snap, "a")
		w.has(t, "databases have come or gone", 2, 1, 2)
	})
}
