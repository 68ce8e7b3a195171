package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weft/pgerr"
)

// graveyard plays a shard: it knows which of its processes run.
type graveyard struct {
	mu       sync.Mutex
	lives    map[Process]bool
	stubborn map[int32]bool // does not end when told to
	down     error          // what every question gets
	denied   error          // what a request to end a process gets
	asked    []time.Duration
	ended    []int32 // who was told to end, in order
	began    time.Time
}

func newGraveyard() *graveyard {
	return &graveyard{lives: map[Process]bool{}, stubborn: map[int32]bool{}, began: time.Now()}
}

func (y *graveyard) ask(ctx context.Context, shard, _, sql string) ([][]string, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	ends := strings.Contains(sql, "pg_terminate_backend")
	if !ends {
		y.asked = append(y.asked, time.Since(y.began))
	}
	if y.down != nil {
		return nil, y.down
	}
	if ends && y.denied != nil {
		return nil, y.denied
	}
	var rows [][]string
	for x := range y.lives {
		if x.Shard != shard || !strings.Contains(sql, fmt.Sprintf("(%d, %d::bigint)", x.PID, x.Started)) {
			continue
		}
		rows = append(rows, []string{fmt.Sprint(x.PID), fmt.Sprint(x.Started)})
		if ends {
			y.ended = append(y.ended, x.PID)
			if !y.stubborn[x.PID] {
				delete(y.lives, x)
			}
		}
	}
	return rows, nil
}

func (y *graveyard) ghosts(log *strings.Builder) *Pool {
	c := Config{Ask: y.ask}.WithDefaults()
	if log != nil {
		c.Log = slog.New(slog.NewTextHandler(log, nil))
	}
	p := &Pool{ghosts: newGhosts(&c)}
	return p
}

// closed is a backend that weft has closed.
func (y *graveyard) closed(p *Pool, shard string, pid int32, runs bool) *ghost {
	x := &ghost{Ghost: Ghost{Process: Process{shard, pid, 7000 + int64(pid)}, Database: "app", Since: time.Now()}}
	if runs {
		y.mu.Lock()
		y.lives[x.Process] = true
		y.mu.Unlock()
	}
	p.ghosts.add(x)
	return x
}

func pids(list []Ghost) (out []int32) {
	for _, x := range list {
		out = append(out, x.PID)
	}
	return out
}

// TestGhostsEnd: backends that go on are ended, those that have ended are forgotten, and each shard has its own.
func TestGhostsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newGraveyard()
		p := y.ghosts(nil)
		y.closed(p, "a", 1, true)
		y.closed(p, "a", 2, false)
		y.closed(p, "b", 3, true)
		y.lives[Process{"a", 9, 9}] = true // somebody else's
		if got := pids(p.Ghosts("a")); !slices.Equal(got, []int32{1, 2}) {
			t.Errorf("shard a has %v", got)
		}
		time.Sleep(ghostPause + time.Millisecond)
		synctest.Wait()
		if got := pids(p.Ghosts("a")); !slices.Equal(got, []int32{1}) {
			t.Errorf("after one look shard a has %v", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if a, b := p.Ghosts("a"), p.Ghosts("b"); len(a)+len(b) != 0 {
			t.Errorf("left: %v %v", a, b)
		}
		if !y.lives[Process{"a", 9, 9}] || len(y.lives) != 1 {
			t.Errorf("alive: %v", y.lives)
		}
		p.ghosts.end()
	})
}

// TestGhostsCommit: a backend that commits is waited for, and not ended.
func TestGhostsCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newGraveyard()
		p := y.ghosts(nil)
		x := &ghost{Ghost: Ghost{Process: Process{"a", 1, 1}, Database: "app", Since: time.Now()}, commits: true}
		y.lives[x.Process] = true
		p.ghosts.add(x)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(y.ended) > 0 || len(p.Ghosts("a")) != 1 {
			t.Errorf("ended %v, left %v", y.ended, p.Ghosts("a"))
		}
		y.mu.Lock()
		delete(y.lives, x.Process)
		y.mu.Unlock()
		time.Sleep(ghostSlowest + time.Second)
		synctest.Wait()
		if len(p.Ghosts("a")) != 0 {
			t.Errorf("left %v", p.Ghosts("a"))
		}
		p.ghosts.end()
	})
}

