package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
)

func shardCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "shard",
		Short: "Add, drain, remove and list shards, and say which server is right",
		Long: `Change the set of shards while clients read and write. Each command asks a proxy, by
SQL, for a job that the proxies run; it may end before the job. accept and reset write
to the directory themselves: they are for a shard that proxies cannot use.

The user must be a superuser or a member of the role weft_operator. Its password is
taken from PGPASSWORD or ~/.pgpass, as psql does.`,
		Example: `  weft shard list --proxy postgres://postgres@127.0.0.1:6432/app
  weft shard add shard-4 10.0.0.9:5432 --proxy postgres://postgres@127.0.0.1:6432/app --wait
  weft shard drain shard-1 --proxy postgres://postgres@127.0.0.1:6432/app --wait
  weft shard remove shard-1 --proxy postgres://postgres@127.0.0.1:6432/app
  weft shard accept shard-1 10.0.0.2:5432 -c weft.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return &usageError{fmt.Errorf("there is no command %q: it is add, drain, remove, list, accept or reset", args[0])}
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(shardAddCommand(), shardDrainCommand(), shardRemoveCommand(), shardListCommand(), shardAcceptCommand(), shardResetCommand())
	return cmd
}

// sharding is one run of a command about shards.
type sharding struct {
	proxy   through
	options jobOptions
	wait    bool
	conn    *pgx.Conn
	out     io.Writer
}

// run connects and does something.
func (s *sharding) run(cmd *cobra.Command, do func(ctx context.Context) error) error {
	var err error
	if s.conn, err = s.proxy.connect(cmd.Context()); err != nil {
		return err
	}
	defer closeConn(cmd.Context(), s.conn)
	s.out = cmd.OutOrStdout()
	return do(cmd.Context())
}

// words takes as many words as are named.
func words(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return &usageError{errors.New(names[len(args)])}
		}
		if len(args) > len(names) {
			return &usageError{fmt.Errorf("%q is one word too many", args[len(names)])}
		}
		return nil
	}
}

const (
	whichShard  = "which shard? give its name"
	whichServer = "which server? give host:port, several of one primary and its standbys with commas"
)

func shardAddCommand() *cobra.Command {
	var (
		s      sharding
		weight string
		stay   bool
	)
	cmd := &cobra.Command{
		Use:   "add NAME HOST:PORT[,HOST:PORT...]",
		Short: "Let an empty PostgreSQL server join as a shard",
		Long: `Let an empty PostgreSQL server join as a shard, and bring it its share of the
buckets. Roles, databases, declared tables and the rows of reference tables are made
there first. Writes over several shards wait for a part of a second when it joins.
Rows move only to the new shard, exactly its share.

The server is looked at before anything begins: it must be of the same major version,
have max_prepared_transactions, and no tables. Options of the connection are those of
the home shard.

With --wait the command follows the job and exits with status 0 when the shard has
joined and has its buckets, and with 1 if the job was cancelled or has failed.`,
		Example: `  weft shard add shard-4 10.0.0.9:5432 --proxy postgres://postgres@127.0.0.1:6432/app --wait
  weft shard add shard-4 10.0.0.9:5432,10.0.0.10:5432 --weight 2 --proxy postgres://postgres@127.0.0.1:6432/app
  weft shard add shard-4 10.0.0.9:5432 --no-rebalance --proxy postgres://postgres@127.0.0.1:6432/app`,
		Args: words(whichShard, whichServer),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.run(cmd, func(ctx context.Context) error {
				c := newCall("add_shard", args[0], args[1])
				c.with("weight", weight)
				if stay {
					c.with("rebalance", "false")
				}
				c.options(s.options)
				return s.add(ctx, c, args[0])
			})
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	s.proxy.flag(cmd)
	f.StringVar(&weight, "weight", "", "share of the buckets relative to other shards (default 1)")
	f.BoolVar(&stay, "no-rebalance", false, "bring it no buckets; weft rebalance does so later")
	s.options.flags(cmd, "max_pause")
	f.Lookup("max-pause").Usage = "longest time that a statement waits for the join (default 2s, then up to 30s) or for rows that move (default 500ms)"
	f.BoolVar(&s.wait, "wait", false, "follow the job to its end")
	return cmd
}

func (s *sharding) add(ctx context.Context, c *call, name string) error {
	jobs, err := c.jobs(ctx, s.conn)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "job %s has begun: %s joins\n", jobs[0], name)
	if !s.wait {
		return nil
	}
	if err := follow(s.conn, s.out).joined(ctx, jobs[0], name); err != nil {
		return err
	}
	var buckets int64
	if err := s.conn.QueryRow(ctx, "SELECT buckets FROM weft.shards WHERE name = $1", name).Scan(&buckets); err != nil {
		return explained(err)
	}
	_, err = fmt.Fprintf(s.out, "%s has joined and holds %d buckets\n", name, buckets)
	return err
}

