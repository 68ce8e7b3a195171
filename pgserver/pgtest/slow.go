package pgtest

import (
	"math"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Tests run on machines that give them a small part of a processor, or none for seconds. A test that
// waits for something waits for Patience, and fails if it does not come at all. A test that
// something is prompt asks Late, which allows for how slow the machine is at that moment.

// Patience is how long a test waits for what must happen.
const Patience = 2 * time.Minute

// Late reports whether something took longer than it may. If it took longer than most, the machine is
// measured: on one that is three times as slow as an idle one, it may take three times as long.
func Late(tb testing.TB, took, most time.Duration) bool {
	tb.Helper()
	if took <= most {
		return false
	}
	slow := Slowness()
	tb.Logf("something took %s, where %s are allowed: the machine is %.1f times as slow as an idle one", took.Round(time.Millisecond), most, slow)
	return took > scaled(most, slow)
}

// Stretch returns a time limit for the machine as it is now.
func Stretch(d time.Duration) time.Duration { return scaled(d, Slowness()) }

func scaled(d time.Duration, factor float64) time.Duration {
	return time.Duration(float64(d) * factor)
}

const (
	// idleProgram is what it takes to run a program that does nothing, on an idle machine and with room to
	// spare.
	idleProgram = 4 * time.Millisecond
	// slowest bounds what is believed of a measurement.
	slowest = 60
)

// Slowness measures how many times as long as on an idle machine things take now, at least 1. That is
// how long the processor takes for work, compared with the time it spends on it, or how long it takes to
// start a process, as a server does for each connection: the worst of a few measurements, which take some
// 50 ms on an idle machine.
func Slowness() float64 {
	slow := 1.0
	for range 3 {
		slow = max(slow, work(), start())
	}
	return min(slow, slowest)
}

// start runs a program that does nothing and returns how many times as long as on an idle machine that
// took.
func start() float64 {
	program, err := exec.LookPath("true")
	if err != nil {
		return 1
	}
	const times = 3
	began := time.Now()
	for range times {
		_ = exec.Command(program).Run()
	}
	return float64(time.Since(began)) / float64(times*idleProgram)
}

// work computes for some 10 ms of processor time and returns how many times as long that took.
func work() float64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began, spent := time.Now(), processorTime()
	x := 1.0
	for processorTime()-spent < 10*time.Millisecond && time.Since(began) < time.Second {
		for range 10000 {
			x = math.Sqrt(x + 1)
		}
	}
	runtime.KeepAlive(x)
	return float64(time.Since(began)) / float64(max(processorTime()-spent, time.Millisecond))
}

// processorTime is what the thread has spent.
func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		return 0
	}
	return time.Duration(unix.TimevalToNsec(u.Utime) + unix.TimevalToNsec(u.Stime))
}
