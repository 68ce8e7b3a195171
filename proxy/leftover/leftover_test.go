package leftover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/twopc"
)

// world is proxy p1 with shards a, where commits are decided, and b, without PostgreSQL.
type world struct {
	*Keeper
	snap      *directory.Snapshot
	proxies   []directory.Proxy
	unknown   error // why the directory does not answer
	hung      string
	away      string // a shard without a primary
	published []string
	refuse    error // why nothing can be published

	mu        sync.Mutex
	log       bytes.Buffer
	prepared  [][]string        // gid and age in ms of prepared transactions on b
	decided   map[string]string // by key: "t" or "f"; no entry means that the decision is open
	decisions [][]string        // rows of weft.decision on a
	// participants is what the decision of a transaction in doubt has, as a row.
	participants [][]string
	closed       map[string]error    // databases that let nobody in, by shard and name
	cannot       bool                // shards prepare no transactions
	said         map[string][]string // statements by shard and database
	open         int                 // connections
	points       []twopc.Point
	calls        []string // of package proxy's work
}

func newWorld() *world {
	w := &world{decided: map[string]string{}, closed: map[string]error{}, said: map[string][]string{}}
	w.snap = &directory.Snapshot{Cluster: "c", Home: "a", Shards: []directory.Shard{{Name: "a"}, {Name: "b"}}, Tables: []directory.Table{{Database: "db"}, {Database: "other"}}}
	w.proxies = []directory.Proxy{{ID: "p1"}, {ID: "p2"}}
	w.Keeper = New(Config{
		Proxy: "p1", Log: slog.New(slog.NewTextHandler(&w.log, nil)), Directory: w,
		Snapshot: func() *directory.Snapshot { return w.snap }, Dial: w.dial,
		StopAt: func(p twopc.Point) {
			w.mu.Lock()
			w.points = append(w.points, p)
			w.mu.Unlock()
		},
		Guarded: func(_ string, f func()) func() { return f },
		Away:    func(shard string) bool { return shard == w.away },
		Hung:    func(proxy string) bool { return proxy == w.hung },
		Publish: func(_ context.Context, p directory.Pending, o twopc.Outcome, late bool) error {
			w.published = append(w.published, fmt.Sprint(p.Database, " ", o, " ", late))
			return w.refuse
		},
		Follow:    func(before, _ *directory.Snapshot) { w.called("follow", before != nil) },
		CloseIdle: func(time.Time) { w.called("close idle") },
		Guard:     func(_ context.Context, shard string, in []string) { w.called("guard", shard, in) },
		Refresh:   func(_ context.Context, _ *directory.Snapshot, shard string) { w.called("refresh", shard) },
	})
	return w
}

func (w *world) called(what ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, strings.TrimSpace(fmt.Sprintln(what...)))
}

func (w *world) Load(context.Context) (*directory.Snapshot, error) { return w.snap, w.unknown }

func (w *world) Proxies(context.Context) ([]directory.Proxy, error) { return w.proxies, w.unknown }

func (w *world) dial(_ context.Context, shard, database string) (twopc.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.closed[shard+"/"+database]; err != nil {
		return nil, err
	}
	w.open++
	return conn{w, shard, shard + "/" + database}, nil
}

// conn is a connection to a shard of a world.
type conn struct {
	w         *world
	shard, at string
}

func (c conn) Interrupt() {}

func (c conn) Terminate() {
	c.w.mu.Lock()
	c.w.open--
	c.w.mu.Unlock()
}

