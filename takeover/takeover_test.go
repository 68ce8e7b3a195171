package takeover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long something may take that must happen.
const patience = 3 * time.Minute

// world is a run_dir, with a log of all processes, which are parts of this one.
type world struct {
	t   *testing.T
	cfg Config
	mu  sync.Mutex
	log bytes.Buffer
}

func (w *world) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(b)
}

func (w *world) logged(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Contains(w.log.String(), text)
}

func newWorld(t *testing.T) *world {
	dir, err := os.MkdirTemp("", "weft") // a short path: those of sockets are bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &world{t: t}
	w.cfg = Config{Dir: filepath.Join(dir, "run"), Log: slog.New(slog.NewTextHandler(w, nil)), Guard: func(_ string, f func()) func() { return f }}
	return w
}

// process is one that serves: it answers each connection with its name.
type process struct {
	w     *world
	name  string
	seat  *Seat
	front net.Listener
	ended chan struct{} // closed when Serve has returned
	stop  context.CancelFunc

	mu     sync.Mutex
	refuse error
	yields []int // process IDs that it has yielded to
}

// begin starts the first process.
func (w *world) begin(name string) *process {
	w.t.Helper()
	seat, hand, err := Take(w.t.Context(), w.cfg, false)
	if err != nil || hand != nil {
		w.t.Fatal(hand, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	return w.serve(name, seat, l)
}

// ask returns what a new process gets from the one that serves.
func (w *world) ask() *Hand {
	w.t.Helper()
	seat, hand, err := Take(w.t.Context(), w.cfg, true)
	if err != nil || seat != nil {
		w.t.Fatal(seat, err)
	}
	return hand
}

func (w *world) serve(name string, seat *Seat, l net.Listener) *process {
	ctx, stop := context.WithCancel(context.Background())
	p := &process{w: w, name: name, seat: seat, front: l, ended: make(chan struct{}), stop: stop}
	p.accept()
	go func() {
		defer close(p.ended)
		_ = seat.Serve(ctx, Giver{
			Sockets: func() ([]Socket, error) {
				p.mu.Lock()
				defer p.mu.Unlock()
				return []Socket{{"clients", "configured", l}}, p.refuse
			},
			Yield: func(pid int) {
				_ = l.Close()
				p.mu.Lock()
				defer p.mu.Unlock()
				p.yields = append(p.yields, pid)
			},
		})
	}()
	w.t.Cleanup(p.end)
	return p
}

// accept answers connections until the listener is closed.
func (p *process) accept() {
	go func() {
		for {
			c, err := p.front.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, p.name)
			_ = c.Close()
		}
	}()
}

// end ends the process as SIGTERM does.
func (p *process) end() {
	p.stop()
	<-p.ended
	_ = p.front.Close()
	_ = p.seat.Close()
}

// vanish ends the process as SIGKILL does: nothing is removed.
func (p *process) vanish() {
	p.stop()
	<-p.ended
	_ = p.front.Close()
	_ = p.seat.lock.Close()
	p.seat.handed = true
}

func (p *process) yielded() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.yields)
}