// TestGhostsUnreachable: a shard that does not answer keeps its ghosts, is asked with growing pauses and sent cancel requests; the
// log tells once. A new ghost makes pauses short again.
func TestGhostsUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newGraveyard()
		y.down = errors.New("unreachable")
		var log strings.Builder
		p := y.ghosts(&log)
		x := &ghost{Ghost: Ghost{Process: Process{"a", 1, 1}, Database: "app", Since: time.Now()}}
		cancels := 0
		x.cancel = func(context.Context) error { cancels++; return nil }
		y.lives[x.Process] = true
		p.ghosts.add(x)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(p.Ghosts("a")) != 1 || p.Ghosts("a")[0].Since != x.Since {
			t.Errorf("left %v", p.Ghosts("a"))
		}
		// 0.1, 0.3, 0.7, 1.5, 3.1, 6.3 s, then every 5 s
		if n := len(y.asked); n < 15 || n > 18 || y.asked[1]-y.asked[0] != 2*ghostPause || y.asked[n-1]-y.asked[n-2] != ghostSlowest {
			t.Errorf("asked at %v", y.asked)
		}
		if cancels != len(y.asked) {
			t.Errorf("%d cancel requests with %d questions", cancels, len(y.asked))
		}
		if n := strings.Count(log.String(), "goes on after"); n != 1 {
			t.Errorf("the log has told %d times:\n%s", n, &log)
		}
		n := len(y.asked)
		y.closed(p, "a", 2, true)
		time.Sleep(ghostPause + time.Millisecond)
		synctest.Wait()
		if len(y.asked) != n+1 {
			t.Errorf("a new ghost: %d questions", len(y.asked)-n)
		}
		y.mu.Lock()
		y.down = nil
		y.mu.Unlock()
		time.Sleep(2 * ghostSlowest)
		synctest.Wait()
		if len(p.Ghosts("a")) != 0 || !strings.Contains(log.String(), "has ended at last") {
			t.Errorf("left %v; log:\n%s", p.Ghosts("a"), &log)
		}
		p.ghosts.end()
	})
}

// TestGhostsDenied: where weft may not end backends, it sends cancel requests.
func TestGhostsDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newGraveyard()
		y.denied = pgerr.New(pgerr.InsufficientPrivilege, "permission denied")
		p := y.ghosts(nil)
		x := &ghost{Ghost: Ghost{Process: Process{"a", 1, 1}, Database: "app", Since: time.Now()}}
		x.cancel = func(context.Context) error {
			y.mu.Lock()
			defer y.mu.Unlock()
			delete(y.lives, x.Process)
			return nil
		}
		y.lives[x.Process] = true
		p.ghosts.add(x)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(p.Ghosts("a")) != 0 {
			t.Errorf("left %v", p.Ghosts("a"))
		}
		p.ghosts.end()
	})
}

// TestGhostsGone: a database that is gone, and a shard that is gone, have no ghosts. Nor has a server that was restarted: its
// processes have other starts.
func TestGhostsGone(t *testing.T) {
	for _, code := range []string{pgerr.InvalidCatalogName, pgerr.UndefinedObject, ""} {
		synctest.Test(t, func(t *testing.T) {
			y := newGraveyard()
			p := y.ghosts(nil)
			x := y.closed(p, "a", 1, false)
			y.mu.Lock()
			if y.lives[Process{"a", x.PID, x.Started + 1}] = true; code != "" {
				y.down = pgerr.New(code, "no such thing")
			}
			y.mu.Unlock()
			time.Sleep(time.Second)
			synctest.Wait()
			if len(p.Ghosts("a")) != 0 || len(y.ended) != 0 {
				t.Errorf("%s: left %v, ended %v", code, p.Ghosts("a"), y.ended)
			}
			p.ghosts.end()
		})
	}
}

// TestGhostsClose: a pool that ends tells shards to end its ghosts, waits for no backend that was told, and not for ever for a shard
// that does not answer.
func TestGhostsClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newGraveyard()
		p := y.ghosts(nil)
		y.stubborn[1] = true
		y.closed(p, "a", 1, true)
		began := time.Now()
		p.ghosts.end()
		if d := time.Since(began); d > 2*ghostPause || !slices.Contains(y.ended, 1) {
			t.Errorf("it took %s, ended %v", d, y.ended)
		}
		y = newGraveyard()
		y.down = errors.New("unreachable")
		p = y.ghosts(nil)
		y.closed(p, "a", 1, true)
		began = time.Now()
		p.ghosts.end()
		if d := time.Since(began); d != ghostGrace {
			t.Errorf("it took %s", d)
		}
		p.ghosts.end()
	})
}

// TestGhostsBounded: there are never more than maxGhosts.
func TestGhostsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newGraveyard()
		y.down = errors.New("unreachable")
		var log strings.Builder
		p := y.ghosts(&log)
		for i := range maxGhosts + 10 {
			y.closed(p, "a", int32(i), false)
		}
		if n := len(p.Ghosts("a")); n != maxGhosts || strings.Count(log.String(), "too many") != 1 {
			t.Errorf("%d ghosts; log:\n%s", n, &log)
		}
		p.ghosts.stop()
		p.ghosts.end()
	})
}
