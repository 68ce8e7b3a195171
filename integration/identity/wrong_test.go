package identity

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"weft/config"
	"weft/directory"
	"weft/integration/harness"
)

// A file or a directory that names the wrong servers gives no row away.
func TestWrongServers(t *testing.T) {
	w := newWorld(t, "wrong")
	w.all(w.Target)
	w.stamped()
	ready(t, w.Target, 200, "ok")
	servers := w.Shards()
	swapped := []int{0, 2, 1}

	t.Run("apply", func(t *testing.T) { w.wrongFiles() })

	t.Run("swapped in the directory", func(t *testing.T) {
		idle := w.Connect(t, "postgres", "dbname="+w.database) // it has connections to the right ones
		w.must(idle, "select count(*) from t")
		snap, err := w.store.Update(t.Context(), func(old *directory.Snapshot) (*directory.Snapshot, error) {
			next := old.Clone()
			for i := range next.Shards {
				next.Shards[i].Hosts = []string{servers[swapped[i]].Addr()}
			}
			return next, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.store.Acknowledged(t.Context(), snap.Version); err != nil {
			t.Fatal(err)
		}
		w.refuses(w.Target, "55000", "it is shard-")
		ready(t, w.Target, 503, "is not the server it should be")
		second := w.proxy()
		w.refuses(second, "55000", "it is shard-")
		ready(t, second, 503, "is not the server it should be")
		if out, err := harness.Command(t, "check", "-c", first(w.files("test", "", servers...))); err == nil || !strings.Contains(out, "shard shard-1") {
			t.Errorf("check: %v\n%s", err, out)
		}
		_, err = w.store.Update(t.Context(), func(old *directory.Snapshot) (*directory.Snapshot, error) {
			next := old.Clone()
			for i := range next.Shards {
				next.Shards[i].Hosts = []string{servers[i].Addr()}
			}
			return next, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range []*harness.Target{w.Target, second} {
			w.all(target)
			ready(t, target, 200, "ok")
		}
		w.must(idle, "select count(*) from t")
	})

	t.Run("another cluster", func(t *testing.T) {
		other := harness.Store(t, w.endpoint, "mian")
		enter(t, other, servers[0].Addr(), servers[1].Addr(), servers[2].Addr())
		target := w.proxy(func(c *config.Config) { c.Cluster = "mian" })
		w.refuses(target, "55000", "belongs to another cluster")
		ready(t, target, 503, "belongs to another cluster")
	})

	t.Run("another cluster's directory while it runs", func(t *testing.T) {
		right, err := w.store.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		put := func(snap *directory.Snapshot) {
			t.Helper()
			wipe(t, w.endpoint)
			if _, err := w.store.Update(t.Context(), func(*directory.Snapshot) (*directory.Snapshot, error) { return snap.Clone(), nil }); err != nil {
				t.Fatal(err)
			}
		}
		put(directory.New(64, "shard-0", right.Shards))
		w.refuses(w.Target, "57P03", "the directory now describes cluster")
		ready(t, w.Target, 503, "the directory now describes cluster")
		put(right)
		w.all(w.Target)
		ready(t, w.Target, 200, "ok")
	})
	w.all(w.Target)
}

func first(a, _ string) string { return a }

// wrongFiles applies them.
func (w *world) wrongFiles() {
	t := w.t
	servers := w.Shards()
	second, _ := harness.StartEtcd(t)
	elsewhere := *w
	elsewhere.endpoint = second
	for name, c := range map[string]mistaken{
		"a typo":         twoFiles(w.files("mian", "", servers...)).expect("belongs to another cluster", "weft recover --directory", "--adopt"),
		"another prefix": twoFiles(w.files("test", ", prefix: /elsewhere/", servers...)).expect("belongs to another cluster"),
		"another etcd":   twoFiles(elsewhere.files("main", "", servers...)).expect("belongs to another cluster"),
		"swapped":        twoFiles(w.files("test", "", servers[0], servers[2], servers[1])).expect("it is shard-2 of this cluster", "it is shard-1 of this cluster"),
		"home swapped":   twoFiles(w.files("test", "", servers[1], servers[0], servers[2])).expect("it is shard-1 of this cluster"),
	} {
		for _, more := range [][]string{{"--dry-run"}, nil} {
			out, err := harness.Command(t, slices.Concat([]string{"apply", "-c", c.weft, "-f", c.cluster}, more)...)
			if _, failed := err.(*exec.ExitError); !failed {
				t.Errorf("%s %v: %v\n%s", name, more, err, out)
			}
			for _, s := range c.says {
				if !strings.Contains(out, s) {
					t.Errorf("%s %v does not say %q:\n%s", name, more, s, out)
				}
			}
		}
	}
	weft, cluster := w.files("test", "", servers...)
	if out, err := harness.Command(t, "apply", "-c", weft, "-f", cluster); err != nil || !strings.Contains(out, "nothing to change") {
		t.Errorf("the right file: %v\n%s", err, out)
	}
	if out, err := harness.Command(t, "check", "-c", weft, "-f", cluster); err != nil || out != "ok\n" {
		t.Errorf("check: %v\n%s", err, out)
	}
	w.all(w.Target)
}

// mistaken is a weft.yaml and a cluster.yaml, and what weft apply says of them.
type mistaken struct {
	weft, cluster string
	says          []string
}

func twoFiles(weft, cluster string) mistaken { return mistaken{weft: weft, cluster: cluster} }

func (m mistaken) expect(says ...string) mistaken {
	m.says = says
	return m
}
