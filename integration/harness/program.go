package harness

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"weft/config"
	"weft/directory/etcd"
	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// Program is weft as it is shipped: the built binary in a process of its own,
// for tests of its memory, its signals and its death.
type Program struct {
	*Target
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // how; valid when done is closed
	stop string        // the file that says where it stops
	log  string        // the file it logs to
	cfg  config.Config // as it is in file
	file string
}

// LogFile is what it logs to.
func (p *Program) LogFile() string { return p.log }

// StopAt makes the process stop at a point of a commit or of its recovery, see
// twopc.Point: with die it kills itself there, otherwise it waits for GoOn.
func (p *Program) StopAt(tb testing.TB, point string, die bool) {
	tb.Helper()
	what := " wait"
	if die {
		what = " die"
	}
	// All at once: it may be looking.
	if err := os.WriteFile(p.stop+".new", []byte(point+what), 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(p.stop+".new", p.stop); err != nil {
		tb.Fatal(err)
	}
}

// Stopped reports whether it has come to the point.
func (p *Program) Stopped() bool {
	_, err := os.Stat(p.stop + ".reached")
	return err == nil
}

// RunWith runs a command of the binary with a configuration.
func RunWith(tb testing.TB, cfg config.Config, args ...string) (string, error) {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "weft.yaml")
	writeConfig(tb, file, cfg)
	out, err := exec.Command(ProgramPath(tb), append(args, "-c", file)...).CombinedOutput()
	return string(out), err
}

// Run runs another command of the binary, with the same configuration.
func (p *Program) Run(args ...string) (string, error) {
	out, err := exec.Command(p.cmd.Path, append(args, p.cmd.Args[2:4]...)...).CombinedOutput() // -c and the file
	return string(out), err
}

// GoOn lets it go on, if it has stopped, and stop no more.
func (p *Program) GoOn() {
	_ = os.Remove(p.stop)
	_ = os.Remove(p.stop + ".reached")
}

// build compiles cmd/weft once per test binary, without the race detector:
// its memory and speed are what is measured.
var build = sync.OnceValues(func() (string, error) {
	if built := os.Getenv(programPath); built != "" {
		return built, nil
	}
	c, err := theCluster()
	if err != nil {
		return "", err
	}
	path := filepath.Join(c.dir, "weft")
	out, err := exec.Command("go", "build", "-tags", "weftstop", "-o", path, "weft/cmd/weft").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build weft: %w\n%s", err, out)
	}
	return path, nil
})

// programPath is the environment of test binaries that run inside another: the program it
// has built.
const programPath = "WEFT_TEST_PROGRAM"

