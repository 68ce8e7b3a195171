package dev

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"weft/pgserver"
)

// report prints a run's progress for the person at the terminal.
type report struct {
	began time.Time

	mu  sync.Mutex // shards report at the same time
	out io.Writer
}

func newReport(out io.Writer) *report { return &report{began: time.Now(), out: out} }

func (r *report) printf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, format, args...)
}

func (r *report) begin(inst pgserver.Install, st *state, dir string) {
	if st.Complete {
		r.printf("weft dev: starting %d shards%s in %s (%s)\n", st.Shards, standbysNote(st), dir, inst)
		return
	}
	r.printf("weft dev: making %d shards%s in %s (%s)\n", st.Shards, standbysNote(st), dir, inst)
}

func standbysNote(st *state) string {
	note := ""
	switch st.Replicas {
	case 0:
	case 1:
		note = " with a standby each"
	default:
		note = fmt.Sprintf(" with %d standbys each", st.Replicas)
	}
	if st.Patroni {
		note += " under Patroni"
	}
	return note
}

// step prints that a part is up, and how long it took.
func (r *report) step(began time.Time, part, format string, args ...any) {
	r.printf("  %-9s %s (%.1f s)\n", part, fmt.Sprintf(format, args...), time.Since(began).Seconds())
}

// ready prints how to use the cluster.
func (r *report) ready(c *cluster) {
	var b strings.Builder
	fmt.Fprintf(&b, "weft dev: ready after %.1f s\n\n", time.Since(r.began).Seconds())
	line := func(what, command string) { fmt.Fprintf(&b, "  %-18s %s\n", what, command) }
	listen := c.proxy.Addr().String()
	line("the cluster:", psql(listen))
	line("shard-0 itself:", psql(c.shards[0].primary())+portsNote(len(c.shards), c.state))
	line("health:", "curl http://"+c.opts.HTTP+"/readyz")
	line("dashboard:", "http://"+c.opts.HTTP+"/dashboard/  (user "+dashboardUser+", password "+c.password+")")
	line("a second proxy:", "weft serve -c "+shortest(configPath(c.opts.Dir))+" --listen "+another(listen, c.opts.HTTP))
	fmt.Fprintf(&b, "\nData is kept in %s. Ctrl-C stops everything.\n", shortest(c.opts.Dir))
	r.printf("%s", b.String())
}

func (r *report) stopping() { r.printf("weft dev: stopping\n") }

func (r *report) stopped(began time.Time) {
	r.printf("weft dev: stopped after %.1f s\n", time.Since(began).Seconds())
}

// psql is the line to type.
func psql(addr string) string {
	host, port, _ := net.SplitHostPort(addr) // a listener's address always splits
	return fmt.Sprintf("psql -h %s -p %s -U %s %s", host, port, superuser, database)
}

func portsNote(shards int, st *state) string {
	if shards*st.servers() == 1 {
		return ""
	}
	return fmt.Sprintf("  (the others: up to -p %d)", st.port(shards-1, st.Replicas))
}

// another is an address for a second proxy: the next port that is not avoid's.
func another(addr, avoid string) string {
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return addr
	}
	if a.Port++; a.String() == avoid {
		a.Port++
	}
	return a.String()
}

// shortest is a path as one would type it here.
func shortest(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	rel, err := filepath.Rel(wd, path)
	if err != nil || strings.HasPrefix(rel, "..") {
		return path
	}
	return rel
}
