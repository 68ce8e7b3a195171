package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"weft/config"
	"weft/importer"
	"weft/pgserver"
	"weft/twopc"
)

func importCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Bring a live PostgreSQL database into weft",
		Long: `Copy a live PostgreSQL database that weft does not front into weft, follow its
changes by logical decoding, and cut over when both are the same.

  weft import check      what would be imported how, what is missing; changes nothing
  weft import start      make schema, publication and slot, copy, then follow until stopped
  weft import status     how far it is
  weft import verify     compare all tables at one moment
  weft import cutover    make the source read only, apply its last change, end the import
  weft import abort      drop slot and publication, forget the import

All of them take --from, the database to import, and --into, the database in weft, which must exist. Both
users should be superusers; passwords are taken from PGPASSWORD or ~/.pgpass, as psql does.

If the old server can stay, it needs no import: let it become the home shard.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(importCheckCommand(), importStartCommand(), importStatusCommand(), importVerifyCommand(), importCutoverCommand(), importAbortCommand())
	return cmd
}

// importing is what the commands have in common.
type importing struct {
	from, into string
	jobs       int

	file                       string // cluster.yaml
	shard, reference, exclude  []string
	noSchema, noOwner, noBlobs bool
	pgDump                     string
	out                        io.Writer
	mu                         sync.Mutex // of out
}

func (m *importing) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&m.from, "from", "", "URL of the database to import")
	f.StringVar(&m.into, "into", "", "URL of a proxy, with the database that takes it")
}

// wishes adds the flags that say what is imported how.
func (m *importing) wishes(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&m.file, "file", "f", "", "cluster.yaml, for the tables that it declares in the database")
	f.StringArrayVar(&m.shard, "shard", nil, "shard a table by a column, such as orders.customer_id; again for others")
	f.StringArrayVar(&m.reference, "reference", nil, "keep a table on every shard; again for others")
	f.StringArrayVar(&m.exclude, "exclude", nil, "leave a table behind; again for others")
	f.BoolVar(&m.noSchema, "no-schema", false, "the schema is in weft already, with empty tables")
	f.BoolVar(&m.noOwner, "no-owner", false, "leave owners and rights behind")
	f.BoolVar(&m.noBlobs, "without-large-objects", false, "leave large objects behind")
}

// importer makes what does the work.
func (m *importing) importer(cmd *cobra.Command) (*importer.Importer, error) {
	switch {
	case m.from == "":
		return nil, &usageError{errors.New("which database? give --from postgres://user@host:port/database")}
	case m.into == "":
		return nil, &usageError{errors.New("into which database of weft? give --into postgres://user@host:port/database")}
	}
	m.out = cmd.OutOrStdout()
	i := &importer.Importer{
		Jobs: m.jobs, Say: m.say,
		Wish: importer.Wish{NoSchema: m.noSchema, NoOwner: m.noOwner, NoObjects: m.noBlobs},
	}
	if stop := stopAt(); stop != nil {
		i.At = func(step string) { stop(twopc.Point(step)) }
	}
	var err error
	if i.From, err = pgx.ParseConfig(m.from); err != nil {
		return nil, &usageError{fmt.Errorf("--from: %w", err)}
	}
	if i.Into, err = pgx.ParseConfig(m.into); err != nil {
		return nil, &usageError{fmt.Errorf("--into: %w", err)}
	}
	if err := m.declarations(&i.Wish, i.Into.Database); err != nil {
		return nil, err
	}
	return i, nil
}

func (m *importing) say(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fmt.Fprintf(m.out, format+"\n", args...)
}

// declarations reads how tables are to be held.
func (m *importing) declarations(w *importer.Wish, database string) error {
	var tables []config.Table
	if m.file != "" {
		c, err := config.LoadCluster(m.file)
		if err != nil {
			return err
		}
		for _, t := range c.Tables {
			if t.Database == database {
				tables = append(tables, t)
			}
		}
	}
	for _, s := range m.shard {
		dot := strings.LastIndexByte(s, '.')
		if dot < 0 {
			return &usageError{fmt.Errorf("--shard: %q is not table.column", s)}
		}
		tables = append(tables, config.Table{Database: database, Table: s[:dot], Columns: []string{s[dot+1:]}})
	}
	for _, s := range m.reference {
		tables = append(tables, config.Table{Database: database, Table: s, Reference: true})
	}
	for k := range tables {
		t := &tables[k]
		name, err := t.Resolve()
		if err != nil {
			return &usageError{err}
		}
		t.Table = importer.Name(name.Schema, name.Table) // the session has no search_path
		d := importer.Declaration{Schema: name.Schema, Name: name.Table, Columns: t.Columns, Says: "reference"}
		if !t.Reference {
			d.Says = "sharded by " + strings.Join(t.Columns, ", ")
		}
		if d.Statement, err = t.Statement(); err != nil {
			return err
		}
		w.Declarations = append(w.Declarations, d)
	}
	for _, s := range m.exclude {
		t := config.Table{Table: s}
		name, err := t.Resolve()
		if err != nil {
			return &usageError{fmt.Errorf("--exclude: %w", err)}
		}
		w.Exclude = append(w.Exclude, importer.Name(name.Schema, name.Table))
	}
	return nil
}

func importCheckCommand() *cobra.Command {
	var m importing
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say what would be imported how, and what is missing",
		Long: `Look at both databases and print how each table would be imported and what stands in
