package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
)

// declare has a proxy declare tables, one after the other, or says what is to
// be done.
func (a *applying) declare(ctx context.Context, tables []config.Table) error {
	if len(tables) == 0 {
		return nil
	}
	statements := make([]string, len(tables))
	for i := range tables {
		var err error
		if statements[i], err = tables[i].Statement(); err != nil {
			return err
		}
	}
	if a.proxy == nil || a.dryRun {
		a.suggest(tables, statements)
		return nil
	}
	var conn *pgx.Conn
	defer func() { closeConn(ctx, conn) }()
	for i := range tables {
		if conn == nil || conn.Config().Database != tables[i].Database {
			closeConn(ctx, conn)
			cfg := a.proxy.Copy()
			cfg.Database = tables[i].Database
			cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
				fmt.Fprintf(a.out, "  %s: %s\n", n.Severity, n.Message)
				if n.Hint != "" {
					fmt.Fprintf(a.out, "  HINT: %s\n", n.Hint)
				}
			}
			var err error
			if conn, err = pgx.ConnectConfig(ctx, cfg); err != nil {
				return fmt.Errorf("connect to the proxy: %w", err)
			}
		}
		fmt.Fprintf(a.out, "%s: %s\n", tables[i].Database, statements[i])
		// As text, like a person would: nothing here needs a prepared one.
		if _, err := conn.PgConn().Exec(ctx, statements[i]).ReadAll(); err != nil {
			return fmt.Errorf("declare %s in database %s: %w", tables[i].Table, tables[i].Database, explained(err))
		}
	}
	return a.verify(ctx, len(tables))
}

// suggest prints the statements for a person to run.
func (a *applying) suggest(tables []config.Table, statements []string) {
	switch {
	case a.dryRun:
		fmt.Fprintln(a.out, "not applied: this was a dry run; these tables would be declared, through a proxy:")
	default:
		fmt.Fprintln(a.out, "these tables are not declared yet; pass --proxy, or run through a proxy, as their owner:")
	}
	database := ""
	for i := range tables {
		if tables[i].Database != database {
			database = tables[i].Database
			fmt.Fprintf(a.out, "  \\connect %s\n", database)
		}
		fmt.Fprintf(a.out, "  %s;\n", statements[i])
	}
}

// verify looks whether the proxy did what it said, to this very cluster: the
// URL may be that of another.
func (a *applying) verify(ctx context.Context, n int) error {
	snap, err := a.store.Load(ctx)
	if err != nil {
		return err
	}
	left, err := a.want.Undeclared(snap)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("%s in database %s is still not declared here: does the proxy serve this cluster?", left[0].Table, left[0].Database)
	}
	fmt.Fprintf(a.out, "declared %d tables: the cluster is at version %d\n", n, snap.Version)
	return nil
}

func closeConn(ctx context.Context, conn *pgx.Conn) {
	if conn != nil {
		_ = conn.Close(context.WithoutCancel(ctx)) // nothing is under way
	}
}

// explained adds to a server's error what PostgreSQL's clients show with it.
func explained(err error) error {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		return err
	}
	if pe.Detail != "" {
		err = fmt.Errorf("%w\nDETAIL: %s", err, pe.Detail)
	}
	if pe.Hint != "" {
		err = fmt.Errorf("%w\nHINT: %s", err, pe.Hint)
	}
	return err
}
