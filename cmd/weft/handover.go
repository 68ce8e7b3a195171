package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"weft/dev"
	"weft/dev/supervisor"
	"weft/directory"
	"weft/directory/etcd"
	"weft/handover"
	"weft/server"
)

// handing is one run of a command about a change of a shard's primary.
type handing struct {
	file  string
	store *etcd.Store
	shard *handover.Shard
	out   io.Writer
}

// run opens the directory and does something with a shard.
func (h *handing) run(cmd *cobra.Command, shard string, do func(ctx context.Context) error) error {
	cfg, err := loadConfig(h.file)
	if err != nil {
		return err
	}
	if h.store, err = server.OpenDirectory(cfg, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	defer h.store.Close()
	h.shard, h.out = &handover.Shard{Directory: h.store, Name: shard}, cmd.OutOrStdout()
	return do(cmd.Context())
}

func (h *handing) flags(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVarP(&h.file, "config", "c", "weft.yaml", "configuration file, which says where etcd is")
}

// checkWait refuses times that cannot be meant.
func checkWait(wait, most time.Duration) error {
	switch {
	case wait <= 0:
		return &usageError{fmt.Errorf("--wait: %s is not longer than 0", wait)}
	case most < wait || most > directory.MaxDrain:
		return &usageError{fmt.Errorf("--for: %s is not between --wait, %s, and %s", most, wait, directory.MaxDrain)}
	}
	return nil
}

func drainCommand() *cobra.Command {
	var h handing
	var o handover.Options
	var end bool
	cmd := &cobra.Command{
		Use:   "drain SHARD",
		Short: "Let clients wait for a shard on all proxies, while its primary changes",
		Long: `Let nothing new begin on a shard, on all proxies. Transactions that have begun there go on;
the command waits for them, and then no proxy has a backend of the shard in use. Clients that
want to begin something there wait.

The drain ends by itself when a proxy sees another primary of the shard, and when the time
of --for is over: then clients go on with the primary that there is. The exit status is 1 if
transactions are still open after --wait; the drain goes on all the same.

This is for the hook before_stop of Patroni, which current versions run before they stop a
primary, and for managers that weft switchover does not know. It takes no buckets off the
shard: that is weft shard drain. DRAIN SHARD in the admin database is for one proxy.`,
		Example: `  weft drain shard-1 -c weft.yaml
  weft drain shard-1 --wait 10s --for 60s -c weft.yaml
  weft drain --end shard-1 -c weft.yaml`,
		Args: words(whichShard),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkWait(o.Wait, o.For); err != nil {
				return err
			}
			return h.run(cmd, args[0], func(ctx context.Context) error {
				if end {
					return h.endDrain(ctx)
				}
				began := time.Now()
				if err := h.shard.Drain(ctx, o); err != nil {
					return err
				}
				_, err := fmt.Fprintf(h.out, "%s is drained after %s, for %s at most\n", args[0], since(began), o.For)
				return err
			})
		},
	}
	h.flags(cmd)
	f := cmd.Flags()
	f.DurationVar(&o.Wait, "wait", 10*time.Second, "how long transactions that have begun may take")
	f.DurationVar(&o.For, "for", time.Minute, "how long the shard is drained at most, --wait included")
	f.BoolVar(&end, "end", false, "end a drain: let clients go on")
	return cmd
}

func since(began time.Time) time.Duration { return time.Since(began).Round(time.Millisecond) }

func (h *handing) endDrain(ctx context.Context) error {
	was, err := h.shard.EndDrain(ctx)
	if err != nil {
		return err
	}
	text := " was not drained"
	if was {
		text = " is not drained any more"
	}
	_, err = fmt.Fprintln(h.out, h.shard.Name+text)
	return err
}

