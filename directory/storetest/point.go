package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"weft/directory"
)

// testPoints: points are listed in order with their manifests, the oldest of many are forgotten, and one process at a time makes points.
func testPoints(t *testing.T, store directory.Store) {
	s, ok := store.(directory.Points)
	if !ok {
		t.Skip("this store keeps no backup points")
	}
	held, release, err := s.Reserve(t.Context(), "the first")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Reserve(t.Context(), "the second"); !errors.Is(err, directory.ErrPointUnderWay) {
		t.Errorf("two reservations: %v", err)
	}
	if held.Err() != nil {
		t.Error(held.Err())
	}
	release()
	if held.Err() == nil {
		t.Error("a reservation that was given back is held")
	}
	_, release, err = s.Reserve(t.Context(), "the third")
	if err != nil {
		t.Fatal(err)
	}
	if who, err := s.EndReservation(t.Context(), "the fourth"); err != nil || who != "" {
		t.Errorf("%q, %v", who, err)
	}
	if who, err := s.EndReservation(t.Context(), "the th"); err != nil || who != "the third" {
		t.Errorf("%q, %v", who, err)
	}
	release()

	at := time.Now().UTC().Truncate(time.Second)
	for i := range directory.MaxPoints + 2 {
		p := directory.Point{Name: fmt.Sprint("p", i), At: at.Add(time.Duration(i) * time.Second), Size: i, Marks: []directory.PointMark{{Shard: "a", LSN: "0/1"}}}
		if err := s.NotePoint(t.Context(), p, []byte(p.Name)); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.Points(t.Context())
	if err != nil || len(list) != directory.MaxPoints || list[0].Name != "p2" || !list[0].Kept || !list[0].At.Equal(at.Add(2*time.Second)) || list[0].Marks[0].LSN != "0/1" {
		t.Fatalf("%d points, %v: %+v", len(list), err, list)
	}
	for name, want := range map[string]string{"p1": "", "p2": "p2", "none": ""} {
		if got, err := s.PointManifest(t.Context(), name); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	// A point changes, and its manifest stays; a manifest that is too long is not kept.
	p := list[5]
	p.Archived = true
	if err := s.NotePoint(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := s.PointManifest(t.Context(), p.Name); err != nil || string(got) != p.Name {
		t.Errorf("%q, %v", got, err)
	}
	if err := s.NotePoint(t.Context(), directory.Point{Name: "long", At: at.Add(time.Hour)}, make([]byte, directory.MaxManifest+1)); err != nil {
		t.Fatal(err)
	}
	if list, err = s.Points(t.Context()); err != nil || list[len(list)-1].Name != "long" || list[len(list)-1].Kept || !list[4].Archived || !list[4].Kept {
		t.Errorf("%v %+v", err, list[len(list)-1])
	}
}
