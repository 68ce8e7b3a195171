package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// machine says under which circumstances the figures came about.
type machine struct {
	Cores      int               `json:"cores"`
	CPU        string            `json:"cpu"`
	Kernel     string            `json:"kernel"`
	Go         string            `json:"go"`
	PostgreSQL string            `json:"postgresql"`
	PgBouncer  string            `json:"pgbouncer,omitempty"`
	Load       string            `json:"load"` // when the run began, before it made any of its own
	Settings   map[string]string `json:"settings"`
}

// shownSettings are those of the server that decide what a read-write transaction waits for.
var shownSettings = []string{"fsync", "synchronous_commit", "shared_buffers", "max_connections"}

func (l *lab) Machine(ctx context.Context) machine {
	m := machine{
		Cores:     runtime.NumCPU(),
		CPU:       cpuModel(),
		Kernel:    kernel(),
		Go:        runtime.Version(),
		PgBouncer: l.bouncerVersion,
		Load:      l.load,
		Settings:  map[string]string{},
	}
	m.PostgreSQL = show(ctx, l.server, "server_version")
	for _, s := range shownSettings {
		m.Settings[s] = show(ctx, l.server, s)
	}
	return m
}

func (m machine) print(w io.Writer) {
	fmt.Fprintf(w, "%d cores (%s), Linux %s, load %s, %s\n", m.Cores, m.CPU, m.Kernel, m.Load, m.Go)
	fmt.Fprintf(w, "PostgreSQL %s", m.PostgreSQL)
	for _, s := range shownSettings {
		fmt.Fprintf(w, ", %s %s", s, m.Settings[s])
	}
	fmt.Fprintln(w)
	if m.PgBouncer != "" {
		fmt.Fprintf(w, "PgBouncer %s\n", m.PgBouncer)
	}
}

// show is a server setting; a figure's surroundings are not worth failing for.
func show(ctx context.Context, t target, setting string) string {
	rows, err := queryRows(ctx, t, "SHOW "+setting)
	if err != nil || len(rows) != 1 {
		return "unknown"
	}
	return string(rows[0][0])
}

func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range bytes.Lines(b) {
		if name, value, ok := strings.Cut(string(line), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}

// loadAverage is that of the last minute.
func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(b), " ")
	return one
}
