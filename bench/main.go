package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	opts, err := parseOptions(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// The first signal ends the run in good order; a second one ends us, and the kernel tells the servers.
	context.AfterFunc(ctx, stop)
	if err := run(ctx, opts, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run does the whole measurement; progress goes to log, tables to out. The lab is closed on every way out.
func run(ctx context.Context, opts options, out, log io.Writer) (err error) {
	if err := raiseFileLimit(); err != nil {
		return err
	}
	lab, err := newLab(opts, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()

	if err := lab.Start(ctx); err != nil {
		return err
	}
	rep := &report{Options: opts, Machine: lab.Machine(ctx)}
	rep.Machine.print(out)

	b := &bench{lab: lab, opts: opts, log: log, report: rep}
	if opts.has(workloadIdle) {
		if err := b.measureIdle(ctx); err != nil {
			return err
		}
		rep.idleTable().print(out)
	}
	if opts.has(workloadStream) {
		if err := b.measureStreams(ctx); err != nil {
			return err
		}
		rep.streamTable().print(out)
	}
	if opts.has(workloadCopy) {
		if err := b.measureCopy(ctx); err != nil {
			return err
		}
		rep.copyTable().print(out)
	}
	if opts.needsScatters() {
		for _, s := range scatters {
			if !opts.has(s.Name) {
				continue
			}
			if err := b.measureScatters(ctx, s); err != nil {
				return err
			}
		}
		rep.scatterTable().print(out)
	}
	for _, w := range workloads {
		if !opts.has(w.Name) {
			continue
		}
		if err := b.measureWorkload(ctx, w); err != nil {
			return err
		}
		rep.workloadTable(w, lab).print(out)
	}
	if opts.JSON != "" {
		if err := rep.writeJSON(opts.JSON); err != nil {
			return err
		}
	}
	return rep.failure()
}

// bench carries one run's results from measurement to measurement.
type bench struct {
	lab    *lab
	opts   options
	log    io.Writer
	report *report
}

// raiseFileLimit lets the children have as many descriptors as the system allows: the idle test opens a thousand
// connections. Calling Setrlimit also stops Go from giving children the old, lower soft limit back.
func raiseFileLimit() error {
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		return fmt.Errorf("read file limit: %w", err)
	}
	lim.Cur = lim.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		return fmt.Errorf("raise file limit: %w", err)
	}
	return nil
}
