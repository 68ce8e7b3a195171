package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"weft/dev"
	"weft/dev/supervisor"
	"weft/directory"
)

// devCommand is weft dev.
func devCommand() *cobra.Command {
	var (
		opts     dev.Options
		replicas int
		sync     bool
		verbose  bool
	)
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a whole cluster on this machine",
		Long: `Run a whole cluster on this machine: PostgreSQL servers as shards, an etcd, and
the proxy with its HTTP endpoint. Data stays in a directory; Ctrl-C stops
everything, and the next start goes on where this one ended.

With --replicas each shard is a primary with standbys. Commits wait for all standbys
that follow, unless --sync=false is given. When a primary dies, a standby that has
every acknowledged commit takes its place, and the dead server becomes a standby; the
commands below let that happen. weft status -c DIR/weft.yaml says which server is
the primary.

With --patroni the program patroni, which must be in PATH, runs the servers instead, one
for each, with the etcd of weft dev. It takes longer to act: some seconds if a server dies,
some 20 if one freezes.

PostgreSQL's server programs must be installed. Started as root, the servers run
as the user postgres, or nobody where there is none.`,
		Example: `  weft dev
  weft dev --replicas 1
  weft dev --replicas 1 --patroni --dir ./weft-patroni
  weft dev --shards 2 --dir /tmp/try --listen 127.0.0.1:7432 --http 127.0.0.1:7480 --port-base 7500
  psql -h 127.0.0.1 -p 6432 -U postgres app`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return &usageError{fmt.Errorf("there is no command %q: it is kill, switch, freeze or thaw", args[0])}
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := given(cmd, &opts); err != nil {
				return err
			}
			if cmd.Flags().Changed("replicas") {
				opts.Replicas = &replicas
			}
			opts.Async = !sync
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
	f.IntVar(&opts.Shards, "shards", dev.DefaultShards, "number of shards; an existing directory keeps its own")
	f.IntVar(&replicas, "replicas", 0, fmt.Sprintf("number of standbys of each shard, up to %d; an existing directory keeps its own", dev.MaxReplicas))
	f.BoolVar(&opts.Patroni, "patroni", false, "let Patroni run the servers; fixed when the directory is made")
	f.BoolVar(&sync, "sync", true, "let commits wait for standbys")
	f.StringVar(&opts.Listen, "listen", dev.DefaultListen, "address for PostgreSQL clients")
	f.StringVar(&opts.HTTP, "http", dev.DefaultHTTP, "address for health and metrics")
	f.StringVar(&opts.Dir, "dir", "./"+dev.DefaultDir, "directory for all data")
	f.IntVar(&opts.PortBase, "port-base", dev.DefaultPortBase, "port of shard-0, shard-i has this plus i, standbys those after them; an existing directory keeps its own")
	f.StringVar(&opts.PGBin, "pg-bin", "", "directory of initdb and postgres (default: searched for)")
	f.IntVar(&opts.BucketCount, "bucket-count", directory.DefaultBucketCount, "number of buckets, a power of two; fixed when the directory is made")
	f.StringVar(&opts.Locale, "locale", "", "locale of the servers (default C, with UTF-8 characters); fixed when the directory is made")
	f.BoolVarP(&verbose, "verbose", "v", false, "log what happens inside")
	f.BoolVar(&opts.Demo, "demo", true, "load example tables, sharded by customer, into an empty database")
	cmd.AddCommand(
		orderCommand(supervisor.Kill, "Kill the primary of a shard",
			`Kill all processes of a shard's primary, as a crash of its machine would, and wait until
the shard has a primary again: a standby that has every acknowledged commit, or else
the same server, started again.`),
		orderCommand(supervisor.Switch, "Make a standby the primary of a shard",
			`Stop a shard's primary in good order and promote a standby that has all of its log. The old
primary becomes a standby.`),
		orderCommand(supervisor.Freeze, "Stop the primary of a shard where it stands",
			`Stop all processes of a shard's primary where they stand: connections stay open and nothing
answers, as on a machine that hangs. No other server takes its place; weft dev thaw lets
the primary go on, and weft dev kill ends it.`),
		orderCommand(supervisor.Thaw, "Let the frozen primary of a shard go on",
			`Let a primary go on that weft dev freeze has stopped.`))
	return cmd
}

// orderCommand is a command that asks a running weft dev to do something to a shard.
func orderCommand(what, short, long string) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:     what + " SHARD",
		Short:   short,
		Long:    long + "\n\nThe weft dev in the directory must be running.",
		Example: "  weft dev " + what + " shard-1\n  weft dev " + what + " shard-1 --dir /tmp/try",
		Args:    words(whichShard),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := dev.Order(cmd.Context(), dir, args[0], what)
			if errors.Is(err, dev.ErrNotRunning) {
				return fmt.Errorf("%w: start it, or name its directory with --dir", err)
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), text)
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "./"+dev.DefaultDir, "directory of the running weft dev")
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
