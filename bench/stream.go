package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// streamFigures is a large result on its way through a target.
type streamFigures struct {
	Target    string  `json:"target"`
	MB        float64 `json:"mb"`
	MBPerSec  float64 `json:"mb_per_s"`
	GrowthKiB int64   `json:"peak_growth_kib"` // of the proxy's memory over what it had before
	CPUMillis float64 `json:"cpu_ms_per_gb"`   // of the proxy
	Error     string  `json:"error,omitempty"`
}

// measureStreams repeats the transfer like a cell: targets in turn, median speed, worst memory.
func (b *bench) measureStreams(ctx context.Context) error {
	runs := map[string][]streamFigures{}
	failed := map[string]string{}
	for range b.opts.Rounds {
		for _, t := range b.lab.targets {
			if failed[t.Name] != "" {
				continue
			}
			b.lab.progress("streaming %d MB: %s", b.opts.StreamMB, t.Title)
			f, err := streamOnce(ctx, t, b.opts.StreamMB)
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
	for _, t := range b.lab.targets {
		f := streamFigures{Target: t.Name, Error: failed[t.Name]}
		if rs := runs[t.Name]; f.Error == "" {
			f.MB = rs[0].MB
			f.MBPerSec = median(rs, func(f streamFigures) float64 { return f.MBPerSec })
			f.CPUMillis = median(rs, func(f streamFigures) float64 { return f.CPUMillis })
			for _, r := range rs {
				f.GrowthKiB = max(f.GrowthKiB, r.GrowthKiB)
			}
		}
		b.report.Streams = append(b.report.Streams, f)
	}
	return nil
}

func streamOnce(ctx context.Context, t target, mb int) (f streamFigures, err error) {
	conn, err := pgconn.Connect(ctx, t.dsn())
	if err != nil {
		return f, err
	}
	// From here the bytes are read without being looked at: the client's own work is the same for every target and
	// as small as can be.
	h, err := conn.Hijack()
	if err != nil {
		return f, fmt.Errorf("take over connection: %w", err)
	}
	defer h.Conn.Close()
	defer context.AfterFunc(ctx, func() { h.Conn.Close() })()

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
	start := time.Now()
	n, err := drainQuery(h.Conn, bufio.NewReaderSize(h.Conn, 256<<10), fmt.Sprintf("SELECT repeat('x', 1000) FROM generate_series(1, %d)", mb*1000))
	if err != nil {
		return f, fmt.Errorf("stream: %w", err)
	}
	took := time.Since(start)
	after, err := proxyCPU(t)
	if err != nil {
		return f, err
	}
	if t.PID != 0 {
		peak, err := peakKiB(t.PID)
		if err != nil {
			return f, err
		}
		f.GrowthKiB = peak - base
	}
	_, _ = h.Conn.Write([]byte{'X', 0, 0, 0, 4}) // Terminate; the figures are taken.
	f.MB = float64(n) / 1e6
	f.MBPerSec = f.MB / took.Seconds()
	f.CPUMillis = float64(after-before) / float64(time.Millisecond) / (f.MB / 1000)
	if want := int64(mb) * 1e6; n < want {
		return f, fmt.Errorf("stream: %d bytes came, want at least %d", n, want)
	}
	return f, nil
}

// drainQuery sends a simple query and reads its answer up to ReadyForQuery, counting bytes. The reader is the connection's.
func drainQuery(conn net.Conn, r *bufio.Reader, sql string) (int64, error) {
	msg, err := (&pgproto3.Query{String: sql}).Encode(nil)
	if err != nil {
		return 0, err
	}
	if _, err := conn.Write(msg); err != nil {
		return 0, err
	}
	var total int64
	for {
		var head [5]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return total, err
		}
		size := int(binary.BigEndian.Uint32(head[1:])) - 4
		if size < 0 {
			return total, fmt.Errorf("message %q of length %d", head[0], size+4)
		}
		total += int64(len(head) + size)
		if head[0] == 'E' {
			return total, readError(r, size)
		}
		if _, err := r.Discard(size); err != nil {
			return total, err
		}
		if head[0] == 'Z' {
			return total, nil
		}
	}
}

func readError(r io.Reader, size int) error {
	body := make([]byte, min(size, 64<<10))
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	var e pgproto3.ErrorResponse
	if err := e.Decode(body); err != nil {
		return err
	}
	return fmt.Errorf("%s: %s (SQLSTATE %s)", e.Severity, e.Message, e.Code)
}
