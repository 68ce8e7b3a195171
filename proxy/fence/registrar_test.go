package fence

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/pool"
	"weft/schema"
)

// world is a proxy with two shards, without PostgreSQL. Tables are declared in database app only.
type world struct {
	*Registrar
	log  bytes.Buffer
	snap *directory.Snapshot

	epoch int64
	live  directory.Live // what the directory says
	down  error          // why no shard can be reached
	open  []*backend     // backends of database app that have not registered
	// enrolled are backends of database app that have registered, and left is how many of them a shard says that its fence keeps out.
	enrolled []*backend
	left     string
	ghosts   []pool.Ghost
	mu       sync.Mutex       // guards what goroutines of the registrar change
	asked    int              // how often a key was asked for
	disown   []string         // databases that were disowned
	ran      []string         // statements of the service user, with the shard
	dialled  int              // connections of the service user that are open
	fenced   []directory.Live // lists that shards were given
	retired  []string         // databases whose idle backends were closed, of those that were asked about
}

type backend struct {
	process pool.Process
	epoch   int64
}

func (b *backend) Process() pool.Process  { return b.process }
func (b *backend) Registered(epoch int64) { b.epoch = epoch }

type conn struct {
	w     *world
	shard string
}

func (c conn) Exec(sql string) ([][]string, error) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.ran = append(c.w.ran, c.shard+": "+sql)
	return [][]string{{c.w.left}}, nil
}

func (c conn) Terminate() {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.dialled--
}

func newWorld() *world {
	w := &world{epoch: 7, left: "0", live: directory.Live{Proxies: []directory.Proxy{{ID: "p1", Epoch: 7}}}}
	w.snap = &directory.Snapshot{
		Home: "a", Shards: []directory.Shard{{Name: "a"}, {Name: "b"}},
		Tables: []directory.Table{{Database: "app", Schema: "public", Name: "orders"}},
		Moves:  []directory.Move{{ID: "m1", Database: "app"}, {ID: "m2", Database: "plain"}},
	}
	w.Registrar = New(w.config())
	return w
}

func (w *world) config() Config {
	return Config{
		Proxy: "p1", Log: slog.New(slog.NewTextHandler(&w.log, nil)),
		Snapshot: func() *directory.Snapshot { return w.snap },
		Epoch:    func() int64 { return w.epoch },
		Renewed:  func(_ context.Context, epoch int64) bool { return w.epoch != epoch },
		Live:     func(context.Context) (directory.Live, error) { return w.live, w.down },
		Own: func(context.Context, string, string) (*schema.Own, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.asked++
			return &schema.Own{Key: "secret"}, w.down
		},
		Disown: func(database string) { w.disown = append(w.disown, database) },
		Fence: func(ctx context.Context, _ string, _ []string, list func(context.Context) (directory.Live, error)) (directory.Live, error) {
			live, err := list(ctx)
			if err == nil {
				w.fenced = append(w.fenced, live)
			}
			return live, err
		},
		Dial: func(_ context.Context, shard, _ string) (Conn, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.dialled++
			return conn{w, shard}, nil
		},
		Unregistered: func(database string) (out []Backend) {
			for _, b := range w.open {
				if database == "app" && b.epoch == 0 {
					out = append(out, b)
				}
			}
			return out
		},
		Outdated: func(database string, epoch int64) (out []Backend) {
			for _, b := range w.enrolled {
				if database == "app" && b.epoch != epoch {
					out = append(out, b)
				}
			}
			return out
		},
		Ghosts: func(shard string) []pool.Ghost {
			return slices.DeleteFunc(slices.Clone(w.ghosts), func(g pool.Ghost) bool { return g.Shard != shard })
		},
		Retire: func(match func(pool.Key) bool) {
			for _, database := range []string{"app", "plain"} {
				if match(pool.Key{Database: database}) {
					w.retired = append(w.retired, database)
				}
			}
		},
		Spawn: func(f func(context.Context)) { go f(context.Background()) },
	}
}

// code returns the SQLSTATE of an error.
func code(err error) string {
	var e *pgerr.Error
	if !errors.As(err, &e) {
		return ""
	}
	return e.Code
}

// TestStatement: a backend registers under the proxy's epoch where tables are declared, and nowhere else.
func TestStatement(t *testing.T) {
	w := newWorld()
	sql, epoch, err := w.Statement(t.Context(), "a", "app", 42)
	if err != nil || epoch != 7 || !strings.Contains(sql, "weft.register('p1', 7, ") {
		t.Errorf("%q under epoch %d, %v", sql, epoch, err)
	}
	other, _, err := w.Statement(t.Context(), "a", "app", 43)
	if err != nil || other == sql {
		t.Errorf("a proof that fits two backends: %q, %v", other, err)
	}
	if w.asked != 1 {
		t.Errorf("the key of a database was asked for %d times", w.asked)
	}
	if sql, _, err := w.Statement(t.Context(), "a", "plain", 42); sql != "" || err != nil {
		t.Errorf("without declared tables: %q, %v", sql, err)
	}
	w.snap = nil
	if sql, _, err := w.Statement(t.Context(), "a", "app", 42); sql != "" || err != nil {
		t.Errorf("without a snapshot: %q, %v", sql, err)
	}
}

