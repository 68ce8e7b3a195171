package failover

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

// thief notes how much of the machine's processor time others have: a hypervisor that runs other machines. Times that were measured meanwhile are
// not weft's.
type thief struct {
	mu      sync.Mutex
	samples []sample // the oldest first
}

// sample is what the kernel has counted until a time, in ticks of all processors.
type sample struct {
	at            time.Time
	stolen, total uint64
}

// watchThief looks until stop is called. It finds nothing where there is no /proc.
func watchThief() (t *thief, stop func()) {
	t = &thief{}
	ends := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			if s, ok := readStat("/proc/stat"); ok {
				t.mu.Lock()
				t.samples = append(t.samples, s)
				t.samples = slices.Delete(t.samples, 0, max(0, len(t.samples)-maxSamples))
				t.mu.Unlock()
			}
			select {
			case <-ends:
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	return t, func() { close(ends); wg.Wait() }
}

// maxSamples are those of five minutes: a round is shorter.
const maxSamples = 1500

// readStat reads the first line of /proc/stat.
func readStat(path string) (s sample, ok bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return s, false
	}
	var ticks [8]uint64 // user, nice, system, idle, iowait, irq, softirq, steal
	n, _ := fmt.Sscanf(string(text), "cpu %d %d %d %d %d %d %d %d", &ticks[0], &ticks[1], &ticks[2], &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7])
	for _, v := range ticks {
		s.total += v
	}
	s.at, s.stolen = time.Now(), ticks[7]
	return s, n == len(ticks)
}

// share returns which part of the processor time was stolen between two times.
func (t *thief) share(from, to time.Time) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	first, last := -1, -1
	for i, s := range t.samples {
		if !s.at.After(from) || first < 0 {
			first = i
		}
		if last = i; !s.at.Before(to) {
			break
		}
	}
	if first < 0 || t.samples[last].total <= t.samples[first].total {
		return 0
	}
	a, b := t.samples[first], t.samples[last]
	return float64(b.stolen-a.stolen) / float64(b.total-a.total)
}

func TestThief(t *testing.T) {
	path := t.TempDir() + "/stat"
	if err := os.WriteFile(path, []byte("cpu  1 2 3 4 5 6 7 80 9 10\ncpu0 1 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, ok := readStat(path); !ok || s.stolen != 80 || s.total != 108 {
		t.Errorf("read %+v, %v", s, ok)
	}
	if _, ok := readStat(path + "none"); ok {
		t.Error("read a file that is not there")
	}
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	w := thief{samples: []sample{{at(1), 0, 100}, {at(2), 0, 200}, {at(3), 50, 300}, {at(4), 150, 400}, {at(5), 150, 500}}}
	for _, c := range []struct {
		from, to int
		want     float64
	}{{2, 4, 0.75}, {0, 2, 0}, {3, 9, 0.5}, {4, 5, 0}, {9, 9, 0}} {
		if got := w.share(at(c.from), at(c.to)); got != c.want {
			t.Errorf("from %d to %d: %v, want %v", c.from, c.to, got, c.want)
		}
	}
	if got := new(thief).share(at(1), at(2)); got != 0 {
		t.Errorf("without samples: %v", got)
	}
}
