package main

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestProcessStops(t *testing.T) {
	p, err := startProcess("sleeper", t.TempDir(), nil, "sleep", "60")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	gone(t, p.pid())
}

func TestProcessThatWillNotStopIsKilled(t *testing.T) {
	p, err := startProcess("stubborn", t.TempDir(), nil, "sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done")
	if err != nil {
		t.Fatal(err)
	}
	p.grace = 300 * time.Millisecond
	if err := p.waitReady(t.Context(), 5*time.Second, func() error {
		if strings.Contains(p.tail(), "deaf") {
			return nil
		}
		return errors.New("not deaf yet")
	}); err != nil {
		t.Fatal(err)
	}
	if err := p.stop(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("got %v, want to be told that it was killed", err)
	}
	gone(t, p.pid())
}

func TestProcessThatEndsEarlyIsReported(t *testing.T) {
	p, err := startProcess("failing", t.TempDir(), nil, "sh", "-c", "echo no such luck >&2; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	err = p.waitReady(t.Context(), 10*time.Second, func() error { return errors.New("never") })
	if err == nil || !strings.Contains(err.Error(), "no such luck") {
		t.Errorf("got %v, want the process's own words", err)
	}
	if err := p.stop(); err == nil || !strings.Contains(err.Error(), "no such luck") {
		t.Errorf("got %v, want the process's own words", err)
	}
}

func gone(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there: %v", pid, err)
	}
}