// TestNotListed: a proxy without an epoch lets no backend work where rows can move.
func TestNotListed(t *testing.T) {
	w := newWorld()
	w.epoch = 0
	if _, _, err := w.Statement(t.Context(), "a", "app", 42); code(err) != pgerr.CannotConnectNow {
		t.Errorf("not listed: %v", err)
	}
	w.epoch, w.down = 7, errors.New("connection refused")
	if _, _, err := w.Statement(t.Context(), "a", "app", 42); !errors.Is(err, w.down) {
		t.Errorf("no key: %v", err)
	}
	w.down = nil
	if _, _, err := w.Statement(t.Context(), "a", "app", 42); err != nil {
		t.Errorf("a key that could not be had at first: %v", err)
	}
}

// TestAlone: a proxy whose cluster never changes registers nothing.
func TestAlone(t *testing.T) {
	w := newWorld()
	cfg := w.config()
	cfg.Epoch, cfg.Live = nil, nil
	r := New(cfg)
	w.open = []*backend{{process: pool.Process{Shard: "a", PID: 1}}}
	if sql, _, err := r.Statement(t.Context(), "a", "app", 42); sql != "" || err != nil {
		t.Errorf("%q, %v", sql, err)
	}
	r.Renew(w.snap)
	r.Enroll(t.Context(), w.snap)
	if !r.Complete(w.snap, "app") || len(w.ran) > 0 || len(w.retired) > 0 {
		t.Errorf("complete %t, ran %q, retired %q", r.Complete(w.snap, "app"), w.ran, w.retired)
	}
}

// TestFailed: a database that has lost weft's tables, or whose name has another database now, is asked
// for its key again; other errors are the client's.
func TestFailed(t *testing.T) {
	for _, c := range []string{pgerr.InsufficientPrivilege, pgerr.UndefinedFunction, pgerr.UndefinedTable, pgerr.InvalidSchemaName} {
		w := newWorld()
		for range 2 {
			if _, _, err := w.Statement(t.Context(), "a", "app", 42); err != nil {
				t.Fatal(err)
			}
			if err := w.Failed(t.Context(), "a", "app", 7, pgerr.New(c, "no")); err != nil {
				t.Errorf("%s: %v", c, err)
			}
		}
		if w.asked != 2 || !slices.Equal(w.disown, []string{"app", "app"}) {
			t.Errorf("%s: asked %d times, disowned %q", c, w.asked, w.disown)
		}
	}
	w, e := newWorld(), pgerr.New(pgerr.SyntaxError, "no")
	if err := w.Failed(t.Context(), "a", "app", 7, e); err != error(e) || len(w.disown) > 0 {
		t.Errorf("%v, disowned %q", err, w.disown)
	}
}

// TestAppeal: a shard that keeps out a proxy which is alive is told so, once a second at most.
func TestAppeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		time.Sleep(time.Minute)
		out := func(shard string) {
			err := w.Failed(t.Context(), shard, "app", 7, pgerr.New(pgerr.CannotConnectNow, "fenced"))
			if code(err) != pgerr.CannotConnectNow || !strings.Contains(err.Error(), "keeps this proxy out") {
				t.Errorf("the client is told: %v", err)
			}
			synctest.Wait()
		}
		out("a")
		out("a")
		out("b")
		if len(w.fenced) != 2 || !w.fenced[0].Has("p1", 7) {
			t.Errorf("shards were told %v", w.fenced)
		}
		time.Sleep(appealInterval)
		out("a")
		if len(w.fenced) != 3 || w.log.Len() > 0 {
			t.Errorf("a second later: %d times in all, log %s", len(w.fenced), &w.log)
		}
	})
}

// TestRenewed: a backend that was kept out under an old epoch tries again under the new one.
func TestRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		time.Sleep(time.Minute)
		fenced := pgerr.New(pgerr.CannotConnectNow, "fenced")
		if err := w.Failed(t.Context(), "a", "app", 7, fenced); code(err) != pgerr.CannotConnectNow {
			t.Errorf("%v", err)
		}
		synctest.Wait()
		w.epoch = 8
		if err := w.Failed(t.Context(), "a", "app", 7, fenced); err != nil {
			t.Errorf("under a new epoch: %v", err)
		}
		synctest.Wait()
	})
}