// ProgramPath is the built binary, for tests that run commands of it by themselves.
func ProgramPath(tb testing.TB) string {
	tb.Helper()
	path, err := build()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// ProgramEnv is what lets another test binary use the program that was built for this one.
func ProgramEnv(tb testing.TB) string {
	tb.Helper()
	path, err := build()
	if err != nil {
		tb.Fatal(err)
	}
	return programPath + "=" + path
}

// StartProgram runs `weft serve` over the shared shards until the test ends.
func StartProgram(tb testing.TB, configure func(*config.Config)) *Program {
	tb.Helper()
	path, err := build()
	if err != nil {
		tb.Fatal(err)
	}
	c, err := theCluster()
	if err != nil {
		tb.Fatal(err)
	}
	cfg := c.config()
	cfg.Listen = freeAddr(tb)
	cfg.HTTP.Listen = freeAddr(tb)
	cfg.Log.Level = "info"
	configure(&cfg)
	file := filepath.Join(tb.TempDir(), "weft.yaml")
	writeConfig(tb, file, cfg)
	p := c.launch(tb, path, file, cfg)
	p.awaitReady(tb)
	p.Reset(tb)
	return p
}

// TakeOver starts another process in the place of this one, and waits until it serves. This one drains.
func (p *Program) TakeOver(tb testing.TB) *Program {
	tb.Helper()
	next := p.BeginTakeOver(tb)
	for deadline := time.Now().Add(pgtest.Patience); ; time.Sleep(5 * time.Millisecond) {
		if next.Logged("took over") {
			return next
		}
		select {
		case <-next.done:
			tb.Fatalf("weft ended at start: %v", next.err)
		default:
		}
		if time.Now().After(deadline) {
			tb.Fatal("weft does not take over")
		}
	}
}

// BeginTakeOver starts another process that is to take the place of this one.
func (p *Program) BeginTakeOver(tb testing.TB) *Program {
	tb.Helper()
	c, err := theCluster()
	if err != nil {
		tb.Fatal(err)
	}
	return c.launch(tb, p.cmd.Path, p.file, p.cfg, "--takeover")
}

// Logged reports whether the process has logged a text.
func (p *Program) Logged(text string) bool {
	b, _ := os.ReadFile(p.log)
	return strings.Contains(string(b), text)
}

// Done is closed when the process has ended.
func (p *Program) Done() <-chan struct{} { return p.done }

// PID is the process ID.
func (p *Program) PID() int { return p.cmd.Process.Pid }

// launch starts weft serve, until the test ends.
func (c *cluster) launch(tb testing.TB, path, file string, cfg config.Config, flags ...string) *Program {
	tb.Helper()
	log, err := os.CreateTemp(c.dir, "program-*.log")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Program{Target: c.target(cfg.Listen, log.Name()), done: make(chan struct{}), log: log.Name(), cfg: cfg, file: file}
	p.ShowLogs(tb)
	p.cmd = exec.Command(path, append([]string{"serve", "-c", file}, flags...)...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.stop = filepath.Join(tb.TempDir(), "stop")
	p.cmd.Env = append(os.Environ(), "WEFT_STOP="+p.stop, "GOGC=100") // Go's own: tests measure the program's memory
	p.cmd.SysProcAttr = dieWithParent()
	started := make(chan error)
	go func() {
		// The kernel ends the child when the thread that forked it does: keep it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = p.cmd.Process.Kill() // gone already is fine
		<-p.done
		_ = log.Close()
		_ = p.admin.close(context.Background())
	})
	return p
}

func writeConfig(tb testing.TB, file string, cfg config.Config) {
	tb.Helper()
	text, err := yaml.Marshal(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	// All at once: it may be reading.
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		tb.Fatal(err)
	}
}

// Configure changes the file that it was started from. It reads it again when it
// is told to, by SIGHUP or RELOAD.
func (p *Program) Configure(tb testing.TB, change func(*config.Config)) {
	tb.Helper()
	change(&p.cfg)
	writeConfig(tb, p.file, p.cfg)
}

// HTTP is where it serves metrics.
func (p *Program) HTTP() string { return p.cfg.HTTP.Listen }

func freeAddr(tb testing.TB) string {
	tb.Helper()
	port, err := pgserver.FreePort()
	if err != nil {
		tb.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// awaitReady waits until the process has started. A listener is not enough: a process that is told to end before it accepts clients just ends.
func (p *Program) awaitReady(tb testing.TB) {
	tb.Helper()
	for deadline := time.Now().Add(pgtest.Patience); ; time.Sleep(20 * time.Millisecond) {
		if p.Logged(`"accepting clients"`) {
			return
		}
		select {
		case <-p.done:
			tb.Fatalf("weft ended at start: %v", p.err)
		default:
		}
		if time.Now().After(deadline) {
			tb.Fatal("weft does not accept clients")
		}
	}
}

// Signal sends the process a signal.
func (p *Program) Signal(tb testing.TB, sig syscall.Signal) {
	tb.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		tb.Fatalf("signal weft: %v", err)
	}
}

// WaitExit waits until the process has ended, and fails the test if it lives longer than d, or what d is on a
// machine that is busy.
func (p *Program) WaitExit(tb testing.TB, d time.Duration) {
	tb.Helper()
	began := time.Now()
	select {
	case <-p.done:
	case <-time.After(max(d, pgtest.Patience)):
		tb.Fatalf("weft still runs after %v", time.Since(began))
	}
	if took := time.Since(began); pgtest.Late(tb, took, d) {
		tb.Errorf("weft has ended after %v", took)
	}
}

// RSS is the process's resident memory in bytes, without files it maps.
func (p *Program) RSS(tb testing.TB) int64 {
	tb.Helper()
	rss, err := p.rss()
	if err != nil {
		tb.Fatal(err)
	}
	return rss
}

func (p *Program) rss() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kb << 10, err
		}
	}
	return 0, errors.New("no RssAnon in /proc status")
}

// WatchRSS samples the process's memory until the returned function is called,
// which gives the greatest value seen.
func (p *Program) WatchRSS(tb testing.TB) (peak func() int64) {
	tb.Helper()
	stop, result := make(chan struct{}), make(chan int64, 1)
	go func() {
		var most int64
		for {
			if rss, err := p.rss(); err == nil {
				most = max(most, rss)
			}
			select {
			case <-stop:
				result <- most
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() int64 {
		close(stop)
		return <-result
	}
}

// Spawn starts a process that ends with this one, however this one ends. done is closed when
// the process has ended.
func Spawn(cmd *exec.Cmd) (done <-chan struct{}, err error) {
	cmd.SysProcAttr = dieWithParent()
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread() // see StartProgram
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // cmd.ProcessState says how
		}
	}()
	return ended, <-started
}

// Command runs a command of the program, without a configuration of ours.
func Command(tb testing.TB, args ...string) (string, error) {
	tb.Helper()
	path, err := build()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	return string(out), err
}

// Endpoint is that of the shared etcd.
func Endpoint(tb testing.TB) string {
	tb.Helper()
	c, err := theCluster()
	if err != nil {
		tb.Fatal(err)
	}
	return c.etcd.Endpoint()
}

// Store opens a directory in an etcd, under a cluster's name.
func Store(tb testing.TB, endpoint, cluster string) *etcd.Store {
	tb.Helper()
	s, err := etcd.Open(etcd.Config{Endpoints: []string{endpoint}, Prefix: etcd.Prefix(cluster), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}
