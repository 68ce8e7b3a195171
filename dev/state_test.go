package dev

import (
	"os"
	"strings"
	"testing"

	"weft/directory"
)

func TestSettle(t *testing.T) {
	none, one, two := 0, 1, 2
	replicated := &state{Shards: 2, Replicas: 1, BucketCount: 16, PortBase: 7000, Complete: true}
	old := &state{Shards: 2, BucketCount: 16, Locale: "C", PGMajor: 15, PortBase: 7000, EtcdPort: 9, Complete: true}
	for _, tc := range []struct {
		name string
		old  *state
		opts Options
		want state
		err  string // a part of it
	}{
		{name: "new, all defaults", want: state{Shards: DefaultShards, BucketCount: directory.DefaultBucketCount, PortBase: DefaultPortBase}},
		{
			name: "new, all given", opts: Options{Shards: 1, BucketCount: 8, Locale: "C", PortBase: 1},
			want: state{Shards: 1, BucketCount: 8, Locale: "C", PortBase: 1},
		},
		{name: "as it was", old: old, want: *old},
		{name: "the same said again", old: old, opts: Options{Shards: 2, BucketCount: 16, Locale: "C"}, want: *old},
		{
			name: "other ports", old: old, opts: Options{PortBase: 8000},
			want: state{Shards: 2, BucketCount: 16, Locale: "C", PGMajor: 15, PortBase: 8000, EtcdPort: 9, Complete: true},
		},
		{
			name: "new, with standbys", opts: Options{Shards: 1, Replicas: &one, BucketCount: 8, PortBase: 1},
			want: state{Shards: 1, Replicas: 1, BucketCount: 8, PortBase: 1},
		},
		{name: "standbys as it was", old: replicated, want: *replicated},
		{
			name: "more standbys", old: replicated, opts: Options{Replicas: &two},
			want: state{Shards: 2, Replicas: 2, BucketCount: 16, PortBase: 7000, Complete: true},
		},
		{name: "fewer standbys", old: replicated, opts: Options{Replicas: &none}, err: "with 1 standbys of each shard, not 0"},
		{
			name: "new, under Patroni", opts: Options{Shards: 1, Replicas: &one, Patroni: true, BucketCount: 8, PortBase: 1},
			want: state{Shards: 1, Replicas: 1, Patroni: true, BucketCount: 8, PortBase: 1},
		},
		{name: "under Patroni as it was", old: &state{Shards: 1, Patroni: true}, want: state{Shards: 1, Patroni: true}},
		{name: "under Patroni, and was not", old: replicated, opts: Options{Patroni: true}, err: "that Patroni does not run"},
		{name: "other shards", old: old, opts: Options{Shards: 3}, err: "a cluster of 2 shards, not 3: start without the flag"},
		{name: "other buckets", old: old, opts: Options{BucketCount: 32}, err: "16 buckets, not 32"},
		{name: "other locale", old: old, opts: Options{Locale: "sv_SE.UTF-8"}, err: `locale "C", not "sv_SE.UTF-8"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := settle(tc.old, tc.opts)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got error %v, want %q in it", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if *got != tc.want {
				t.Errorf("got %+v, want %+v", *got, tc.want)
			}
		})
	}
}

// The ports of standbys follow those of the shards, and no two servers share one.
func TestPorts(t *testing.T) {
	s := &state{Shards: 4, Replicas: 2, PortBase: 6500}
	used := map[int]bool{}
	for i := range s.Shards {
		for k := range s.servers() {
			used[s.port(i, k)] = true
		}
	}
	if len(used) != 12 || s.port(3, 0) != 6503 || s.port(0, 1) != 6504 || s.port(3, 2) != 6511 {
		t.Errorf("ports %v", used)
	}
}

func TestStateSurvives(t *testing.T) {
	dir := t.TempDir()
	if s, err := loadState(dir); s != nil || err != nil {
		t.Fatalf("empty directory: %v, %v", s, err)
	}
	want := state{Shards: 3, BucketCount: 64, Locale: "C", PGMajor: 15, PortBase: 7000, EtcdPort: 7999, Complete: true}
	if err := want.save(dir); err != nil {
		t.Fatal(err)
	}
	got, err := loadState(dir)
	if err != nil || *got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := writeFile(statePath(dir), []byte("{")); err != nil {
		t.Fatal(err)
	}
	if _, err := loadState(dir); err == nil || !strings.Contains(err.Error(), statePath(dir)) {
		t.Errorf("broken file: %v", err)
	}
}

func TestBlank(t *testing.T) {
	dir := t.TempDir()
	s := &state{Shards: 2}
	if !s.blank(dir) {
		t.Error("no shard made: not blank")
	}
	if err := os.Mkdir(shardDir(dir, 1), 0o755); err != nil {
		t.Fatal(err)
	}
	if s.blank(dir) {
		t.Error("one shard made: blank")
	}
	if (&state{Shards: 1, Complete: true}).blank(dir) {
		t.Error("complete once, all shards lost: blank")
	}
}
