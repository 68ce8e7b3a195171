package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// workloadCopy loads rows of about 100 bytes by COPY: into one server, and through weft into all shards.
const workloadCopy = "copy"

const (
	copyRows = 1_000_000
	// goalCopyCPU is the most a row may cost the proxy. SPQR takes 2.8 µs.
	goalCopyCPU = 1.4
	// goalCopyMiB is the most the proxy's memory may grow.
	goalCopyMiB = 64
)

// copyTable is that of the peers' figures.
const copyTable = "CREATE TABLE bench_load (k int, a int, b int, filler char(84))"

// copyFigures is one load: medians over the rounds, and the worst growth.
type copyFigures struct {
	Target    string  `json:"target"`
	MS        float64 `json:"ms"`
	CPUMicros float64 `json:"cpu_us_per_row,omitempty"` // of the proxy
	GrowthKiB int64   `json:"peak_growth_kib,omitempty"`
	Error     string  `json:"error,omitempty"`
}

// loadedRows makes the data up as it is read.
type loadedRows struct {
	next   int
	buf    []byte
	filler []byte
}

func (l *loadedRows) Read(p []byte) (int, error) {
	for len(l.buf) < len(p) && l.next < copyRows {
		l.buf = strconv.AppendInt(l.buf, int64(l.next), 10)
		l.buf = append(l.buf, '\t')
		l.buf = strconv.AppendInt(l.buf, int64(l.next%1000), 10)
		l.buf = append(l.buf, "\t0\t"...)
		l.buf = append(append(l.buf, l.filler...), '\n')
		l.next++
	}
	if len(l.buf) == 0 {
		return 0, io.EOF
	}
	n := copy(p, l.buf)
	l.buf = l.buf[:copy(l.buf, l.buf[n:])]
	return n, nil
}

// measureCopy loads the same rows target after target, in rounds.
func (b *bench) measureCopy(ctx context.Context) error {
	targets := slices.DeleteFunc(slices.Clone(b.lab.targets), func(t target) bool { return t.Name != targetDirect && t.Name != targetWeft })
	if err := execute(ctx, b.lab.server, copyTable); err != nil {
		return err
	}
	if b.opts.wants(targetWeft) {
		if err := execute(ctx, b.lab.admin, copyTable, "SELECT weft.shard_table('bench_load', 'k')"); err != nil {
			return err
		}
	}
	runs := map[string][]copyFigures{}
	failed := map[string]string{}
	for round := range b.opts.Rounds {
		for _, t := range targets {
			if failed[t.Name] != "" {
				continue
			}
			b.lab.progress("copy: %s, round %d of %d", t.Title, round+1, b.opts.Rounds)
			f, err := b.copyOnce(ctx, t.in(workload{Sharded: true}, ""))
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				b.lab.progress("failed: %v", err)
				failed[t.Name] = err.Error()
				continue
			}
			runs[t.Name] = append(runs[t.Name], f)
		}
	}
	for _, t := range targets {
		f := copyFigures{Target: t.Name, Error: failed[t.Name]}
		if rs := runs[t.Name]; f.Error == "" {
			f.MS = median(rs, func(f copyFigures) float64 { return f.MS })
			f.CPUMicros = median(rs, func(f copyFigures) float64 { return f.CPUMicros })
			for _, r := range rs {
				f.GrowthKiB = max(f.GrowthKiB, r.GrowthKiB)
			}
		}
		b.report.Copies = append(b.report.Copies, f)
	}
	return nil
}

func (b *bench) copyOnce(ctx context.Context, t target) (f copyFigures, err error) {
	conn, err := pgconn.Connect(ctx, t.dsn())
	if err != nil {
		return f, err
	}
	defer conn.Close(ctx)
	for _, sql := range []string{"TRUNCATE bench_load", "CHECKPOINT"} {
		if _, err := conn.Exec(ctx, sql).ReadAll(); err != nil {
			return f, err
		}
	}
	var base int64
	if t.PID != 0 {
		if base, err = resetPeak(t.PID); err != nil {
			return f, err
		}
	}
	before, err := proxyCPU(t)
	if err != nil {
		return f, err
	}
	began := time.Now()
	filler := make([]byte, 84)
	for i := range filler {
		filler[i] = 'x'
	}
	tag, err := conn.CopyFrom(ctx, &loadedRows{filler: filler}, "COPY bench_load FROM STDIN")
	if err != nil {
		return f, err
	}
	f.MS = time.Since(began).Seconds() * 1000
	if tag.RowsAffected() != copyRows {
		return f, fmt.Errorf("loaded %d rows, not %d", tag.RowsAffected(), copyRows)
	}
	after, err := proxyCPU(t)
	if err != nil {
		return f, err
	}
	f.CPUMicros = float64(after-before) / float64(time.Microsecond) / copyRows
	if t.PID != 0 {
		peak, err := peakKiB(t.PID)
		if err != nil {
			return f, err
		}
		f.GrowthKiB = peak - base
	}
	return f, nil
}

func (r *report) copyTable() *table {
	t := &table{
		title: fmt.Sprintf("COPY of %d rows of 100 bytes into %d shards, against one PostgreSQL: CPU of the proxy per row, growth of its memory (median of %d)",
			copyRows, r.Options.Shards, r.Options.Rounds),
		groups: []group{
			{"", []string{"target"}},
			{"", []string{"ms", "÷ PostgreSQL", "CPU µs per row", "want", "growth MiB", "want"}},
		},
	}
	direct := 0.0
	for _, f := range r.Copies {
		if f.Target == targetDirect {
			direct = f.MS
		}
		row := []string{f.Target, positive(f.MS, "%.0f"), none, none, none, none, none}
		if f.Target == targetWeft && f.Error == "" {
			if direct > 0 {
				row[2] = fmt.Sprintf("%.2f", f.MS/direct)
			}
			row = append(row[:3], fmt.Sprintf("%.2f", f.CPUMicros), fmt.Sprintf("< %.1f", goalCopyCPU), fmt.Sprintf("%.1f", float64(f.GrowthKiB)/1024), fmt.Sprintf("< %d", goalCopyMiB))
		}
		t.add(row...)
		if f.Error != "" {
			t.notes = append(t.notes, fmt.Sprintf("failed: %s: %s", f.Target, f.Error))
		}
	}
	return t
}
