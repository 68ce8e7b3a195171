package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
)

// report is everything a run found out.
type report struct {
	Machine  machine          `json:"machine"`
	Options  options          `json:"options"`
	Idle     []idleFigures    `json:"idle,omitempty"`
	Streams  []streamFigures  `json:"streams,omitempty"`
	Scatters []scatterFigures `json:"scatters,omitempty"`
	Copies   []copyFigures    `json:"copies,omitempty"`
	Cells    []cell           `json:"cells,omitempty"`
}

const none = "–"

func (r *report) workloadTable(w workload, l *lab) *table {
	t := &table{
		title: fmt.Sprintf("%s: transactions per second, mean latency, CPU of the proxy per transaction (median of %d × %d s)",
			w.Title, r.Options.Rounds, r.Options.Seconds),
		groups: []group{{"", []string{"mode", "clients"}}},
		notes:  slices.Clone(l.notes),
	}
	for _, tg := range l.targets {
		columns := []string{"tps", "ms"}
		if w.Commit != "" {
			columns = append(columns, "commit ms")
		}
		if w.Commit != "" && tg.Name == targetWeft {
			columns = append(columns, "trips")
		}
		if tg.PID != 0 {
			columns = append(columns, "CPU µs")
		}
		t.groups = append(t.groups, group{tg.Title, columns})
	}
	withPgBouncer := slices.ContainsFunc(l.targets, func(t target) bool { return t.Name == targetPgBouncer })
	var compared []target
	for _, tg := range l.targets {
		if withPgBouncer && tg.PID != 0 && tg.Name != targetPgBouncer {
			compared = append(compared, tg)
			columns := []string{"tps", "CPU"}
			if w.Sharded && tg.Name == targetWeft {
				columns = []string{"tps", "want", "CPU", "want"}
			}
			t.groups = append(t.groups, group{tg.Title + " ÷ PgBouncer", columns})
		}
	}
	withCold := slices.ContainsFunc(l.targets, func(t target) bool { return t.Name == targetCold })
	if withCold {
		t.groups = append(t.groups, group{"heat on ÷ off", []string{"CPU", "want"}})
	}
	if w.MostCPU > 0 {
		t.notes = append(t.notes, fmt.Sprintf("A transaction is to cost weft at most %.0f µs. Trips are messages to shards that it waits for.", w.MostCPU))
	}
	for _, c := range r.Cells {
		if c.Workload != w.Name {
			continue
		}
		row := []string{c.Mode, strconv.Itoa(c.Clients)}
		for _, tg := range l.targets {
			f := c.Targets[tg.Name]
			if f.Error != "" {
				row = append(row, "failed", none)
				t.notes = append(t.notes, fmt.Sprintf("failed: %s, %s, %d clients: %s", tg.Title, c.Mode, c.Clients, f.Error))
			} else {
				row = append(row, fmt.Sprintf("%.0f", f.TPS), fmt.Sprintf("%.3f", f.LatencyMS))
			}
			if w.Commit != "" {
				row = append(row, positive(f.CommitMS, "%.3f"))
			}
			if w.Commit != "" && tg.Name == targetWeft {
				row = append(row, positive(f.Trips, "%.2f"))
			}
			if tg.PID != 0 {
				row = append(row, positive(f.CPUMicros, "%.1f"))
			}
		}
		for _, tg := range compared {
			r := c.Against[tg.Name]
			tps, cpu := positive(r.TPS, "%.2f"), positive(r.CPU, "%.2f")
			if w.Sharded && tg.Name == targetWeft {
				row = append(row, tps, w.wantTPS(c.Mode, c.Clients), cpu, w.wantCPU())
			} else {
				row = append(row, tps, cpu)
			}
		}
		if withCold {
			row = append(row, positive(c.Heat, "%.4f"), "≤ 1.005")
		}
		t.add(row...)
	}
	return t
}

func (r *report) idleTable() *table {
	t := &table{
		title:  fmt.Sprintf("%d idle clients: memory of the proxy per client, and its CPU", r.Options.Idle),
		groups: []group{{"", []string{"proxy"}}, {"KiB per client", []string{"connected", "after a query"}}, {"", []string{"CPU ms/s"}}},
	}
	for _, f := range r.Idle {
		if f.Error != "" {
			t.add(f.Target, "failed", none, none)
			t.notes = append(t.notes, fmt.Sprintf("failed: %s: %s", f.Target, f.Error))
			continue
		}
		t.add(f.Target, fmt.Sprintf("%.1f", f.ConnectedKiB), fmt.Sprintf("%.1f", f.UsedKiB), fmt.Sprintf("%.2f", f.CPUMillis))
	}
	return t
}

func (r *report) streamTable() *table {
	t := &table{
		title:  fmt.Sprintf("one result of %d MB: speed (median), growth of the proxy's memory at its peak (worst)", r.Options.StreamMB),
		groups: []group{{"", []string{"target", "MB/s", "÷ direct", "growth MiB", "CPU ms/GB"}}},
	}
	var direct float64
	for _, f := range r.Streams {
		if f.Target == targetDirect {
			direct = f.MBPerSec
		}
	}
	for _, f := range r.Streams {
		if f.Error != "" {
			t.add(f.Target, "failed", none, none, none)
			t.notes = append(t.notes, fmt.Sprintf("failed: %s: %s", f.Target, f.Error))
			continue
		}
		growth, cpu := none, none
		if f.Target != targetDirect {
			growth = fmt.Sprintf("%.1f", float64(f.GrowthKiB)/1024)
			cpu = fmt.Sprintf("%.0f", f.CPUMillis)
		}
		t.add(f.Target, fmt.Sprintf("%.0f", f.MBPerSec), ratio(f.MBPerSec, direct), growth, cpu)
	}
	return t
}

func positive(v float64, format string) string {
	if v <= 0 {
		return none
	}
	return fmt.Sprintf(format, v)
}

func ratio(a, b float64) string {
	if a <= 0 || b <= 0 {
		return none
	}
	return fmt.Sprintf("%.2f", a/b)
}

func (r *report) writeJSON(name string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("json: %w", err)
	}
	return os.WriteFile(name, append(b, '\n'), 0o644)
}

// failure is an error if any figure is missing: a table with holes must not pass for a good run in CI.
func (r *report) failure() error {
	n := 0
	for _, f := range r.Idle {
		n += holes(f.Error)
	}
	for _, f := range r.Streams {
		n += holes(f.Error)
	}
	for _, f := range r.Scatters {
		n += holes(f.Error)
	}
	for _, f := range r.Copies {
		n += holes(f.Error)
	}
	for _, c := range r.Cells {
		for _, f := range c.Targets {
			n += holes(f.Error)
		}
	}
	if n == 0 {
		return nil
	}
	return errors.New(strconv.Itoa(n) + " measurements failed, see the notes under the tables")
}

func holes(err string) int {
	if err != "" {
		return 1
	}
	return 0
}
