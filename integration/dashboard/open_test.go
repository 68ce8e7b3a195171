package dashboard

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// heap is the memory of a page's scripts in bytes, without garbage.
func (b *tab) heap() float64 {
	b.t.Helper()
	b.do(command(heapprofiler.Enable, cdp.Empty{}), command(heapprofiler.CollectGarbage, cdp.Empty{}))
	usage, err := chromedp.Call(b.ctx, runtime.GetHeapUsage, cdp.Empty{})
	if err != nil {
		b.t.Fatal(err)
	}
	return usage.UsedSize
}

// cpu is the processor time that weft dev has used, in seconds: the proxy and its etcd, not the shards.
func (w *world) cpu(t *testing.T) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.process.Process.Pid))
	if err != nil {
		t.Skipf("processor time is read from /proc: %v", err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+2:]))
	sum := 0.0
	for _, f := range fields[11:13] { // utime and stime
		n, err := strconv.ParseFloat(f, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += n / 100
	}
	return sum
}

// Pages that stay open need no more memory, and viewers cost little. A page that is hidden asks for nothing.
func TestOpen(t *testing.T) {
	w := theWorld
	w.tables(t)
	w.load(t, 2, 20*time.Millisecond, mixed(42))
	tabs := map[string]*tab{"overview": w.tab(t), "heat": w.tab(t)}
	tabs["overview"].visit("")
	tabs["heat"].visit("heat")
	before := map[string]float64{}
	time.Sleep(min(*open/4, 30*time.Second))
	for name, b := range tabs {
		b.await("events", live)
		before[name] = b.heap()
	}
	time.Sleep(*open)
	for name, b := range tabs {
		b.await("events", live)
		after := b.heap()
		t.Logf("%s: %.2f MB of scripts' memory, %.2f MB after %v", name, before[name]/1e6, after/1e6, *open)
		if after > before[name]+8e6 {
			t.Errorf("%s has grown by %.1f MB", name, (after-before[name])/1e6)
		}
	}
	b := tabs["overview"]
	eval[bool](b, "Object.defineProperty(document, 'hidden', { value: true, configurable: true }) && document.dispatchEvent(new Event('visibilitychange'))")
	b.await("a pause", "document.getElementById('live-text').textContent === 'paused'")
	eval[bool](b, "delete document.hidden && document.dispatchEvent(new Event('visibilitychange'))")
	b.await("events again", live)
}

// TestCost says what viewers cost the proxy.
func TestCost(t *testing.T) {
	if *open < time.Minute {
		t.Skip("a short time says nothing about processor time: -args -open 5m")
	}
	w := theWorld
	w.tables(t)
	measure := func(viewers int) float64 {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var wg sync.WaitGroup
		var events atomic.Int64
		for range viewers {
			wg.Go(func() { w.listen(ctx, t, "load,warnings,stats,skew", &events) })
		}
		time.Sleep(2 * time.Second)
		began, used := time.Now(), w.cpu(t)
		time.Sleep(*open)
		share := (w.cpu(t) - used) / time.Since(began).Seconds()
		if n := events.Load(); viewers > 0 && float64(n) < 0.8*float64(viewers)*open.Seconds() {
			t.Errorf("%d viewers got %d events", viewers, n)
		}
		stop()
		wg.Wait()
		return share
	}
	none, one, many := measure(0), measure(1), measure(21)
	t.Logf("processor: %.3f %% without viewers, %.3f %% with one, %.3f %% with 21: the first costs %.3f %%, each other %.3f %%", 100*none, 100*one, 100*many, 100*(one-none), 100*(many-one)/20)
	// The bar is 0.2 % of a core for each viewer; a machine that does other things is given room.
	if each := (many - none) / 21; each > 0.01 {
		t.Errorf("a viewer costs %.2f %% of a core", 100*each)
	}
}

// listen reads a stream of events until ctx ends, and counts pieces.
func (w *world) listen(ctx context.Context, t *testing.T, views string, events *atomic.Int64) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.http+"/api/events?views="+views, nil)
	if err != nil {
		t.Error(err)
		return
	}
	r.SetBasicAuth("dev", w.password)
	resp, err := http.DefaultClient.Do(r)
	if err != nil || resp.StatusCode != 200 {
		t.Errorf("%v %v", resp, err)
		return
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), `data: {"view":"load"`) {
			events.Add(1)
		}
	}
}
