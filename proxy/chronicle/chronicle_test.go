package chronicle

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weft/heat"
)

// seen is an instant in which bucket 1 of a database has so many reads.
func seen(reads float64) heat.Instant {
	levels := new([heat.Metrics][]byte)
	levels[heat.Reads] = []byte{0, heat.Level(reads)}
	return heat.Instant{
		Buckets: map[string]*[heat.Metrics][]byte{"d": levels},
		Shards:  map[string][heat.Metrics]float32{"a": {heat.Reads: float32(reads)}},
	}
}

// The work of all proxies is recorded together, in every column, while recording is on.
func TestRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var on atomic.Bool
		on.Store(true)
		c := New(Config{
			On:     on.Load,
			Own:    func() heat.Instant { return seen(100) },
			Others: func(context.Context) []heat.Instant { return []heat.Instant{seen(50), seen(50)} },
			Strips: func(string) []heat.Strip { return heat.Strips([]uint16{0, 0}, []string{"a"}, heat.MaxRows) },
		})
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { c.Run(ctx) })
		time.Sleep(time.Minute)
		synctest.Wait()
		on.Store(false)
		m := c.Map("d", heat.Hour, heat.Reads, 0)
		strips, layout := c.Strips("d")
		if len(strips) != 2 || m.Rows != 2 || m.Layout != layout || len(c.Databases()) != 1 {
			t.Fatalf("%+v, %v", m, strips)
		}
		for i := range 6 {
			column := m.Levels[(m.Columns-1-i)*m.Rows:]
			if n := heat.Amount(column[1]); n < 180 || n > 220 || column[0] != 0 {
				t.Errorf("column %d from the end: %v reads", i, n)
			}
		}
		if first, s := c.Series(heat.Reads); first != m.First || s["a"][len(s["a"])-1] != 200 {
			t.Errorf("%d, %v", first, s)
		}
		time.Sleep(time.Minute)
		if late := c.Map("d", heat.Hour, heat.Reads, 0); late.First != m.First {
			t.Errorf("recorded while off: %d columns later", late.First-m.First)
		}
		stop()
		wg.Wait()
	})
}