// TestAppealOfALostProxy: a proxy that the directory has lost does not ask to be let in.
func TestAppealOfALostProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		time.Sleep(time.Minute)
		w.live.Proxies[0].Epoch = 8
		_ = w.Failed(t.Context(), "a", "app", 7, pgerr.New(pgerr.CannotConnectNow, "fenced"))
		synctest.Wait()
		if len(w.fenced) > 0 || !strings.Contains(w.log.String(), "a shard keeps this proxy out") {
			t.Errorf("fenced %v, log %s", w.fenced, &w.log)
		}
	})
}

// TestRenew: backends are registered under a new epoch, once per shard, where they register at all.
func TestRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		time.Sleep(time.Minute)
		w.enrolled = []*backend{
			{process: pool.Process{Shard: "a", PID: 1}, epoch: 7},
			{process: pool.Process{Shard: "b", PID: 2}, epoch: 7},
			{process: pool.Process{Shard: "a", PID: 3}, epoch: 7},
		}
		renew := func() {
			w.Renew(w.snap)
			synctest.Wait()
			slices.Sort(w.ran)
		}
		renew()
		if len(w.ran) > 0 {
			t.Errorf("under the first epoch: %q", w.ran)
		}
		w.epoch, w.down = 9, errors.New("connection refused")
		renew()
		renew()
		if n := strings.Count(w.log.String(), "could not be registered under a new epoch"); len(w.ran) > 0 || n != 2 {
			t.Errorf("while shards are down: ran %q, log %s", w.ran, &w.log)
		}
		time.Sleep(renewInterval)
		w.down = nil
		renew()
		renew()
		if want := []string{"a: " + schema.ReadmitSQL("p1", 9), "b: " + schema.ReadmitSQL("p1", 9)}; !slices.Equal(w.ran, want) || w.dialled != 0 {
			t.Errorf("ran %q, %d connections left open", w.ran, w.dialled)
		}
		if len(w.retired) > 0 {
			t.Errorf("closed idle backends of %q", w.retired)
		}
		for _, b := range w.enrolled {
			if b.epoch != 9 {
				t.Errorf("process %d is registered under epoch %d", b.process.PID, b.epoch)
			}
		}
	})
}

// TestRenewFenced: idle backends of a database are closed that a fence does not let in.
func TestRenewFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		time.Sleep(time.Minute)
		w.enrolled, w.epoch, w.left = []*backend{{process: pool.Process{Shard: "a", PID: 1}, epoch: 7}}, 9, "1"
		w.Renew(w.snap)
		synctest.Wait()
		if !slices.Equal(w.retired, []string{"app"}) {
			t.Errorf("closed idle backends of %q", w.retired)
		}
		w.Renew(w.snap)
		synctest.Wait()
		if len(w.ran) != 1 {
			t.Errorf("asked again: %q", w.ran)
		}
	})
}

// TestEnroll: backends that were opened before tables were declared are registered, by shard, when there is a job.
func TestEnroll(t *testing.T) {
	w := newWorld()
	w.open = []*backend{
		{process: pool.Process{Shard: "a", PID: 1, Started: 10}},
		{process: pool.Process{Shard: "b", PID: 2, Started: 20}},
		{process: pool.Process{Shard: "a", PID: 3, Started: 30}},
	}
	if w.Complete(w.snap, "app") {
		t.Error("complete with backends that are not registered")
	}
	w.down = errors.New("connection refused")
	w.Enroll(t.Context(), w.snap)
	if len(w.ran) > 0 || !strings.Contains(w.log.String(), "backends could not be registered") {
		t.Errorf("while shards are down: ran %q, log %s", w.ran, &w.log)
	}
	w.down = nil
	w.Enroll(t.Context(), w.snap)
	slices.Sort(w.ran)
	want := []string{"a: " + schema.EnrollSQL("p1", 7, []int32{1, 3}, []int64{10, 30}), "b: " + schema.EnrollSQL("p1", 7, []int32{2}, []int64{20})}
	if !slices.Equal(w.ran, want) || w.dialled != 0 {
		t.Errorf("ran %q, %d connections left open", w.ran, w.dialled)
	}
	if !w.Complete(w.snap, "app") {
		t.Errorf("not complete: %v", w.open)
	}
	w.Enroll(t.Context(), w.snap)
	if len(w.ran) != 2 {
		t.Errorf("registered again: %q", w.ran)
	}
}

// TestGhosts: a database is not complete while one of its backends goes on after its connection was closed.
func TestGhosts(t *testing.T) {
	w := newWorld()
	w.ghosts = []pool.Ghost{{Process: pool.Process{Shard: "b"}, Database: "other"}}
	if !w.Complete(w.snap, "app") {
		t.Error("a ghost of another database counts")
	}
	w.ghosts = append(w.ghosts, pool.Ghost{Process: pool.Process{Shard: "b"}, Database: "app"})
	if w.Complete(w.snap, "app") || !w.Complete(w.snap, "plain") {
		t.Errorf("app %t, plain %t", w.Complete(w.snap, "app"), w.Complete(w.snap, "plain"))
	}
}
