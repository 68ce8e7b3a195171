package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/auth"
)

func setting(t *testing.T, c Config, path string) Setting {
	t.Helper()
	for _, s := range c.Settings() {
		if s.Path == path {
			return s
		}
	}
	t.Fatalf("no setting %s", path)
	return Setting{}
}

func TestSettings(t *testing.T) {
	c := Default()
	c.Etcd.Endpoints = []string{"a:1", "b:2"}
	c.Auth.Users = []auth.User{{Name: "app", Password: "marked-1", ServerPassword: "marked-2", MaxConnections: 3}}
	c.Auth.MockSecret, c.Etcd.Password, c.Service.Password = "marked-3", "marked-4", "marked-5"
	for path, want := range map[string]Setting{
		"listen":                 {"listen", "127.0.0.1:6432", false},
		"pool.max_per_shard":     {"pool.max_per_shard", "80", true},
		"pool.idle_timeout":      {"pool.idle_timeout", "10m0s", true},
		"gather.scatter":         {"gather.scatter", "true", true},
		"gather.max_bytes":       {"gather.max_bytes", "1GiB", true},
		"limits.max_query_bytes": {"limits.max_query_bytes", "64MiB", true},
		"log.level":              {"log.level", "info", true},
		"log.format":             {"log.format", "text", false},
		"log.slow_statement":     {"log.slow_statement", "0s", true},
		"tracing.ratio":          {"tracing.ratio", "0.01", true},
		"etcd.endpoints":         {"etcd.endpoints", "[a:1, b:2]", false},
		"etcd.password":          {"etcd.password", "(secret)", false},
		"etcd.username":          {"etcd.username", "", false},
		"auth.users":             {"auth.users", "[app]", true},
	} {
		if got := setting(t, c, path); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	for _, s := range c.Settings() {
		if strings.Contains(s.Value, "marked") {
			t.Errorf("%s shows %s", s.Path, s.Value)
		}
	}
}

// What can be reloaded is taken from the new file, the rest stays.
func TestKeep(t *testing.T) {
	old := Default()
	next := old
	next.Listen, next.Log.Format = ":1", "json"
	next.Pool.MaxPerShard, next.Log.Level, next.AdminUsers = 7, "debug", []string{"ops"}
	next.Auth.Users = []auth.User{{Name: "app", Password: "marked"}}
	next.Log.SlowStatement = time.Second
	kept, restart := old.Keep(next)
	if !slices.Equal(restart, []string{"listen", "log.format"}) || kept.Listen != old.Listen || kept.Log.Format != "text" {
		t.Errorf("restart %v, %+v", restart, kept)
	}
	if kept.Pool.MaxPerShard != 7 || kept.Log.Level != "debug" || len(kept.Auth.Users) != 1 {
		t.Errorf("%+v", kept)
	}
	want := []string{"admin_users", "auth.users", "pool.max_per_shard from 80 to 7", "log.level from info to debug", "log.slow_statement from 0s to 1s"}
	if got := old.Changes(kept); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if next.Listen != ":1" {
		t.Error("Keep has changed its argument")
	}
	if same, restart := old.Keep(old); len(restart) > 0 || !reflect.DeepEqual(same, old) || len(old.Changes(old)) > 0 {
		t.Errorf("nothing has changed: %v %v", restart, old.Changes(old))
	}
}

// Each name in the list is that of a key.
func TestReloaded(t *testing.T) {
	all := Default().Settings()
	for _, r := range reloaded {
		if !slices.ContainsFunc(all, func(s Setting) bool { return s.Path == r || strings.HasPrefix(s.Path, r+".") }) {
			t.Errorf("there is no key %s", r)
		}
	}
}
