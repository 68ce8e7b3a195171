package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/lib/pq"
)

// pqSuite is lib/pq, without and with binary parameters.
func pqSuite(r *report) {
	db, err := sql.Open("postgres", pqConn())
	if err != nil {
		r.check("connection", func(context.Context) (any, error) { return nil, err })
		return
	}
	defer db.Close()
	db.SetMaxOpenConns(8)
	s := &sqlApp{DB: db, code: pqCode, list: func(v any) any { return pq.Array(v) }}
	r.check("connect", pqConnect)
	sqlChecks(r, s)
	r.check("copy in", s.pqCopy)
	r.check("copy in fails", s.pqCopyFails)
	r.check("listener", s.pqListen)
	r.check("binary parameters", func(ctx context.Context) (any, error) {
		binary, err := sql.Open("postgres", pqConn()+" binary_parameters=yes")
		if err != nil {
			return nil, err
		}
		defer binary.Close()
		b := &sqlApp{DB: binary, code: pqCode, list: s.list}
		first, err := b.ask(ctx)
		if err != nil {
			return nil, err
		}
		second, err := b.types(ctx)
		return []any{first, second}, err
	})
	r.check("arrays", s.pqArrays)
}

// pqConn says what lib/pq does not take from the environment.
func pqConn() string { return "sslrootcert=" + os.Getenv("PGSSLROOTCERT") + " sslmode=verify-ca" }

func pqCode(err error) string {
	var e *pq.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return string(e.Code)
	}
	return err.Error()
}

func pqConnect(ctx context.Context) (any, error) {
	var out []any
	for _, options := range []string{"", "sslmode=verify-full host=localhost", "sslmode=require", "password=wrong", "user=stranger", "sslmode=disable", "dbname=nosuch"} {
		db, err := sql.Open("postgres", pqConn()+" "+options)
		if err != nil {
			return nil, err
		}
		out = append(out, options+": "+pqCode(db.PingContext(ctx)))
		if err := db.Close(); err != nil {
			return nil, err
		}
	}
	return list(out, "\n"), nil
}

func (s *sqlApp) pqCopyRows(ctx context.Context, ids ...int) error {
	tx, err := s.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	st, err := tx.PrepareContext(ctx, `copy customers (id, name, tags) from stdin`)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := st.ExecContext(ctx, id, fmt.Sprintf("copied\t%d\n\\", id), pq.Array([]string{"a", "b\"c"})); err != nil {
			return err
		}
	}
	if _, err := st.ExecContext(ctx); err != nil {
		return err
	}
	if err := st.Close(); err != nil {
		return err
	}
	return tx.Commit()
}

func (s *sqlApp) pqCopy(ctx context.Context) (any, error) {
	ids := make([]int, 700)
	for i := range ids {
		ids[i] = 4000 + i
	}
	if err := s.pqCopyRows(ctx, ids...); err != nil {
		return nil, err
	}
	return s.do(ctx, nil, `select count(*), min(name), max(tags) from customers where id >= 4000`, `delete from customers where id >= 4000`)
}

func (s *sqlApp) pqCopyFails(ctx context.Context) (any, error) {
	err := s.pqCopyRows(ctx, 5001, 5002, 7, 5003)
	return s.do(ctx, []any{orNothing(err)}, `select count(*) from customers where id >= 4000`)
}

func (s *sqlApp) pqListen(ctx context.Context) (any, error) {
	var events []any
	l := pq.NewListener(pqConn(), 100*time.Millisecond, time.Second, nil)
	defer l.Close()
	for _, channel := range []string{"news", "Other News"} {
		if err := l.Listen(channel); err != nil {
			return nil, err
		}
	}
	for _, text := range []string{`notify news, 'first'`, `select pg_notify('Other News', 'second')`, `notify nobody`} {
		if _, err := s.ExecContext(ctx, text); err != nil {
			return nil, err
		}
	}
	for range 2 {
		select {
		case n := <-l.Notify:
			if n == nil {
				return nil, errors.New("the listener lost its connection")
			}
			events = append(events, n.Channel+": "+n.Extra)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return list(events, "\n"), errors.Join(l.Ping(), l.Unlisten("news"), l.UnlistenAll())
}

func (s *sqlApp) pqArrays(ctx context.Context) (any, error) {
	var out []any
	for _, id := range []int{1, 5} {
		var ints []sql.NullInt64
		var texts []sql.NullString
		var numbers []string
		if err := s.QueryRowContext(ctx, `select ia, ta, na from kinds where id = $1`, id).Scan(pq.Array(&ints), pq.Array(&texts), pq.Array(&numbers)); err != nil {
			return nil, err
		}
		out = append(out, ints, texts, numbers)
	}
	return list(out, "\n"), nil
}
