package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// residentKiB is the memory of a process that is in RAM now. It comes from walking the process's page tables: the
// counter in /proc/PID/status is kept per core and may be off by half a MiB, which is half a KiB for each of 1,000 clients.
func residentKiB(pid int) (int64, error) { return memoryKiB(pid, "smaps_rollup", "Rss") }

// resetPeak makes the kernel forget the process's high-water mark and returns the new one: the memory in use now, by
// the same counter that peakKiB will read.
func resetPeak(pid int) (int64, error) {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		return 0, fmt.Errorf("reset peak memory: %w", err)
	}
	return peakKiB(pid)
}

// peakKiB is the most memory the process had in RAM since resetPeak.
func peakKiB(pid int) (int64, error) { return memoryKiB(pid, "status", "VmHWM") }

func memoryKiB(pid int, file, field string) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	return parseKiB(b, field)
}

// parseKiB finds a line like "VmHWM:	    1234 kB".
func parseKiB(b []byte, field string) (int64, error) {
	for line := range bytes.Lines(b) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || string(name) != field {
			continue
		}
		f := bytes.Fields(value)
		if len(f) != 2 || string(f[1]) != "kB" {
			return 0, fmt.Errorf("%s is %q", field, value)
		}
		return strconv.ParseInt(string(f[0]), 10, 64)
	}
	return 0, fmt.Errorf("no %s among its memory figures", field)
}