func (c conn) Exec(sql string) ([][]string, error) {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case strings.HasPrefix(sql, "SHOW"):
		if w.cannot {
			return [][]string{{"0"}}, nil
		}
		return [][]string{{"10"}}, nil
	case strings.Contains(sql, "FROM pg_catalog.pg_prepared_xacts") && strings.HasPrefix(sql, "SELECT gid, database"):
		var rows [][]string
		for _, p := range w.prepared {
			if c.shard == "b" {
				rows = append(rows, []string{p[0], "db", "me", p[1]})
			}
		}
		return rows, nil
	case strings.Contains(sql, "pg_backend_pid"):
		return [][]string{{"1"}}, nil
	case strings.Contains(sql, "to_regclass"):
		return [][]string{{"t"}}, nil
	case sql == "SELECT weft.server()":
		return [][]string{{"1/" + c.shard}}, nil
	case strings.HasPrefix(sql, "SELECT d.gid FROM"):
		var rows [][]string
		for key, o := range w.decided {
			if o == "t" && strings.Contains(sql, "'"+key+"'") {
				rows = append(rows, []string{key})
			}
		}
		return rows, nil
	case strings.HasPrefix(sql, "SELECT d.participants"):
		return w.participants, nil
	case strings.HasPrefix(sql, "UPDATE weft.decision"):
		w.said[c.at] = append(w.said[c.at], sql)
	case strings.HasPrefix(sql, "SELECT d.gid"):
		w.said[c.at] = append(w.said[c.at], "sweep")
		if c.at == "a/db" {
			return w.decisions, nil
		}
		return nil, nil
	case strings.Contains(sql, "'abort'"):
		for key, o := range w.decided {
			if strings.Contains(sql, "'"+key+"'") {
				return [][]string{{o}}, nil
			}
		}
		return nil, nil
	case strings.Contains(sql, "PREPARED") || strings.HasPrefix(sql, "BEGIN; SET LOCAL synchronous_commit"):
		w.said[c.at] = append(w.said[c.at], sql)
	}
	return nil, nil
}

// name is a part, on shard b, of a transaction of a proxy that shard a decides.
func name(proxy, nonce string) twopc.Name {
	return twopc.Name{Cluster: "c", Incarnation: proxy, Nonce: nonce, Decider: "a", Participant: "b"}
}

// resolve looks once at shard b and returns what was told there.
func (w *world) resolve(t *testing.T) string {
	t.Helper()
	w.resolveOn(t.Context(), w.snap, "b")
	if w.open != 0 {
		t.Errorf("%d connections are open", w.open)
	}
	return strings.Join(w.said["b/db"], "; ")
}

// TestResolve: a transaction that nobody works on any more ends as was decided.
func TestResolve(t *testing.T) {
	for _, tc := range []struct {
		name, proxy, age string
		decided          string
		with             func(w *world)
		want             string
	}{
		{"of a session that is gone", "p1", "2000", "t", nil, "COMMIT"},
		{"of a session that is gone, aborted", "p1", "2000", "f", nil, "ROLLBACK"},
		{"of a session at work", "p1", "2000", "t", func(w *world) { w.Take("aa") }, ""},
		{"of a session that has dropped it", "p1", "2000", "t", func(w *world) { w.Take("aa"); w.Drop("aa") }, "COMMIT"},
		{"young", "p1", "500", "t", nil, ""},
		{"of another proxy, decided", "p2", "2000", "t", nil, "COMMIT"},
		{"of another proxy, open", "p2", "2000", "", nil, ""},
		{"of a proxy that is gone", "p3", "2000", "f", nil, "ROLLBACK"},
		{"of a proxy that hangs", "p2", "2000", "f", func(w *world) { w.hung = "p2" }, "ROLLBACK"},
		{"without a directory", "p3", "2000", "t", func(w *world) { w.unknown = errors.New("down") }, "COMMIT"},
		{"new, by a clock that is behind", "p3", "-3600000", "t", nil, ""},
		{"by a clock that is behind", "p3", "-3600000", "t", func(w *world) {
			w.metPrepared.meet(place{shard: "b"}, []string{name("p3", "aa").String()}, time.Now().Add(-2*time.Second))
		}, "COMMIT"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld()
			n := name(tc.proxy, "aa")
			w.prepared = [][]string{{n.String(), tc.age}}
			if tc.decided != "" {
				w.decided[n.Key()] = tc.decided
			}
			if tc.with != nil {
				tc.with(w)
			}
			want := ""
			if tc.want != "" {
				want = tc.want + " PREPARED '" + n.String() + "'"
			}
			if got := w.resolve(t); got != want {
				t.Errorf("b was told %q, want %q", got, want)
			}
		})
	}
}

