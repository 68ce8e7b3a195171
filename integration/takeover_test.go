package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
	"weft/integration/harness"
	"weft/pgserver/pgtest"
)

// TestTakeover: processes take over from each other several times while clients connect, run a statement and leave all the time.
// None is refused, no statement fails, and the port for health checks never says anything but that all is well. A block that is open
// at the takeover ends as usual, however long it is idle, and a cancel request reaches the process that has the session.
func TestTakeover(t *testing.T) {
	dir, err := os.MkdirTemp("", "weft") // a short path: those of sockets are bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := harness.StartProgram(t, func(c *config.Config) {
		c.RunDir, c.Limits.DrainTimeout, c.Limits.DrainDelay = dir+"/run", pgtest.Patience, 5*time.Second
	})
	mustExec(t, p.Connect(t, "postgres"), "create table d (a int)")
	l := &visitors{}
	l.start(t, p)
	descriptors := func() int {
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID()))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	var first int
	const rounds = 4
	for round := range rounds {
		block, sleeper := p.Connect(t, "postgres"), p.Connect(t, "postgres")
		mustExec(t, block, "begin; insert into d values (1)")
		slept := make(chan string, 1)
		go func() {
			_, err := sleeper.Exec(context.Background(), "select pg_sleep(600)")
			slept <- code(err)
		}()
		p.Await(t, "select count(*) = 1 from pg_stat_activity where query ~ '^select pg_sleep' and state = 'active'")
		next := p.TakeOver(t)
		seen := l.connected.Load()
		if err := sleeper.PgConn().CancelRequest(within(t, pgtest.Patience)); err != nil {
			t.Error(err)
		}
		if got := <-slept; got != "57014" {
			t.Errorf("a statement of the old process, cancelled at the new one: %q", got)
		}
		_ = sleeper.Close(context.Background())
		if round == 0 {
			time.Sleep(8 * time.Second) // longer than a proxy is silent before others take it for hung
		}
		mustExec(t, block, "insert into d values (2); commit")
		_ = block.Close(context.Background())
		p.WaitExit(t, 20*time.Second)
		if !p.Logged("drained") {
			t.Error("the old process has not ended by itself")
		}
		for end := time.Now().Add(pgtest.Patience); l.connected.Load() < seen+20; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("no clients after the takeover")
			}
		}
		p = next
		if round == 0 {
			first = descriptors()
		}
	}
	if n := descriptors(); n > first+10 {
		t.Errorf("%d descriptors after the first takeover, %d after the last", first, n)
	}
	l.end(t)
	if n, err := p.AdminInt(t.Context(), "select count(*) from d"); err != nil || n != 2*rounds+int(l.connected.Load()) {
		t.Errorf("%d rows, %v; %d clients have got an answer", n, err, l.connected.Load())
	}
	t.Logf("%d takeovers, %d clients, %d looks at /readyz, no error", rounds, l.connected.Load(), l.asked.Load())
}

// visitors are clients that connect, run a statement and leave, again and again.
type visitors struct {
	stop             chan struct{}
	once             sync.Once
	wg               sync.WaitGroup
	connected, asked atomic.Int64
	mu               sync.Mutex
	errs             []error
}

func (v *visitors) start(t *testing.T, p *harness.Program) {
	v.stop = make(chan struct{})
	t.Cleanup(func() { v.end(t) })
	address := p.ConnString("postgres")
	for range 3 {
		v.wg.Go(func() {
			v.repeat(&v.connected, func(ctx context.Context) error {
				c, err := pgx.Connect(ctx, address)
				if err != nil {
					return err
				}
				defer c.Close(ctx)
				_, err = c.Exec(ctx, "insert into d values (0)")
				return err
			})
		})
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	v.wg.Go(func() {
		v.repeat(&v.asked, func(ctx context.Context) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.HTTP()+"/readyz", http.NoBody)
			if err != nil {
				return err
			}
			resp, err := client.Do(r)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return errors.New(resp.Status)
			}
			return nil
		})
	})
}

// repeat does something again and again, and counts how often it went well.
func (v *visitors) repeat(well *atomic.Int64, f func(context.Context) error) {
	for {
		select {
		case <-v.stop:
			return
		case <-time.After(5 * time.Millisecond):
		}
		ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
		err := f(ctx)
		stop()
		if err == nil {
			well.Add(1)
			continue
		}
		v.mu.Lock()
		v.errs = append(v.errs, err)
		v.mu.Unlock()
	}
}

// end waits until the visitors have gone, and says what they met.
func (v *visitors) end(t *testing.T) {
	v.once.Do(func() {
		close(v.stop)
		v.wg.Wait()
		for _, err := range v.errs {
			t.Errorf("a client met: %v", err)
		}
	})
}
