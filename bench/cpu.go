package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the CPU time, user and system, that a process has used in all its threads, ended ones included.
//
// It asks the kernel's per-process clock, which counts nanoseconds; /proc/PID/stat counts in ticks of 10 ms, which
// is a tenth of what PgBouncer uses in a short run. Stat is the fallback where the clock is refused.
func cpuTime(pid int) (time.Duration, error) {
	t, err := cpuClock(pid)
	if err == nil {
		return t, nil
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
		if t, statErr := cpuStat(pid); statErr == nil {
			return t, nil
		}
	}
	return 0, fmt.Errorf("cpu time of process %d: %w", pid, err)
}

func cpuClock(pid int) (time.Duration, error) {
	if pid <= 0 {
		return 0, unix.EINVAL // The formula below would silently name another clock.
	}
	// What clock_getcpuclockid(3) computes: the inverted pid, the "whole process" bit clear, and clock 2, the
	// scheduler's own account.
	const schedClock = 2
	id := int32(^pid<<3 | schedClock)
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0, err
	}
	return time.Duration(ts.Nano()), nil
}

func cpuStat(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(b)
}

// parseStat adds utime and stime of a /proc/PID/stat line. The second field is the command's name in parentheses
// and may itself hold spaces and parentheses, so fields are counted from the last closing one.
func parseStat(b []byte) (time.Duration, error) {
	const (
		utime = 14 - 3 // Fields are numbered from 1 in proc(5), and the first after the name is field 3.
		stime = 15 - 3
		tick  = time.Second / 100 // USER_HZ is 100 on every Linux port that Go runs on.
	)
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return 0, errors.New("stat: no command name")
	}
	fields := bytes.Fields(b[i+1:])
	if len(fields) <= stime {
		return 0, errors.New("stat: too few fields")
	}
	var sum time.Duration
	for _, f := range []int{utime, stime} {
		n, err := strconv.ParseInt(string(fields[f]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("stat: %w", err)
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}

// writeCalls returns how often a process has called write(2) and its kin.
func writeCalls(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(b, []byte("syscw: "))
	n, _, _ := bytes.Cut(rest, []byte("\n"))
	return strconv.ParseInt(string(n), 10, 64)
}
