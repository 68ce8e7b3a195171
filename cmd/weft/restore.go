package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"weft/backup"
	"weft/config"
	"weft/directory"
	"weft/quote"
	"weft/schema"
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

// oneManifest returns the file of a manifest, which is given as a word or with --manifest.
func oneManifest(args []string, flag string) (string, error) {
	switch {
	case len(args) > 1:
		return "", &usageError{fmt.Errorf("%q is one word too many", args[1])}
	case len(args) == 1 && flag != "":
		return "", &usageError{errors.New("give the manifest once")}
	case len(args) == 1:
		return args[0], nil
	}
	return flag, nil
}

// findManifest returns the manifest of a file, or of a point of that name in the directory.
func findManifest(ctx context.Context, name, config string) (*backup.Manifest, error) {
	if _, err := os.Stat(name); err == nil || name == "" || strings.ContainsRune(name, filepath.Separator) {
		return readManifest(name)
	}
	cfg, err := loadConfig(config)
	if err != nil {
		return nil, err
	}
	store, err := server.OpenDirectory(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer store.Close()
	return backup.Find(ctx, store, name)
}

func restorePlanCommand() *cobra.Command {
	var manifest, tool, file, into string
	cmd := &cobra.Command{
		Use:   "plan [NAME]",
		Short: "Print how each shard is restored to a point",
		Long: `Print the commands and settings that restore each shard to a point, for one tool. NAME is
that of a point in etcd (weft backup list), or the file of a manifest. If etcd is lost,
give the file. --manifest-to writes the manifest of a point in etcd to a file, for weft
restore finish.`,
		Example: `  weft restore plan nightly -c weft.yaml --for pgbackrest --manifest-to nightly.json
  weft restore plan nightly.json --for cnpg`,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := oneManifest(args, manifest)
			if err != nil {
				return err
			}
			m, err := findManifest(cmd.Context(), name, file)
			if err != nil {
				return err
			}
			text, err := m.Plan(tool)
			if err != nil {
				return &usageError{fmt.Errorf("--for: %w", err)}
			}
			if into != "" {
				b, err := m.Encode()
				if err == nil {
					err = writeNew(into, b)
				}
				if err != nil {
					return err
				}
			}
			_, err = io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVarP(&file, "config", "c", "weft.yaml", "configuration file, for a point in etcd")
	cmd.Flags().StringVar(&manifest, "manifest", "", "manifest of the point")
	cmd.Flags().StringVar(&tool, "for", "files", "tool that keeps the backups: "+strings.Join(backup.Tools, ", "))
	cmd.Flags().StringVar(&into, "manifest-to", "", "file that the manifest is written to")
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
		manifest, file, cluster, as string
		yes, verify                 bool
		timeout                     time.Duration
	)
	cmd := &cobra.Command{
		Use:   "finish [MANIFEST]",
		Short: "Check restored servers, settle transactions and fill the directory",
		Long: `Make a cluster of servers that were restored to one point: check that each is the right
server and was restored to the point, end the transactions that were being committed
at the time as their decisions say, and fill the directory, which must be empty: with
the etcd of the old cluster, use another prefix.

With --as the restored servers become a copy that can run beside its original: the
directory is that of cluster NAME, and the cluster gets an id of its own, which its
databases say, too. Neither uses a server of the other, nor ends its transactions.

Then the shards are compared: schemas, copies of reference tables, the places of all rows,
and lookups, which are repaired. If something is wrong the command says so and fails; the
directory is filled all the same. --verify=false leaves it out: it reads every row.

The servers are those of cluster.yaml. Without --yes nothing is changed.`,
		Example: `  weft restore finish --manifest nightly.json -c weft.yaml -f cluster.yaml
  weft restore finish --manifest nightly.json -c weft.yaml -f cluster.yaml --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := oneManifest(args, manifest)
			if err != nil {
				return err
			}
			m, err := readManifest(name)
			if err != nil {
				return err
			}
			cfg, err := loadConfig(file)
			if err != nil {
				return err
			}
			if as != "" {
				if cfg.Etcd.Prefix != "" {
					return &usageError{errors.New("--as: weft.yaml has etcd.prefix, which says where the directory is: give the copy a weft.yaml of its own")}
				}
				cfg.Cluster = as
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return withRebuilding(cfg, cluster, yes, cmd.OutOrStdout(), func(r *rebuilding) error {
				if err := r.finish(ctx, cfg, m, as); err != nil || !yes || !verify {
					return err
				}
				return r.verify(cmd.Context(), cfg)
			})
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&manifest, "manifest", "", "manifest of the point")
	cmd.Flags().StringVarP(&file, "config", "c", "weft.yaml", "configuration file")
	cmd.Flags().StringVarP(&cluster, "file", "f", "", "cluster.yaml that names the restored servers")
	cmd.Flags().StringVar(&as, "as", "", "make a copy: a cluster of this name, with an id of its own")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "how long it may take, without comparing the shards")
	cmd.Flags().BoolVar(&verify, "verify", true, "compare the shards afterwards")
	return cmd
}

// verify compares all shards of the cluster that the directory has, database by database.
func (r *rebuilding) verify(ctx context.Context, cfg config.Config) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	current := directory.NewCurrent(r.store, slog.New(slog.DiscardHandler))
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	watching.Go(func() { _ = current.Run(ctx) }) // what it cannot read is an error of Wait
	snap, err := current.Wait(ctx)
	if err != nil {
		return err
	}
	mover := schema.New(schema.Config{Shards: r.servers.Shards(snap), Directory: r.store, Entries: current, Proxy: "restore", Service: cfg.Service.User})
	wrong := 0
	for _, database := range snap.Databases() {
		err := mover.Verify(ctx, database, cfg.Service.User, func(v schema.Verdict) {
			if v.Wrong {
				wrong++
			}
			fmt.Fprintf(r.out, "database %s: %s\n", database, v.Words)
		})
		if err != nil {
			return fmt.Errorf("the directory is filled, but database %s could not be compared: %w", database, err)
		}
	}
	if wrong > 0 {
		return fmt.Errorf("the directory is filled, but the shards do not fit together: %d findings", wrong)
	}
	return nil
}

// finish is weft restore finish.
func (r *rebuilding) finish(ctx context.Context, cfg config.Config, m *backup.Manifest, as string) error {
	next, hosts, pinned, err := r.restored(ctx, m, as)
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
	if as != "" {
		// The transactions were ended under the old id, which is in their names.
		next.Cluster = m.CopyID(as)
		if err := r.servers.Adopt(ctx, next, hosts, []string{"all"}, r.out); err != nil {
			return err
		}
	}
	return r.fill(ctx, next, pinned)
}

// restored returns the cluster of a manifest on the servers of the file, if each was restored to the point.
func (r *rebuilding) restored(ctx context.Context, m *backup.Manifest, as string) (*directory.Snapshot, []server.Host, []directory.PinnedValue, error) {
	if err := r.empty(ctx); err != nil {
		return nil, nil, nil, err
	}
	named, hosts, err := r.ask(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	if as != "" {
		hosts = ofCluster(hosts, m.Cluster, m.CopyID(as))
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
		return nil, nil, nil, err
	}
	next, pinned, err := r.revive(server.Kept{Content: m.Directory, Number: m.Number}, named, hosts)
	return next, hosts, pinned, err
}

// ofCluster leaves only the databases of a cluster. Those that an attempt before this one has given the id of the copy count as the cluster's.
func ofCluster(hosts []server.Host, id, copied string) []server.Host {
	out := slices.Clone(hosts)
	for i := range out {
		var list []server.Database
		for _, d := range out[i].Databases {
			switch {
			case !d.Found.Stamped:
			case d.Found.Stamp.Cluster == copied:
				d.Found.Stamp.Cluster = id
			case d.Found.Stamp.Cluster != id:
				continue
			}
			list = append(list, d)
		}
		out[i].Databases = list
	}
	return out
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
			_, err = c.Exec("DO $$ BEGIN IF pg_catalog.to_regclass('weft.decision') IS NOT NULL THEN DELETE FROM weft.decision; END IF; IF pg_catalog.to_regclass('weft.part') IS NOT NULL THEN DELETE FROM weft.part; END IF; END $$")
			c.Terminate()
			if err != nil {
				return fmt.Errorf("%s, database %s: %w", snap.Shards[i].Name, database, err)
			}
		}
	}
	return nil
}
