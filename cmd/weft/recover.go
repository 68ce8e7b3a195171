package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weft/directory"
	"weft/server"
	"weft/twopc"
)

func recoverCommand() *cobra.Command {
	var (
		file           string
		settle, asJSON bool
		accept         []string
		rebuild, yes   bool
		cluster        string
		timeout        time.Duration
	)
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Show and settle transactions in doubt, or rebuild a lost directory",
		Long: `Show the transactions on several shards that have not come to their end: what a
shard has prepared and waits for, and what has been decided but not confirmed by
all. In a busy cluster some always are, for milliseconds. Those whose proxy has
died are settled by the others within seconds; this command is for when no
proxy runs, or to see why something is not settled.

With --settle they are: the deciding shard is asked how each ended, and the others
are made to follow. If it has not ended, its backend is terminated and it is
rolled back. That is safe at any time, also while proxies do the same.

With --accept a transaction of which a failover has lost a part is taken for
settled as it is: what weft keeps of it on the shards is deleted, and
weft.failover_transactions says when. Compare the shards first, and put right
what is half.

The exit status is 1 if something is left in doubt or a shard cannot be reached.

With --directory an empty etcd is filled from the shards: each keeps a copy of the
declarations and the placement. All servers of cluster.yaml are read, what they
have is shown, and the newest is taken; if copies disagree or a server does not
answer, nothing is. Without --yes nothing is written.`,
		Example: `  weft recover -c weft.yaml
  weft recover -c weft.yaml --json
  weft recover -c weft.yaml --settle
  weft recover -c weft.yaml --accept weft:2f6c:91ab:0c1d2e3f405162738495a6b7:shop-0.1
  weft recover -c weft.yaml --directory -f cluster.yaml
  weft recover -c weft.yaml --directory -f cluster.yaml --yes`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(file)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			if rebuild {
				return rebuildDirectory(ctx, cfg, cluster, yes, cmd.OutOrStdout())
			}
			log := newLogger(cfg.Log, cmd.ErrOrStderr())
			store, err := server.OpenDirectory(cfg, slog.New(slog.DiscardHandler))
			if err != nil {
				return err
			}
			defer store.Close()
			snap, err := store.Load(ctx)
			if err != nil {
				return err
			}
			r, err := server.Resolver(cfg, snap, log)
			if err != nil {
				return err
			}
			if len(accept) > 0 {
				return acceptLosses(ctx, r, store, accept, cmd.OutOrStdout())
			}
			list, err := listDoubts(ctx, r, snap)
			if settle {
				_, err = r.Settle(ctx, list, func(key string) bool {
					now, err := store.Load(ctx)
					return err != nil || now.Announced(key)
				})
				var again error
				list, again = listDoubts(ctx, r, snap)
				err = errors.Join(err, again)
			}
			if err := printDoubts(cmd.OutOrStdout(), list, asJSON); err != nil {
				return err
			}
			left := slices.DeleteFunc(slices.Clone(list), func(l twopc.Listed) bool { return l.State == twopc.StatePledged })
			if err == nil && settle && len(left) > 0 {
				err = fmt.Errorf("%d in doubt are left: those of the last seconds are their proxies' business", len(left))
			}
			return err
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&file, "config", "c", "weft.yaml", "configuration file")
	f.BoolVar(&settle, "settle", false, "end them")
	f.StringSliceVar(&accept, "accept", nil, "gids of transactions of which a failover has lost a part")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.BoolVar(&rebuild, "directory", false, "rebuild an empty directory from the shards")
	f.StringVarP(&cluster, "file", "f", "", "cluster.yaml that names the servers, for --directory")
	f.BoolVar(&yes, "yes", false, "write what --directory has found")
	f.DurationVar(&timeout, "timeout", time.Minute, "how long it may take")
	return cmd
}

// acceptLosses takes transactions of which failovers have lost a part for settled.
func acceptLosses(ctx context.Context, r *twopc.Resolver, store directory.Losses, gids []string, w io.Writer) error {
	list, err := store.Losses(ctx)
	if err != nil {
		return err
	}
	for _, gid := range gids {
		i := slices.IndexFunc(list, func(l directory.Loss) bool { return l.GID == gid })
		if i < 0 {
			return fmt.Errorf("%s is not in weft.failover_transactions", gid)
		}
		if err := r.Accept(ctx, list[i].Database, gid, append(list[i].Kept, list[i].Lost...)); err != nil {
			return fmt.Errorf("%s: %w", gid, err)
		}
		if _, err := store.AcceptLoss(ctx, gid, time.Now()); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s: accepted\n", gid); err != nil {
			return err
		}
	}
	return nil
}

func listDoubts(ctx context.Context, r *twopc.Resolver, snap *directory.Snapshot) ([]twopc.Listed, error) {
	var shards, databases []string
	for i := range snap.Shards {
		shards = append(shards, snap.Shards[i].Name)
	}
	for i := range snap.Tables {
		if d := snap.Tables[i].Database; !slices.Contains(databases, d) {
			databases = append(databases, d)
		}
	}
	if len(databases) == 0 {
		databases = []string{"postgres"}
	}
	return r.List(ctx, shards, databases)
}

func printDoubts(w io.Writer, list []twopc.Listed, asJSON bool) error {
	if asJSON {
		type line struct {
			GID          string   `json:"gid,omitempty"`
			Database     string   `json:"database,omitempty"`
			Shard        string   `json:"shard"`
			State        string   `json:"state"`
			Age          float64  `json:"age_seconds"`
			Role         string   `json:"role,omitempty"`
			Proxy        string   `json:"proxy,omitempty"`
			Decider      string   `json:"decider,omitempty"`
			Participants []string `json:"participants,omitempty"`
		}
		lines := []line{}
		for _, l := range list {
			lines = append(lines, line{l.GID, l.Database, l.Shard, l.State, l.Age.Seconds(), l.Role, l.Proxy, l.Decider, l.Participants})
		}
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(lines)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "nothing is in doubt")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "SHARD\tSTATE\tAGE\tDATABASE\tROLE\tDECIDER\tPARTICIPANTS\tPROXY\tGID")
	for _, l := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Shard, l.State, l.Age.Round(time.Millisecond), l.Database, l.Role, l.Decider,
			strings.Join(l.Participants, ","), l.Proxy, l.GID)
	}
	return t.Flush()
}
