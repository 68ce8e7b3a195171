package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"weft/dev"
	"weft/directory"
)

// devCommand is weft dev.
func devCommand() *cobra.Command {
	var (
		opts    dev.Options
		verbose bool
	)
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a whole cluster on this machine",
		Long: `Run a whole cluster on this machine: PostgreSQL servers as shards, an etcd, and
the proxy with its HTTP endpoint. Data stays in a directory; Ctrl-C stops
everything, and the next start goes on where this one ended.

PostgreSQL's server programs must be installed. Started as root, the servers run
as the user postgres, or nobody where there is none.`,
		Example: `  weft dev
  weft dev --shards 2 --dir /tmp/try --listen 127.0.0.1:7432 --http 127.0.0.1:7480 --port-base 7500
  psql -h 127.0.0.1 -p 6432 -U postgres app`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := given(cmd, &opts); err != nil {
				return err
			}
			level := slog.LevelWarn
			if verbose {
				level = slog.LevelDebug
			}
			opts.Out = cmd.OutOrStdout()
			opts.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
			ctx, abort, stop := devSignals(cmd.Context())
			defer stop()
			opts.Abort = abort
			opts.Version = buildVersion()
			return dev.Run(ctx, opts)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&opts.Shards, "shards", dev.DefaultShards, "number of PostgreSQL servers; an existing directory keeps its own")
	f.StringVar(&opts.Listen, "listen", dev.DefaultListen, "address for PostgreSQL clients")
	f.StringVar(&opts.HTTP, "http", dev.DefaultHTTP, "address for health and metrics")
	f.StringVar(&opts.Dir, "dir", "./"+dev.DefaultDir, "directory for all data")
	f.IntVar(&opts.PortBase, "port-base", dev.DefaultPortBase, "port of shard-0, shard-i has this plus i; an existing directory keeps its own")
	f.StringVar(&opts.PGBin, "pg-bin", "", "directory of initdb and postgres (default: searched for)")
	f.IntVar(&opts.BucketCount, "bucket-count", directory.DefaultBucketCount, "number of buckets, a power of two; fixed when the directory is made")
	f.StringVar(&opts.Locale, "locale", "", "locale of the servers (default C, with UTF-8 characters); fixed when the directory is made")
	f.BoolVarP(&verbose, "verbose", "v", false, "log what happens inside")
	f.BoolVar(&opts.Demo, "demo", true, "load example tables, sharded by customer, into an empty database")
	return cmd
}

// given resets the options whose flag was not typed, so that an existing
// directory decides about them, and refuses typed zeros, which would not mean
// what they say.
func given(cmd *cobra.Command, opts *dev.Options) error {
	for flag, n := range map[string]*int{"shards": &opts.Shards, "port-base": &opts.PortBase, "bucket-count": &opts.BucketCount} {
		if !cmd.Flags().Changed(flag) {
			*n = 0
		} else if *n < 1 {
			return fmt.Errorf("--%s: %d is not a positive number", flag, *n)
		}
	}
	for flag, s := range map[string]string{"dir": opts.Dir, "listen": opts.Listen, "http": opts.HTTP} {
		if strings.TrimSpace(s) == "" {
			return fmt.Errorf("--%s is empty", flag)
		}
	}
	return nil
}

// echo is how soon after the first signal another one is taken for the same: make
// passes a SIGTERM on to a child that got it as a member of the group already.
const echo = 300 * time.Millisecond

// devSignals returns a context that the first SIGINT or SIGTERM ends, and a
// channel that the second one closes. SIGHUP, a closed terminal, counts as one.
func devSignals(parent context.Context) (context.Context, <-chan struct{}, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	abort := make(chan struct{})
	got := make(chan os.Signal, 4)
	signal.Notify(got, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	ended := make(chan struct{})
	go func() {
		var first time.Time
		for {
			select {
			case <-ended:
				return
			case <-got:
			}
			if first.IsZero() {
				first = time.Now()
				cancel()
			} else if time.Since(first) > echo {
				close(abort)
				return
			}
		}
	}()
	return ctx, abort, func() {
		signal.Stop(got)
		close(ended)
		cancel()
	}
}
