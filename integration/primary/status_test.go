package primary

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/directory"
	"weft/integration/harness"
	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// seen is what weft status --json says of a shard.
type seen struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	Primary  string `json:"primary"`
	Problems []struct {
		Problem string `json:"problem"`
		Next    string `json:"next"`
	} `json:"problems"`
	Hosts []struct {
		Address  string `json:"address"`
		Role     string `json:"role"`
		State    string `json:"state"`
		Timeline int    `json:"timeline"`
		Lag      *int64 `json:"lag_bytes"`
		Halted   bool   `json:"replay_paused"`
	} `json:"hosts"`
}

// words are what the program says of shop-1 by --json: its state, that of its servers, and the problems.
func (s *seen) words() string {
	out := []string{s.State}
	for _, h := range s.Hosts {
		out = append(out, h.State)
	}
	for _, p := range s.Problems {
		out = append(out, p.Problem, p.Next)
	}
	return strings.Join(out, "\n")
}

// status runs weft status, and returns what it says of shop-1, as text too, and whether there is a problem.
func (w *world) status() (s seen, text string, wrong bool) {
	w.t.Helper()
	run := func(args ...string) (string, error) {
		out, err := exec.Command(harness.ProgramPath(w.t), append([]string{"status", "--etcd", w.endpoint, "--cluster", clusterName}, args...)...).Output()
		return string(out), err
	}
	text, err := run()
	if err != nil {
		w.t.Fatalf("weft status: %v\n%s", err, text)
	}
	out, err := run("--json", "--check")
	var all struct {
		Shards []seen `json:"shards"`
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all.Shards) != 2 {
		w.t.Fatalf("%v: %s", err, out)
	}
	return all.Shards[1], text, err != nil
}

// tells waits until weft status says all of these of shop-1, and weft.replicas of a proxy has the same states.
func (w *world) tells(states string, want ...string) {
	w.t.Helper()
	var last string
	w.await(states+" by weft status", func() bool {
		s, text, wrong := w.status()
		var servers []string
		for _, h := range s.Hosts {
			servers = append(servers, h.State)
		}
		last = text + s.words()
		if strings.Join(servers, " ") != states || wrong != (len(want) > 0) {
			w.t.Log(last)
			return false
		}
		for _, text := range want {
			if !strings.Contains(last, text) {
				w.t.Log(last)
				return false
			}
		}
		return true
	})
	w.shown(w.connect(0), "select state from weft.replicas where shard = 'shop-1'", strings.Fields(states)...)
}

// total is the sum of what clients have written to shop-1, on one of its servers.
func (w *world) total(s *pgserver.Server) int { return w.ask(s, "select sum(v) from t") }

// TestStatusOfAway: all servers of a shard are away, clients wait, and the old primary comes back after a failover. Nothing is lost.
func TestStatusOfAway(t *testing.T) {
	w := newWorld(t)
	w.tells("primary standby")
	c := w.connect(0)
	w.must(c, write(w.there))
	w.await("the standby", func() bool { return w.total(w.b) == 1 })
	w.a.Kill()
	w.b.Kill()
	w.seeking(0, "shop-1")
	waits := w.later(c, write(w.there))
	w.tells("silent silent", "shard shop-1 has no primary, clients wait for one", w.a.Addr()+" refuses connections", "Start the servers of shop-1")
	w.must(w.connect(0), write(w.here))
	var err error
	if w.b, err = w.b.Config().Start(w.within()); err != nil {
		t.Fatal(err)
	}
	w.tells("silent standby", "promote a standby")
	if err := w.b.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-waits; err != nil {
		t.Errorf("a client that has waited: %v", err)
	}
	w.tells("silent primary", w.a.Addr()+" of shard shop-1 refuses connections")
	w.generation(2)
	if err := w.a.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.tells("stale primary", w.a.Addr()+" of shard shop-1 is stale: it is a primary on timeline 1", "pg_rewind")
	w.must(c, write(w.there))
	if n, m := w.total(w.b), w.total(w.a.Server); n != 3 || m != 1 {
		t.Errorf("%d rows on the primary, %d on the old one", n, m)
	}
	w.b.Kill()
	w.seeking(0, "shop-1")
	w.tells("stale silent", "shard shop-1 has no primary", "weft shard reset shop-1 --yes")
}

