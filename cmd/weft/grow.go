package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
)

func growCommand() *cobra.Command {
	var (
		s      sharding
		dryRun bool
	)
	cmd := &cobra.Command{
		Use:   "grow-buckets NUMBER",
		Short: "Give the cluster more buckets",
		Long: `Give the cluster more buckets: each becomes several on the same shard, so no row moves
and nobody waits. Smaller buckets make shorter pauses when they move, and can be spread
more evenly. There are never fewer again.

NUMBER is the number of buckets now, doubled once or several times, at most 65536. All
jobs must be over.

The user must be a superuser. Its password is taken from PGPASSWORD or ~/.pgpass, as
psql does.`,
		Example: `  weft grow-buckets 8192 --proxy postgres://postgres@127.0.0.1:6432/app --dry-run
  weft grow-buckets 8192 --proxy postgres://postgres@127.0.0.1:6432/app`,
		Args: words("how many buckets? give a number, such as 8192"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.run(cmd, func(ctx context.Context) error { return s.grow(ctx, args[0], dryRun) })
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	s.proxy.flag(cmd)
	f.BoolVar(&dryRun, "dry-run", false, "print what would become of the buckets and change nothing")
	return cmd
}

// grow gives the cluster more buckets, or says what would become of them.
func (s *sharding) grow(ctx context.Context, number string, dryRun bool) error {
	c := newCall("grow_buckets", number)
	if !dryRun {
		var n string
		if err := s.conn.QueryRow(ctx, c.text+")", c.args...).Scan(&n); err != nil {
			return explained(err)
		}
		_, err := fmt.Fprintf(s.out, "the cluster has %s buckets: write bucket_count: %s in cluster.yaml, if it is there, and multiply the buckets of its pins\n", n, n)
		return err
	}
	c.literal("dry_run", "true")
	var before, after string
	if err := s.conn.QueryRow(ctx, c.text+")", c.args...).Scan(&before, &after); err != nil {
		return explained(err)
	}
	was, err1 := strconv.Atoi(before)
	n, err2 := strconv.Atoi(after)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.out, "each of %d buckets would become %d, on the same shard; no row would move\nnot started: this was a dry run\n", was, n/was)
	return err
}
