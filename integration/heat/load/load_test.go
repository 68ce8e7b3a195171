package load

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Keys have the shares that they should have.
func TestKeys(t *testing.T) {
	const n = 200_000
	z := NewZipf(1000, 1.2)
	hot := &Hot{Rest: z, Share: 0.2}
	hot.Move(500)
	for name, x := range map[string]struct {
		keys Keys
		key  int64
		want float64
	}{
		"even": {Even(50), 7, 0.02}, "zipf": {z, 1, z.Share(1)}, "zipf 3": {z, 3, z.Share(3)}, "hot": {hot, 500, 0.2 + 0.8*z.Share(500)}, "flat": {NewZipf(10, 0), 10, 0.1},
	} {
		r, count := rand.New(rand.NewPCG(1, 2)), 0
		for range n {
			k := x.keys.Next(r)
			if k < 1 || k > 1000 {
				t.Fatalf("%s: key %d", name, k)
			}
			if k == x.key {
				count++
			}
		}
		if got := float64(count) / n; math.Abs(got/x.want-1) > 0.05 {
			t.Errorf("%s: %v, want %v", name, got, x.want)
		}
	}
	if r := z.Share(1) / z.Share(10); math.Abs(r-math.Pow(10, 1.2)) > 1e-6 {
		t.Errorf("%v", r)
	}
}

// A closed loop waits for answers, an open one does not.
func TestLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(context.Context, *rand.Rand) error { time.Sleep(10 * time.Millisecond); return nil }
		closed, open := Start(1, 10*time.Millisecond, slow, slow), Open(1, 20, slow, slow)
		time.Sleep(time.Second)
		closed.Reset()
		open.Reset()
		time.Sleep(100 * time.Second)
		a, b := closed.Times(), open.Times()
		if math.Abs(a.Rate()-100) > 2 || math.Abs(a.Quantile(0.99)-10) > 0.1 || math.Abs(b.Rate()-40) > 5 {
			t.Errorf("closed: %v per second, %v ms; open: %v per second", a.Rate(), a.Quantile(0.99), b.Rate())
		}
		if both := Together(a, b); len(both.Took) != len(a.Took)+len(b.Took) || both.Over != a.Over {
			t.Errorf("%d, %v", len(both.Took), both.Over)
		}
		if none := (Times{}); none.Rate() != 0 || none.Quantile(0.5) != 0 {
			t.Errorf("nothing: %v, %v", none.Rate(), none.Quantile(0.5))
		}
		if err := errors.Join(closed.Stop(), open.Stop()); err != nil {
			t.Error(err)
		}
	})
}

// A client that fails ends, and the others go on.
func TestFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		bad := func(context.Context, *rand.Rand) error { return errors.New("refused") }
		good := func(context.Context, *rand.Rand) error { n.Add(1); return nil }
		run := Start(1, time.Millisecond, bad, good)
		time.Sleep(time.Second)
		if err := run.Stop(); err == nil || err.Error() != "client 0: refused" || n.Load() < 900 {
			t.Errorf("%v, %d", err, n.Load())
		}
	})
}

// Bars say what was wanted, and how many were missed.
func TestBars(t *testing.T) {
	var b Bars
	b.AtMost("p99", 1.2, 1.5)
	b.AtLeast("work", 0.5, 0.9)
	if b.Missed() != 1 || !strings.Contains(b.String(), "wanted ≤ 1.5") || strings.Count(b.String(), "MISSED") != 1 {
		t.Errorf("%d\n%s", b.Missed(), b.String())
	}
	for want, x := range map[float64][]float64{1: {3, 3, 3}, 0.25: {0, 0, 0, 8}} {
		if got := Jain(x); got != want {
			t.Errorf("%v: %v", x, got)
		}
	}
}
