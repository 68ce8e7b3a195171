package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"weft/directory"
)

// testLevel: a snapshot that a live proxy could not read is not stored. An older proxy is one whose registration says no level.
func testLevel(t *testing.T, store directory.Store) {
	Create(t, store)
	halt := func() (*directory.Snapshot, error) {
		return store.Update(t.Context(), func(s *directory.Snapshot) (*directory.Snapshot, error) {
			return s.WithHalt(&directory.Halt{Key: "k", For: time.Second}), nil
		})
	}
	r, ok := store.(directory.Registry)
	if !ok {
		t.Skip("this store lists no proxies")
	}
	ctx, cancel := context.WithCancel(t.Context())
	came, gone := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(gone)
		_ = r.Register(ctx, directory.Proxy{ID: "new", Address: "h:1"}, directory.NewCurrent(store, nil), func(int64) { came <- struct{}{} })
	}()
	<-came
	list, err := r.Proxies(t.Context())
	if err != nil || len(list) != 1 || list[0].Level != directory.Level {
		t.Errorf("%+v, %v", list, err)
	}
	snap, err := halt()
	if err != nil || snap.Halt == nil || directory.Readable(snap, list) != nil {
		t.Fatalf("%+v, %v", snap, err)
	}
	list[0].Level = 0
	if err := directory.Readable(snap, list); !errors.Is(err, directory.ErrOldProxy) {
		t.Errorf("an old proxy: %v", err)
	}
	cancel()
	<-gone
}
