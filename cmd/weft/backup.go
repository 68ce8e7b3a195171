package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weft/backup"
	"weft/config"
	"weft/directory"
	"weft/directory/etcd"
	"weft/server"
)

func backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Make points to which all shards can be restored together",
		Long: `Base backups and archived WAL are the business of each PostgreSQL server, with the tool
that you know: pgBackRest, WAL-G, Barman, CloudNativePG. weft adds what a cluster needs
beside them: points that all shards have in common (weft backup point), and a check that
shards could be restored (weft backup check). Small clusters can have all from weft
(weft backup take). weft restore is the way back.`,
		Example: `  weft backup check -c weft.yaml
  weft backup point nightly -c weft.yaml --manifest nightly.json
  weft backup point -c weft.yaml --every 15m --manifest /var/backups/weft
  weft backup take /var/backups/2026-11-18 -c weft.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return &usageError{fmt.Errorf("there is no command %q: it is point, list, check, take, hold or release", args[0])}
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(backupPointCommand(), backupListCommand(), backupCheckCommand(), backupTakeCommand(), backupHoldCommand(), backupReleaseCommand())
	return cmd
}

// backingUp is one run of a command about backups.
type backingUp struct {
	file     string // configuration
	cfg      config.Config
	store    *etcd.Store
	cluster  *server.ForBackup
	out, err io.Writer
}

// run opens the cluster and does something.
func (b *backingUp) run(cmd *cobra.Command, do func(ctx context.Context) error) error {
	var err error
	if b.cfg, err = loadConfig(b.file); err != nil {
		return err
	}
	store, err := server.OpenDirectory(b.cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer store.Close()
	b.store = store
	if b.cluster, err = server.NewForBackup(b.cfg, store); err != nil {
		return err
	}
	b.out, b.err = cmd.OutOrStdout(), cmd.ErrOrStderr()
	// What has begun is undone when a signal comes.
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return do(ctx)
}

// say tells what is going on, where the output of the command is not.
func (b *backingUp) say(format string, args ...any) { fmt.Fprintf(b.err, format+"\n", args...) }

func (b *backingUp) flags(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVarP(&b.file, "config", "c", "weft.yaml", "configuration file")
}

// making is what weft backup point was asked for.
type making struct {
	manifest string
	archived time.Duration
	every    time.Duration
	strict   bool
}

func backupPointCommand() *cobra.Command {
	var b backingUp
	var m making
	cmd := &cobra.Command{
		Use:   "point [NAME]",
		Short: "Make a point to which all shards can be restored together",
		Long: `Make a restore point on every shard such that no transaction over several shards is
restored in half. Commits over several shards wait for some milliseconds meanwhile;
commits of one shard and reads do not. While a schema changes, a job carries rows or a
shard joins, the command tries again.

With --strict all commits wait, on all proxies: then a client that writes on one shard and,
when that is committed, on another never finds the second write alone in the backup.

