package storetest

import (
	"fmt"
	"testing"
	"time"

	"weft/directory"
)

// testLosses: transactions that failovers have harmed are kept, replaced and accepted.
func testLosses(t *testing.T, store directory.Store) {
	s, ok := store.(directory.Losses)
	if !ok {
		t.Skip("this store keeps no lost transactions")
	}
	at := time.Now().UTC().Truncate(time.Second)
	note := func(fresh int, list ...directory.Loss) {
		t.Helper()
		if got, err := s.NoteLosses(t.Context(), list); err != nil || len(got) != fresh {
			t.Fatalf("%d of %d were not stored before, and %d should be: %v", len(got), len(list), fresh, err)
		}
	}
	list := func() []directory.Loss {
		t.Helper()
		out, err := s.Losses(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	var many []directory.Loss
	for i := range 250 {
		many = append(many, directory.Loss{GID: fmt.Sprintf("g%d", i), State: "half", Kept: []string{"a"}, Lost: []string{"b"}, Found: at})
	}
	note(250, many...)
	if n := len(list()); n != 250 {
		t.Fatalf("%d are kept", n)
	}
	note(0, directory.Loss{GID: "g7", State: "lost", Lost: []string{"a", "b"}, Found: at})
	got := list()
	if last := got[len(got)-1]; len(got) != 250 || last.GID != "g7" || last.State != "lost" || len(last.Lost) != 2 {
		t.Errorf("%d are kept, the last is %+v", len(got), last)
	}
	if ok, err := s.AcceptLoss(t.Context(), "none", at); ok || err != nil {
		t.Errorf("accept one that is not there: %v, %v", ok, err)
	}
	if ok, err := s.AcceptLoss(t.Context(), "g7", at); !ok || err != nil {
		t.Errorf("accept: %v, %v", ok, err)
	}
	note(0, directory.Loss{GID: "g7", State: "half", Lost: []string{"b"}, Found: at})
	got = list()
	if last := got[len(got)-1]; !last.Accepted.Equal(at) || last.State != "lost" {
		t.Errorf("one that was accepted: %+v", last)
	}
}
