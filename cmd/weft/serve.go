package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"weft/config"
	"weft/server"
)

func serveCommand() *cobra.Command {
	var file, listen, advertise, http string
	var takeover bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a proxy",
		Long: `Run a proxy: accept PostgreSQL clients and serve them from the shards that the
directory lists. Any number of proxies may serve one cluster.

If etcd does not answer at start, weft waits for it; once it has seen the
cluster it serves on without it.

SIGHUP, and RELOAD in the admin database, read the file again: what can change
while weft runs does, what cannot is named in the log. No client notices.

With --takeover a new process, of a new version most likely, serves in the place
of one that runs on the same machine with the same run_dir: it gets the listening
sockets of the old process, and when it is ready, the old one accepts no more
clients and drains. No client meets a closed port. If the new process fails before,
the old one serves on. If none runs, weft says so and starts as usual.

SIGTERM or SIGINT drains: no new clients, and running transactions may finish
within limits.drain_timeout. A second one ends at once.`,
		Example: `  weft check -c weft.yaml
  weft apply -c weft.yaml -f cluster.yaml
  weft serve -c weft.yaml
  weft serve -c weft.yaml --takeover
  weft serve -c weft.yaml --listen 127.0.0.1:6433 --http 127.0.0.1:6481`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			load := func() (config.Config, error) {
				cfg, err := loadConfig(file)
				if err != nil {
					return cfg, err
				}
				if cmd.Flags().Changed("listen") {
					cfg.Listen = listen
				}
				if cmd.Flags().Changed("advertise") {
					cfg.Advertise = advertise
				}
				if cmd.Flags().Changed("http") {
					cfg.HTTP.Listen = http
				}
				if err := cfg.Validate(); err != nil {
					return cfg, &usageError{err}
				}
				if takeover && cfg.RunDir == "" {
					return cfg, &usageError{errors.New("--takeover needs run_dir in the configuration, that of the process to take over from")}
				}
				return cfg, nil
			}
			cfg, err := load()
			if err != nil {
				return err
			}
			log, level := newLoggerVar(cfg.Log, cmd.ErrOrStderr())
			hup := make(chan os.Signal, 1)
			signal.Notify(hup, syscall.SIGHUP)
			defer signal.Stop(hup)
			log.Info("starting", "version", buildVersion(), "pid", os.Getpid())
			return untilSignal(cmd.Context(), func(ctx context.Context) error {
				return server.Run(ctx, server.Options{
					Config: cfg, Load: load, Hup: hup, Level: level, Version: buildVersion(), StopAt: stopAt(), Log: log, Takeover: takeover,
				})
			})
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&file, "config", "c", "weft.yaml", "configuration file")
	f.StringVar(&listen, "listen", "", "address for PostgreSQL clients, instead of the file's")
	f.StringVar(&advertise, "advertise", "", "address at which other proxies reach this one, instead of the file's")
	f.BoolVar(&takeover, "takeover", false, "serve in the place of the process that runs with the same run_dir")
	f.StringVar(&http, "http", "", "address for health and metrics, instead of the file's; empty for none")
	return cmd
}

// errAborted is how a second signal ends a command.
var errAborted = errors.New("ended by a second signal, without waiting for sessions")

// untilSignal runs f with a context that the first SIGINT or SIGTERM ends. The
// second does not wait for f.
func untilSignal(parent context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	got := make(chan os.Signal, 2)
	signal.Notify(got, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(got)
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	for signals := 0; ; {
		select {
		case err := <-done:
			return err
		case <-got:
			if signals++; signals > 1 {
				return errAborted
			}
			cancel()
		}
	}
}
