package standby

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

var measure = flag.Duration("measure", 0, "how long each measurement of TestBench takes; 0: none")

// TestBench measures reads per second, and the processor time of all processes for each, on primaries alone and with standbys. It needs -measure: it takes all cores.
func TestBench(t *testing.T) {
	if *measure == 0 {
		t.Skip("measures only with -measure: it takes all cores for minutes")
	}
	w := newWorld(t)
	for range 2 {
		for _, target := range []string{"primary", "any"} {
			reads, busy := w.load(target, *measure)
			t.Logf("%-8s %8.0f reads/s, %6.1f µs of processor time for each read", target, float64(reads)/measure.Seconds(), busy.Seconds()*1e6/float64(max(reads, 1)))
		}
	}
}

// load has clients read rows by key for a time, and returns how many reads there were and how long processors were busy.
func (w *world) load(target string, d time.Duration) (reads int64, busy time.Duration) {
	w.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), d)
	defer stop()
	var n atomic.Int64
	var wg sync.WaitGroup
	before := processors(w.t)
	for i := range 16 {
		c := w.proxy.Connect(w.t, "postgres", "dbname=postgres", "options='-c weft.target="+target+"'")
		wg.Go(func() {
			for k := i; ctx.Err() == nil; k++ {
				var v int
				if err := c.QueryRow(ctx, "select v from t where k = $1", 1+k%40).Scan(&v); err != nil && err != pgx.ErrNoRows {
					return
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return n.Load(), processors(w.t) - before
}

// processors returns for how long the processors of the machine have worked.
func processors(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Skip("only Linux says how long processors have worked")
	}
	f := strings.Fields(strings.SplitN(string(text), "\n", 2)[0])
	var ticks int64
	for i, v := range f[1:] {
		if i == 3 || i == 4 { // idle, and waiting for disks
			continue
		}
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			t.Fatal(fmt.Errorf("/proc/stat: %w", err))
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
