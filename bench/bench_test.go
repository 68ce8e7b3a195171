package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weft/pgserver/pgtest"
)

// small is a run of a few seconds with everything in it.
func small(t *testing.T, more ...string) options {
	t.Helper()
	o, err := parseOptions(append([]string{
		"-baseline", "-scale", "1", "-clients", "4", "-modes", "prepared",
		"-workloads", "idle,stream,readwrite,scatter-few,join-near,merge", "-seconds", "1", "-rounds", "1", "-idle", "50", "-stream-mb", "20",
	}, more...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	o.settle = 100 * time.Millisecond
	return o
}

func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	temp := pgtest.Dir(t)
	t.Setenv("TMPDIR", temp)
	var out, log strings.Builder
	if err := run(t.Context(), small(t, "-json", file), &out, &log); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	t.Log(out.String())
	for _, want := range []string{" cores", "PostgreSQL 1", "50 idle clients", "one result of 20 MB", "statements over 4 shards", "read-write transaction"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in the output", want)
		}
	}

	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Cells) != 1 || len(r.Streams) < 2 {
		t.Fatalf("got %d cells and %d streams", len(r.Cells), len(r.Streams))
	}
	for name, f := range r.Cells[0].Targets {
		// A proxy's work lies between a microsecond and ten milliseconds, or something else was measured.
		if f.TPS <= 0 || f.LatencyMS <= 0 || (name != targetDirect) != (f.CPUMicros > 1 && f.CPUMicros < 10_000) {
			t.Errorf("%s: %+v", name, f)
		}
	}
	for _, name := range []string{targetDirect, targetWeft, targetBaseline} { // PgBouncer may be missing.
		if _, ok := r.Cells[0].Targets[name]; !ok {
			t.Errorf("%s was not measured", name)
		}
	}
	if len(r.Scatters) != 6 {
		t.Errorf("got %d figures of statements over all shards", len(r.Scatters))
	}
	for _, f := range r.Scatters {
		if f.MS <= 0 || (f.Target == targetWeft) != (f.CPUMicros > 1) || f.Against <= 0 {
			t.Errorf("%+v", f)
		}
	}
	for _, s := range r.Streams {
		if s.MB < 20 || s.MBPerSec <= 0 {
			t.Errorf("stream: %+v", s)
		}
	}
	empty(t, temp)
}

func TestRunInterrupted(t *testing.T) {
	temp := pgtest.Dir(t)
	t.Setenv("TMPDIR", temp)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan time.Time, 1)
	log := &trigger{text: "readwrite, prepared", then: func() {
		time.AfterFunc(time.Second, func() {
			stopped <- time.Now()
			cancel()
		})
	}}
	err := run(ctx, small(t, "-workloads", "readwrite", "-seconds", "600"), io.Discard, log)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want to be told of the interruption", err)
	}
	select {
	case at := <-stopped:
		if took := time.Since(at); took > time.Minute {
			t.Errorf("stopping took %v", took)
		}
	default:
		t.Error("it ended by itself")
	}
	empty(t, temp)
}

// trigger calls then when text is written.
type trigger struct {
	text string
	then func()
}

func (w *trigger) Write(b []byte) (int, error) {
	if strings.Contains(string(b), w.text) {
		w.then()
	}
	return len(b), nil
}

// empty checks that a run left nothing behind in its directory for temporary files, and no process with a file in it.
func empty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("%s was left behind", e.Name())
	}
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range procs {
		if b, err := os.ReadFile(p); err == nil && strings.Contains(string(b), dir) {
			t.Errorf("still running: %q", b)
		}
	}
}
