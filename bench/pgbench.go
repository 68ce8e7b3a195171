package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// pgbenchResult is what pgbench says at its end.
type pgbenchResult struct {
	Transactions int64
	Failed       int64
	TPS          float64 // without the time to connect
	Latency      time.Duration
	Commit       time.Duration // latency of the workload's Commit
}

func (l *lab) initPgbench(ctx context.Context, t target) error {
	cmd := l.pgbenchCommand(ctx, t, "--initialize", "--quiet", "--scale", strconv.Itoa(l.opts.Scale))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pgbench --initialize: %w\n%s", err, out)
	}
	return nil
}

// runPgbench runs a workload once, with a single pgbench thread: the machine's other core is for the rest.
func (l *lab) runPgbench(ctx context.Context, t target, w workload, mode string, clients, seconds int) (pgbenchResult, error) {
	script := filepath.Join(l.dir, w.Name+".sql")
	if err := os.WriteFile(script, []byte(w.Script), 0o644); err != nil {
		return pgbenchResult{}, err
	}
	args := []string{
		"--no-vacuum", "--jobs", "1", "--client", strconv.Itoa(clients), "--time", strconv.Itoa(seconds),
		"--protocol", mode, "--define", "scale=" + strconv.Itoa(l.opts.Scale), "--file", script,
	}
	if w.Commit != "" {
		args = append(args, "-r")
	}
	cmd := l.pgbenchCommand(ctx, t, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return pgbenchResult{}, ctx.Err()
		}
		return pgbenchResult{}, fmt.Errorf("pgbench: %w: %s", err, firstLine(stderr.String()))
	}
	return parsePgbench(stdout.String(), w.Commit)
}

func (l *lab) pgbenchCommand(ctx context.Context, t target, args ...string) *exec.Cmd {
	host, port := t.hostPort()
	args = append(args, "--host", host, "--port", port, "--username", benchUser, t.database())
	cmd := exec.CommandContext(ctx, l.pgbench, args...)
	cmd.Env = append(os.Environ(), "PGSSLMODE=disable", "PGGSSENCMODE=disable")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// pgbench's lines, as versions 10 to 18 write them.
var (
	processedLine = regexp.MustCompile(`(?m)^number of transactions actually processed: (\d+)`)
	failedLine    = regexp.MustCompile(`(?m)^number of failed transactions: (\d+)`)
	latencyLine   = regexp.MustCompile(`(?m)^latency average = ([0-9.]+) ms`)
	tpsLine       = regexp.MustCompile(`(?m)^tps = ([0-9.]+) \((?:without initial connection time|excluding connections establishing)\)`)
)

// parsePgbench reads pgbench's summary. A client that was thrown out in the middle is an error: the remaining ones
// would otherwise look like a full measurement.
func parsePgbench(out, commit string) (pgbenchResult, error) {
	if strings.Contains(out, "Run was aborted") {
		return pgbenchResult{}, errors.New("pgbench: run was aborted")
	}
	var r pgbenchResult
	var err error
	if r.Transactions, err = number(processedLine, out, "transactions"); err != nil {
		return r, err
	}
	if r.Transactions == 0 {
		return r, errNoTransaction
	}
	if failedLine.MatchString(out) { // Since version 15.
		if r.Failed, err = number(failedLine, out, "failed transactions"); err != nil {
			return r, err
		}
	}
	ms, err := decimal(latencyLine, out, "latency")
	if err != nil {
		return r, err
	}
	r.Latency = time.Duration(ms * float64(time.Millisecond))
	if r.TPS, err = decimal(tpsLine, out, "tps"); err != nil || commit == "" {
		return r, err
	}
	ms, err = decimal(regexp.MustCompile(`(?m)^\s+([0-9.]+)\s+(?:\d+\s+)?`+regexp.QuoteMeta(commit)+`$`), out, "latency of "+commit)
	r.Commit = time.Duration(ms * float64(time.Millisecond))
	return r, err
}

// errNoTransaction: on a busy machine 64 clients may need longer than a short run just to connect.
var errNoTransaction = errors.New("pgbench: no transaction was processed")

func number(re *regexp.Regexp, s, what string) (int64, error) {
	m := re.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("pgbench: no %s in its output", what)
	}
	return strconv.ParseInt(m[1], 10, 64)
}

func decimal(re *regexp.Regexp, s, what string) (float64, error) {
	m := re.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("pgbench: no %s in its output", what)
	}
	return strconv.ParseFloat(m[1], 64)
}

// firstLine is the part of an error output that says what went wrong first; pgbench repeats itself per client.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