etcd keeps the manifests of the last 100 points (weft backup list). A manifest is also
written to standard output, or to the file or into the directory of --manifest. The command ends when each shard has archived the
WAL up to the point; it fails if that takes longer than --archived.`,
		Example: `  weft backup point nightly -c weft.yaml --manifest nightly.json
  weft backup point -c weft.yaml > point.json
  weft backup point -c weft.yaml --every 15m --manifest /var/backups/weft`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return &usageError{fmt.Errorf("%q is one word too many", args[1])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if m.every > 0 && (len(args) > 0 || m.manifest == "") {
				return &usageError{errors.New("--every names points by the time, and needs --manifest DIRECTORY")}
			}
			return b.run(cmd, func(ctx context.Context) error {
				if m.every == 0 {
					name := stamp(time.Now())
					if len(args) > 0 {
						name = args[0]
					}
					_, err := b.point(ctx, name, m)
					return err
				}
				return b.repeat(ctx, m)
			})
		},
	}
	b.flags(cmd)
	cmd.Flags().BoolVar(&m.strict, "strict", false, "hold the commits of all shards, not only those over several")
	cmd.Flags().StringVar(&m.manifest, "manifest", "", "file, or directory, that the manifest is written to")
	cmd.Flags().DurationVar(&m.archived, "archived", 5*time.Minute, "how long to wait until shards have archived the point; 0: do not wait")
	cmd.Flags().DurationVar(&m.every, "every", 0, "make points again and again, this far apart")
	return cmd
}

// stamp is the name of a point of a time.
func stamp(t time.Time) string { return t.UTC().Format("20060102T150405Z") }

// repeat makes points until ctx ends. One that fails is reported, and the next one is made.
func (b *backingUp) repeat(ctx context.Context, m making) error {
	for {
		began := time.Now()
		if _, err := b.point(ctx, stamp(began), m); err != nil && ctx.Err() == nil {
			b.say("%s: no point that can be restored: %v", stamp(began), err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(began.Add(m.every))):
		}
	}
}

// point makes a point, writes its manifest and waits for the archives.
func (b *backingUp) point(ctx context.Context, name string, m making) (*backup.Manifest, error) {
	book := backup.Book{
		Maker:  backup.Maker{Cluster: b.cluster, Directory: b.store, Strict: m.strict, Say: func(text string) { b.say("%s", text) }},
		Points: b.store, Owner: owner("weft backup point"), Every: m.every,
	}
	made, err := book.Make(ctx, name)
	if err != nil {
		return nil, err
	}
	b.say("point %s: commits were held for %s", name, made.Held.Round(time.Millisecond))
	text, err := made.Encode()
	if err != nil {
		return nil, err
	}
	if m.manifest == "" {
		_, err = b.out.Write(text)
	} else {
		file := m.manifest
		if info, serr := os.Stat(file); serr == nil && info.IsDir() || m.every > 0 {
			file = filepath.Join(file, name+".json")
		}
		if err = writeNew(file, text); err == nil {
			b.say("point %s: %s", name, file)
		}
	}
	if err != nil {
		return nil, err
	}
	return made, b.finishWAL(ctx, made, m.archived)
}

// writeNew writes a file that must not be there yet, whole or not at all.
func writeNew(file string, text []byte) error {
	if _, err := os.Stat(file); err == nil {
		return fmt.Errorf("%s is there already", file)
	}
	tmp := file + ".part"
	if err := os.WriteFile(tmp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, file)
}

// finishWAL makes each shard begin a new WAL file, so that the one with the point can be archived, and waits
// until it is.
func (b *backingUp) finishWAL(ctx context.Context, m *backup.Manifest, patience time.Duration) error {
	snap, err := b.store.Load(ctx)
	if err != nil {
		return err
	}
	if patience > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, patience)
		defer stop()
	}
	for _, k := range m.Marks {
		spec, ok := snap.Shard(k.Shard)
		if !ok {
			return fmt.Errorf("shard %s has left the cluster", k.Shard)
		}
		if _, err := b.cluster.Query(ctx, spec, "SELECT pg_catalog.pg_switch_wal()"); err != nil {
			return fmt.Errorf("%s: %w", k.Shard, err)
		}
	}
	if patience == 0 {
		return nil
	}
	for _, k := range m.Marks {
		if !k.Archives {
			b.say("warning: %s does not archive its WAL (archive_mode = off): make sure that something else keeps %s", k.Shard, k.File)
			continue
		}
		spec, _ := snap.Shard(k.Shard)
		if err := b.awaitArchive(ctx, spec, k); err != nil {
			return err
		}
	}
	_, _ = b.settle(ctx) // weft backup list looks again
	b.say("point %s can be restored", m.Name)
	return nil
}

// awaitArchive waits until a shard has archived the WAL file of its point.
func (b *backingUp) awaitArchive(ctx context.Context, spec *directory.Shard, k backup.Mark) error {
	last := "nothing"
	for {
		rows, err := b.cluster.Query(ctx, spec, "SELECT COALESCE(last_archived_wal, ''), COALESCE(last_failed_wal, '') FROM pg_catalog.pg_stat_archiver")
		if err != nil {
			return fmt.Errorf("%s: %w", k.Shard, err)
		}
		if backup.Archived(rows[0][0], k.File) {
			return nil
		}
		if rows[0][0] != "" {
			last = rows[0][0]
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s has not archived %s yet, only %s: look into its log for archive_command", k.Shard, k.File, last)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func backupCheckCommand() *cobra.Command {
	var b backingUp
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check that every shard archives its WAL and could be restored to a point",
		Long: `Ask every shard whether it archives its WAL, since when, whether the last attempt failed,
and whether weft's service user may make restore points.

The exit status is 1 if a shard could not be restored to a point made now.`,
		Example: `  weft backup check -c weft.yaml`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return b.run(cmd, b.check)
		},
	}
	b.flags(cmd)
	return cmd
}

// checkQuery says what a shard does for backups.
const checkQuery = "SELECT pg_catalog.current_setting('archive_mode'), pg_catalog.current_setting('wal_level'), COALESCE(last_archived_wal, ''), " +
	"COALESCE(pg_catalog.date_trunc('second', pg_catalog.clock_timestamp() - last_archived_time)::text, ''), " +
	"COALESCE(last_failed_time > COALESCE(last_archived_time, '-infinity'), false), COALESCE(last_failed_wal, ''), " +
	"pg_catalog.has_function_privilege('pg_catalog.pg_create_restore_point(text)', 'EXECUTE') FROM pg_catalog.pg_stat_archiver"

// check asks all shards.
func (b *backingUp) check(ctx context.Context) error {
	snap, err := b.store.Load(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(b.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SHARD\tARCHIVES\tLAST WAL FILE\tAGO\tVERDICT")
	bad := 0
	for i := range snap.Shards {
		spec := &snap.Shards[i]
		rows, err := b.cluster.Query(ctx, spec, checkQuery)
		if err != nil {
			fmt.Fprintf(w, "%s\t\t\t\t%s\n", spec.Name, oneLine(err))
			bad++
			continue
		}
		r := rows[0]
		verdict := backup.Verdict(backup.State{ArchiveMode: r[0], WALLevel: r[1], LastArchived: r[2], Failing: r[4] == "t", LastFailed: r[5], MayMark: r[6] == "t"})
		if verdict != "" {
			bad++
		} else {
			verdict = "ok"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", spec.Name, r[0], r[2], r[3], verdict)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d shards could not be restored to a point made now", bad, len(snap.Shards))
	}
	return nil
}