// TestStatusOfSplit: two primaries of one timeline are refused to clients, and weft status says what to do.
func TestStatusOfSplit(t *testing.T) {
	w := newWorld(t)
	other := w.split()
	w.tells("silent split split", "shard shop-1 is split", "weft shard accept shop-1 HOST:PORT")
	if _, err := w.connect(0).Exec(w.within(), write(w.there)); code(err) != "57P03" {
		t.Errorf("a write to a split shard: %v", err)
	}
	if err := w.accept(w.b); err != nil {
		t.Fatal(err)
	}
	w.tells("silent primary stale", other.Addr()+" of shard shop-1 is a primary that was decided against")
	w.must(w.connect(0), write(w.there))
}

// TestStatusOfForeign: a server with another system identifier gets nothing, and is named.
func TestStatusOfForeign(t *testing.T) {
	w := newWorld(t)
	foreign := pgtest.Start(t, pgserver.Config{})
	// Servers of tests are copies of one: this one gets data of its own.
	foreign.Kill()
	if err := os.RemoveAll(foreign.Dir()); err != nil {
		t.Fatal(err)
	}
	if err := foreign.Config().Init(w.within()); err != nil {
		t.Fatal(err)
	}
	if err := foreign.Restart(w.within()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Update(t.Context(), func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		sh, _ := next.Shard("shop-1")
		sh.Hosts = []string{foreign.Addr(), w.a.Addr()}
		return next, nil
	}); err != nil {
		t.Fatal(err)
	}
	w.tells("foreign primary", foreign.Addr()+" is foreign to shard shop-1: its system identifier is", "weft apply; with --adopt")
	c := w.connect(0)
	w.must(c, write(w.there))
	w.a.Kill()
	w.seeking(0, "shop-1")
	waits := w.later(c, write(w.there))
	w.tells("foreign silent", "shard shop-1 has no primary", "is foreign to shard shop-1")
	if err := w.a.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-waits; err != nil {
		t.Error(err)
	}
	if n := w.ask(foreign.Server, "select count(*) from pg_tables where tablename = 't'"); n != 0 {
		t.Error("the foreign server has a table")
	}
	if n := w.total(w.a.Server); n != 2 {
		t.Errorf("%d writes", n)
	}
}

// TestStatusOfHalted: a standby whose replay is paused never catches up. Reads go to the primary, and weft status says what to do.
func TestStatusOfHalted(t *testing.T) {
	w := newWorld(t)
	standby, err := pgx.Connect(w.within(), w.b.ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer standby.Close(w.within())
	w.must(standby, "select pg_wal_replay_pause()")
	c := w.connect(0)
	w.must(c, "set weft.target = 'auto'")
	w.must(c, write(w.there))
	w.tells("primary standby", w.b.Addr()+" of shard shop-1 does not replay what it receives", "pg_wal_replay_resume()")
	if s, _, _ := w.status(); s.Hosts[1].Lag == nil || *s.Hosts[1].Lag == 0 {
		t.Errorf("lag %v", s.Hosts[1].Lag)
	}
	w.shown(c, "select lag_bytes > 0 from weft.replicas where address = '"+w.b.Addr()+"'", "t")
	var n int
	if err := c.QueryRow(w.within(), "select sum(v) from t").Scan(&n); err != nil || n != 1 {
		t.Errorf("a read of what was written: %d, %v", n, err)
	}
	w.must(standby, "select pg_wal_replay_resume()")
	w.tells("primary standby")
}
