package directory

import (
	"slices"
	"testing"
)

// grouped is a cluster of three shards with a sharded table of database store.
func grouped() *Snapshot {
	s := New(16, "a", []Shard{
		{Name: "a", Hosts: []string{"a:1"}, Weight: 1}, {Name: "b", Hosts: []string{"b:1"}, Weight: 1}, {Name: "c", Hosts: []string{"c:1"}, Weight: 1},
	})
	s.PutTable(sharded("old"))
	return s
}

func sharded(name string) Table {
	return Table{Database: "store", Schema: "public", Name: name, Kind: Sharded, Columns: []Column{{Name: "id", Type: 20, TypeName: "bigint", Mod: -1}}, Vindex: Vindex{Kind: "hash"}}
}

// declare enters a job that declares table new.
func declare(s *Snapshot) (*Snapshot, Move) {
	next := s.Clone()
	m := Move{ID: "j", Group: "j", Database: "store", Kind: MoveDeclare, Proxy: "p", State: MovePreparing}
	t := sharded("new")
	t.Group, t.State, t.Job = "j", Declaring, Job{ID: "j", Proxy: "p"}
	BeginDeclare(next, m, []Table{t})
	return next, m
}

func valid(t *testing.T, s, old *Snapshot) {
	t.Helper()
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	if err := s.ValidateChange(old); err != nil {
		t.Fatal(err)
	}
}

func TestGroup(t *testing.T) {
	old := grouped()
	s, m := declare(old)
	valid(t, s, old)
	if !s.Table("store", "public", "new").Pending() || s.Table("store", "public", "old").Pending() {
		t.Error("a table that is being declared online is to statements as one that is not declared, and only that one")
	}
	f := s.For("store")
	if !slices.Equal(PlacesIn(f).Of("j"), AtHome(s)) || !slices.Equal(PlacesIn(f).Of(""), s.Placement) {
		t.Error("the group is not at home, or the others are")
	}
	if !slices.Equal(PlacesIn(f.For("store")).Of("j"), AtHome(s)) || !slices.Equal(f.PlacementOf("store", "j"), AtHome(s)) {
		t.Error("For changes what For has made")
	}
	if !slices.Equal(s.Targets["j"], s.Placement) {
		t.Error("the target is not the cluster's placement")
	}

	// Merging before the rows are carried would lose them.
	early := s.Clone()
	if Merge(early, early.FindMove("j")) {
		t.Error("a group was merged whose rows are at home")
	}
	forced := s.Clone()
	own := *forced.Table("store", "public", "new")
	own.Group = ""
	forced.PutTable(own)
	if err := forced.ValidateChange(s); err == nil {
		t.Error("a table may leave its group though its rows are elsewhere")
	}

	// A round that has carried everything.
	active := s.Clone()
	own = *active.Table("store", "public", "new")
	own.State, own.Job = Active, Job{}
	active.PutTable(own)
	valid(t, active, s)
	if SameGroups(active, s, "store") || !SameGroups(active, active, "store") {
		t.Error("that a table is declared now is not noticed")
	}
	last := active
	for b, at := range active.Targets["j"] {
		if at == 0 {
			continue
		}
		holding := last.Clone()
		holding.FindMove("j").Round = &Round{Key: "k", Phase: HoldAll, Pairs: []Pair{{From: "a", To: s.Shards[at].Name, Buckets: []int{b}}}}
		valid(t, holding, last)
		next := holding.Clone()
		if err := next.Transfer(next.FindMove("j"), true); err != nil {
			t.Fatal(err)
		}
		valid(t, next, holding)
		if PlacesIn(next.For("store")).Same(last.For("store")) || !PlacesIn(next.For("store")).Left(last.For("store"), nil) || !PlacesIn(next.For("store")).Left(last.For("store"), []int{b}) || PlacesIn(next.For("store")).Left(last.For("store"), []int{(b + 1) % 16}) {
			t.Errorf("that bucket %d has moved is not noticed, or another one is", b)
		}
		last = next
	}
	done := last.Clone()
	if !Merge(done, done.FindMove("j")) {
		t.Fatal("the group cannot be merged")
	}
	done.EndMove("j")
	valid(t, done, last)
	if done.Table("store", "public", "new").Group != "" || len(done.Placements) > 0 || len(done.Targets) > 0 {
		t.Error("something of the group is left")
	}
	if SameGroups(done, last, "store") {
		t.Error("that the table has left its group is not noticed")
	}

	// The way back.
	home := done.Clone()
	m.Kind = MoveUndeclare
	BeginUndeclare(home, m, []Table{*home.Table("store", "public", "new")})
	valid(t, home, done)
	if !slices.Equal(home.Targets["j"], AtHome(home)) || !home.FindMove("j").GoesHome() {
		t.Error("the rows do not go home")
	}
	back := home.Clone()
	TurnBack(back, back.FindMove("j"))
	valid(t, back, home)
	if !slices.Equal(back.Targets["j"], back.PlacementOf("store", "")) || back.FindMove("j").GoesHome() {
		t.Error("a cancelled job that takes a declaration back does not go back")
	}
}

