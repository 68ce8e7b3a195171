package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"
)

// through is the flag of a command that asks a proxy, by SQL.
type through struct {
	url    string
	notice pgconn.NoticeHandler // is called for what the proxy says beside answers; nil: nobody is
}

func (p *through) flag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.url, "proxy", "", "URL of a proxy, with the database")
}

// connect logs in through the proxy.
func (p *through) connect(ctx context.Context) (*pgx.Conn, error) {
	if p.url == "" {
		return nil, &usageError{errors.New("through which proxy, in which database? give --proxy postgres://user@host:port/database")}
	}
	cfg, err := pgx.ParseConfig(p.url)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--proxy: %w", err)}
	}
	cfg.OnNotice = p.notice
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to the proxy: %w", err)
	}
	return conn, nil
}

// jobOptions are the options of a job that a command takes as flags.
type jobOptions []jobOption

type jobOption struct{ name, value string }

// flags adds the flags of the options that are named, of all if none is.
func (o *jobOptions) flags(cmd *cobra.Command, names ...string) {
	*o = make(jobOptions, 0, len(moveOptions)) // flags keep pointers into it
	for _, m := range moveOptions {
		if len(names) > 0 && !slices.Contains(names, m[0]) {
			continue
		}
		*o = append(*o, jobOption{name: m[0]})
		cmd.Flags().StringVar(&(*o)[len(*o)-1].value, strings.ReplaceAll(m[0], "_", "-"), "", m[1])
	}
}

// given reports whether an option has a value.
func (o jobOptions) given(name string) bool {
	for _, opt := range o {
		if opt.name == name && opt.value != "" {
			return true
		}
	}
	return false
}

// call is a call of one of weft's functions that is being put together.
type call struct {
	text string
	args []any
}

func newCall(function string, args ...any) *call {
	c := &call{text: "SELECT * FROM weft." + function + "("}
	for i := range args {
		if i > 0 {
			c.text += ", "
		}
		c.text += fmt.Sprintf("$%d", i+1)
	}
	c.args = args
	return c
}

// with adds an argument by its name, unless it is empty.
func (c *call) with(name, value string) {
	if value != "" {
		c.args = append(c.args, value)
		c.literal(name, fmt.Sprintf("$%d", len(c.args)))
	}
}

// literal adds an argument by its name as SQL.
func (c *call) literal(name, sql string) {
	if !strings.HasSuffix(c.text, "(") {
		c.text += ", "
	}
	c.text += name + " => " + sql
}

func (c *call) options(o jobOptions) {
	for _, opt := range o {
		c.with(opt.name, opt.value)
	}
}

// jobs runs the call and returns the jobs that it has started.
func (c *call) jobs(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	rows, err := conn.Query(ctx, c.text+")", c.args...)
	if err != nil {
		return nil, explained(err)
	}
	jobs, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return jobs, explained(err)
}

// followEvery is how often jobs are looked at.
const followEvery = 300 * time.Millisecond

// following prints how far jobs are.
type following struct {
	conn *pgx.Conn
	out  io.Writer
	last string
	line bool // one line that changes
}

func follow(conn *pgx.Conn, out io.Writer) *following {
	return &following{conn: conn, out: out, line: isTerminal(out)}
}

// progress is what some jobs have done together.
type progress struct {
	job, state, reason string // of the one that needs a look most
	blocked            string
	jobs               int // that are listed
	done, buckets      int64
	rows               int64
	rate               float64
	eta                *time.Time
}

// attention orders states by how much they need a look.
var attention = []string{"done", "cancelled", "finishing", "running", "preparing", "paused", "failed"}

// look asks for the jobs that a condition on weft.moves matches.
func (f *following) look(ctx context.Context, where string, args ...any) (*progress, error) {
	rows, err := f.conn.Query(ctx, `SELECT job, state, coalesce(reason, ''), coalesce(blocked_by, ''), buckets_done, buckets, rows, rate, eta
FROM weft.moves WHERE `+where+" ORDER BY pg_catalog.array_position($1::text[], state) DESC", append([]any{attention}, args...)...)
	if err != nil {
		return nil, explained(err)
	}
	defer rows.Close()
	p := &progress{}
	for rows.Next() {
		var one progress
		if err := rows.Scan(&one.job, &one.state, &one.reason, &one.blocked, &one.done, &one.buckets, &one.rows, &one.rate, &one.eta); err != nil {
			return nil, err
		}
		if p.jobs++; p.jobs == 1 {
			p.job, p.state, p.reason = one.job, one.state, one.reason
		}
		p.done, p.buckets, p.rows, p.rate = p.done+one.done, p.buckets+one.buckets, p.rows+one.rows, p.rate+one.rate
		if p.blocked == "" {
			p.blocked = one.blocked
		}
		if one.eta != nil && (p.eta == nil || one.eta.After(*p.eta)) {
			p.eta = one.eta
		}
	}
	return p, explained(rows.Err())
}