func shardDrainCommand() *cobra.Command {
	var s sharding
	cmd := &cobra.Command{
		Use:   "drain NAME",
		Short: "Take all buckets off a shard",
		Long: `Take the buckets of all databases off a shard, to the others. From now on it gets no
new ones. Its rows are read and written meanwhile.

With --wait the command follows the jobs, one for each database with rows there, and
exits with status 0 when the shard is empty, and with 1 if a job was paused, was
cancelled or has failed. A shard that is empty can be removed.`,
		Example: `  weft shard drain shard-1 --proxy postgres://postgres@127.0.0.1:6432/app --wait
  weft shard drain shard-1 --max-pause 200ms --proxy postgres://postgres@127.0.0.1:6432/app`,
		Args: words(whichShard),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.run(cmd, func(ctx context.Context) error { return s.drain(ctx, args[0]) })
		},
	}
	cmd.Flags().SortFlags = false
	s.proxy.flag(cmd)
	s.options.flags(cmd, "max_pause")
	cmd.Flags().BoolVar(&s.wait, "wait", false, "follow the jobs to their end")
	return cmd
}

func (s *sharding) drain(ctx context.Context, name string) error {
	c := newCall("drain_shard", name)
	c.options(s.options)
	jobs, err := c.jobs(ctx, s.conn)
	if err != nil {
		return err
	}
	for _, job := range jobs {
		fmt.Fprintf(s.out, "job %s has begun\n", job)
	}
	if len(jobs) > 0 && !s.wait {
		return nil
	}
	if len(jobs) > 0 {
		if err := follow(s.conn, s.out).all(ctx, jobs, false); err != nil {
			return err
		}
	}
	var state string
	if err := s.conn.QueryRow(ctx, "SELECT state FROM weft.shards WHERE name = $1", name).Scan(&state); err != nil {
		return explained(err)
	}
	if state != "empty" {
		return hinted(fmt.Errorf("%s still holds buckets, and is %s: a job was cancelled, or another one goes on", name, state), "Look at weft.moves, and run weft shard drain again.")
	}
	_, err = fmt.Fprintf(s.out, "%s is empty: weft shard remove %s takes it out of the cluster\n", name, name)
	return err
}

func shardRemoveCommand() *cobra.Command {
	var s sharding
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Take an empty shard out of the cluster",
		Long: `Take a shard without buckets out of the cluster. New transactions wait for a part of a
second meanwhile. The shard stays if transactions that are open or prepared need it.
Its databases are left as they are.

The home shard cannot be removed.`,
		Example: `  weft shard remove shard-1 --proxy postgres://postgres@127.0.0.1:6432/app`,
		Args:    words(whichShard),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.run(cmd, func(ctx context.Context) error {
				if _, err := s.conn.Exec(ctx, "SELECT weft.remove_shard($1)", args[0]); err != nil {
					return explained(err)
				}
				_, err := fmt.Fprintf(s.out, "%s is not one of the shards any more: take it out of cluster.yaml, too\n", args[0])
				return err
			})
		},
	}
	s.proxy.flag(cmd)
	return cmd
}

func shardListCommand() *cobra.Command {
	var s sharding
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the shards with their states and buckets",
		Long: `List the shards of the cluster and those that are joining: their state, weight, and
how many buckets of the proxy's database they hold, with about how many rows and bytes.`,
		Example: `  weft shard list --proxy postgres://postgres@127.0.0.1:6432/app`,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return s.run(cmd, s.list) },
	}
	s.proxy.flag(cmd)
	return cmd
}

func (s *sharding) list(ctx context.Context) error {
	rows, err := s.conn.Query(ctx, `SELECT s.name, s.state, s.home, s.weight, s.buckets, coalesce(b.rows, 0), coalesce(b.bytes, 0), coalesce(s.hosts, '{}')
FROM weft.shards s LEFT JOIN (SELECT shard, sum(rows)::bigint AS rows, sum(bytes)::bigint AS bytes FROM weft.buckets GROUP BY shard) b ON b.shard = s.name ORDER BY s.name`)
	if err != nil {
		return explained(err)
	}
	defer rows.Close()
	t := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "SHARD\tSTATE\tWEIGHT\tBUCKETS\tROWS\tBYTES\tHOSTS")
	for rows.Next() {
		var name, state string
		var home bool
		var weight, buckets, n, bytes int64
		var hosts []string
		if err := rows.Scan(&name, &state, &home, &weight, &buckets, &n, &bytes, &hosts); err != nil {
			return err
		}
		if home {
			state += ", home"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%s\t%s\n", name, state, weight, buckets, n, size(float64(bytes)), strings.Join(hosts, ","))
	}
	if rows.Err() != nil {
		return explained(rows.Err())
	}
	return t.Flush()
}