func TestGroupTurnsBack(t *testing.T) {
	s, _ := declare(grouped())
	next := s.Clone()
	TurnBack(next, next.FindMove("j"))
	valid(t, next, s)
	if !slices.Equal(next.Targets["j"], AtHome(next)) || !next.FindMove("j").GoesHome() {
		t.Error("a cancelled declaration does not go home")
	}
	gone := next.Clone()
	Disband(gone, "store", "j")
	if !slices.Equal(gone.Targets["j"], gone.PlacementOf("store", "j")) {
		t.Error("whoever goes on with the job finds rows to carry, and the group has none")
	}
	gone.EndMove("j")
	valid(t, gone, next)
	if gone.Table("store", "public", "new") != nil || len(gone.Placements) > 0 {
		t.Error("something of the group is left")
	}
}

// A group that is not where the database's other tables are, and is where the cluster's own placement is, has
// no entry in Placements.
func TestGroupAtCommonPlace(t *testing.T) {
	s := grouped()
	s.SetPlacement("store", "", AtHome(s))
	own := sharded("new")
	own.Group = "j"
	s.PutTable(own)
	if f := s.For("store"); !slices.Equal(PlacesIn(f).Of("j"), s.Placement) || !slices.Equal(PlacesIn(f).Of(""), AtHome(s)) || !slices.Equal(f.PlacementOf("store", "j"), s.Placement) {
		t.Error("the placements of the database and of the group are mixed up")
	}
}

func TestGroupSurvivesJoin(t *testing.T) {
	s, _ := declare(grouped())
	s.Moves = append(s.Moves, Move{ID: "join", Kind: MoveJoin, Shard: "d", Proxy: "p", State: MovePreparing})
	next := s.Clone()
	next.SetShards(append(slices.Clone(s.Shards), Shard{Name: "d", Hosts: []string{"d:1"}, Weight: 1}), nil)
	valid(t, next, s)
	if !slices.Equal(PlacesIn(next.For("store")).Of("j"), AtHome(next)) {
		t.Error("a shard that joins takes a group away from home")
	}
}

// Rows that go home are not there while a bucket is elsewhere, whatever the target said.
func TestGroupArrives(t *testing.T) {
	s := grouped()
	m := Move{ID: "j", Group: "j", Database: "store", Kind: MoveUndeclare, Proxy: "p", State: MoveRunning}
	BeginUndeclare(s, m, []Table{*s.Table("store", "public", "old")})
	job := s.FindMove("j")
	s.SetPlacement("store", "j", AtHome(s))
	if !Arrived(s, job) {
		t.Error("rows that are at home have not arrived")
	}
	away := AtHome(s)
	away[3] = 1
	s.SetPlacement("store", "j", away)
	s.Targets["j"] = slices.Clone(away)
	if Arrived(s, job) || !slices.Equal(s.Targets["j"], AtHome(s)) {
		t.Error("the job ends while a bucket is elsewhere, or does not go on to take it home")
	}
	if job.Back = true; !Arrived(s, job) {
		t.Error("rows that do not go home are to be there")
	}
}