the way, with what to do about it. Nothing is changed. The exit status is 1 if the import cannot start.`,
		Example: `  weft import check --from postgres://postgres@old/store --into postgres://postgres@weft:6432/store -f cluster.yaml
  weft import check --from postgres://postgres@old/store --into postgres://postgres@weft:6432/store --shard customers.id --shard orders.customer_id --reference products`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			i, err := m.importer(cmd)
			if err != nil {
				return err
			}
			r, err := i.Check(cmd.Context())
			if err != nil {
				return explained(err)
			}
			return m.report(r)
		},
	}
	m.flags(cmd)
	m.wishes(cmd)
	return cmd
}

// report prints what a check has found.
func (m *importing) report(r *importer.Report) error {
	t := tabwriter.NewWriter(m.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "TABLE\tAS\tROWS\tSIZE\tKEY")
	for _, row := range r.Tables {
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\n", row.Name, row.As, row.Rows, size(float64(row.Bytes)), row.Key)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(m.out)
	for _, f := range r.Findings {
		fmt.Fprintf(m.out, "%s: %s\n", f.Level, f.Text)
		if f.Hint != "" {
			fmt.Fprintf(m.out, "  HINT: %s\n", f.Hint)
		}
	}
	if r.Failed() {
		fmt.Fprintln(m.out, "the import cannot start")
		return errReported
	}
	_, err := fmt.Fprintln(m.out, "the import can start; rows are an estimate")
	return err
}

func importStartCommand() *cobra.Command {
	var m importing
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Copy a database and follow its changes",
		Long: `Make the source's schema in weft, declare the tables while they are empty, make a
publication and a slot on the source, copy all rows as of the slot's beginning, and then apply the source's
changes until the command is stopped, or until weft import cutover has ended the import.

It may be stopped or killed at any moment: the same command goes on where it was. While it does not
run the source keeps its WAL for it; weft import abort ends that.

Do not write to the imported tables in weft before the cut-over: nothing prevents it, but the cut-over is
refused if the two sides differ.`,
		Example: `  weft import start --from postgres://postgres@old/store --into postgres://postgres@weft:6432/store -f cluster.yaml
  weft import start --from postgres://postgres@old/store --into postgres://postgres@weft:6432/store --shard customers.id --shard orders.customer_id --jobs 8`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			i, err := m.importer(cmd)
			if err != nil {
				return err
			}
			if i.PgDump = m.pgDump; i.PgDump == "" && !m.noSchema {
				if i.PgDump, err = findPgDump(); err != nil {
					return err
				}
			}
			for _, kv := range os.Environ() {
				if name, _, _ := strings.Cut(kv, "="); !strings.HasPrefix(name, "PG") || name == "PGPASSFILE" || strings.HasPrefix(name, "PGSSL") {
					i.Env = append(i.Env, kv)
				}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			err = i.Start(ctx)
			var refused *importer.CheckError
			switch {
			case errors.As(err, &refused):
				return m.report(refused.Report)
			case err != nil && ctx.Err() != nil && cmd.Context().Err() == nil:
				m.say("stopped; the same command goes on. Meanwhile the source keeps its WAL")
				return nil
			}
			return explained(err)
		},
	}
	m.flags(cmd)
	m.wishes(cmd)
	cmd.Flags().IntVar(&m.jobs, "jobs", 4, "tables that are copied at once")
	cmd.Flags().StringVar(&m.pgDump, "pg-dump", "", "pg_dump, of the source's major version or newer (default: searched for)")
	return cmd
}

// findPgDump looks for pg_dump on the path and where distributions put it.
func findPgDump() (string, error) {
	if p, err := exec.LookPath("pg_dump"); err == nil {
		return p, nil
	}
	found, err := pgserver.Find("")
	if err != nil {
		return "", errors.New("pg_dump is not on the path: give --pg-dump, or --no-schema")
	}
	return found.Program("pg_dump"), nil
}

func importStatusCommand() *cobra.Command {
	var m importing
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how far an import is",
		Long: `Print the state of the import, how far the target is behind the source, and what was copied. The
exit status is 1 if there is no import, and if one that is not done has lost its slot.`,
		Example: `  weft import status --from postgres://postgres@old/store --into postgres://postgres@weft:6432/store`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			i, err := m.importer(cmd)
			if err != nil {
				return err
			}
			st, err := i.Status(cmd.Context())
			if err != nil {
				return explained(err)
			}
			return m.status(st)
		},
	}
	m.flags(cmd)
	return cmd
}

