package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	nethttp "net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/config"
	"weft/directory/storetest"
)

// heard is a log that tests read.
type heard struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(b)
}

func (h *heard) has(text string) bool { return h.times(text) > 0 }

func (h *heard) times(text string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Count(h.text.String(), text)
}

// turn is one process of several that take over from each other.
type turn struct {
	front *echo
	log   heard
	ended chan error
	stop  context.CancelFunc
}

// takeTurns returns what starts processes with one run_dir and one directory.
func takeTurns(t *testing.T) (begin func(take bool, change func(*config.Config)) *turn, cfg config.Config) {
	e := etcdServer(t)
	store, _ := e.Store("main")
	storetest.Create(t, store)
	cfg = testConfig()
	cfg.Etcd.Endpoints = []string{e.Endpoint()}
	cfg.Listen, cfg.ListenStandby, cfg.HTTP.Listen, cfg.Limits.DrainTimeout = freeAddress(t), freeAddress(t), freeAddress(t), time.Minute
	dir, err := os.MkdirTemp("", "weft") // a short path: those of sockets are bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cfg.RunDir = filepath.Join(dir, "run")
	return func(take bool, change func(*config.Config)) *turn {
		own := cfg
		if change != nil {
			change(&own)
		}
		p := &turn{front: newEcho(t), ended: make(chan error, 1)}
		ctx, stop := context.WithCancel(context.Background())
		p.stop = stop
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.ended <- run(ctx, Options{Config: own, Log: slog.New(slog.NewTextHandler(&p.log, nil)), Takeover: take}, p.front.maker)
		}()
		t.Cleanup(func() { stop(); <-done })
		return p
	}, cfg
}

func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestTakeover: processes take over from each other while clients come all the time, by all ports; sessions of the old one go on, and
// what is meant for it reaches it through the new one.
func TestTakeover(t *testing.T) {
	begin, cfg := takeTurns(t)
	p := begin(false, nil)
	wait(t, func() bool { return p.log.has("accepting clients") })
	stop, failed := make(chan struct{}), make(chan error, 3)
	visit := func(f func() error) {
		for {
			select {
			case <-stop:
				failed <- nil
				return
			default:
			}
			if err := f(); err != nil {
				failed <- err
				return
			}
		}
	}
	for _, at := range []string{cfg.Listen, cfg.ListenStandby} {
		go visit(func() error {
			c, err := net.Dial("tcp", at)
			if err != nil {
				return err
			}
			defer c.Close()
			_, _ = c.Write([]byte("x"))
			_, err = io.ReadFull(c, make([]byte, 1))
			return err
		})
	}
	client := nethttp.Client{Transport: &nethttp.Transport{DisableKeepAlives: true}}
	go visit(func() error {
		resp, err := client.Get("http://" + cfg.HTTP.Listen + "/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != 200 {
			return errors.New(resp.Status)
		}
		return nil
	})
	for i := range int32(3) {
		session, err := net.Dial("tcp", cfg.Listen)
		if err != nil {
			t.Fatal(err)
		}
		p.front.pid = i + 1
		next := begin(true, nil)
		wait(t, func() bool { return next.log.has("took over") && p.log.has("handed over") })
		if p.log.has("drained") {
			t.Error("the old process has ended, with a session")
		}
		beside := next.front.parts.beside
		if !beside.Cancel(t.Context(), i+1, []byte("key")) || beside.Cancel(t.Context(), i+1, []byte("wrong")) {
			t.Error("cancel requests do not reach the old process")
		}
		if got, ok := beside.Answer(t.Context(), nil, nil, []byte("for me")); !ok || string(got) != "for me" {
			t.Error("questions do not reach the old process")
		}
		_, _ = session.Write([]byte("y"))
		if _, err := io.ReadFull(session, make([]byte, 1)); err != nil {
			t.Errorf("a session of the old process: %v", err)
		}
		_ = session.Close()
		if err := <-p.ended; err != nil {
			t.Errorf("the old process: %v", err)
		}
		p = next
	}
	close(stop)
	for range 3 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	p.stop()
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
	if list, _ := os.ReadDir(cfg.RunDir); len(list) != 1 { // the lock
		t.Errorf("%v is left in run_dir", list)
	}
}

// TestTakeoverFails: a new process that cannot start leaves the old one as it is.
func TestTakeoverFails(t *testing.T) {
	begin, cfg := takeTurns(t)
	p := begin(false, nil)
	wait(t, func() bool { return p.log.has("accepting clients") })
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	gone := 0 // processes that were to take over, and have not
	for _, c := range []struct {
		take   bool
		change func(*config.Config)
		want   string
	}{
		{false, nil, "--takeover"},
		{true, func(c *config.Config) { c.HTTP.Listen = other.Addr().String() }, "address already in use"},
		{true, func(c *config.Config) { c.Listen = other.Addr().String() }, "address already in use"},
	} {
		if err := <-begin(c.take, c.change).ended; err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
		if c.take {
			gone++
		}
		wait(t, func() bool { return p.log.times("a takeover did not take place") == gone }) // else the next one is told that one is under way
		conn, err := net.Dial("tcp", cfg.Listen)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
	next := begin(true, nil)
	wait(t, func() bool { return next.log.has("took over") })
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
}

// TestTakeoverOfNone: without a process to take over from, one starts as usual.
func TestTakeoverOfNone(t *testing.T) {
	begin, cfg := takeTurns(t)
	p := begin(true, nil)
	wait(t, func() bool { return p.log.has("accepting clients") && p.log.has("no process to take over from") })
	p.stop()
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
	// One that was told to end has closed its port: the new process waits until it has ended.
	p = begin(false, nil)
	wait(t, func() bool { return p.log.has("accepting clients") })
	session, err := net.Dial("tcp", cfg.Listen)
	if err != nil {
		t.Fatal(err)
	}
	wait(t, func() bool { return p.front.sessions.Load() == 1 })
	p.stop()
	wait(t, func() bool {
		c, err := net.Dial("tcp", cfg.Listen)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	next := begin(true, nil)
	wait(t, func() bool { return next.log.has("about to end: waiting") })
	_ = session.Close()
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
	wait(t, func() bool {
		select {
		case err := <-next.ended:
			t.Fatal(err)
		default:
		}
		return next.log.has("accepting clients")
	})
}
