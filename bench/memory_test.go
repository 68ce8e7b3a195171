package main

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseKiB(t *testing.T) {
	const status = "Name:\tweft\nVmHWM:\t   20480 kB\nVmRSS:\t    1234 kB\nThreads:\t9\n"
	for _, c := range []struct {
		field string
		want  int64
		ok    bool
	}{
		{"VmRSS", 1234, true},
		{"VmHWM", 20480, true},
		{"Threads", 0, false}, // no size
		{"VmSwap", 0, false},
	} {
		got, err := parseKiB([]byte(status), c.field)
		if got != c.want || (err == nil) != c.ok {
			t.Errorf("%s: got %d, %v", c.field, got, err)
		}
	}
}

func TestPeakIsSeenAfterItIsOver(t *testing.T) {
	const size = 64 << 20
	pid := os.Getpid()
	base, err := resetPeak(pid)
	if err != nil {
		t.Fatal(err)
	}
	// Mapped by hand, so that it is certainly given back before the peak is asked for.
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < size; i += 4096 {
		b[i] = 1
	}
	runtime.KeepAlive(b)
	if err := unix.Munmap(b); err != nil {
		t.Fatal(err)
	}
	peak, err := peakKiB(pid)
	if err != nil {
		t.Fatal(err)
	}
	now, err := residentKiB(pid)
	if err != nil {
		t.Fatal(err)
	}
	const slack = 2 << 10 // The kernel's counter is kept per core and lags behind a little.
	if peak-base < size>>10-slack || peak-now < size>>10-slack {
		t.Errorf("base %d, peak %d, now %d KiB for %d KiB that came and went", base, peak, now, size>>10)
	}
	if peak, err = resetPeak(pid); err != nil || peak-base >= size>>10-slack {
		t.Errorf("peak %d KiB after its reset, %v", peak, err)
	}
}
