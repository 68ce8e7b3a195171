package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"weft/schema"
)

func moveCommand() *cobra.Command {
	var m moving
	cmd := &cobra.Command{
		Use:   "move",
		Short: "Carry buckets of a database to another shard",
		Long: `Start a job that carries the rows of buckets to another shard while clients read
and write, and print its id. The proxy runs the job; this command may end before it.

With --dry-run nothing is started: the table shows what would move. With --wait the
command follows the job, prints how far it is, and exits with status 0 when all rows
are carried, or as many as --until says, and with 1 if the job was paused, was
cancelled or has failed.

The user must be a superuser or a member of the role weft_operator. Its password is
taken from PGPASSWORD or ~/.pgpass, as psql does.`,
		Example: `  weft move --proxy postgres://postgres@127.0.0.1:6432/app --buckets 0-63 --to shard-2 --dry-run
  weft move --proxy postgres://postgres@127.0.0.1:6432/app --buckets 0-63 --to shard-2 --wait
  weft move --proxy postgres://postgres@127.0.0.1:6432/app --buckets 17,19 --to shard-2 --rate 20MB --max-pause 200ms
  weft move --proxy postgres://postgres@127.0.0.1:6432/app --buckets 0-1023 --to shard-4 --until 5 --wait`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case m.buckets == "":
				return &usageError{errors.New("which buckets? give --buckets 0-63,70")}
			case m.to == "":
				return &usageError{errors.New("to which shard? give --to")}
			}
			var err error
			if m.conn, err = m.proxy.connect(cmd.Context()); err != nil {
				return err
			}
			defer closeConn(cmd.Context(), m.conn)
			m.out = cmd.OutOrStdout()
			return m.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	m.proxy.flag(cmd)
	f.StringVar(&m.buckets, "buckets", "", "buckets and ranges of buckets, such as 0-63,70")
	f.StringVar(&m.to, "to", "", "shard that takes them")
	f.BoolVar(&m.dryRun, "dry-run", false, "print what would move and start nothing")
	f.BoolVar(&m.wait, "wait", false, "follow the job to its end")
	m.options.flags(cmd)
	return cmd
}

// moveOptions are the options of a job, and what they say.
var moveOptions = [...][2]string{
	{"max_pause", "longest time that a statement waits for the job (default 500ms)"},
	{"pause_target", "time that writers should wait; decides how many rows go at once (default 150ms)"},
	{"rate", "most bytes per second, such as 20MB (default: no limit)"},
	{"duty", "largest share of time in which anything waits, in percent (default 50)"},
	{"verify", "counts: compare how many rows left and came; rows: their contents, too (default counts)"},
	{"until", "percentage of buckets after which the job pauses"},
}

// moving is one run of the command.
type moving struct {
	buckets, to  string
	dryRun, wait bool
	options      jobOptions
	proxy        through
	conn         *pgx.Conn
	out          io.Writer
}

func (m *moving) run(ctx context.Context) error {
	if m.dryRun {
		return m.plan(ctx)
	}
	c := newCall("move_buckets", m.buckets, m.to)
	c.options(m.options)
	jobs, err := c.jobs(ctx, m.conn)
	if err != nil {
		return err
	}
	for _, job := range jobs {
		fmt.Fprintf(m.out, "job %s has begun\n", job)
	}
	if !m.wait {
		return nil
	}
	return follow(m.conn, m.out).all(ctx, jobs, m.options.given("until"))
}

// plan prints what would move.
func (m *moving) plan(ctx context.Context) error {
	var count, shards int
	if err := m.conn.QueryRow(ctx, "SELECT (SELECT max(bucket) + 1 FROM weft.buckets), (SELECT count(*) FROM weft.shards WHERE name = $1)", m.to).Scan(&count, &shards); err != nil {
		return explained(err)
	}
	if shards == 0 {
		return fmt.Errorf("there is no shard %q", m.to)
	}
	list, err := schema.ReadBuckets(m.buckets, count)
	if err != nil {
		return err
	}
	rows, err := m.conn.Query(ctx, "SELECT shard, count(*), coalesce(sum(rows)::bigint, 0), coalesce(sum(bytes)::bigint, 0) FROM weft.buckets WHERE bucket = ANY ($1) AND shard <> $2 GROUP BY shard ORDER BY shard", list, m.to)
	if err != nil {
		return explained(err)
	}
	t := tabwriter.NewWriter(m.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "FROM\tTO\tBUCKETS\tROWS\tBYTES")
	total := int64(0)
	for rows.Next() {
		var from string
		var buckets, n, bytes int64
		if err := rows.Scan(&from, &buckets, &n, &bytes); err != nil {
			return err
		}
		total += buckets
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\n", from, m.to, buckets, n, size(float64(bytes)))
	}
	if rows.Err() != nil {
		return explained(rows.Err())
	}
	if total == 0 {
		_, err := fmt.Fprintf(m.out, "all of these buckets are on %s\n", m.to)
		return err
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(m.out, "not started: this was a dry run; rows and bytes are estimates")
	return err
}
