package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"text/tabwriter"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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

Strategies: bytes evens out what buckets hold, buckets their number, load the work that
clients make of them now, and mixed bytes and load in equal parts. For load and mixed
applications must be at work. A bucket that is hot because of one key stays where it
is: weft.isolate takes the key elsewhere.

The plan says how many times its share each shard has before and after it.

The user must be a superuser or a member of the role weft_operator. Its password is
taken from PGPASSWORD or ~/.pgpass, as psql does.`,
		Example: `  weft rebalance --proxy postgres://postgres@127.0.0.1:6432/app
  weft rebalance --proxy postgres://postgres@127.0.0.1:6432/app --strategy buckets --threshold 0.02
  weft rebalance --proxy postgres://postgres@127.0.0.1:6432/app --strategy load
  weft rebalance --proxy postgres://postgres@127.0.0.1:6432/app --apply --wait`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.wait && !r.apply {
				return &usageError{errors.New("--wait needs --apply: a plan is nothing to wait for")}
			}
			r.proxy.notice = r.note
			return r.run(cmd, r.start)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	r.proxy.flag(cmd)
	f.StringVar(&r.strategy, "strategy", "", "what is evened out: bytes, buckets, load or mixed (default bytes)")
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
	notes                      []string // what the proxy has said beside the plan
}

// note keeps what the proxy says until the plan is printed.
func (r *rebalancing) note(_ *pgconn.PgConn, n *pgconn.Notice) {
	r.notes = append(r.notes, n.Message)
	for _, more := range []string{n.Detail, n.Hint} {
		if more != "" {
			r.notes = append(r.notes, "  "+more)
		}
	}
}

// say prints what the proxy has said.
func (r *rebalancing) say() error {
	for _, n := range r.notes {
		if _, err := fmt.Fprintln(r.out, n); err != nil {
			return err
		}
	}
	r.notes = nil
	return nil
}

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
	if err := r.say(); err != nil || len(jobs) == 0 {
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
		return r.say()
	}
	t := tabwriter.NewWriter(r.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "FROM\tTO\tBUCKETS\tROWS\tBYTES\tTIME\tFROM HAS\tTO HAS\tREASON")
	for _, l := range lines {
		bytes, err := strconv.ParseFloat(fmt.Sprint(l["bytes"]), 64)
		if err != nil {
			return fmt.Errorf("the plan has %v bytes: %w", l["bytes"], err)
		}
		fmt.Fprintf(t, "%v\t%v\t%v\t%v\t%s\t%v\t%v → %v\t%v → %v\t%v\n", l["from_shard"], l["to_shard"], l["buckets"], l["rows"], size(bytes), l["estimated_time"],
			l["from_before"], l["from_after"], l["to_before"], l["to_after"], l["reason"])
	}
	if err := errors.Join(t.Flush(), r.say()); err != nil {
		return err
	}
	_, err = fmt.Fprintln(r.out, "not started: this was a dry run; rows, bytes and time are estimates. Add --apply to start it")
	return err
}