// A part that another shard on the same server has prepared is left to that shard.
func TestOtherShardOfServer(t *testing.T) {
	w := newWorld()
	n := name("p1", "aa")
	n.Participant = "z"
	w.prepared, w.decided[n.Key()] = [][]string{{n.String(), "2000"}}, "t"
	if got := w.resolve(t); got != "" {
		t.Errorf("b was told %q", got)
	}
}

// A database that was dropped or closed does not hide what another one shows.
func TestClosedDatabase(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{pgerr.New(pgerr.InvalidCatalogName, "no such database"), true},
		{fmt.Errorf("dial: %w", pgerr.New(pgerr.TooManyConnections, "too many")), true},
		{pgerr.New(pgerr.ConnectionFailure, "gone"), false},
		{errors.New("gone"), false},
		{nil, false},
	} {
		if got := closedDatabase(tc.err); got != tc.want {
			t.Errorf("%v: closed is %v", tc.err, got)
		}
	}
	w := newWorld()
	w.closed["b/db"] = pgerr.New(pgerr.InvalidCatalogName, "no such database")
	n := name("p1", "aa")
	w.prepared = [][]string{{n.String(), "2000"}}
	if found, err := w.findLeft(t.Context(), "b", w.snap.Databases()); err != nil || len(found) != 1 {
		t.Errorf("found %v, %v", found, err)
	}
	w.closed["b/other"] = errors.New("gone")
	if _, err := w.findLeft(t.Context(), "b", w.snap.Databases()); err == nil {
		t.Error("no database answers, and there is no error")
	}
}

// Shards that cannot prepare are warned of once, whether tables are declared or not.
func TestUnable(t *testing.T) {
	w := newWorld()
	w.cannot, w.snap.Tables = true, nil
	w.resolve(t)
	w.resolve(t)
	w.WarnUnable("b")
	if got := strings.Count(w.log.String(), "max_prepared_transactions is 0"); got != 1 {
		t.Errorf("%d warnings: %s", got, &w.log)
	}
}

// Decisions are deleted in batches, where they were made, and those beyond the bound are left out.
func TestForget(t *testing.T) {
	w := newWorld()
	for i := range forgetBatch + 1 {
		w.Forget("a", "db", twopc.Decision{Key: "k" + strconv.Itoa(i)}, time.Time{})
	}
	w.Forget("b", "other", twopc.Decision{Key: "x"}, time.Time{})
	w.forgetAll(t.Context())
	if a, b := len(w.said["a/db"]), len(w.said["b/other"]); a != 2 || b != 1 {
		t.Errorf("%d and %d statements", a, b)
	}
	if want := []twopc.Point{twopc.BeforeForget, twopc.AfterForget, twopc.BeforeForget, twopc.AfterForget}; !slices.Equal(w.points, want) {
		t.Errorf("points %v", w.points)
	}
	w.forgetAll(t.Context())
	if len(w.points) != 4 || w.open != 0 {
		t.Errorf("nothing to forget: points %v, %d connections", w.points, w.open)
	}
	for range maxForgets + 1 {
		w.Forget("a", "db", twopc.Decision{Key: "k"}, time.Time{})
	}
	if got := len(w.forgets.take()[place{"a", "db"}]); got != maxForgets {
		t.Errorf("%d decisions are kept", got)
	}
}

// A decision is deleted when its participants' standbys have what was confirmed, or were waited for.
func TestForgetKept(t *testing.T) {
	w := newWorld()
	kept := false
	w.cfg.Kept = func(shard, server string, _, _ time.Time) bool { return kept && shard == "b" && server == "1/b" }
	w.Forget("a", "db", twopc.Decision{Key: "k", Members: []twopc.Member{{Shard: "b", Server: "1/b"}}}, time.Now())
	w.Forget("a", "db", twopc.Decision{Key: "+", Members: []twopc.Member{{Shard: "b", Server: "1/b", Replicated: true}}}, time.Now())
	for i, want := range []int{1, 1, 2, 2} {
		kept = i >= 2
		w.forgetAll(t.Context())
		if got := len(w.said["a/db"]); got != want {
			t.Errorf("look %d: %q", i, w.said)
		}
	}
}

