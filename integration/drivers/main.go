package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// The first signal ends the run in good order, a second one at once.
	context.AfterFunc(ctx, stop)
	if err := command(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "drivers:", err)
		os.Exit(1)
	}
}

// command is the program itself, or what a suite calls through $DECLARE and $RESTART.
func command(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case declareCommand:
			return declare(ctx, args[1:])
		case restartCommand:
			return askRestart(ctx, args[1:])
		}
	}
	opts, err := parseOptions(args, os.Stderr)
	if err != nil {
		return err
	}
	all := suites
	if len(opts.only) > 0 {
		all = slices.Concat(suites, examples)
	}
	chosen, err := choose(all, opts.only)
	if err != nil {
		return err
	}
	if opts.list {
		for _, s := range chosen {
			fmt.Printf("%-20s %s: %s\n", s.Name, s.Dir, strings.Join(s.Command, " "))
		}
		return nil
	}
	return run(ctx, opts, chosen, os.Stdout)
}

// run starts the servers, runs the suites and counts.
func run(ctx context.Context, opts options, chosen []suite, out io.Writer) (err error) {
	folder, err := findFolder()
	if err != nil {
		return err
	}
	installed := install(ctx, folder, chosen, out)
	began := time.Now()
	w, err := startWorld(ctx)
	if err != nil {
		return fmt.Errorf("start servers: %w", err)
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	fmt.Fprintf(out, "%s; weft with %d shards (%.1f s)\n", w.plain.Config().Install, len(w.shards), time.Since(began).Seconds())

	r := &runner{world: w, folder: folder, opts: opts, out: out}
	passed, failed := 0, 0
	for _, s := range chosen {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if r.run(ctx, s, installed[s.Dir]) {
			passed++
		} else {
			failed++
		}
	}
	fmt.Fprintf(out, "%d passed, %d failed\n", passed, failed)
	if opts.keep {
		w.describe(out)
		<-ctx.Done()
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d suites failed", failed, len(chosen))
	}
	return nil
}

// findFolder is the absolute path of integration/drivers, from anywhere in the tree.
func findFolder() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; at = filepath.Dir(at) {
		folder := filepath.Join(at, "integration", "drivers")
		if _, err := os.Stat(filepath.Join(folder, "suites.go")); err == nil {
			return folder, nil
		}
		if at == filepath.Dir(at) {
			return "", errors.New("run it inside weft's source tree")
		}
	}
}
