package standby

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/pgserver"
)

var measure = flag.Duration("measure", 0, "how long each measurement of TestBench takes; 0: none")

// TestBench measures reads per second, and the processor time of all processes for each: through weft on primaries alone, on both, and on standbys alone, and directly on both kinds of server, which says what of a difference is PostgreSQL's own. The rounds take turns, and the medians of their ratios are printed, because other work on the machine comes and goes. TestBench needs -measure: it takes all cores.
func TestBench(t *testing.T) {
	if *measure == 0 {
		t.Skip("measures only with -measure: it takes all cores for minutes")
	}
	w := newWorld(t)
	const primaries, both, standbys, directPrimaries, directStandbys = "primary", "any", "standby", "primary, without weft", "standby, without weft"
	through := func(target string) func(int) *pgx.Conn {
		return func(int) *pgx.Conn {
			return w.proxy.Connect(t, "postgres", "dbname=postgres", "options='-c weft.target="+target+"'")
		}
	}
	ways := []struct {
		name, beside string
		connect      func(i int) *pgx.Conn
	}{
		{primaries, primaries, through(primaries)},
		{both, primaries, through(both)},
		{standbys, primaries, through(standbys)},
		{directPrimaries, directPrimaries, func(i int) *pgx.Conn { return w.direct(w.primary[i%len(w.primary)].Server) }},
		{directStandbys, directPrimaries, func(i int) *pgx.Conn { return w.direct(w.standby[i%len(w.standby)]) }},
	}
	ratios := map[string][]float64{}
	for range 9 {
		each := map[string]float64{}
		for _, way := range ways {
			reads, busy := w.load(way.connect, *measure)
			each[way.name] = busy.Seconds() * 1e6 / float64(max(reads, 1))
			t.Logf("%-22s %8.0f reads/s, %6.1f µs of processor time for each read", way.name, float64(reads)/measure.Seconds(), each[way.name])
			ratios[way.name] = append(ratios[way.name], each[way.name]/each[way.beside])
		}
	}
	for _, way := range ways {
		if way.name != way.beside {
			slices.Sort(ratios[way.name])
			t.Logf("%s: %.3f times the processor time of %s (median of %d)", way.name, ratios[way.name][len(ratios[way.name])/2], way.beside, len(ratios[way.name]))
		}
	}
}

// direct opens a connection to a server, without weft.
func (w *world) direct(s *pgserver.Server) *pgx.Conn {
	w.t.Helper()
	c, err := pgx.Connect(w.within(), s.ConnString("postgres"))
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// load has clients read rows by key for a time, and returns how many reads there were and how long processors were busy.
func (w *world) load(connect func(i int) *pgx.Conn, d time.Duration) (reads int64, busy time.Duration) {
	w.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), d)
	defer stop()
	var n atomic.Int64
	var wg sync.WaitGroup
	before := processors(w.t)
	for i := range 16 {
		c := connect(i)
		wg.Go(func() {
			defer c.Close(context.Background())
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
