package main

import "testing"

// Ratios compare what ran side by side: a round in which the machine was busy must not be held against one target.
func TestAgainst(t *testing.T) {
	got := against(map[string][]figures{
		targetPgBouncer: {{TPS: 1000, CPUMicros: 20}, {TPS: 100, CPUMicros: 40}, {TPS: 900, CPUMicros: 20}},
		targetWeft:      {{TPS: 800, CPUMicros: 40}, {TPS: 80, CPUMicros: 80}, {TPS: 90, CPUMicros: 80}},
		targetDirect:    {{TPS: 1}},
	}, 3)
	if len(got) != 1 || got[targetWeft] != (ratios{TPS: 0.8, CPU: 2}) {
		t.Errorf("got %v", got)
	}
	if got := against(map[string][]figures{targetWeft: {{TPS: 1}}}, 1); got != nil {
		t.Errorf("without PgBouncer: got %v", got)
	}
}

func TestOverCold(t *testing.T) {
	runs := map[string][]figures{
		targetWeft: {{CPUMicros: 20.2}, {CPUMicros: 30}, {CPUMicros: 10.1}},
		targetCold: {{CPUMicros: 20}, {CPUMicros: 20}, {CPUMicros: 10}},
	}
	if got := overCold(runs, 3); got < 1.0099 || got > 1.0101 {
		t.Errorf("got %v", got)
	}
	if got := overCold(runs, 4); got != 0 {
		t.Errorf("a round is missing: got %v", got)
	}
	if got := overCold(map[string][]figures{targetWeft: runs[targetWeft]}, 3); got != 0 {
		t.Errorf("nothing to compare with: got %v", got)
	}
}

func TestGoals(t *testing.T) {
	for _, w := range workloads {
		if w.Name != "select" {
			continue
		}
		if got := w.wantTPS("simple", 16); got != "≥ 0.54" {
			t.Errorf("simple: got %s", got)
		}
		if got := w.wantTPS("simple", 64); got != none {
			t.Errorf("no goal is set for 64 clients: got %s", got)
		}
	}
}
