package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"text/tabwriter"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
)

func rebalanceCommand() *cobra.Command {
	var r rebalancing
	cmd := &cobra.Command{
		Use:   "rebalance",
		Short: "Even out what the shards hold of a database",
		Long: `Plan which buckets of a database should change shards so that each shard holds its
share, and print the plan. Nothing moves without --apply.

With --apply a job carries the rows while clients read and write. With --wait, too, the
command follows the job, prints how far it is, and exits with status 0 when all rows
are carried, or as many as --until says, and with 1 if the job was paused, was
cancelled or has failed.

Strategies: bytes evens out what buckets hold, buckets their number.

The user must be a superuser or a member of the role weft_operator. Its password is
taken from PGPASSWORD or ~/.pgpass, as psql does.`,
		Example: `  weft rebalance --proxy postgres://postgres@127.0.0.1:6432/app
  weft rebalance --proxy postgres://postgres@127.0.0.1:6432/app --strategy buckets --threshold 0.02
  weft rebalance --proxy postgres://postgres@127.0.0.1:6432/app --apply --wait`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.wait && !r.apply {
				return &usageError{errors.New("--wait needs --apply: a plan is nothing to wait for")}
			}
			return r.run(cmd, r.start)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	r.proxy.flag(cmd)
	f.StringVar(&r.strategy, "strategy", "", "what is evened out: bytes or buckets (default bytes)")
	f.StringVar(&r.threshold, "threshold", "", "how far a shard may be from its share, as a part of it (default 0.1)")
	f.StringVar(&r.moves, "max-moves", "", "most buckets that move (default: no limit)")
	f.BoolVar(&r.apply, "apply", false, "start the job")
	f.BoolVar(&r.wait, "wait", false, "follow the job to its end")
	r.options.flags(cmd)
	return cmd
}

// rebalancing is one run of the command.
type rebalancing struct {
	sharding
	strategy, threshold, moves string
	apply                      bool
}

// balanced is what is said of a database that needs nothing.
const balanced = "every shard is close enough to its share: there is nothing to move"

func (r *rebalancing) start(ctx context.Context) error {
	c := newCall("rebalance")
	c.with("strategy", r.strategy)
	c.with("threshold", r.threshold)
	c.with("max_moves", r.moves)
	if !r.apply {
		return r.plan(ctx, c)
	}
	c.options(r.options)
	jobs, err := c.jobs(ctx, r.conn)
	if err != nil {
		return err
	}
	if len(jobs) == 0 {
		_, err := fmt.Fprintln(r.out, balanced)
		return err
	}
	fmt.Fprintf(r.out, "job %s has begun\n", jobs[0])
	if !r.wait {
		return nil
	}
	return follow(r.conn, r.out).all(ctx, jobs, r.options.given("until"))
}

// plan prints what would move.
func (r *rebalancing) plan(ctx context.Context, c *call) error {
	c.literal("dry_run", "true")
	rows, err := r.conn.Query(ctx, c.text+")", c.args...)
	if err != nil {
		return explained(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowToMap)
	if err != nil {
		return explained(err)
	}
	if len(lines) == 0 {
		_, err := fmt.Fprintln(r.out, balanced)
		return err
	}
	t := tabwriter.NewWriter(r.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "FROM\tTO\tBUCKETS\tROWS\tBYTES\tTIME")
	for _, l := range lines {
		bytes, err := strconv.ParseFloat(fmt.Sprint(l["bytes"]), 64)
		if err != nil {
			return fmt.Errorf("the plan has %v bytes: %w", l["bytes"], err)
		}
		fmt.Fprintf(t, "%v\t%v\t%v\t%v\t%s\t%v\n", l["from_shard"], l["to_shard"], l["buckets"], l["rows"], size(bytes), l["estimated_time"])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(r.out, "not started: this was a dry run; rows, bytes and time are estimates. Add --apply to start it")
	return err
}