func (p *progress) String() string {
	line := fmt.Sprintf("%s: %d of %d buckets, %d rows, %s/s", p.state, p.done, p.buckets, p.rows, size(p.rate))
	if p.eta != nil {
		line += ", done at about " + p.eta.Local().Format(time.TimeOnly)
	}
	if p.blocked != "" {
		line += ", blocked by " + p.blocked
	}
	return line
}

// say prints a line, unless it was the last one.
func (f *following) say(line string) {
	if line == f.last {
		return
	}
	f.last = line
	if f.line {
		fmt.Fprint(f.out, "\r\x1b[K"+line)
	} else {
		fmt.Fprintln(f.out, line)
	}
}

// rest ends the line that changes.
func (f *following) rest() {
	if f.line && f.last != "" {
		fmt.Fprintln(f.out)
	}
	f.last = ""
}

// stopped is the error for a job that does not go on.
func (p *progress) stopped() error {
	reason := ""
	if p.reason != "" {
		reason = ": " + p.reason
	}
	err := fmt.Errorf("job %s is %s%s", p.job, p.state, reason)
	if p.state == "paused" || p.state == "failed" {
		when := ""
		if p.state == "failed" {
			when = " when the cause is gone"
		}
		err = hinted(err, fmt.Sprintf("Go on with SELECT weft.resume_moves('%s')%s, or end it with SELECT weft.cancel_move('%s').", p.job, when, p.job))
	}
	return err
}

// hinted adds to an error what to do next.
func hinted(err error, hint string) error { return fmt.Errorf("%w\nHINT: %s", err, hint) }

// pause waits until jobs are to be looked at again.
func (f *following) pause(ctx context.Context, job string) error {
	select {
	case <-time.After(followEvery):
		return nil
	case <-ctx.Done():
		f.rest()
		return fmt.Errorf("job %s goes on without this command", job)
	}
}

// all prints how far jobs are until they are over. Jobs of other databases are over when they are
// not listed any more. until: a job that has paused has done what it was to.
func (f *following) all(ctx context.Context, jobs []string, until bool) error {
	defer f.rest()
	for {
		p, err := f.look(ctx, "job = ANY ($2)", jobs)
		if err != nil {
			return fmt.Errorf("job %s goes on, but how it fares is not known: %w", jobs[0], err)
		}
		if p.jobs == 0 {
			return nil
		}
		f.say(p.String())
		switch p.state {
		case "done":
			return nil
		case "paused":
			if until {
				return nil
			}
			return p.stopped()
		case "failed", "cancelled":
			return p.stopped()
		}
		if err := f.pause(ctx, p.job); err != nil {
			return err
		}
	}
}

// joined prints how a shard joins and gets its buckets until the job is over.
func (f *following) joined(ctx context.Context, job, shard string) error {
	defer f.rest()
	for {
		own, err := f.look(ctx, "job = $2", job)
		if err != nil {
			return fmt.Errorf("job %s goes on, but how it fares is not known: %w", job, err)
		}
		state := ""
		if err := f.conn.QueryRow(ctx, "SELECT coalesce(max(state), '') FROM weft.shards WHERE name = $1", shard).Scan(&state); err != nil {
			return fmt.Errorf("job %s goes on, but how it fares is not known: %w", job, explained(err))
		}
		switch {
		case own.jobs == 0 && (state == "" || state == "joining"):
			return fmt.Errorf("%s has not joined: job %s was cancelled", shard, job)
		case own.jobs == 0, own.state == "done":
			return nil
		case own.state == "failed", own.state == "paused", own.state == "cancelled":
			return own.stopped()
		case state == "joining":
			f.say(own.state + ": the server of " + shard + " is made ready")
		default:
			p, err := f.look(ctx, "kind = 'rebalance' AND ended IS NULL AND $2 = ANY (to_shards)", shard)
			if err != nil {
				return fmt.Errorf("job %s goes on, but how it fares is not known: %w", job, err)
			}
			if p.jobs > 0 {
				f.say(p.String())
			}
		}
		if err := f.pause(ctx, job); err != nil {
			return err
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