// visit connects to an address and returns who has answered.
func visit(t *testing.T, addr net.Addr) string {
	t.Helper()
	c, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	within(c, patience)
	name, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(name)
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// TestTakeover: the sockets go from process to process while clients connect all the time, and none is refused.
func TestTakeover(t *testing.T) {
	w := newWorld(t)
	p := w.begin("0")
	addr := p.front.Addr()
	stop, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(failed)
		for {
			select {
			case <-stop:
				return
			default:
			}
			c, err := net.Dial("tcp", addr.String())
			if err == nil {
				within(c, patience)
				_, err = io.ReadAll(c)
				_ = c.Close()
			}
			if err != nil {
				failed <- err
				return
			}
		}
	}()
	descriptors := func() int {
		list, _ := os.ReadDir("/proc/self/fd")
		return len(list)
	}
	var before int
	for i := range 20 {
		h := w.ask()
		if h.PID != os.Getpid() {
			t.Errorf("from process %d", h.PID)
		}
		if h.Listener("http", "configured") != nil || h.Listener("clients", "127.0.0.1:1") != nil {
			t.Error("a socket that was not handed over")
		}
		var l net.Listener
		if i%2 == 0 {
			l = h.Listener("clients", "configured")
		} else {
			l = h.Listener("clients", addr.String())
		}
		if l == nil {
			t.Fatal("no socket of the clients")
		}
		next := &process{front: l, name: fmt.Sprint(i + 1)}
		next.accept()
		seat, err := h.Ready()
		if err != nil {
			t.Fatal(err)
		}
		if p.yielded() != 1 {
			t.Error("ready before the old process accepts no more")
		}
		<-p.ended
		old := p
		p = w.serve(next.name, seat, l)
		old.end() // after a takeover this takes nothing from the next
		if got := visit(t, addr); got != next.name {
			t.Errorf("process %s answers, not %s", got, next.name)
		}
		if i == 4 {
			before = descriptors()
		}
	}
	close(stop)
	if err := <-failed; err != nil {
		t.Errorf("a client met %v", err)
	}
	if n := descriptors(); before > 0 && n > before+4 {
		t.Errorf("%d descriptors after 5 takeovers, %d after 20", before, n)
	}
	info, err := os.Stat(filepath.Join(w.cfg.Dir, socketFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestSeat: without being asked to take over, a second process does not start beside the first.
func TestSeat(t *testing.T) {
	w := newWorld(t)
	p := w.begin("a")
	_, _, err := Take(t.Context(), w.cfg, false)
	if want := fmt.Sprintf("process %d serves with run_dir", os.Getpid()); err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("%v, want %q", err, want)
	}
	p.end()
	seat, hand, err := Take(t.Context(), w.cfg, true)
	if err != nil || hand != nil {
		t.Fatalf("nobody to take over from: %v %v", hand, err)
	}
	if err := seat.Close(); err != nil {
		t.Error(err)
	}
	if list, _ := os.ReadDir(w.cfg.Dir); len(list) != 1 { // the lock
		t.Errorf("%v is left", list)
	}
}

// TestKilled: what a killed process leaves behind is in nobody's way.
func TestKilled(t *testing.T) {
	w := newWorld(t)
	w.begin("a").vanish()
	if _, err := os.Stat(filepath.Join(w.cfg.Dir, socketFile)); err != nil {
		t.Fatal(err)
	}
	w.begin("b")
}

// TestNewDies: a new process that ends before it is ready changes nothing, and the next may take over.
func TestNewDies(t *testing.T) {
	w := newWorld(t)
	p := w.begin("old")
	addr := p.front.Addr()
	h := w.ask()
	_ = h.Close()
	await(t, "the end of the new process is noticed", func() bool { return w.logged("has gone before it was ready") })
	if got := visit(t, addr); got != "old" || p.yielded() != 0 {
		t.Errorf("%s answers, %d yields", got, p.yielded())
	}
	h = w.ask()
	l := h.Listener("clients", "configured")
	seat, err := h.Ready()
	if err != nil {
		t.Fatal(err)
	}
	w.serve("new", seat, l)
	if got := visit(t, addr); got != "new" {
		t.Errorf("%s answers", got)
	}
}

// TestOldDies: a new process goes on alone when the old one ends, or is killed, before it is ready.
func TestOldDies(t *testing.T) {
	for how, end := range map[string]func(*process){"ended": (*process).end, "killed": (*process).vanish} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			p := w.begin("old")
			addr := p.front.Addr()
			h := w.ask()
			end(p)
			l := h.Listener("clients", "configured")
			seat, err := h.Ready()
			if err == nil || seat == nil {
				t.Fatalf("%v, %v", seat, err)
			}
			w.serve("new", seat, l)
			if got := visit(t, addr); got != "new" {
				t.Errorf("%s answers", got)
			}
			if _, _, err := Take(t.Context(), w.cfg, false); err == nil {
				t.Error("the seat is free")
			}
			if err := w.ask().Close(); err != nil { // it can be asked in turn
				t.Error(err)
			}
		})
	}
}

// TestTwoAtOnce: a second new process is told that there is another, which then takes over.
func TestTwoAtOnce(t *testing.T) {
	w := newWorld(t)
	p := w.begin("old")
	h := w.ask()
	_, _, err := Take(t.Context(), w.cfg, true)
	if want := fmt.Sprintf("process %d is taking over already", os.Getpid()); err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("%v, want %q", err, want)
	}
	seat, err := h.Ready()
	if err != nil || p.yielded() != 1 {
		t.Fatal(err, p.yielded())
	}
	_ = seat.Close()
}

