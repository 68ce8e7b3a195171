package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// figures is one target in one cell: a single run, or the medians over the rounds.
type figures struct {
	TPS       float64 `json:"tps"`
	LatencyMS float64 `json:"latency_ms"`
	CPUMicros float64 `json:"cpu_us_per_transaction,omitempty"` // of the proxy; 0 for direct
	CommitMS  float64 `json:"commit_latency_ms,omitempty"`
	// Trips are the messages to shards per transaction that are waited for: how often the proxy has written, but for its answers to the client.
	Trips float64 `json:"trips_per_transaction,omitempty"`
	Error string  `json:"error,omitempty"`
}

// cell is a workload in one mode with one number of clients.
type cell struct {
	Workload string             `json:"workload"`
	Mode     string             `json:"mode"`
	Clients  int                `json:"clients"`
	Targets  map[string]figures `json:"targets"`
	// Against are the targets divided by PgBouncer.
	Against map[string]ratios `json:"against_pgbouncer,omitempty"`
	// Heat is the CPU of weft divided by that of weft which samples nothing.
	Heat float64 `json:"heat_cpu,omitempty"`
}

// ratios are medians over the rounds of one target's figures divided by PgBouncer's of the same round: what else runs on the machine
// changes from minute to minute, and hits both sides of such a ratio alike.
type ratios struct {
	TPS float64 `json:"tps"`
	CPU float64 `json:"cpu"`
}

func (b *bench) measureWorkload(ctx context.Context, w workload) error {
	for _, mode := range b.opts.Modes {
		for _, clients := range b.opts.Clients {
			c, err := b.measureCell(ctx, w, mode, clients)
			if err != nil {
				return err
			}
			b.report.Cells = append(b.report.Cells, c)
		}
	}
	return nil
}

// measureCell visits the targets in turn, round after round. A target that fails is left out of later rounds and its
// error reported; only the end of ctx ends the measurement.
func (b *bench) measureCell(ctx context.Context, w workload, mode string, clients int) (cell, error) {
	c := cell{Workload: w.Name, Mode: mode, Clients: clients, Targets: map[string]figures{}}
	if err := b.lab.tidy(ctx, w); err != nil {
		return c, err
	}
	runs := map[string][]figures{}
	for round := range b.opts.Rounds {
		for _, t := range b.lab.targets {
			if c.Targets[t.Name].Error != "" {
				continue
			}
			b.lab.progress("%s, %s, %d clients, round %d of %d: %s", w.Name, mode, clients, round+1, b.opts.Rounds, t.Title)
			f, err := b.measureRun(ctx, t, w, mode, clients)
			for try := 1; errors.Is(err, errNoTransaction) && try < 3; try++ {
				b.lab.progress("again: the machine was too busy for pgbench to get under way")
				f, err = b.measureRun(ctx, t, w, mode, clients)
			}
			if ctx.Err() != nil {
				return c, ctx.Err()
			}
			if err != nil {
				b.lab.progress("failed: %v", err)
				c.Targets[t.Name] = figures{Error: err.Error()}
				continue
			}
			runs[t.Name] = append(runs[t.Name], f)
		}
	}
	for name, rs := range runs {
		if c.Targets[name].Error == "" {
			c.Targets[name] = medians(rs)
		}
	}
	c.Against, c.Heat = against(runs, b.opts.Rounds), overCold(runs, b.opts.Rounds)
	return c, nil
}

// against divides the targets that finished all rounds by PgBouncer.
func against(runs map[string][]figures, rounds int) map[string]ratios {
	base := runs[targetPgBouncer]
	if len(base) != rounds {
		return nil
	}
	out := map[string]ratios{}
	for name, rs := range runs {
		if len(rs) != rounds || name == targetPgBouncer {
			continue
		}
		each := make([]ratios, rounds)
		for i, f := range rs {
			each[i] = ratios{TPS: f.TPS / base[i].TPS, CPU: f.CPUMicros / base[i].CPUMicros}
		}
		out[name] = ratios{
			TPS: median(each, func(r ratios) float64 { return r.TPS }),
			CPU: median(each, func(r ratios) float64 { return r.CPU }),
		}
	}
	return out
}

// overCold divides the CPU of weft by that of weft which samples nothing, round by round. 0: one of them has not
// finished all rounds.
func overCold(runs map[string][]figures, rounds int) float64 {
	warm, cold := runs[targetWeft], runs[targetCold]
	if rounds == 0 || len(warm) != rounds || len(cold) != rounds {
		return 0
	}
	each := make([]float64, rounds)
	for i := range each {
		each[i] = warm[i].CPUMicros / cold[i].CPUMicros
	}
	return median(each, func(r float64) float64 { return r })
}

// measureRun is one run of pgbench. Connecting is part of the proxy's CPU time: 64 clients of it spread over tens of
// thousands of transactions is less than a percent.
func (b *bench) measureRun(ctx context.Context, t target, w workload, mode string, clients int) (figures, error) {
	t = t.in(w, mode)
	// A second of the same makes pools, caches and prepared plans what they are in the middle of a long run.
	if _, err := b.lab.runPgbench(ctx, t, w, mode, clients, 1); err != nil && !errors.Is(err, errNoTransaction) {
		return figures{}, err
	}
	stopProfile := b.profile(ctx, t, w, mode, clients)
	before, err := proxyCPU(t)
	if err != nil {
		return figures{}, err
	}
	wrote, counted := writes(t, w)
	res, err := b.lab.runPgbench(ctx, t, w, mode, clients, b.opts.Seconds)
	if profileErr := stopProfile(); err == nil {
		err = profileErr
	}
	if err != nil {
		return figures{}, err
	}
	after, err := proxyCPU(t)
	if err != nil {
		return figures{}, err
	}
	if res.Failed > 0 {
		return figures{}, fmt.Errorf("%d of %d transactions failed", res.Failed, res.Transactions+res.Failed)
	}
	f := figures{
		TPS:       res.TPS,
		LatencyMS: float64(res.Latency) / float64(time.Millisecond),
		CPUMicros: float64(after-before) / float64(time.Microsecond) / float64(res.Transactions),
		CommitMS:  float64(res.Commit) / float64(time.Millisecond),
	}
	if counted {
		if now, ok := writes(t, w); ok {
			f.Trips = float64(now-wrote)/float64(res.Transactions) - float64(w.Commands)
		}
	}
	return f, nil
}

// writes counts the write calls of weft so far. PgBouncer sends in another way, which the kernel does not count.
func writes(t target, w workload) (int64, bool) {
	if w.Commit == "" || t.Name != targetWeft {
		return 0, false
	}
	n, err := writeCalls(t.PID)
	return n, err == nil
}

func proxyCPU(t target) (time.Duration, error) {
	if t.PID == 0 {
		return 0, nil
	}
	return cpuTime(t.PID)
}

func medians(runs []figures) figures {
	return figures{
		TPS:       median(runs, func(f figures) float64 { return f.TPS }),
		LatencyMS: median(runs, func(f figures) float64 { return f.LatencyMS }),
		CPUMicros: median(runs, func(f figures) float64 { return f.CPUMicros }),
		CommitMS:  median(runs, func(f figures) float64 { return f.CommitMS }),
		Trips:     median(runs, func(f figures) float64 { return f.Trips }),
	}
}

// median of a non-empty list; of an even number of values the mean of the middle two.
func median[T any](list []T, value func(T) float64) float64 {
	v := make([]float64, 0, len(list))
	for _, x := range list {
		v = append(v, value(x))
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
