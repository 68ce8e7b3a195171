package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// report prints what checks found, as the runner wants it.
type report struct {
	out    string // directory for long answers
	failed bool
}

// checkLimit bounds one check: a check that hangs is a check that failed.
const checkLimit = 30 * time.Second

// check does something and prints what it saw. The runner holds that against what the same check saw
// on the other target, so an answer must not depend on anything else: no ids of processes, no times.
func (r *report) check(name string, f func(context.Context) (any, error)) {
	ctx, stop := context.WithTimeout(context.Background(), checkLimit)
	defer stop()
	began := time.Now()
	answer, err := run(ctx, f)
	defer func() { fmt.Printf("# %.2f s\n", time.Since(began).Seconds()) }()
	if err != nil {
		r.failed = true
		fmt.Printf("not ok %s: %s\n", name, oneLine(err.Error()))
		return
	}
	text := show(answer)
	if r.out != "" {
		if err := os.WriteFile(filepath.Join(r.out, name), []byte(text+"\n"), 0o644); err != nil {
			r.failed = true
			fmt.Printf("not ok %s: %v\n", name, err)
			return
		}
	}
	if len(text) > 120 || strings.Contains(text, "\n") {
		text = fmt.Sprintf("%d bytes, %x", len(text), sha256.Sum256([]byte(text)))[:40]
	}
	fmt.Printf("ok %s: %s\n", name, text)
}

func run(ctx context.Context, f func(context.Context) (any, error)) (answer any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f(ctx)
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", " ") }

// shell runs one of the runner's commands: DECLARE or RESTART.
func shell(ctx context.Context, name, args string) error {
	out, err := exec.CommandContext(ctx, "sh", "-c", "$"+name+" "+args).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, args, err, out)
	}
	return nil
}

// eventually does something again until it works: what an application does after a server was away.
func eventually(ctx context.Context, f func(context.Context) error) error {
	end := time.Now().Add(15 * time.Second)
	for {
		err := f(ctx)
		if err == nil || ctx.Err() != nil || time.Now().After(end) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}
