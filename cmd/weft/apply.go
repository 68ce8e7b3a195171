package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"weft/config"
	"weft/directory"
)

func applyCommand() *cobra.Command {
	var (
		src    source
		file   string
		dryRun bool
		prune  bool
	)
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Declare the shards of a cluster",
		Long: `Make the directory say what cluster.yaml says, and print what changed. The
cluster is created if there is none. Running proxies follow by themselves.

  # cluster.yaml
  bucket_count: 4096            # fixed when the cluster is created
  home: shard-0                 # holds undeclared tables; the first shard if left out
  shards:
    - name: shard-0
      hosts: [10.0.0.1:5432, 10.0.0.2:5432]   # the primary among them is found
      options: {sslmode: verify-full, sslrootcert: /etc/weft/ca.pem}
    - name: shard-1
      hosts: [10.0.0.3:5432]
      weight: 2                 # twice the share of the others`,
		Example: `  weft apply -c weft.yaml -f cluster.yaml --dry-run
  weft apply -c weft.yaml -f cluster.yaml
  weft apply --etcd 127.0.0.1:2379 --cluster main -f cluster.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return &usageError{errors.New("which file? give -f cluster.yaml")}
			}
			want, err := config.LoadCluster(file)
			if err != nil {
				return err
			}
			store, err := src.open()
			if err != nil {
				return err
			}
			defer store.Close()
			return apply(cmd.Context(), store, want, prune, dryRun, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&file, "file", "f", "", "cluster.yaml")
	src.flags(cmd)
	f.BoolVar(&dryRun, "dry-run", false, "print what would change and change nothing")
	f.BoolVar(&prune, "prune", false, "remove shards that the file does not list")
	return cmd
}

// apply stores what want declares, or only says what it would store.
func apply(ctx context.Context, store directory.Store, want config.Cluster, prune, dryRun bool, out io.Writer) error {
	var changes []string
	change := func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next, err := want.Merge(old, prune)
		if err != nil {
			return nil, err
		}
		changes = directory.Diff(old, next) // of the last attempt, the one that counts
		if dryRun {
			if err := directory.Successor(old, next); err != nil {
				return nil, err
			}
			return nil, errDryRun
		}
		return next, nil
	}
	snap, err := store.Update(ctx, change)
	if err != nil && !errors.Is(err, errDryRun) {
		return err
	}
	for _, c := range changes {
		fmt.Fprintln(out, c)
	}
	switch {
	case len(changes) == 0:
		fmt.Fprintln(out, "nothing to change")
	case dryRun:
		fmt.Fprintln(out, "not applied: this was a dry run")
	default:
		fmt.Fprintf(out, "applied: the cluster is at version %d\n", snap.Version)
	}
	return nil
}

// errDryRun leaves Update before it writes.
var errDryRun = errors.New("dry run")
