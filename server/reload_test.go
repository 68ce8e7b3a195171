package server

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"weft/auth"
	"weft/config"
	"weft/console"
	"weft/directory/storetest"
)

func TestReload(t *testing.T) {
	e := etcdServer(t)
	store, _ := e.Store("main")
	storetest.Create(t, store)
	front := newEcho(t)
	cfg := testConfig()
	file, bad := cfg, error(nil)
	level := new(slog.LevelVar)
	var log strings.Builder
	s, err := start(t.Context(), Options{
		Config: cfg, Store: store, Log: slog.New(slog.NewTextHandler(&log, nil)), Level: level,
		Load: func() (config.Config, error) { return file, bad },
	}, front.maker)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	file = *s.config.Load() // with the endpoints that start has put there
	value := func(name string) string {
		i := slices.IndexFunc(s.settings(), func(c console.Setting) bool { return c.Name == name })
		return s.settings()[i].Value
	}

	file.Pool.MaxPerShard, file.Log.Level, file.Listen = 5, "debug", "127.0.0.1:1"
	file.Auth.Users = []auth.User{{Name: "new", Password: "marked"}}
	notes, err := s.Reload(t.Context())
	if err != nil || !slices.Contains(notes, "needs a restart: listen") || !slices.Contains(notes, "changed: auth.users") ||
		!slices.Contains(notes, "changed: pool.max_per_shard from 80 to 5") {
		t.Errorf("%q, %v", notes, err)
	}
	if front.config == nil || front.config.Pool.MaxPerShard != 5 || front.config.Auth == nil || level.Level() != slog.LevelDebug {
		t.Errorf("the frontend was given %+v", front.config)
	}
	if value("listen") != "127.0.0.1:0" || value("pool.max_per_shard") != "5" {
		t.Errorf("in effect: listen %s, max_per_shard %s", value("listen"), value("pool.max_per_shard"))
	}

	// A bad file changes nothing.
	front.config = nil
	for name, spoil := range map[string]func(){
		"unreadable":  func() { bad = errors.New("no such file") },
		"invalid":     func() { file.Pool.Mode = "x" },
		"certificate": func() { file.TLS.Cert, file.TLS.Key = "/none", "/none" },
		"verifier":    func() { file.Auth.Users = []auth.User{{Name: "a", Password: "SCRAM-SHA-256$x"}} },
	} {
		good := file
		file.Pool.MaxPerShard, file.Log.Level = 9, "error"
		spoil()
		if _, err := s.Reload(t.Context()); err == nil {
			t.Errorf("%s: reloaded", name)
		}
		file, bad = good, nil
	}
	if front.config != nil || level.Level() != slog.LevelDebug || value("pool.max_per_shard") != "5" {
		t.Error("something of a bad file was taken")
	}
	if notes, err = s.Reload(t.Context()); err != nil || !slices.Equal(notes, []string{"needs a restart: listen"}) {
		t.Errorf("%q, %v", notes, err)
	}
	if strings.Contains(log.String(), "marked") {
		t.Error("a password is in the log")
	}
}
