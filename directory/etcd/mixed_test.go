package etcd_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"weft/directory"
	"weft/directory/storetest"
)

// TestNewer: a process that finds a directory of a newer version of weft writes nothing over it and serves what it knows, until the directory
// is one that it reads again.
func TestNewer(t *testing.T) {
	cfg, admin := secured(t)
	st := open(t, cfg)
	made := storetest.Create(t, st)
	cur := directory.NewCurrent(st, quiet)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- cur.Run(ctx) }()
	if _, err := cur.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	key := cfg.Prefix + "snapshot"
	head := func() string {
		got, err := admin.Get(t.Context(), key)
		if err != nil || len(got.Kvs) != 1 {
			t.Fatal(err)
		}
		return string(got.Kvs[0].Value)
	}
	put := func(text string) {
		if _, err := admin.Put(t.Context(), key, text); err != nil {
			t.Fatal(err)
		}
	}
	known := head()
	for newer, want := range map[string]string{
		strings.Replace(known, `"home"`, `"zones":["x"],"home"`, 1):              "newer weft",
		strings.Replace(known, `"hosts"`, `"colour":"red","hosts"`, 1):           "newer weft",
		strings.Replace(known, `"format":2`, `"format":3`, 1):                    "format 3",
		strings.Replace(known, `"parts":{`, `"parts":{"zones":"0123456789",`, 1): "a part is missing",
	} {
		if newer == known {
			t.Fatalf("%s: the text is the same", want)
		}
		put(newer)
		if _, err := st.Load(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("load: %v, want %q", err, want)
		}
		asked := false
		if _, err := st.Update(t.Context(), func(s *directory.Snapshot) (*directory.Snapshot, error) {
			asked = true
			return s, nil
		}); err == nil || asked || !strings.Contains(err.Error(), want) {
			t.Errorf("update: %v, asked %v, want %q", err, asked, want)
		}
		if got := head(); got != newer {
			t.Errorf("the newer text was changed:\n%s\n%s", newer, got)
		}
		wait(t, func() bool { return cur.Err() != nil })
		if got := cur.Snapshot(); got.Version != made.Version {
			t.Errorf("serves version %d, and %d was the last that could be read", got.Version, made.Version)
		}
		put(known) // the feature is taken out of use
		wait(t, func() bool { return cur.Err() == nil && cur.Snapshot().Version > made.Version })
		made = cur.Snapshot()
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestOldProxy: a feature that a live proxy does not know is not used, and the error names the proxy. When that proxy is gone it is used.
func TestOldProxy(t *testing.T) {
	cfg, admin := secured(t)
	st := open(t, cfg)
	made := storetest.Create(t, st)
	const old = `{"id":"old","address":"h:1","host":"h","version":"v0.1"}`
	if _, err := admin.Put(t.Context(), cfg.Prefix+"proxies/old", old); err != nil {
		t.Fatal(err)
	}
	halt := func(s *directory.Snapshot) (*directory.Snapshot, error) {
		return s.WithHalt(&directory.Halt{Key: "k", For: time.Second}), nil
	}
	_, err := st.Update(t.Context(), halt)
	if !errors.Is(err, directory.ErrOldProxy) || !strings.Contains(err.Error(), "old at h:1 (version v0.1)") {
		t.Errorf("with an old proxy: %v", err)
	}
	if got, err := st.Load(t.Context()); err != nil || got.Version != made.Version {
		t.Errorf("something was written: %+v, %v", got, err)
	}
	// What the old proxy knows, it is told.
	if _, err := st.Update(t.Context(), storetest.Tenants); err != nil {
		t.Error(err)
	}
	if _, err := admin.Delete(t.Context(), cfg.Prefix+"proxies/old"); err != nil {
		t.Fatal(err)
	}
	snap, err := st.Update(t.Context(), halt)
	if err != nil || snap.Halt == nil {
		t.Fatalf("%+v, %v", snap, err)
	}
	if snap, err = st.Update(t.Context(), func(s *directory.Snapshot) (*directory.Snapshot, error) { return s.WithoutHalt("k"), nil }); err != nil || snap.Halt != nil {
		t.Errorf("%+v, %v", snap, err)
	}
}
