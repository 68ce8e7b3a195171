package storetest

import (
	"testing"
	"time"

	"weft/directory"
)

// testFailovers: two proxies note the same failover, and the oldest of many are forgotten.
func testFailovers(t *testing.T, store directory.Store) {
	s, ok := store.(directory.Failovers)
	if !ok {
		t.Skip("this store keeps no failovers")
	}
	note := func(f directory.Failover) {
		t.Helper()
		if err := s.NoteFailover(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Now().UTC().Truncate(time.Second)
	note(directory.Failover{Shard: "a", At: at, To: "b:1", Timeline: 2, Last: 0x70, Kept: at.Add(-time.Second), Pauses: map[string]directory.Pause{"p": {Sessions: 1, Millis: 5}}})
	note(directory.Failover{Shard: "a", At: at.Add(time.Second), From: "a:1", FromTimeline: 1, To: "b:1", Timeline: 2, Fork: 0x60, Last: 0x65, Pauses: map[string]directory.Pause{"q": {Sessions: 2, Millis: 3}}})
	list, err := s.Failovers(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	f := list[0]
	if lost, known := f.Lost(); !f.At.Equal(at) || f.From != "a:1" || lost != 0x10 || !known || !f.Kept.Equal(at.Add(-time.Second)) || f.Pause() != (directory.Pause{Sessions: 3, Millis: 5}) {
		t.Errorf("%+v: lost %d, pause %+v", f, lost, f.Pause())
	}
	for i := range uint32(directory.MaxFailovers) {
		note(directory.Failover{Shard: "a", At: at, To: "b:1", Timeline: 3 + i})
	}
	note(directory.Failover{Shard: "b", At: at, To: "b:1", Timeline: 2})
	if list, err = s.Failovers(t.Context()); err != nil || len(list) != directory.MaxFailovers+1 || list[0].Timeline != 3 {
		t.Errorf("%d are kept, %v", len(list), err)
	}
}
