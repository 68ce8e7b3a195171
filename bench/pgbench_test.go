package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestParsePgbench(t *testing.T) {
	for file, want := range map[string]pgbenchResult{
		"testdata/pgbench-15.txt": {Transactions: 43210, TPS: 21789.123456, Latency: 734 * time.Microsecond},
		"testdata/pgbench-13.txt": {Transactions: 9876, TPS: 9901.9901, Latency: 101 * time.Microsecond},
	} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parsePgbench(string(b), "")
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v; want %+v", file, got, err, want)
		}
	}
}

func TestParsePgbenchTroubles(t *testing.T) {
	b, err := os.ReadFile("testdata/pgbench-15.txt")
	if err != nil {
		t.Fatal(err)
	}
	good := string(b)

	r, err := parsePgbench(strings.Replace(good, "failed transactions: 0", "failed transactions: 17", 1), "")
	if err != nil || r.Failed != 17 {
		t.Errorf("failed transactions: got %+v, %v; want 17 of them", r, err)
	}
	for name, out := range map[string]string{
		"nothing":      "",
		"no tps":       strings.Replace(good, "tps = ", "speed = ", 1),
		"no latency":   strings.Replace(good, "latency average", "latency stddev", 1),
		"zero":         strings.Replace(good, "processed: 43210", "processed: 0", 1),
		"aborted":      good + "pgbench: error: Run was aborted; the above results are incomplete.\n",
		"not a number": strings.Replace(good, "tps = 21789.123456", "tps = 1.2.3", 1),
	} {
		if r, err := parsePgbench(out, ""); err == nil {
			t.Errorf("%s: accepted as %+v", name, r)
		}
	}
}

func TestParsePgbenchCommands(t *testing.T) {
	b, err := os.ReadFile("testdata/pgbench-15.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, lines := range []string{
		"statement latencies in milliseconds and failures:\n         0.573           0  BEGIN;\n        10.260           0  END;\n", // 15
		"statement latencies in milliseconds:\n         0.573  BEGIN;\n        10.260  END;\n",                                      // 14
	} {
		r, err := parsePgbench(string(b)+lines, "END;")
		if err != nil || r.Commit != 10260*time.Microsecond {
			t.Errorf("got %v, %v", r.Commit, err)
		}
	}
	if _, err := parsePgbench(string(b), "END;"); err == nil {
		t.Error("a latency that is not there was found")
	}
}