// A sweep takes a few databases in each round, and all of them in turn.
func TestSweepInTurn(t *testing.T) {
	w := newWorld()
	w.snap.Tables = nil
	for i := range 6 {
		w.snap.Tables = append(w.snap.Tables, directory.Table{Database: "d" + strconv.Itoa(i)})
	}
	for round := range 3 {
		w.sweep(t.Context(), w.snap, "b", round)
	}
	total := 0
	for _, said := range w.said {
		total += len(said)
	}
	if len(w.said) != 6 || total != 3*sweepAtOnce {
		t.Errorf("swept %d of 6 databases, %d times in all", len(w.said), total)
	}
}

// A decision is kept while a session works on it or its change is pending.
func TestSweepKeeps(t *testing.T) {
	for _, tc := range []struct {
		name         string
		participants string
		proxy, age   string
		with         func(w *world)
		gone         bool
	}{
		{"no participant", "", "p1", "2000", nil, true},
		{"in hand", "", "p1", "2000", func(w *world) { w.Take("aa") }, false},
		{"of another proxy", "", "p2", "50000", nil, false},
		{"of another proxy, by a clock that is ahead", "", "p2", "3600000", nil, false},
		{"of another proxy, by a clock that is behind", "", "p2", "-3600000", nil, false},
		{"of another proxy, known for long", "", "p2", "2000", func(w *world) {
			n := name("p2", "aa")
			w.metDecided.meet(place{"a", "db"}, []string{n.Key()}, time.Now().Add(-twopc.PartAge)) // a decision without participants may still be asked for
		}, true},
		{"by a clock that is behind", "", "p1", "-3600000", nil, true},
		{"of a proxy that is gone", "", "p3", "2000", nil, true},
		{"of a shard that cannot be asked", "b@1/b", "p1", "2000", func(w *world) { w.closed["b/db"] = errors.New("down") }, false},
		{"of a shard that has left", "c@1/c", "p1", "2000", func(w *world) { w.closed["c/db"] = errors.New("no such shard") }, true},
		{"of a shard that has left, as far as is known", "c@1/c", "p1", "2000", func(w *world) {
			w.closed["c/db"], w.unknown = errors.New("no such shard"), errors.New("down")
		}, false},
		{"of a shard that has left and one that cannot be asked", "c@1/c b@1/b", "p1", "2000", func(w *world) {
			w.closed["c/db"], w.closed["b/db"] = errors.New("no such shard"), errors.New("down")
		}, false},
		{"of a proxy that is gone, as far as is known", "", "p3", "2000", func(w *world) { w.unknown = errors.New("down") }, false},
		{"standbys lack what was confirmed", "", "p1", "2000", func(w *world) {
			w.cfg.Kept = func(_, _ string, _, _ time.Time) bool { return false }
			n := name("p1", "aa")
			w.Forget("a", "db", twopc.Decision{Key: n.Key(), Members: []twopc.Member{{Shard: "b", Server: "1/b"}}}, time.Now())
			w.forgetAll(context.Background())
		}, false},
	} {
		w := newWorld()
		n := name(tc.proxy, "aa")
		w.decisions = [][]string{{n.Key(), tc.participants, tc.age}}
		if tc.with != nil {
			tc.with(w)
		}
		w.sweep(t.Context(), w.snap, "a", 0)
		gone := slices.ContainsFunc(w.said["a/db"], func(sql string) bool { return strings.Contains(sql, n.Key()) })
		if gone != tc.gone {
			t.Errorf("%s: deleted is %v, said %q", tc.name, gone, w.said)
		}
	}
}

