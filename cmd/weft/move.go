package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"weft/schema"
)

func moveCommand() *cobra.Command {
	var (
		m     moving
		proxy string
	)
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
			case proxy == "":
				return &usageError{errors.New("through which proxy, in which database? give --proxy postgres://user@host:port/database")}
			}
			cfg, err := pgx.ParseConfig(proxy)
			if err != nil {
				return &usageError{fmt.Errorf("--proxy: %w", err)}
			}
			if m.conn, err = pgx.ConnectConfig(cmd.Context(), cfg); err != nil {
				return fmt.Errorf("connect to the proxy: %w", err)
			}
			defer closeConn(cmd.Context(), m.conn)
			m.out = cmd.OutOrStdout()
			return m.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&proxy, "proxy", "", "URL of a proxy, with the database")
	f.StringVar(&m.buckets, "buckets", "", "buckets and ranges of buckets, such as 0-63,70")
	f.StringVar(&m.to, "to", "", "shard that takes them")
	f.BoolVar(&m.dryRun, "dry-run", false, "print what would move and start nothing")
	f.BoolVar(&m.wait, "wait", false, "follow the job to its end")
	for i := range m.options {
		o := &m.options[i]
		o.name = moveOptions[i][0]
		f.StringVar(&o.value, strings.ReplaceAll(o.name, "_", "-"), "", moveOptions[i][1])
	}
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
	options      [len(moveOptions)]struct{ name, value string }
	conn         *pgx.Conn
	out          io.Writer
}

func (m *moving) run(ctx context.Context) error {
	if m.dryRun {
		return m.plan(ctx)
	}
	call, args := "SELECT weft.move_buckets($1, $2", []any{m.buckets, m.to}
	until := false
	for _, o := range m.options {
		if o.value != "" {
			args = append(args, o.value)
			call += fmt.Sprintf(", %s => $%d", o.name, len(args))
			until = until || o.name == "until"
		}
	}
	var job string
	if err := m.conn.QueryRow(ctx, call+")", args...).Scan(&job); err != nil {
		return explained(err)
	}
	fmt.Fprintf(m.out, "job %s has begun\n", job)
	if !m.wait {
		return nil
	}
	return m.follow(ctx, job, until)
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

// followEvery is how often a job is looked at.
const followEvery = 300 * time.Millisecond

// follow prints how far a job is until it is over.
func (m *moving) follow(ctx context.Context, job string, until bool) error {
	last := ""
	begin, end := "", "\n"
	if f, ok := m.out.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			begin, end = "\r\x1b[K", "" // one line that changes
		}
	}
	for {
		var state, reason, blocked string
		var done, buckets, rows int64
		var rate float64
		var eta *time.Time
		err := m.conn.QueryRow(ctx, "SELECT state, coalesce(reason, ''), coalesce(blocked_by, ''), buckets_done, buckets, rows, rate, eta FROM weft.moves WHERE job = $1", job).
			Scan(&state, &reason, &blocked, &done, &buckets, &rows, &rate, &eta)
		if err != nil {
			return fmt.Errorf("job %s goes on, but how it fares is not known: %w", job, explained(err))
		}
		line := fmt.Sprintf("%s: %d of %d buckets, %d rows, %s/s", state, done, buckets, rows, size(rate))
		if eta != nil {
			line += ", done at about " + eta.Local().Format(time.TimeOnly)
		}
		if blocked != "" {
			line += ", blocked by " + blocked
		}
		if line != last {
			fmt.Fprint(m.out, begin+line+end)
			last = line
		}
		switch {
		case state == "done", state == "paused" && until:
			fmt.Fprint(m.out, strings.TrimPrefix("\n", end))
			return nil
		case state == "paused", state == "failed", state == "cancelled":
			fmt.Fprint(m.out, strings.TrimPrefix("\n", end))
			if reason != "" {
				reason = ": " + reason
			}
			return fmt.Errorf("job %s is %s%s", job, state, reason)
		}
		select {
		case <-time.After(followEvery):
		case <-ctx.Done():
			return fmt.Errorf("job %s goes on without this command", job)
		}
	}
}

// size writes a number of bytes for people.
func size(n float64) string {
	units := []string{"B", "kB", "MB", "GB", "TB"}
	i := 0
	for ; n >= 10240 && i < len(units)-1; i++ {
		n /= 1024
	}
	return fmt.Sprintf("%.0f %s", n, units[i])
}
