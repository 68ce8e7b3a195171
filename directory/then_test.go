package directory

import "testing"

// TestThen: a job that takes declarations back is followed by one that declares them anew, which stays until its tables are
// declared. A job that was cancelled is followed by none.
func TestThen(t *testing.T) {
	then := &Then{Job: "second", User: "maria", Tables: []ThenTable{{Schema: "public", Name: "t", Columns: []string{"region"}}}}
	first := Move{ID: "first", Database: "app", Kind: MoveUndeclare, Proxy: "p", State: MoveFinishing, Then: then, Options: MoveOptions{Duty: 30}}
	s := New(16, "shard-0", equalFleet(2))
	s.Moves, s.Targets = []Move{first}, map[string][]uint16{"first": AtHome(s)}
	back := s.Clone()
	back.FindMove("first").Back = true
	if Succeed(back, "first"); len(back.Moves) > 0 {
		t.Errorf("a job that was cancelled is followed by %+v", back.Moves)
	}
	Succeed(s, "first")
	m := s.FindMove("second")
	if len(s.Moves) != 1 || len(s.Targets) > 0 || m == nil || !m.Declares() || m.Database != "app" || m.Proxy != "p" || m.State != MovePreparing || m.Options.Duty != 30 {
		t.Fatalf("%+v", s.Moves)
	}
	if first.Declares() || s.Carrying("app") != m {
		t.Errorf("%+v", s.Moves)
	}
	begun := *m
	begun.Group = begun.ID
	BeginDeclare(s, begun, nil)
	if m = s.FindMove("second"); len(s.Moves) != 1 || m.Declares() || len(s.Targets["second"]) != 16 {
		t.Errorf("%+v", s.Moves)
	}
	Withdraw(s, "second")
	if m = s.FindMove("second"); m == nil || !m.Declares() || len(s.Targets) > 0 {
		t.Errorf("%+v", s.Moves)
	}
	BeginDeclare(s, begun, nil)
	if Succeed(s, "second"); len(s.Moves) > 0 {
		t.Errorf("the second job is followed by %+v", s.Moves)
	}
	s.Moves = []Move{{ID: "alone", Database: "app", Kind: MoveDeclare, Group: "alone"}}
	if Withdraw(s, "alone"); len(s.Moves) > 0 {
		t.Errorf("%+v is left", s.Moves)
	}
}