// A change counts as announced unless the directory says that it is settled.
func TestAnnounced(t *testing.T) {
	w := newWorld()
	w.snap.Pending = []directory.Pending{{ID: "x"}}
	if !w.announced(t.Context(), "x") || w.announced(t.Context(), "y") {
		t.Error("the directory's word does not count")
	}
	if w.unknown = errors.New("down"); !w.announced(t.Context(), "y") {
		t.Error("the directory does not answer, and the change counts as settled")
	}
	if w.cfg.Directory = nil; !w.announced(t.Context(), "y") {
		t.Error("there is no directory, and the change counts as settled")
	}
}

// TestSettleLeft: a change of a schema whose proxy or session is gone ends, and all are told.
func TestSettleLeft(t *testing.T) {
	for _, tc := range []struct {
		name, proxy, decided, outcome string
		with                          func(w *world)
		published, log                string
	}{
		{"committed", "p3", "t", "", nil, "db committed false", ""},
		{"aborted", "p3", "f", "", nil, "db aborted false", ""},
		{"of a proxy at work", "p2", "t", "", nil, "", ""},
		{"of a session at work", "p1", "t", "", func(w *world) { w.Take("aa") }, "", ""},
		{"of a session that is gone", "p1", "t", "", nil, "db committed false", ""},
		{"undecided", "p3", "", "", nil, "", ""},
		{"a shard is down", "p3", "t", "", func(w *world) { w.closed["b/db"] = errors.New("gone") }, "db committed true", "gone"},
		{"told, and a shard is down", "p3", "", "committed", func(w *world) { w.closed["b/db"] = errors.New("gone") }, "", "gone"},
		{"told, and all have followed", "p3", "", "committed", nil, "db committed false", ""},
		{"the directory is down", "p1", "t", "", func(w *world) { w.refuse = errors.New("no quorum") }, "db committed false", "no quorum"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld()
			n := name(tc.proxy, "aa")
			n.Participant = ""
			if tc.decided != "" {
				w.decided[n.Key()] = tc.decided
			}
			w.snap.Pending = []directory.Pending{
				{ID: "not weft's", Proxy: "p3"},
				{ID: n.Key(), Proxy: tc.proxy, Database: "db", Shards: []string{"b"}, Outcome: tc.outcome},
			}
			if tc.with != nil {
				tc.with(w)
			}
			w.SettleLeft(t.Context(), w.snap)
			if got := strings.Join(w.published, "; "); got != tc.published {
				t.Errorf("published %q, want %q", got, tc.published)
			}
			if got := w.log.String(); !strings.Contains(got, tc.log) || (tc.log == "") == strings.Contains(got, "unfinished") {
				t.Errorf("log: %s", got)
			}
		})
	}
}