// TestRefused: a process that cannot hand over says why, and serves on.
func TestRefused(t *testing.T) {
	w := newWorld(t)
	p := w.begin("old")
	p.mu.Lock()
	p.refuse = errors.New("it does not serve yet")
	p.mu.Unlock()
	if _, _, err := Take(t.Context(), w.cfg, true); err == nil || !strings.Contains(err.Error(), "it does not serve yet") {
		t.Errorf("%v", err)
	}
	if got := visit(t, p.front.Addr()); got != "old" {
		t.Errorf("%s answers", got)
	}
	c, err := net.Dial("unix", filepath.Join(w.cfg.Dir, socketFile))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintln(c, `{"protocol":99,"pid":7}`)
	within(c, patience)
	answer, err := io.ReadAll(c)
	if err != nil || !strings.Contains(string(answer), "hands over by protocol 1, the new one by 99") {
		t.Errorf("%s %v", answer, err)
	}
}

// TestDir: a directory into which other users may put sockets is refused.
func TestDir(t *testing.T) {
	w := newWorld(t)
	if err := os.Mkdir(w.cfg.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(w.cfg.Dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Take(t.Context(), w.cfg, false); err == nil || !strings.Contains(err.Error(), "may be written to by other users: its mode is 0777") {
		t.Errorf("%v", err)
	}
}

// TestSameAddress: a socket is used if the configuration means its address, however that is written.
func TestSameAddress(t *testing.T) {
	for _, c := range []struct {
		listener string
		address  string
		want     bool
	}{
		{"127.0.0.1", "127.0.0.1:%d", true},
		{"127.0.0.1", "localhost:%d", true},
		{"127.0.0.1", "127.0.0.2:%d", false},
		{"127.0.0.1", "0.0.0.0:%d", false},
		{"0.0.0.0", ":%d", true},
		{"0.0.0.0", "0.0.0.0:%d", true},
		{"127.0.0.1", "127.0.0.1:1", false},
		{"127.0.0.1", "nonsense", false},
	} {
		a := &net.TCPAddr{IP: net.ParseIP(c.listener), Port: 6432}
		address := strings.ReplaceAll(c.address, "%d", "6432")
		if got := sameAddress(a, address); got != c.want {
			t.Errorf("%s for a listener at %s: %t", address, a, got)
		}
	}
}

// TestBeside: requests reach the process that they are for, whichever gets them, and dead processes are forgotten.
func TestBeside(t *testing.T) {
	w := newWorld(t)
	if err := prepareDir(w.cfg.Dir); err != nil {
		t.Fatal(err)
	}
	var all []*Beside
	for i := range 3 {
		b, err := Join(w.cfg, fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = b.Serve(t.Context(), Local{
				Cancel: func(pid int32, key []byte) bool { return int(pid) == i && string(key) == "key" },
				Answer: func(channel, challenge, message []byte) ([]byte, bool) {
					return fmt.Appendf(nil, "%d: %s %s", i, challenge, channel), string(message) == fmt.Sprint(i)
				},
			})
		}()
		t.Cleanup(func() { _ = b.Close(); <-ended })
	}
	if all[0].Cancel(t.Context(), 0, []byte("key")) || all[0].Cancel(t.Context(), 2, []byte("other")) || !all[0].Cancel(t.Context(), 2, []byte("key")) {
		t.Error("cancel requests go astray")
	}
	got, ok := all[2].Answer(t.Context(), []byte("tls"), []byte("fresh"), []byte("1"))
	if !ok || string(got) != "1: fresh tls" {
		t.Errorf("%q %t", got, ok)
	}
	if _, ok := all[2].Answer(t.Context(), nil, nil, []byte("9")); ok {
		t.Error("an answer of nobody")
	}
	_ = all[1].listener.Close() // killed
	if all[0].Cancel(t.Context(), 1, []byte("key")) || !all[0].Cancel(t.Context(), 2, []byte("key")) {
		t.Error("a dead process is in the way")
	}
	if _, err := os.Stat(all[1].path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket of a dead process: %v", err)
	}
}
