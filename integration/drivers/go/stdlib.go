package main

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// stdlibSuite is pgx under database/sql.
func stdlibSuite(r *report) {
	db, err := sql.Open("pgx", "channel_binding=require")
	if err != nil {
		r.check("connection", func(context.Context) (any, error) { return nil, err })
		return
	}
	defer db.Close()
	db.SetMaxOpenConns(8)
	s := &sqlApp{DB: db, code: pgxCode, list: func(v any) any { return v }}
	r.check("connect", func(ctx context.Context) (any, error) { return nil, db.PingContext(ctx) })
	sqlChecks(r, s)
	r.check("own interface", func(ctx context.Context) (any, error) { return stdlibRaw(ctx, db) })
}

func pgxCode(err error) string {
	var e *pgconn.PgError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Code
	}
	return err.Error()
}

// stdlibRaw goes through database/sql to pgx itself: for COPY and batches.
func stdlibRaw(ctx context.Context, db *sql.DB) (any, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var out []any
	err = conn.Raw(func(c any) error {
		raw := c.(*stdlib.Conn).Conn()
		n, err := raw.CopyFrom(ctx, pgx.Identifier{"customers"}, []string{"id", "name"}, pgx.CopyFromRows([][]any{{9001, "a"}, {9002, "b"}, {9003, "c"}}))
		if err != nil {
			return err
		}
		out = append(out, n)
		b := &pgx.Batch{}
		b.Queue(`delete from customers where id = 9002`)
		b.Queue(`delete from customers where id > 9000`)
		return raw.SendBatch(ctx, b).Close()
	})
	return out, err
}
