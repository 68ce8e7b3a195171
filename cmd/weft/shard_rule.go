package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"weft/directory"
	"weft/pgerr"
	"weft/primary"
	"weft/server"
)

func shardAcceptCommand() *cobra.Command {
	var h handing
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "accept NAME HOST:PORT",
		Short: "Say which of two primaries of the same timeline is right",
		Long: `Say which server of a shard is right, if two standbys were promoted apart: both are then
primaries of the same timeline (state split in weft.replicas), each may have rows that the other
has not, and weft sends nothing to either.

The command asks the server first: it must be a primary of the shard's system, and not of an
older timeline than the shard has been on. From then on no proxy uses another primary of that
timeline. The command returns when every proxy has closed its connections to the others. What
was written to the others is not part of the shard: look there for rows that are missing, and
stop them, with their standbys, before one of those is promoted.

Until the next promotion the accepted server is known by its address, and standbys are not read:
a standby does not say which of the two it follows. If the address changes, accept the new one.`,
		Example: `  weft shard accept shard-1 10.0.0.2:5432 -c weft.yaml
  weft shard accept shard-1 10.0.0.2:5432 --wait 30s -c /etc/weft/weft.yaml`,
		Args: words(whichShard, "which server is right? give its host:port"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return h.run(cmd, args[0], func(ctx context.Context) error { return h.accept(ctx, args[1], wait) })
		},
	}
	h.flags(cmd)
	cmd.Flags().DurationVar(&wait, "wait", 15*time.Second, "how long the server and proxies may take")
	return cmd
}

// accept asks a server who it is, and makes it the primary.
func (h *handing) accept(ctx context.Context, address string, wait time.Duration) error {
	cfg, err := loadConfig(h.file)
	if err != nil {
		return err
	}
	servers, err := server.NewServers(cfg)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, wait)
	defer stop()
	g, err := h.shard.Accept(ctx, address, func(ctx context.Context, sh *directory.Shard) (primary.Sighting, error) {
		return servers.Sight(ctx, sh, address)
	})
	if e := (*pgerr.Error)(nil); errors.As(err, &e) && e.Hint != "" {
		return hinted(errors.New(e.Message), e.Hint)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(h.out, "%s is the primary of %s, on timeline %d: no proxy uses another server of that timeline\n", address, h.shard.Name, g.Timeline)
	return err
}

func shardResetCommand() *cobra.Command {
	var h handing
	var wait time.Duration
	var yes, system bool
	cmd := &cobra.Command{
		Use:   "reset NAME --yes",
		Short: "Forget which timeline a shard has been on",
		Long: `Forget which timeline a shard has been on and which server was its primary, for example after
its servers were restored to an earlier point: weft takes them for stale otherwise, because a
timeline only grows. A fence is forgotten, too. Proxies then take the primary with the highest
timeline among the servers that answer.

Stop servers that must not be used first: without its timeline, an old primary is not known to
be one. With --system the system identifier is forgotten as well, and the next server that
answers is taken for the shard; weft apply --adopt is the safer way to another server, because
it looks at what is there.`,
		Example: `  weft shard reset shard-1 --yes -c weft.yaml
  weft shard reset shard-1 --system --yes -c weft.yaml`,
		Args: words(whichShard),
		RunE: func(cmd *cobra.Command, args []string) error {
			return h.run(cmd, args[0], func(ctx context.Context) error { return h.reset(ctx, yes, system, wait) })
		},
	}
	h.flags(cmd)
	f := cmd.Flags()
	f.BoolVar(&yes, "yes", false, "do it; without it the command says what would happen")
	f.BoolVar(&system, "system", false, "forget the system identifier as well")
	f.DurationVar(&wait, "wait", 15*time.Second, "how long proxies may take")
	return cmd
}

// reset forgets the generation of the shard.
func (h *handing) reset(ctx context.Context, yes, system bool, wait time.Duration) error {
	sh, err := h.shard.Load(ctx)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("that %s has been on timeline %d", sh.Name, max(sh.Timeline, 1))
	if sh.Primary != "" {
		what += " with " + sh.Primary + " as its primary"
	}
	if system {
		what += ", and that it is system " + sh.System
	}
	if !yes {
		return hinted(errors.New("not done: proxies would forget "+what+", and use the primary with the highest timeline among the servers that answer, also one that was replaced before"),
			"Stop the servers that must not be used, and run the command again with --yes.")
	}
	ctx, stop := context.WithTimeout(ctx, wait)
	defer stop()
	if err := h.shard.Reset(ctx, system); err != nil {
		return err
	}
	_, err = fmt.Fprintf(h.out, "forgotten: %s\n", what)
	return err
}
