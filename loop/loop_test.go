package loop_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weft/loop"
)

func newLoop(t testing.TB) *loop.Loop {
	t.Helper()
	l, err := loop.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// pair returns the two ends of a connection.
func pair(t testing.TB) (net.Conn, net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	a, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// adopted returns a connection of the loop and its peer.
func adopted(t testing.TB, l *loop.Loop) (*loop.Conn, net.Conn) {
	t.Helper()
	ours, peer := pair(t)
	c, ok := l.Adopt(ours).(*loop.Conn)
	if !ok {
		t.Fatal("the loop did not take the connection")
	}
	t.Cleanup(func() { c.Close() })
	return c, peer
}

// TestEcho lets tasks of two loops relay between clients and connections that they share, while some tasks rest, some leave their loop, wait
// elsewhere and return, and some forget to leave.
func TestEcho(t *testing.T) {
	loops := []*loop.Loop{newLoop(t), newLoop(t)}
	const clients, rounds = 40, 300
	var wg, tasks sync.WaitGroup
	var ended atomic.Int32
	var mu sync.Mutex
	backs := make(chan *loop.Conn, clients)
	var servers sync.WaitGroup
	for i := range clients {
		l := loops[i%2]
		front, client := adopted(t, l)
		back, server := adopted(t, l)
		servers.Go(func() { _, _ = io.Copy(server, server) })
		backs <- back
		tasks.Add(1)
		n := 0
		buf := make([]byte, 256)
		relay := func(task *loop.Task) bool {
			got, err := front.Read(buf)
			if err != nil {
				ended.Add(1)
				return false
			}
			switch {
			case i%5 == 1 && n%7 == 0:
				task.Leave()
				time.Sleep(time.Millisecond)
			case i%5 == 2 && n%100 == 0:
				time.Sleep(12 * time.Millisecond) // holds up the others until the watcher sees it
			case i%5 == 3 && n%3 == 0:
				task.Leave()
			case i%5 == 4 && n%50 == 0:
				mu.Lock() // others may hold it while they wait in the loop
			}
			back := <-backs
			back.Bind(task)
			if _, err := back.Write(buf[:got]); err != nil {
				t.Error(err)
			}
			for sent := got; sent > 0; {
				m, err := back.Read(buf[:sent])
				if err != nil {
					t.Error(err)
					return false
				}
				if _, err := front.Write(buf[:m]); err != nil {
					t.Error(err)
				}
				sent -= m
			}
			back.Bind(nil)
			backs <- back
			if i%5 == 4 && n%50 == 0 {
				mu.Unlock()
			}
			if n%2 == 0 {
				task.Return()
			}
			n++
			return true
		}
		l.Go(func(task *loop.Task) *loop.Conn {
			front.Bind(task)
			for relay(task) {
				if i%3 == 0 && n%5 > 0 {
					return front
				}
			}
			tasks.Done()
			return nil
		})
		wg.Go(func() {
			defer client.Close()
			for n := range rounds {
				want := fmt.Sprintf("client %d, round %d, %d", i, n, rand.Int())
				got := make([]byte, len(want))
				if _, err := io.WriteString(client, want); err != nil {
					t.Error(err)
					return
				}
				if _, err := io.ReadFull(client, got); err != nil || string(got) != want {
					t.Errorf("got %q, %v, want %q", got, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
	tasks.Wait()
	for range clients {
		_ = (<-backs).Close()
	}
	servers.Wait()
	if n := ended.Load(); n != clients {
		t.Errorf("%d tasks ended, want %d", n, clients)
	}
	if loops[0].Stalls()+loops[1].Stalls() == 0 {
		t.Error("no task was made to leave, though some slept in the loop")
	}
}

// TestRest lets tasks rest: a task that rests has no goroutine, and goes on when input comes, a deadline passes or its Conn is closed.
func TestRest(t *testing.T) {
	l := newLoop(t)
	const many = 500
	var called, over atomic.Int32
	conns, peers := make([]*loop.Conn, many), make([]net.Conn, many)
	before := runtime.NumGoroutine()
	for i := range many {
		conns[i], peers[i] = adopted(t, l)
		l.Go(func(task *loop.Task) *loop.Conn {
			conns[i].Bind(task)
			b, n := make([]byte, 10), 0
			ready, err := conns[i].HasInput()
			if ready {
				n, err = conns[i].Recv(b)
			}
			if !ready && err == nil || errors.Is(err, unix.EAGAIN) {
				return conns[i] // nothing has come yet
			}
			called.Add(1)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				_ = conns[i].SetReadDeadline(time.Time{})
				return conns[i]
			}
			if err != nil {
				over.Add(1)
				return nil
			}
			_, _ = conns[i].Write(b[:n])
			return conns[i]
		})
	}
	await := func(what string, of *atomic.Int32, n int32) {
		t.Helper()
		for end := time.Now().Add(3 * time.Minute); of.Load() != n; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %d of %d", what, of.Load(), n)
			}
		}
	}
	for end := time.Now().Add(3 * time.Minute); runtime.NumGoroutine()-before > many/4; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines for %d tasks that rest", runtime.NumGoroutine()-before, many)
		}
	}
	for i, p := range peers {
		want := fmt.Sprint(i)
		_, _ = io.WriteString(p, want)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(p, got); err != nil || string(got) != want {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	await("all were called", &called, many)
	for _, c := range conns {
		_ = c.SetReadDeadline(time.Unix(1, 0))
	}
	await("deadlines end rests", &called, 2*many)
	for i := range many {
		if i%2 == 0 {
			_ = conns[i].Close()
		} else {
			_ = peers[i].Close()
		}
	}
	await("all are over", &over, many)
}

// TestDoze lets the loop stand still for longer than its watcher stays awake, and then a task hold it up.
func TestDoze(t *testing.T) {
	l := newLoop(t)
	for range 3 {
		time.Sleep(200 * time.Millisecond)
		before := l.Stalls()
		done := make(chan bool)
		l.Go(func(*loop.Task) *loop.Conn { <-done; return nil })
		l.Go(func(*loop.Task) *loop.Conn { close(done); return nil })
		<-done
		if l.Stalls() == before {
			t.Error("the watcher did not see the task that held up the loop")
		}
	}
}

// TestFull writes more than sockets take, from a task and from a goroutine.
func TestFull(t *testing.T) {
	l := newLoop(t)
	const size = 32 << 20
	for _, inLoop := range []bool{true, false} {
		c, peer := adopted(t, l)
		failed := make(chan error, 1)
		write := func() {
			_, err := c.Write(make([]byte, size))
			failed <- errors.Join(err, c.CloseWrite())
		}
		if inLoop {
			l.Go(func(task *loop.Task) *loop.Conn { c.Bind(task); write(); return nil })
		} else {
			go write()
		}
		time.Sleep(20 * time.Millisecond)
		if n, err := io.Copy(io.Discard, peer); n != size || err != nil {
			t.Errorf("read %d, %v", n, err)
		}
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

// TestInterrupted ends waits by deadlines and by Close, of tasks and of goroutines.
func TestInterrupted(t *testing.T) {
	l := newLoop(t)
	ways := map[string]struct {
		end  func(c *loop.Conn)
		want error
	}{
		"deadline that passes": {func(c *loop.Conn) { _ = c.SetReadDeadline(time.Now().Add(30 * time.Millisecond)) }, os.ErrDeadlineExceeded},
		"deadline in the past": {func(c *loop.Conn) { _ = c.SetDeadline(time.Unix(1, 0)) }, os.ErrDeadlineExceeded},
		"close":                {func(c *loop.Conn) { _ = c.Close() }, net.ErrClosed},
	}
	for name, way := range ways {
		for _, inLoop := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, in the loop %v", name, inLoop), func(t *testing.T) {
				c, peer := adopted(t, l)
				got := make(chan error)
				read := func() {
					b := make([]byte, 10)
					_, err := c.Read(b)
					got <- err
					if errors.Is(way.want, os.ErrDeadlineExceeded) {
						_ = c.SetDeadline(time.Time{})
						n, err := c.Read(b)
						got <- errors.Join(err, map[bool]error{false: fmt.Errorf("%q", b[:n])}[string(b[:n]) == "later"])
					}
				}
				if inLoop {
					l.Go(func(task *loop.Task) *loop.Conn {
						c.Bind(task)
						read()
						return nil
					})
				} else {
					go read()
				}
				time.Sleep(10 * time.Millisecond)
				way.end(c)
				if err := <-got; !errors.Is(err, way.want) {
					t.Errorf("got %v, want %v", err, way.want)
				}
				if errors.Is(way.want, os.ErrDeadlineExceeded) {
					_, _ = io.WriteString(peer, "later")
					if err := <-got; err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// TestInputUnderDeadline lets input come while a deadline has passed: the deadline ends waits, and the input is there afterwards.
func TestInputUnderDeadline(t *testing.T) {
	l := newLoop(t)
	c, peer := adopted(t, l)
	b := make([]byte, 10)
	for range 20 {
		_ = c.SetReadDeadline(time.Unix(1, 0))
		_, _ = io.WriteString(peer, "x")
		time.Sleep(5 * time.Millisecond)
		if _, err := c.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read after the deadline: %v", err)
		}
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if n, err := c.Read(b); err != nil || n != 1 {
			t.Fatalf("read what had come: %d, %v", n, err)
		}
	}
}

// TestEnd finds the end of what a peer sends, however it comes.
func TestEnd(t *testing.T) {
	l := newLoop(t)
	for range 200 {
		c, peer := adopted(t, l)
		got := make(chan string, 1)
		l.Go(func(task *loop.Task) *loop.Conn {
			c.Bind(task)
			b, err := io.ReadAll(c)
			got <- fmt.Sprint(string(b), err)
			c.Close()
			return nil
		})
		_, _ = io.WriteString(peer, "last words")
		peer.Close()
		if s := <-got; s != "last words<nil>" {
			t.Fatal(s)
		}
	}
}

// TestRaw uses the descriptor as package wire does under the runtime's poller.
func TestRaw(t *testing.T) {
	l := newLoop(t)
	c, peer := adopted(t, l)
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	go func() { time.Sleep(20 * time.Millisecond); _, _ = peer.Write([]byte("x")) }()
	if err := raw.Read(func(uintptr) bool { calls++; return calls == 3 || calls == 2 }); err != nil || calls < 2 {
		t.Errorf("%v after %d calls", err, calls)
	}
	c.Close()
	if err := raw.Control(func(uintptr) {}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("control of a closed connection: %v", err)
	}
}

func BenchmarkEcho(b *testing.B) {
	l := newLoop(b)
	front, client := adopted(b, l)
	l.Go(func(task *loop.Task) *loop.Conn {
		front.Bind(task)
		buf := make([]byte, 64)
		for {
			n, err := front.Read(buf)
			if err != nil {
				return nil
			}
			_, _ = front.Write(buf[:n])
		}
	})
	buf := make([]byte, 64)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = client.Write(buf[:8])
		_, _ = client.Read(buf)
	}
}
