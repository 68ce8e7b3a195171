package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

type ctxwatchHandler = ctxwatch.Handler

// mustExec runs one or more statements by simple query.
func mustExec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// try runs statements and returns the SQLSTATE.
func try(conn *pgx.Conn, sql string) string {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	_, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	return code(err)
}

// rows returns the rows of the last result, one a line, columns split by |.
func rows(t *testing.T, conn *pgx.Conn, sql string) string {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	results, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	var out strings.Builder
	for _, row := range results[len(results)-1].Rows {
		for i, v := range row {
			if i > 0 {
				out.WriteByte('|')
			}
			if v == nil {
				out.WriteString("NULL")
			}
			out.Write(v)
		}
		out.WriteByte('\n')
	}
	return out.String()
}
