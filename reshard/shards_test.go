package reshard

import (
	"strings"
	"testing"

	"weft/directory"
)

var sharded = directory.Table{
	Database: "app", Schema: "public", Name: "t", Kind: directory.Sharded, Vindex: directory.Vindex{Kind: "hash"},
	Columns: []directory.Column{{Name: "id", Type: 20, TypeName: "bigint", Mod: -1}},
}

// TestBringBuckets: of several shards that join, the last brings all of them their buckets, and
// each row moves once.
func TestBringBuckets(t *testing.T) {
	snap := directory.New(64, "a", []directory.Shard{{Name: "a", Hosts: []string{"h:1"}, Weight: 1}, {Name: "b", Hosts: []string{"h:2"}, Weight: 1}})
	snap.Tables = []directory.Table{sharded}
	for i, name := range []string{"c", "d"} {
		spec := &directory.Shard{Name: name, Hosts: []string{"h:" + string('3'+rune(i))}, Weight: 1}
		if err := Join(snap, directory.Move{ID: name, Kind: directory.MoveJoin, Shard: name, Join: spec, State: directory.MovePreparing}); err != nil {
			t.Fatal(err)
		}
	}
	if m := snap.Joining(); m == nil || m.Shard != "c" {
		t.Errorf("the first to be made ready is %+v", m)
	}
	snap = WithShard(snap, snap.FindMove("c").Join)
	BringBuckets(snap, snap.FindMove("c"))
	if len(snap.Moves) != 2 {
		t.Errorf("the first brings buckets while the second is still to join: %+v", snap.Moves)
	}
	snap.EndMove("c")
	if list := Bare(snap); len(list) > 0 {
		t.Errorf("%v are bare while another shard is to join", list)
	}
	cancelled := snap.Clone()
	cancelled.EndMove("d")
	if list := Bare(cancelled); len(list) != 1 || list[0] != "c" {
		t.Errorf("%v are bare when the other shard does not join", list)
	}
	snap = WithShard(snap, snap.FindMove("d").Join)
	BringBuckets(snap, snap.FindMove("d"))
	m := snap.Carrying("app")
	if m == nil {
		t.Fatal("nobody brings buckets")
	}
	count := [4]int{}
	for b, to := range snap.Targets[m.ID] {
		count[to]++
		if from := snap.PlacementOf("app", "")[b]; to != from && to < 2 {
			t.Errorf("bucket %d moves from %d to %d", b, from, to)
		}
	}
	if count != [4]int{16, 16, 16, 16} {
		t.Errorf("buckets: %v", count)
	}
	snap.EndMove("d")
	if list := Bare(snap); len(list) > 0 {
		t.Errorf("%v are bare while a job brings them buckets", list)
	}
}

// TestRetire: a shard that is to leave gets no buckets, loses those that it has, and may leave then.
func TestRetire(t *testing.T) {
	snap := directory.New(64, "a", []directory.Shard{{Name: "a", Hosts: []string{"h:1"}, Weight: 1}, {Name: "b", Hosts: []string{"h:2"}, Weight: 1}})
	snap.Tables = []directory.Table{sharded}
	for name, want := range map[string]string{"a": "home shard", "x": "does not exist"} {
		if err := Retire(snap, name, directory.Move{}); err == nil {
			t.Errorf("%s leaves, which is %s", name, want)
		}
	}
	if err := Retire(snap, "b", directory.Move{}); err != nil {
		t.Fatal(err)
	}
	if err := MayLeave(snap, "b"); err == nil || Unchanging(snap) == nil {
		t.Errorf("it leaves with its buckets, or another change may begin: %v", err)
	}
	ids, err := Drain(snap, "b", directory.Move{})
	if err != nil || len(ids) != 1 || CountOn(snap, snap.Targets[ids[0]], "b") != 0 {
		t.Fatalf("jobs %v, %v", ids, err)
	}
	if _, err := Drain(snap, "b", directory.Move{}); err == nil {
		t.Error("two jobs of one database")
	}
	snap.SetPlacement("app", "", snap.Targets[ids[0]])
	snap.EndMove(ids[0])
	if err := MayLeave(snap, "b"); err != nil {
		t.Error(err)
	}
	snap.Moves[0].State = directory.MoveFailed
	if Resume(snap, &snap.Moves[0]); snap.Moves[0].State != directory.MovePreparing {
		t.Error("it does not go on")
	}
}

// TestGroupsKeepShards: a shard that only a group of a database's tables has buckets on can neither be drained
// beside the group's job, nor leave.
func TestGroupsKeepShards(t *testing.T) {
	snap := directory.New(64, "a", []directory.Shard{{Name: "a", Hosts: []string{"h:1"}, Weight: 1}, {Name: "b", Hosts: []string{"h:2"}, Weight: 1}})
	spread := snap.Placement
	snap.Tables = []directory.Table{sharded}
	snap.SetPlacement("app", "", directory.AtHome(snap))
	own := sharded
	own.Name, own.Group = "own", "j"
	snap.PutTable(own)
	snap.SetPlacement("app", "j", spread) // as the cluster's own, so it has no entry
	snap.Moves = []directory.Move{{ID: "j", Group: "j", Database: "app", Kind: directory.MoveUndeclare, State: directory.MoveRunning}}
	snap.Targets = map[string][]uint16{"j": directory.AtHome(snap)}
	for _, err := range []error{MayLeave(snap, "b"), func() error { _, err := Drain(snap, "b", directory.Move{}); return err }()} {
		if err == nil || !strings.Contains(err.Error(), "job j") {
			t.Errorf("shard b, which only a group has buckets on: %v", err)
		}
	}
	snap.SetPlacement("app", "j", directory.AtHome(snap))
	if ids, err := Drain(snap, "b", directory.Move{}); err != nil || len(ids) > 0 {
		t.Errorf("jobs %v, %v", ids, err)
	}
	if err := MayLeave(snap, "b"); err != nil {
		t.Error(err)
	}
}