func fenceCommand() *cobra.Command {
	var h handing
	var shard, late string
	var wait time.Duration
	var end bool
	cmd := &cobra.Command{
		Use:   "fence --shard SHARD",
		Short: "Make all proxies let go of a shard's primary before another server is promoted",
		Long: `Make all proxies let go of the primary of a shard, because another server is about to be
promoted: each closes its connections there, also those in use, and writes nothing to a server
of that timeline any more. Clients wait for the new primary. The command returns when every
live proxy has done so. A proxy that has died is waited for until its lease in etcd is over,
10 s.

This is for the hook pre_promote of Patroni, which runs it on the server that is to be promoted,
and does not promote the server if the command fails. With --on-timeout promote, the default,
the command succeeds after --wait even if a proxy did not answer, or etcd does not: then that
proxy may still write to the old primary, if it reaches it. With refuse it fails.

If no server is promoted after all and the old primary is to go on, --end takes the fence back.

The fence is about servers, and holds in the proxies. That shards keep out a proxy which the
directory has lost is something else, and needs no command.`,
		Example: `  weft fence --shard shard-1 -c /etc/weft/weft.yaml
  weft fence --shard shard-1 --wait 10s --on-timeout refuse -c /etc/weft/weft.yaml
  weft fence --shard shard-1 --end -c /etc/weft/weft.yaml`,
		// Patroni may append words of its own to a hook.
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case shard == "":
				return &usageError{errors.New("which shard? give its name with --shard")}
			case late != "promote" && late != "refuse":
				return &usageError{fmt.Errorf("--on-timeout: %q is neither promote nor refuse", late)}
			case wait <= 0:
				return &usageError{fmt.Errorf("--wait: %s is not longer than 0", wait)}
			}
			return h.run(cmd, shard, func(ctx context.Context) error {
				if end {
					return h.endFence(ctx)
				}
				err := h.fence(ctx, wait)
				if err != nil && late == "promote" && ctx.Err() == nil && !errors.Is(err, handover.ErrNoShard) {
					fmt.Fprintf(cmd.ErrOrStderr(), "weft fence: %v: going on, as --on-timeout says\n", err)
					return nil
				}
				return err
			})
		},
	}
	h.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&shard, "shard", "", "name of the shard")
	f.DurationVar(&wait, "wait", 10*time.Second, "how long proxies may take")
	f.StringVar(&late, "on-timeout", "promote", "what to do if a proxy does not answer in time: promote succeeds, refuse fails")
	f.BoolVar(&end, "end", false, "take a fence back: no server was promoted")
	return cmd
}

func (h *handing) fence(ctx context.Context, wait time.Duration) error {
	ctx, stop := context.WithTimeout(ctx, wait)
	defer stop()
	began := time.Now()
	timeline, err := h.shard.Fence(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(h.out, "all proxies have let go of timeline %d of %s after %s\n", timeline, h.shard.Name, since(began))
	return err
}

func (h *handing) endFence(ctx context.Context) error {
	was, err := h.shard.EndFence(ctx)
	if err != nil {
		return err
	}
	text := " was not fenced"
	if was {
		text = " is not fenced any more"
	}
	_, err = fmt.Fprintln(h.out, h.shard.Name+text)
	return err
}

// devManager lets weft dev choose another primary. It is a handover.Manager.
type devManager struct{ dir, shard string }

// findDev returns the weft dev whose configuration file is used, nil if none runs there.
func (h *handing) findDev(ctx context.Context) *devManager {
	dir := filepath.Dir(h.file)
	if _, err := dev.Servers(ctx, dir); err != nil {
		return nil
	}
	return &devManager{dir, h.shard.Name}
}

// Check implements handover.Manager.
func (m *devManager) Check(ctx context.Context) error {
	all, err := dev.Servers(ctx, m.dir)
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.Shard == m.shard && s.Role == supervisor.Standby && s.Replaces {
			return nil
		}
	}
	return fmt.Errorf("no standby of %s can take the place of its primary now: weft status says how far they are", m.shard)
}

// Switch implements handover.Manager.
func (m *devManager) Switch(ctx context.Context) error {
	_, err := dev.Order(ctx, m.dir, m.shard, supervisor.Switch)
	return err
}
