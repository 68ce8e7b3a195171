package main

import (
	"strings"
	"testing"
)

func TestScatterMedians(t *testing.T) {
	direct := []scatterFigures{{MS: 10}, {MS: 20}, {MS: 40}}
	weft := []scatterFigures{
		{MS: 20, CPUMicros: 100, GrowthKiB: 7},
		{MS: 20, CPUMicros: 300, GrowthKiB: 900},
		{MS: 20, CPUMicros: 200, GrowthKiB: 8},
	}
	got := scatterMedians(weft, direct)
	if want := (scatterFigures{MS: 20, CPUMicros: 200, GrowthKiB: 900, Against: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestScatterTable(t *testing.T) {
	r := &report{Scatters: []scatterFigures{
		{Workload: "merge", Target: targetDirect, MS: 500},
		{Workload: "merge", Target: targetWeft, MS: 750, Against: 1.5, CPUMicros: 9000, GrowthKiB: 2048},
		{Workload: "group-10", Target: targetDirect, MS: 5},
		{Workload: "group-10", Target: targetWeft, Error: "no shard"},
	}}
	var b strings.Builder
	r.scatterTable().print(&b)
	for _, want := range []string{"1.50", "9000", "2.0  < 64", "failed: group-10, weft: no shard"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if err := r.failure(); err == nil || !strings.HasPrefix(err.Error(), "1 ") {
		t.Errorf("failure is %v", err)
	}
}