// TestSettle: before a primary is used, the transactions end that it has prepared, and those that it has decided. What is being decided is left.
func TestSettle(t *testing.T) {
	for _, tc := range []struct {
		name, shard string
		age         string
		with        func(w *world)
		want, log   string
	}{
		{"prepared there", "b", "0", nil, "COMMIT PREPARED 'aa'; ROLLBACK PREPARED 'bb'", "ended=2 left=1"},
		{"decided there", "a", "0", nil, "COMMIT PREPARED 'aa'; ROLLBACK PREPARED 'bb'", "ended=2 left=1"},
		{"the other shard has no primary", "a", "0", func(w *world) { w.away = "b" }, "", ""},
		{"nothing is prepared", "b", "0", func(w *world) { w.prepared = nil }, "", ""},
		{"the deciding shard does not answer", "b", "0", func(w *world) { w.closed["a/db"] = errors.New("gone") }, "", "ended=0 left=3"},
		{"the primary does not answer", "b", "0", func(w *world) { w.closed["b/db"] = errors.New("gone") }, "", "gone"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				for i, nonce := range []string{"aa", "bb", "cc"} {
					n := name("p2", nonce)
					w.prepared = append(w.prepared, []string{n.String(), tc.age})
					if i < 2 {
						w.decided[n.Key()] = []string{"t", "f"}[i]
					}
				}
				other := name("p2", "dd")
				other.Decider, other.Participant = "z", "z" // of another shard on the same server
				w.prepared = append(w.prepared, []string{other.String(), tc.age})
				if tc.with != nil {
					tc.with(w)
				}
				ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
				defer stop()
				began := time.Now()
				w.Settle(ctx, tc.shard)
				var told []string
				for _, sql := range w.said["b/db"] {
					verb, gid, _ := strings.Cut(sql, " PREPARED ")
					if n, ok := twopc.ParseName(strings.Trim(gid, "'")); ok {
						told = append(told, verb+" PREPARED '"+n.Nonce+"'")
					}
				}
				slices.Sort(told)
				if got := strings.Join(told, "; "); got != tc.want || w.open != 0 {
					t.Errorf("b was told %q, want %q, %d connections", got, tc.want, w.open)
				}
				if got := w.log.String(); !strings.Contains(got, tc.log) || tc.log == "" && got != "" {
					t.Errorf("log: %s", got)
				}
				if tried := len(w.closed) > 0; tried != (time.Since(began) > time.Second) {
					t.Errorf("it took %s", time.Since(began))
				}
			})
		})
	}
}

// TestAdopt: the decision of a transaction that a successor has prepared names the successor, so that it can be confirmed.
func TestAdopt(t *testing.T) {
	for _, tc := range []struct{ was, want string }{
		{"b@1/old c@3/c", "b@1/b c@3/c"},
		{"!b@1/old", "!b@1/b"},
		{"b@1/old+", ""}, // a synchronous standby
		{"b@1/b", ""},
		{"", ""},
	} {
		w := newWorld()
		n := name("p1", "aa")
		w.prepared, w.decided[n.Key()] = [][]string{{n.String(), "2000"}}, "t"
		if tc.was != "" {
			w.participants = [][]string{{tc.was}}
		}
		w.resolve(t)
		said := strings.Join(slices.DeleteFunc(w.said["a/db"], func(sql string) bool { return !strings.HasPrefix(sql, "UPDATE") }), "; ")
		if tc.want == "" && said != "" || !strings.Contains(said, tc.want) {
			t.Errorf("%q: %q", tc.was, said)
		}
	}
}

// TestArbitrate: a lost COMMIT is asked about until there is an answer, or time is up.
func TestArbitrate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		n := name("p1", "aa")
		began := time.Now()
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if o := w.Arbitrate(ctx, n, "db"); o != twopc.Open || time.Since(began) < time.Minute {
			t.Errorf("%v after %v", o, time.Since(began))
		}
		w.decided[n.Key()] = "t"
		if o := w.Arbitrate(t.Context(), n, "db"); o != twopc.Committed {
			t.Errorf("%v", o)
		}
	})
}

// TestRun: each kind of work has its interval, and Run waits for all of it.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { w.Run(ctx) })
		w.Forget("a", "db", twopc.Decision{Key: "k"}, time.Time{})
		time.Sleep(6100 * time.Millisecond)
		stop()
		wg.Wait()
		count := func(what string) (n int) {
			for _, c := range w.calls {
				if c == what {
					n++
				}
			}
			return n
		}
		for what, want := range map[string]int{
			"follow false": 1, "follow true": 23, "close idle": 6,
			"guard a [db other]": 2, "guard b [db other]": 2, "refresh a": 2, "refresh b": 2,
		} {
			if got := count(what); got != want {
				t.Errorf("%s: %d times, want %d", what, got, want)
			}
		}
		if len(w.said["a/db"]) == 0 || w.open != 0 {
			t.Errorf("said %v, %d connections", w.said, w.open)
		}
	})
}

// A proxy without an ID, or before it knows the cluster, does nothing.
func TestRunAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.cfg.Proxy = ""
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		w.Run(ctx)
		if len(w.calls) != 0 {
			t.Errorf("calls: %v", w.calls)
		}
	})
}
