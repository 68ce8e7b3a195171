package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"
)

// idleFigures says what clients that do nothing cost a proxy.
type idleFigures struct {
	Target       string  `json:"target"`
	Clients      int     `json:"clients"`
	ConnectedKiB float64 `json:"connected_kib"` // per client, having done nothing yet
	UsedKiB      float64 `json:"used_kib"`      // per client, after one query each
	CPUMillis    float64 `json:"cpu_ms_per_s"`  // of the proxy, all clients idle
	Error        string  `json:"error,omitempty"`
}

func (b *bench) measureIdle(ctx context.Context) error {
	for _, t := range b.lab.targets {
		if t.PID == 0 || t.Name == targetBaseline { // The relay would need a server connection per client.
			continue
		}
		b.lab.progress("%d idle clients: %s", b.opts.Idle, t.Title)
		f, err := idleCost(ctx, t, b.opts.Idle, b.opts.settle)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			b.lab.progress("failed: %v", err)
			f.Error = err.Error()
		}
		f.Target, f.Clients = t.Name, b.opts.Idle
		b.report.Idle = append(b.report.Idle, f)
	}
	return nil
}

func idleCost(ctx context.Context, t target, n int, settle time.Duration) (f idleFigures, err error) {
	conns := make([]*pgconn.PgConn, n)
	defer func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close(context.WithoutCancel(ctx)) // A Terminate that is not heard does no harm.
			}
		}
	}()
	// The first client pays for what all share.
	if err := execute(ctx, t, "SELECT 1"); err != nil {
		return f, err
	}
	base, err := settledKiB(ctx, t.PID, settle)
	if err != nil {
		return f, err
	}
	if err := each(ctx, n, func(ctx context.Context, i int) (err error) {
		conns[i], err = pgconn.Connect(ctx, t.dsn())
		return err
	}); err != nil {
		return f, fmt.Errorf("open idle clients: %w", err)
	}
	connected, err := settledKiB(ctx, t.PID, settle)
	if err != nil {
		return f, err
	}
	if err := each(ctx, n, func(ctx context.Context, i int) error {
		_, err := conns[i].Exec(ctx, "SELECT 1").ReadAll()
		return err
	}); err != nil {
		return f, fmt.Errorf("one query per idle client: %w", err)
	}
	used, err := settledKiB(ctx, t.PID, settle)
	if err != nil {
		return f, err
	}
	before, err := cpuTime(t.PID)
	if err != nil {
		return f, err
	}
	if err := sleep(ctx, settle); err != nil {
		return f, err
	}
	after, err := cpuTime(t.PID)
	if err != nil {
		return f, err
	}
	f.ConnectedKiB = float64(connected-base) / float64(n)
	f.UsedKiB = float64(used-base) / float64(n)
	f.CPUMillis = float64(after-before) / float64(time.Millisecond) / settle.Seconds()
	return f, nil
}

// each calls f for 0 to n-1, a few at a time: a listen queue is not what is measured here.
func each(ctx context.Context, n int, f func(context.Context, int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i := range n {
		g.Go(func() error { return f(ctx, i) })
	}
	return g.Wait()
}

func settledKiB(ctx context.Context, pid int, settle time.Duration) (int64, error) {
	if err := sleep(ctx, settle); err != nil {
		return 0, err
	}
	return residentKiB(pid)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
