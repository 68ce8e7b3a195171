package roster

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"weft/directory"
	"weft/identity"
	"weft/pgerr"
	"weft/pool"
)

// world is a proxy and the directory of a cluster of two shards.
type world struct {
	*Roster
	log     bytes.Buffer
	snap    *directory.Snapshot // what the proxy knows
	stored  *directory.Snapshot // what the directory has
	proxies []directory.Proxy
	down    error // why the directory does not answer

	shares  map[string]int
	checks  map[string]int
	refused map[string]int
}

func newWorld() *world {
	w := &world{
		snap: &directory.Snapshot{
			Cluster: "c1", Home: "a",
			Shards: []directory.Shard{{Name: "a", Hosts: []string{"a1"}}, {Name: "b", Hosts: []string{"b1"}, System: "700"}},
		},
		proxies: []directory.Proxy{{ID: "p1", Connections: 80}},
		shares:  map[string]int{}, checks: map[string]int{}, refused: map[string]int{},
	}
	w.stored = w.snap.Clone()
	w.Roster = New(Config{
		Proxy: "p1", Log: slog.New(slog.NewTextHandler(&w.log, nil)), Directory: w,
		Snapshot:    func() *directory.Snapshot { return w.snap },
		MaxPerShard: func() int { return 80 },
		SetShare:    func(shard string, n int) { w.shares[shard] = n },
		Count: func(shard string, refused bool) {
			w.checks[shard]++
			if refused {
				w.refused[shard]++
			}
		},
	})
	return w
}

func (w *world) Update(_ context.Context, fn func(*directory.Snapshot) (*directory.Snapshot, error)) (*directory.Snapshot, error) {
	if w.down != nil {
		return nil, w.down
	}
	next, err := fn(w.stored)
	if err == nil {
		w.stored = next
	}
	return next, err
}

func (w *world) Proxies(context.Context) ([]directory.Proxy, error) { return w.proxies, w.down }

// login is a connection to a server that says which system it is and whose stamp its database has.
func login(shard, database, system, stamp string) pool.Login {
	l := pool.Login{Shard: shard, Database: database, Address: shard + "1", Found: identity.Found{System: system, Connections: 97}}
	if stamp != "" {
		l.Found.Stamped, l.Found.Stamp = true, identity.Stamp{Cluster: "c1", Shard: stamp, System: system}
	}
	return l
}

// TestVerify: a server that is another one than its shard's is refused, told of once, and known to be misplaced until the
// right one answers.
func TestVerify(t *testing.T) {
	w := newWorld()
	if err := w.Verify(login("a", "app", "600", "a")); err != nil || len(w.Misplaced(w.snap)) > 0 {
		t.Errorf("the right server: %v, misplaced %v", err, w.Misplaced(w.snap))
	}
	for range 2 {
		if err := w.Verify(login("b", "app", "700", "a")); err == nil || pgerr.From(err).Code != pgerr.ObjectNotInPrerequisiteState {
			t.Errorf("the server of another shard: %v", err)
		}
	}
	if n := strings.Count(w.log.String(), "nothing is sent there"); n != 1 {
		t.Errorf("the log tells of one server %d times", n)
	}
	if wrong := w.Misplaced(w.snap); len(wrong) != 1 || !strings.Contains(wrong[0].Message, `shard "b"`) {
		t.Errorf("misplaced: %v", wrong)
	}
	if err := w.Verify(login("b", "other", "700", "b")); err != nil || len(w.Misplaced(w.snap)) != 1 {
		t.Errorf("another database of the server fits: %v, misplaced %v", err, w.Misplaced(w.snap))
	}
	if err := w.Verify(login("b", "app", "700", "b")); err != nil || len(w.Misplaced(w.snap)) != 0 {
		t.Errorf("the right server: %v, misplaced %v", err, w.Misplaced(w.snap))
	}
	if err := w.Verify(login("b", "app", "701", "")); err == nil {
		t.Error("a server with another system is let in")
	}
	if w.checks["a"] != 1 || w.refused["a"] != 0 || w.checks["b"] != 5 || w.refused["b"] != 3 {
		t.Errorf("counted %v, refused %v", w.checks, w.refused)
	}
}

// TestLeavingShard: the server of a shard that the directory no longer has is not judged.
func TestLeavingShard(t *testing.T) {
	w := newWorld()
	if err := w.Verify(login("c", "app", "800", "a")); err != nil || len(w.checks) > 0 {
		t.Errorf("%v, counted %v", err, w.checks)
	}
}

// TestEnterSystems: the directory learns the systems of servers that it does not know, unless a shard has other
// hosts there by now.
func TestEnterSystems(t *testing.T) {
	systems := func(s *directory.Snapshot) map[string]string {
		out := map[string]string{}
		for i := range s.Shards {
			out[s.Shards[i].Name] = s.Shards[i].System
		}
		return out
	}
	w := newWorld()
	before := w.stored
	if w.EnterSystems(t.Context(), w.snap); w.stored != before {
		t.Error("the directory is changed by a proxy that knows nothing")
	}
	for _, l := range []pool.Login{login("a", "app", "600", "a"), login("b", "app", "700", "b")} {
		if err := w.Verify(l); err != nil {
			t.Fatal(err)
		}
	}
	w.down = errors.New("no etcd")
	w.EnterSystems(t.Context(), w.snap)
	if !strings.Contains(w.log.String(), "the directory was not told") {
		t.Errorf("log: %s", &w.log)
	}
	w.down = nil
	w.stored.Shards[0].Hosts = []string{"a2"}
	w.EnterSystems(t.Context(), w.snap)
	if got := systems(w.stored); !maps.Equal(got, map[string]string{"a": "", "b": "700"}) {
		t.Errorf("with other hosts: %v", got)
	}
	w.stored.Shards[0].Hosts = []string{"a1"}
	w.EnterSystems(t.Context(), w.snap)
	if got := systems(w.stored); !maps.Equal(got, map[string]string{"a": "600", "b": "700"}) {
		t.Errorf("the directory has %v", got)
	}
	w.stored = nil
	w.EnterSystems(t.Context(), w.snap)
	if w.stored != nil {
		t.Error("a directory without a cluster is filled")
	}
}

// TestTakeShares: a proxy takes what others leave of the servers that it knows, and tells of that once.
func TestTakeShares(t *testing.T) {
	w := newWorld()
	if w.TakeShares(t.Context()); len(w.shares) > 0 {
		t.Errorf("shares of servers that nothing is known of: %v", w.shares)
	}
	if err := w.Verify(login("a", "app", "600", "a")); err != nil || w.shares["a"] != 80 {
		t.Errorf("alone: %v, %v", w.shares, err)
	}
	w.proxies = append(w.proxies, directory.Proxy{ID: "p2"}) // does not say how many it wants
	for range 2 {
		if w.TakeShares(t.Context()); w.shares["a"] != 42 {
			t.Errorf("beside another: %v", w.shares)
		}
	}
	if n := strings.Count(w.log.String(), "takes its share"); n != 1 {
		t.Errorf("the log tells of one share %d times", n)
	}
	w.proxies, w.down = nil, errors.New("no etcd")
	if w.TakeShares(t.Context()); w.shares["a"] != 42 {
		t.Errorf("while the directory is away: %v", w.shares)
	}
	w.down = nil
	if w.TakeShares(t.Context()); w.shares["a"] != 80 {
		t.Errorf("alone again: %v", w.shares)
	}
}
