package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weft/backup"
	"weft/config"
	"weft/directory"
	"weft/quote"
	"weft/server"
	"weft/twopc"
)

func restoreCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Restore all shards to a point of weft backup",
		Long: `The way back from a point of weft backup:

  1. weft restore plan says how each shard is restored with the tool that keeps its
     backups. For a directory of weft backup take, weft restore files does it.
  2. Start the servers and wait until they have left recovery.
  3. weft restore finish checks that each server is where it should be, ends the
     transactions that were being committed, and fills an empty directory.
  4. Start the proxies.`,
		Example: `  weft restore plan --manifest nightly.json --for pgbackrest
  weft restore files /var/backups/2026-11-18 --into /var/lib/weft-restored
  weft restore finish --manifest nightly.json -c weft.yaml -f cluster.yaml --yes`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return &usageError{fmt.Errorf("there is no command %q: it is plan, files or finish", args[0])}
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(restorePlanCommand(), restoreFilesCommand(), restoreFinishCommand())
	return cmd
}

// readManifest reads the manifest of a point.
func readManifest(file string) (*backup.Manifest, error) {
	if file == "" {
		return nil, &usageError{errors.New("which point? give --manifest FILE, which weft backup point has written")}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	m, err := backup.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

func restorePlanCommand() *cobra.Command {
	var manifest, tool string
	cmd := &cobra.Command{
		Use:     "plan",
		Short:   "Print how each shard is restored to a point",
		Long:    `Print the commands and settings that restore each shard to a point, for one tool.`,
		Example: `  weft restore plan --manifest nightly.json --for pgbackrest`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := readManifest(manifest)
			if err != nil {
				return err
			}
			text, err := m.Plan(tool)
			if err != nil {
				return &usageError{fmt.Errorf("--for: %w", err)}
			}
			_, err = io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&manifest, "manifest", "", "manifest of the point")
	cmd.Flags().StringVar(&tool, "for", "files", "tool that keeps the backups: "+strings.Join(backup.Tools, ", "))
	return cmd
}

func restoreFilesCommand() *cobra.Command {
	var into string
	cmd := &cobra.Command{
		Use:   "files DIR",
		Short: "Make data directories of what weft backup take has copied",
		Long: `Copy each shard of DIR, which weft backup take has made, to a data directory below
--into, with the settings that restore it to the point. Start a server on each; it
leaves recovery by itself. Ports and other settings are those of the shard: change
postgresql.conf, or give them to the server when you start it.`,
		Example: `  weft restore files /var/backups/2026-11-18 --into /var/lib/weft-restored`,
		Args:    words("from where? give a directory of weft backup take"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if into == "" {
				return &usageError{errors.New("where to? give --into DIR, which does not exist")}
			}
			m, err := readManifest(filepath.Join(args[0], manifestFile))
			if err != nil {
				return err
			}
			if err := os.Mkdir(into, 0o700); err != nil {
				return err
			}
			for _, k := range m.Marks {
				data := filepath.Join(into, k.Shard)
				if err := unpack(cmd.Context(), m, k, args[0], data); err != nil {
					return fmt.Errorf("%s: %w", k.Shard, err)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", k.Shard, data)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&into, "into", "", "directory that is made")
	return cmd
}

// unpack makes a data directory of a shard's copy.
func unpack(ctx context.Context, m *backup.Manifest, k backup.Mark, dir, data string) error {
	wal, err := filepath.Abs(filepath.Join(dir, k.Shard, "wal"))
	if err != nil {
		return err
	}
	base := filepath.Join(dir, k.Shard, "base")
	if list, err := os.ReadDir(filepath.Join(base, "pg_tblspc")); err != nil {
		return err
	} else if len(list) > 0 {
		return errors.New("it has tablespaces, whose directories the original server uses: restore it with PostgreSQL's own tools")
	}
	if out, err := exec.CommandContext(ctx, "cp", "-a", base, data).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w: %s", err, strings.TrimSpace(string(out)))
	}
	lines := append([]string{"", "# weft restore files: point " + m.Name, "restore_command = " + quote.Literal(`cp "`+wal+`/%f" "%p"`)}, m.Settings(k)...)
	f, err := os.OpenFile(filepath.Join(data, "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(lines, "\n") + "\n")
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(data, "recovery.signal"), nil, 0o600)
}

func restoreFinishCommand() *cobra.Command {
	var (
		manifest, file, cluster string
		yes                     bool
		timeout                 time.Duration
	)
	cmd := &cobra.Command{
		Use:   "finish",
		Short: "Check restored servers, settle transactions and fill the directory",
		Long: `Make a cluster of servers that were restored to one point: check that each is the right
server and was restored to the point, end the transactions that were being committed
at the time as their decisions say, and fill the directory, which must be empty: with
the etcd of the old cluster, use another prefix.

The servers are those of cluster.yaml. Without --yes nothing is changed.`,
		Example: `  weft restore finish --manifest nightly.json -c weft.yaml -f cluster.yaml
  weft restore finish --manifest nightly.json -c weft.yaml -f cluster.yaml --yes`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := readManifest(manifest)
			if err != nil {
				return err
			}
			cfg, err := loadConfig(file)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return withRebuilding(cfg, cluster, yes, cmd.OutOrStdout(), func(r *rebuilding) error { return r.finish(ctx, cfg, m) })
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&manifest, "manifest", "", "manifest of the point")
	cmd.Flags().StringVarP(&file, "config", "c", "weft.yaml", "configuration file")
	cmd.Flags().StringVarP(&cluster, "file", "f", "", "cluster.yaml that names the restored servers")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "how long it may take")
	return cmd
}

// finish is weft restore finish.
func (r *rebuilding) finish(ctx context.Context, cfg config.Config, m *backup.Manifest) error {
	next, pinned, err := r.restored(ctx, m)
	if err != nil {
		return err
	}
	resolver, err := server.Resolver(cfg, next, newLogger(cfg.Log, r.out))
	if err != nil {
		return err
	}
	list, err := listDoubts(ctx, resolver, next)
	if err != nil {
		return err
	}
	prepared := 0
	for _, l := range list {
		if l.State == twopc.StatePrepared {
			prepared++
		}
	}
	fmt.Fprintf(r.out, "all %d servers are at point %s; %d transactions are to be ended\n", len(m.Marks), m.Name, prepared)
	if !r.yes {
		fmt.Fprintln(r.out, "nothing is changed: pass --yes to end them, and to fill the directory")
		return nil
	}
	if err := settleRestored(ctx, resolver, next); err != nil {
		return err
	}
	return r.fill(ctx, next, pinned)
}

// restored returns the cluster of a manifest on the servers of the file, if each was restored to the point.
func (r *rebuilding) restored(ctx context.Context, m *backup.Manifest) (*directory.Snapshot, []directory.PinnedValue, error) {
	if err := r.empty(ctx); err != nil {
		return nil, nil, err
	}
	named, hosts, err := r.ask(ctx)
	if err != nil {
		return nil, nil, err
	}
	var errs []error
	for _, h := range hosts {
		if h.Standby {
			continue // follows a server that is judged
		}
		spec, _ := named.Shard(h.Shard)
		found, err := r.servers.Restored(ctx, spec, h.Address)
		if err == nil {
			err = m.Arrived(found)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	return r.revive(server.Kept{Content: m.Directory, Number: m.Number}, named, hosts)
}

// settleRestored ends the transactions that the point found between PREPARE and COMMIT PREPARED. Afterwards no
// decision is needed any more: each speaks of servers of another timeline.
func settleRestored(ctx context.Context, r *twopc.Resolver, snap *directory.Snapshot) error {
	for {
		list, err := listDoubts(ctx, r, snap)
		if err != nil {
			return err
		}
		var prepared []twopc.Listed
		for _, l := range list {
			if l.State == twopc.StatePrepared {
				prepared = append(prepared, l)
			}
		}
		if len(prepared) == 0 {
			break
		}
		if _, err := r.Settle(ctx, prepared, func(string) bool { return false }); err != nil {
			return err
		}
	}
	for i := range snap.Shards {
		for _, database := range snap.Databases() {
			c, err := r.Dial(ctx, snap.Shards[i].Name, database)
			if err != nil {
				return err
			}
			_, err = c.Exec("DO $$ BEGIN IF pg_catalog.to_regclass('weft.decision') IS NOT NULL THEN DELETE FROM weft.decision; END IF; END $$")
			c.Terminate()
			if err != nil {
				return fmt.Errorf("%s, database %s: %w", snap.Shards[i].Name, database, err)
			}
		}
	}
	return nil
}
