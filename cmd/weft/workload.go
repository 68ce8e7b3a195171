package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/pflag"

	"weft/advise"
	"weft/survey"
)

// workload is where the statements of an application come from. weft advise, weft plan and weft
// check have the same flags for it.
type workload struct {
	file, log, from string
}

// flags adds the flags. --file and --statements mean the same, unless --file means something else
// already.
func (w *workload) flags(f *pflag.FlagSet, file string) {
	other := map[string]string{"file": "statements", "statements": "file"}[file]
	if f.Lookup(other) == nil {
		f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
			if name == other {
				name = file
			}
			return pflag.NormalizedName(name)
		})
	}
	f.StringVar(&w.file, file, "", "file with statements as SQL")
	f.StringVar(&w.log, "log", "", "PostgreSQL's log with the statements, as jsonlog or csvlog")
	f.StringVar(&w.from, "from", "", "URL of a PostgreSQL database that is not sharded yet: its pg_stat_statements, unless a file has the statements")
}

// given reports whether statements are asked for.
func (w *workload) given() bool { return w.file != "" || w.log != "" || w.from != "" }

func (w *workload) check() error {
	if w.file != "" && w.log != "" {
		return errors.New("a file of SQL or a log: give one of them")
	}
	return nil
}

// executions reads the statements. conn is connected to --from, nil without. With a database, a
// log's statements of others are left out.
func (w *workload) executions(ctx context.Context, conn *pgconn.PgConn, database string) ([]survey.Execution, error) {
	var out []survey.Execution
	add := func(x advise.Execution) {
		out = append(out, survey.Execution{Text: x.Text, Params: x.Params, Calls: 1, Time: x.Time})
	}
	switch {
	case w.file != "":
		text, err := readText(w.file)
		if err != nil {
			return nil, err
		}
		advise.EachSQL(text, add)
	case w.log != "":
		f, err := os.Open(w.log)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if err := advise.EachLog(f, database, add); err != nil {
			return nil, fmt.Errorf("%s: %w", w.log, err)
		}
	default:
		list, err := counted(ctx, conn)
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			out = append(out, survey.Execution{Text: s.Text, Calls: s.Calls, Time: s.Time})
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	switch {
	case w.file != "":
		return nil, fmt.Errorf("%s has no statements", w.file)
	case w.log != "":
		return nil, fmt.Errorf("%s has no statements: log them with log_min_duration_statement = 0, or log_statement = 'all'", w.log)
	}
	return nil, errors.New("pg_stat_statements has no statements: it counts from its installation on, and shows others' statements to superusers and members of pg_read_all_stats only")
}

// dial connects to --from. Nothing is written there.
func (w *workload) dial(ctx context.Context) (*pgconn.PgConn, error) {
	if w.from == "" {
		return nil, nil
	}
	cfg, err := pgconn.ParseConfig(w.from)
	if err == nil {
		cfg.RuntimeParams["default_transaction_read_only"] = "on"
		if cfg.RuntimeParams["application_name"] == "" {
			cfg.RuntimeParams["application_name"] = "weft"
		}
		var conn *pgconn.PgConn
		if conn, err = pgconn.ConnectConfig(ctx, cfg); err == nil {
			return conn, nil
		}
	}
	return nil, fmt.Errorf("--from: %w", err)
}

// meter tells a terminal how far a command is; others are told nothing.
type meter struct {
	out  io.Writer // nil if it is no terminal
	last time.Time
	told bool
}

// meterEvery is how often a terminal is told.
const meterEvery = 500 * time.Millisecond

func newMeter(out io.Writer) *meter {
	m := &meter{last: time.Now()}
	if isTerminal(out) {
		m.out = out
	}
	return m
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (m *meter) at(what string, done, all int) {
	if m.out == nil || time.Since(m.last) < meterEvery {
		return
	}
	m.last, m.told = time.Now(), true
	fmt.Fprintf(m.out, "\r%s %d of %d", what, done, all)
}

// end takes the line away.
func (m *meter) end() {
	if m.told {
		fmt.Fprint(m.out, "\r\033[K")
	}
}
