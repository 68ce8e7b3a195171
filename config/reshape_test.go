package config

import (
	"strings"
	"testing"

	"weft/directory"
)

// TestReshape: what cluster.yaml asks for of a cluster with declared tables becomes jobs, once.
func TestReshape(t *testing.T) {
	parse := func(text string) Cluster {
		t.Helper()
		c, err := ParseCluster("cluster.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	shards := func(specs ...string) string {
		return "bucket_count: 64\nshards:\n- {" + strings.Join(specs, "}\n- {") + "}\n"
	}
	const a, b, c, d = "name: a, hosts: ['h:1']", "name: b, hosts: ['h:2']", "name: c, hosts: ['h:3']", "name: d, hosts: ['h:4']"
	first, err := parse(shards(a, b)).Merge(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	first.Tables = []directory.Table{{Database: "app", Schema: "public", Name: "t", Kind: directory.Sharded, Columns: []directory.Column{{Name: "id", Type: 20, TypeName: "bigint", Mod: -1}}, Vindex: directory.Vindex{Kind: "hash"}}}
	merge := func(old *directory.Snapshot, prune bool, specs ...string) *directory.Snapshot {
		t.Helper()
		next, err := parse(shards(specs...)).Merge(old, prune)
		if err == nil {
			err = directory.Successor(old, next)
		}
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	refused := func(old *directory.Snapshot, prune bool, want string, specs ...string) {
		t.Helper()
		if _, err := parse(shards(specs...)).Merge(old, prune); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", specs, err, want)
		}
	}
	expect := func(s *directory.Snapshot, want string) {
		t.Helper()
		var got []string
		for i := range s.Moves {
			m := &s.Moves[i]
			got = append(got, string(m.Kind)+" "+m.Shard+m.Database+" "+string(m.State))
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("jobs: %s, want %s", text, want)
		}
	}
	grown := merge(first, false, a, b, c, d)
	expect(grown, "join c preparing, join d preparing")
	if len(grown.Shards) != 2 {
		t.Errorf("%d shards before any has joined", len(grown.Shards))
	}
	if again := merge(grown, false, a, b, c, d); len(directory.Diff(grown, again)) > 0 {
		t.Errorf("again: %v", directory.Diff(grown, again))
	}
	refused(grown, false, "with other hosts", a, b, c, "name: d, hosts: ['h:9']")
	refused(grown, true, "the file does not list it", a, b, c)
	grown.Moves[1].State = directory.MoveFailed
	other := merge(grown, false, a, b, c, "name: d, hosts: ['h:9']")
	expect(other, "join c preparing, join d preparing")
	if got := other.Moves[1].Join.Hosts[0]; got != "h:9" {
		t.Errorf("a job that has failed goes on with %s", got)
	}
	grown.Moves[1].State, grown.Moves[1].Waits = directory.MovePreparing, "connection refused"
	other = merge(grown, false, a, b, c, "name: d, hosts: ['h:9']")
	if m := other.Moves[1]; m.Join.Hosts[0] != "h:9" || m.Waits != "" {
		t.Errorf("a job that waits goes on with %s, waits %q", m.Join.Hosts[0], m.Waits)
	}
	if diff := directory.Diff(grown, other); len(diff) != 1 || !strings.Contains(diff[0], "which waits, goes on with another server: shard d h:9 joins") {
		t.Errorf("the change of a job that waits: %q", diff)
	}

	heavy := merge(first, false, a, b+", weight: 3")
	expect(heavy, "rebalance app preparing")
	refused(heavy, false, "apply again when it is over", a, b+", weight: 2")
	expect(merge(heavy, false, a, b+", weight: 3"), "rebalance app preparing")

	refused(first, false, "--prune", a)
	smaller := merge(first, true, a)
	expect(smaller, "leave b preparing")
	if sh, ok := smaller.Shard("b"); !ok || sh.State != directory.ShardDraining {
		t.Errorf("the shard that leaves is %+v", sh)
	}
	expect(merge(smaller, false, a), "leave b preparing")
	refused(smaller, false, "the file lists it", a, b)
	refused(first, true, "home shard", b)
	expect(merge(first, true, a, c), "join c preparing, leave b preparing")
}
