package harness

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"weft/directory"
	"weft/directory/embedded"
	"weft/directory/etcd"
	"weft/pgserver/pgtest"
)

// Etcd is an etcd in a process of its own, to be killed. It is this test binary,
// started once more: see Main.
type Etcd struct {
	Endpoint string

	dir    string
	listen string
	cmd    *exec.Cmd
	done   chan struct{} // closed when the process has ended
}

// The environment of such a process.
const (
	etcdDir    = "WEFT_TEST_ETCD_DIR"
	etcdListen = "WEFT_TEST_ETCD_LISTEN"
)

// serveEtcd is what that process does, until it is killed.
func serveEtcd(dir string) int {
	ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
	defer stop()
	_, err := embedded.Start(ctx, embedded.Config{Dir: dir, Listen: os.Getenv(etcdListen), Log: slog.New(slog.DiscardHandler), NoFsync: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	select {}
}

// StartEtcdProcess starts an etcd that knows the shared shards and ends with the test.
func StartEtcdProcess(tb testing.TB) *Etcd {
	tb.Helper()
	c, err := theCluster()
	if err != nil {
		tb.Fatal(err)
	}
	e := &Etcd{dir: tb.TempDir(), listen: freeAddr(tb)}
	e.Endpoint = "http://" + e.listen
	tb.Cleanup(e.Kill)
	if err := e.Start(); err != nil {
		tb.Fatal(err)
	}
	store, err := e.store()
	if err != nil {
		tb.Fatal(err)
	}
	defer store.Close()
	ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
	defer stop()
	if err := c.enter(ctx, store, slices.Repeat([]int{1}, ShardCount)); err != nil {
		tb.Fatal(err)
	}
	return e
}

func (e *Etcd) store() (*etcd.Store, error) {
	return etcd.Open(etcd.Config{Endpoints: []string{e.Endpoint}, Prefix: etcd.Prefix(clusterName), Log: slog.New(slog.DiscardHandler)})
}

// Kill ends the process without a word, if it runs.
func (e *Etcd) Kill() {
	if e.cmd != nil {
		_ = e.cmd.Process.Kill()
		<-e.done
		e.cmd = nil
	}
}

// Start starts the process, again, and waits until it answers.
func (e *Etcd) Start() error {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), etcdDir+"="+e.dir, etcdListen+"="+e.listen)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = dieWithParent()
	started, done := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread() // see StartProgram
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(done)
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	e.cmd, e.done = cmd, done
	store, err := e.store()
	if err != nil {
		return err
	}
	defer store.Close()
	for end := time.Now().Add(pgtest.Patience); ; time.Sleep(10 * time.Millisecond) {
		ctx, stop := context.WithTimeout(context.Background(), time.Second)
		_, err = store.Load(ctx)
		stop()
		if err == nil || errors.Is(err, directory.ErrNoCluster) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("etcd does not answer: %w", err)
		}
	}
}

// Freeze makes the process stand still: connections stay open, and nothing is answered.
func (e *Etcd) Freeze() { _ = e.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw lets it go on.
func (e *Etcd) Thaw() { _ = e.cmd.Process.Signal(syscall.SIGCONT) }
