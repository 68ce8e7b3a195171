package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// suiteLimit bounds one suite on one target.
const suiteLimit = 3 * time.Minute

// runner runs suites in one world.
type runner struct {
	world  *world
	folder string // integration/drivers
	opts   options
	out    io.Writer
}

// played is what became of a suite on one target.
type played struct {
	checks checks
	err    error // how its process ended
	said   string
	out    string // $OUT
	took   time.Duration
}

// run plays a suite on both targets, prints its line and reports whether all is well.
func (r *runner) run(ctx context.Context, s suite, notInstalled error) bool {
	if notInstalled != nil {
		fmt.Fprintf(r.out, "FAIL  %-20s %v\n", s.Name, notInstalled)
		return false
	}
	logged := size(r.world.logFile())
	plain, weft, err := r.playBoth(ctx, s)
	if err != nil {
		fmt.Fprintf(r.out, "FAIL  %-20s %v\n", s.Name, err)
		return false
	}
	v := compare(plain, weft)
	fmt.Fprintf(r.out, "%-5s %-20s %s (%.1f s, through weft %.1f s)\n", v.word(), s.Name, v.counts(), plain.took.Seconds(), weft.took.Seconds())
	for _, line := range v.skipped {
		fmt.Fprintf(r.out, "      skip %s\n", line)
	}
	for _, line := range v.failed {
		fmt.Fprintf(r.out, "      %s\n", line)
	}
	if len(v.failed) > 0 && !r.opts.verbose {
		for name, p := range map[string]played{"plain": plain, "weft": weft} {
			if p.bad() {
				fmt.Fprintf(r.out, "  the last it said on %s:\n%s\n", name, lastLines(p.said, 25))
			}
		}
		if text := since(r.world.logFile(), logged); text != "" {
			fmt.Fprintf(r.out, "  weft's log:\n%s\n", lastLines(text, 10))
		}
	}
	return len(v.failed) == 0
}

// playBoth plays a suite on both targets, side by side unless somebody wants to read along: what a suite
// does is mostly waiting.
func (r *runner) playBoth(ctx context.Context, s suite) (plain, weft played, err error) {
	var g errgroup.Group
	if r.opts.verbose {
		g.SetLimit(1)
	}
	g.Go(func() (err error) {
		plain, err = r.play(ctx, s, r.world.plainTarget())
		return err
	})
	g.Go(func() (err error) {
		weft, err = r.play(ctx, s, r.world.weftTarget())
		return err
	})
	err = g.Wait()
	return plain, weft, err
}

// play runs a suite against one target, in a database of its own.
func (r *runner) play(ctx context.Context, s suite, t target) (played, error) {
	database := strings.NewReplacer("/", "_", "-", "_", ".", "_").Replace(s.Name)
	if err := t.create(ctx, database); err != nil {
		return played{}, fmt.Errorf("create database: %w", err)
	}
	out := filepath.Join(r.world.dir, "out", t.name, database)
	if err := os.MkdirAll(out, 0o755); err != nil {
		return played{}, err
	}
	env, err := r.environ(s, t, database, out)
	if err != nil {
		return played{}, err
	}
	limit, stop := context.WithTimeout(ctx, suiteLimit)
	defer stop()
	expand := func(arg string) string {
		return os.Expand(arg, func(name string) string { return lookup(env, name) })
	}
	args := make([]string, len(s.Command))
	for i, a := range s.Command {
		args[i] = expand(a)
	}
	cmd := exec.CommandContext(limit, args[0], args[1:]...)
	cmd.Dir = filepath.Join(r.folder, s.Dir)
	cmd.Env = env
	var list collector
	said := &tail{limit: tailLimit}
	outs := []io.Writer{&list, said}
	if r.opts.verbose {
		fmt.Fprintf(r.out, "----- %s on %s\n", s.Name, t.name)
		outs = append(outs, r.out)
	}
	both := io.MultiWriter(outs...)
	cmd.Stdout, cmd.Stderr = both, both // one writer: exec then uses one goroutine
	began := time.Now()
	err = endWhole(cmd)
	if limit.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("not done after %v", suiteLimit)
	}
	p := played{checks: list.done(), err: err, said: said.String(), out: out, took: time.Since(began)}
	if !r.opts.keep {
		if err := t.drop(ctx, database); err != nil && ctx.Err() == nil {
			return p, fmt.Errorf("drop database: %w", err)
		}
	}
	return p, nil
}

// environ is what a suite finds in its environment.
func (r *runner) environ(s suite, t target, database, out string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	build, err := buildDir(s.Dir)
	if err != nil {
		return nil, err
	}
	env := []string{
		// What libpq reads, and what others do.
		"PGHOST=" + t.host, "PGPORT=" + t.port, "PGUSER=" + user, "PGPASSWORD=" + password, "PGDATABASE=" + database,
		"PGSSLMODE=verify-ca", "PGSSLROOTCERT=" + t.ca, "PGCONNECT_TIMEOUT=10", "PGTZ=UTC",
		"DATABASE_URL=" + t.url(database),
		// plain or weft: for messages only, a suite does the same on both.
		"TARGET=" + t.name,
		// $DECLARE products=reference orders=customer_id lookup:users.email
		"DECLARE=" + self + " " + declareCommand,
		// $RESTART restarts a shard, or the server on plain.
		"RESTART=" + self + " " + restartCommand + " " + r.world.desk.addr + " " + t.name,
		// What install.sh has built.
		"BUILD=" + build,
		// A directory for files: one with the name of a check is shown, if the check's answer differs.
		"OUT=" + out,
		// PostgreSQL's programs.
		"PG_BIN=" + r.world.bin,
		"PATH=" + r.world.bin + ":" + os.Getenv("PATH"),
		"LC_ALL=C.UTF-8", "TZ=UTC", "PSQLRC=/dev/null", "PAGER=cat",
	}
	set := map[string]bool{}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		set[name] = true
	}
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); !set[name] && !strings.HasPrefix(name, "PG") {
			env = append(env, kv)
		}
	}
	return env, nil
}

func lookup(env []string, name string) string {
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}

func size(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}

// since is what was appended to a file.
func since(file string, from int64) string {
	text, err := os.ReadFile(file)
	if err != nil || int64(len(text)) < from {
		return ""
	}
	return string(bytes.TrimSpace(text[from:]))
}

// bad reports whether there is something to see in what the suite said.
func (p played) bad() bool { return p.err != nil || len(p.checks.failed()) > 0 }