func (m *importing) status(st *importer.Status) error {
	running := "no process follows"
	if st.Running {
		running = "a process follows"
	}
	fmt.Fprintf(m.out, "import from %s: %s; %s\n", st.Source, st.State, running)
	fmt.Fprintf(m.out, "began %s, %d changes applied", st.Started.Local().Format(time.DateTime), st.Changes)
	if st.Applied != nil {
		fmt.Fprintf(m.out, ", the last at %s", st.Applied.Local().Format(time.DateTime))
	}
	fmt.Fprintln(m.out)
	if st.HasSlot {
		fmt.Fprintf(m.out, "behind by %s, %s\n", size(float64(st.Lag)), st.Behind.Round(time.Second/10))
	}
	t := tabwriter.NewWriter(m.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "\nTABLE\tCOPIED\tAS OF")
	for _, c := range st.Tables {
		if c.At == 0 {
			fmt.Fprintf(t, "%s\t-\t\n", importer.Name(c.Schema, c.Name))
			continue
		}
		fmt.Fprintf(t, "%s\t%d rows\t%s\n", importer.Name(c.Schema, c.Name), c.Rows, c.At)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if !st.HasSlot && st.State != importer.Done && st.State != importer.Preparing {
		return fmt.Errorf("slot %s is gone: the import cannot go on; weft import abort --drop and start again", st.Slot)
	}
	return nil
}

func importVerifyCommand() *cobra.Command {
	var m importing
	var counts bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compare the two sides at one moment",
		Long: `Stop the changes of the target at a position of the source, read all tables of both sides as of
that position, compare the numbers of rows and the sums of their hashes, and let the changes go on. The source
is not disturbed beyond the reading. The exit status is 1 if anything differs.`,
		Example: `  weft import verify --from postgres://postgres@old/store --into postgres://postgres@weft:6432/store
  weft import verify --from postgres://postgres@old/store --into postgres://postgres@weft:6432/store --counts`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			i, err := m.importer(cmd)
			if err != nil {
				return err
			}
			list, err := i.Verify(cmd.Context(), counts)
			if err != nil {
				return explained(err)
			}
			return m.compared(list)
		},
	}
	m.flags(cmd)
	cmd.Flags().IntVar(&m.jobs, "jobs", 4, "tables that are read at once")
	cmd.Flags().BoolVar(&counts, "counts", false, "compare the numbers of rows only")
	return cmd
}

func (m *importing) compared(list []importer.Compared) error {
	differ := 0
	t := tabwriter.NewWriter(m.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "TABLE\tSOURCE\tTARGET\t")
	for _, c := range list {
		word := "same"
		if !c.Same() {
			word = "DIFFERENT"
			differ++
		}
		fmt.Fprintf(t, "%s\t%d rows\t%d rows\t%s\n", c.Name, c.Source.Rows, c.Target.Rows, word)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if differ > 0 {
		fmt.Fprintf(m.out, "%d of %d tables differ\n", differ, len(list))
		return errReported
	}
	return nil
}

func importCutoverCommand() *cobra.Command {
	var m importing
	var o importer.CutoverOptions
	cmd := &cobra.Command{
		Use:   "cutover",
		Short: "Make weft take over from the source",
		Long: `Make the source read only (default_transaction_read_only of the database), end its sessions, apply its
last change, set the sequences, refresh materialized views, compare the numbers of rows, and drop slot and
publication. Then clients write to weft; weft import start, if it runs, ends by itself.

If anything fails, or takes longer than --max-pause, before both sides were found to be the same, the source is
writable again and the import follows on. A command that was killed is run again, or aborted.`,
		Example: `  weft import cutover --from postgres://postgres@old/store --into postgres://postgres@weft:6432/store --max-lag 5s --max-pause 10s
  weft import cutover --from postgres://postgres@old/store --into postgres://postgres@weft:6432/store --max-pause 5m --rows`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			i, err := m.importer(cmd)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return explained(i.Cutover(ctx, o))
		},
	}
	m.flags(cmd)
	f := cmd.Flags()
	f.DurationVar(&o.MaxLag, "max-lag", 5*time.Second, "do not begin if the target is further behind")
	f.DurationVar(&o.MaxPause, "max-pause", 10*time.Second, "give up if the source would be read only for longer")
	f.BoolVar(&o.Rows, "rows", false, "compare what is in the rows, too")
	f.BoolVar(&o.Stopped, "source-stopped", false, "you have seen to it that nobody writes to the source: leave its settings and sessions alone")
	f.IntVar(&m.jobs, "jobs", 4, "tables that are compared at once")
	return cmd
}

func importAbortCommand() *cobra.Command {
	var m importing
	var drop bool
	cmd := &cobra.Command{
		Use:   "abort",
		Short: "End an import",
		Long: `Drop the slot and the publication on the source, make it writable if a cut-over has begun, and forget the
import. What was imported stays, unless --drop is given. After the cut-over only what weft remembers of the import is
removed.`,
		Example: `  weft import abort --from postgres://postgres@old/store --into postgres://postgres@weft:6432/store
  weft import abort --from postgres://postgres@old/store --into postgres://postgres@weft:6432/store --drop`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			i, err := m.importer(cmd)
			if err != nil {
				return err
			}
			return explained(i.Abort(context.WithoutCancel(cmd.Context()), drop))
		},
	}
	m.flags(cmd)
	cmd.Flags().BoolVar(&drop, "drop", false, "drop the imported tables in weft")
	return cmd
}
