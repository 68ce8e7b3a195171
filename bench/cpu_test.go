package main

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// burn keeps this thread busy until it has used d of CPU time.
func burn(t *testing.T, d time.Duration) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used := func() time.Duration {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
			t.Fatal(err)
		}
		return time.Duration(ts.Nano())
	}
	for start := used(); used()-start < d; {
	}
}

func TestCPUTimeCountsOwnWork(t *testing.T) {
	const work = 50 * time.Millisecond
	before, err := cpuTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	burn(t, work)
	after, err := cpuTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	// The runtime's other threads may have worked too, but not for long.
	if got := after - before; got < work || got > 10*work {
		t.Errorf("%v counted for %v of work", got, work)
	}
}

func TestCPUTimeIsFine(t *testing.T) {
	// 1 ms of work is a tenth of a tick: only the kernel's clock sees it.
	before, err := cpuClock(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	burn(t, time.Millisecond)
	after, err := cpuClock(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if after-before < time.Millisecond {
		t.Errorf("%v counted for a millisecond of work", after-before)
	}
}

func TestCPUTimeOfAnotherProcess(t *testing.T) {
	cmd := exec.Command("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; read x")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if _, err := out.Read(make([]byte, 5)); err != nil { // The loop is over, the process is not.
		t.Fatal(err)
	}
	fine, err := cpuClock(pid)
	if err != nil {
		t.Error(err)
	}
	coarse, err := cpuStat(pid)
	if err != nil {
		t.Error(err)
	}
	if diff := fine - coarse; fine < 10*time.Millisecond || diff < -30*time.Millisecond || diff > 30*time.Millisecond {
		t.Errorf("clock says %v, stat says %v", fine, coarse)
	}
	in.Close()
	_ = cmd.Wait() // read fails at the end of input; the loop was what mattered
	if used, err := cpuTime(pid); err == nil {
		t.Errorf("a process that is gone has used %v", used)
	}
}

func TestCPUTimeOfNoProcess(t *testing.T) {
	for _, pid := range []int{0, -1} {
		if used, err := cpuTime(pid); err == nil {
			t.Errorf("process %d has used %v", pid, used)
		}
	}
}

func TestParseStat(t *testing.T) {
	for _, c := range []struct {
		line string
		want time.Duration
		ok   bool
	}{
		{"42 (weft) S 1 42 42 0 -1 4194304 107 0 0 0 123 45 0 0 20 0 9 0 1 2 3", 1680 * time.Millisecond, true},
		{"42 (a ) b (c) S 1 42 42 0 -1 4194304 107 0 0 0 1 2 0 0 20 0 9 0 1 2 3", 30 * time.Millisecond, true},
		{"42 (weft) S 1 42 42 0 -1 4194304 107 0 0 0 x 45 0 0", 0, false},
		{"42 (weft) S 1 42", 0, false},
		{"", 0, false},
	} {
		got, err := parseStat([]byte(c.line))
		if got != c.want || (err == nil) != c.ok {
			t.Errorf("%q: got %v, %v", c.line, got, err)
		}
	}
}
