package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func (s *pgxApp) errors(ctx context.Context) (any, error) {
	var out []any
	for _, b := range blunders {
		for _, mode := range modes {
			_, err := s.Exec(ctx, b.sql, mode)
			var e *pgconn.PgError
			if !errors.As(err, &e) || e.Code != b.code {
				return nil, fmt.Errorf("%s in mode %v: %w, want %s", b.name, mode, err, b.code)
			}
			out = append(out, b.name, failure(err))
		}
	}
	return s.with(ctx, out, `select count(*) from customers`, `select count(*) from users`)
}

func (s *pgxApp) errorsInBlock(ctx context.Context) (any, error) {
	var out []any
	for _, b := range blunders {
		if strings.HasPrefix(b.sql, "do ") {
			continue
		}
		tx, err := s.Begin(ctx)
		if err != nil {
			return nil, err
		}
		_, first := tx.Exec(ctx, `update customers set name = 'x' where id = 4`)
		_, failed := tx.Exec(ctx, b.sql)
		_, next := tx.Exec(ctx, `select 1`)
		out = append(out, b.name, first, failed, next, string(s.PgConn().TxStatus()), tx.Commit(ctx), string(s.PgConn().TxStatus()))
	}
	return s.with(ctx, out, `select name from customers where id = 4`)
}

// cancel has another goroutine cancel statements of one shard and of all.
func (s *pgxApp) cancel(ctx context.Context) (any, error) {
	var out []any
	for _, sql := range []string{`select pg_sleep(20)`, `select pg_sleep(20) from customers where id = 3`, `select count(*), max(pg_sleep(5)::text) from customers`} {
		began := time.Now()
		done := make(chan error, 1)
		go func() {
			time.Sleep(150 * time.Millisecond)
			done <- s.PgConn().CancelRequest(ctx)
		}()
		_, err := s.Exec(ctx, sql)
		if cancelled := <-done; cancelled != nil {
			return nil, cancelled
		}
		if took := time.Since(began); took > 4*time.Second {
			return nil, fmt.Errorf("%s ended after %v", sql, took)
		}
		out = append(out, err)
	}
	return s.with(ctx, out, `select count(*) from customers`)
}

func (s *pgxApp) timeouts(ctx context.Context) (any, error) {
	other, err := pgx.Connect(ctx, "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = other.Close(ctx) }()
	if _, err := s.Exec(ctx, `set statement_timeout = '100ms'`); err != nil {
		return nil, err
	}
	_, slow := s.Exec(ctx, `select pg_sleep(10)`)
	_, slowAll := s.Exec(ctx, `select max(pg_sleep(1)::text) from customers`)
	if _, err := s.Exec(ctx, `reset statement_timeout`); err != nil {
		return nil, err
	}
	tx, err := other.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, `update customers set name = name where id in (6, 7, 8)`); err != nil {
		return nil, err
	}
	if _, err := s.Exec(ctx, `set lock_timeout = '100ms'`); err != nil {
		return nil, err
	}
	_, locked := s.Exec(ctx, `update customers set name = name where id = 7`)
	_, nowait := s.Exec(ctx, `select id from customers where id = 8 for update nowait`)
	free, err := rows(s.Query(ctx, `select id from customers where id between 5 and 9 order by id for update skip locked`))
	if err != nil {
		return nil, err
	}
	return s.with(ctx, []any{slow, slowAll, locked, nowait, free}, `reset lock_timeout`, `show statement_timeout`, `show lock_timeout`)
}

// pgxContextEnds lets a context end in the middle of a statement: pgx then gives the connection up.
func pgxContextEnds(ctx context.Context) (any, error) {
	conn, err := pgx.Connect(ctx, "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	soon, stop := context.WithTimeout(ctx, 150*time.Millisecond)
	defer stop()
	_, err = conn.Exec(soon, `select pg_sleep(10)`)
	return []any{errors.Is(err, context.DeadlineExceeded), conn.IsClosed()}, nil
}

func (s *pgxApp) listen(ctx context.Context) (any, error) {
	listener, err := pgx.Connect(ctx, "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = listener.Close(ctx) }()
	if _, err := listener.Exec(ctx, `listen news; listen "Other News"`); err != nil {
		return nil, err
	}
	for _, sql := range []string{`notify news, 'first'`, `select pg_notify('Other News', 'second ' || count(*)) from products`, `notify nobody`, `begin; notify news, 'undone'; rollback`, `notify news`} {
		if _, err := s.Exec(ctx, sql); err != nil {
			return nil, err
		}
	}
	var out []any
	for range 3 {
		n, err := listener.WaitForNotification(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, n.Channel+": "+n.Payload)
		if n.PID != s.PgConn().PID() {
			return nil, fmt.Errorf("notification from %d, sent by %d", n.PID, s.PgConn().PID())
		}
	}
	if _, err := listener.Exec(ctx, `unlisten *`); err != nil {
		return nil, err
	}
	if _, err := s.Exec(ctx, `notify news, 'unheard'`); err != nil {
		return nil, err
	}
	soon, stop := context.WithTimeout(ctx, 200*time.Millisecond)
	defer stop()
	_, err = listener.WaitForNotification(soon)
	return list(append(out, pgconn.Timeout(err)), "\n"), nil
}

// settings belong to a session, whichever backend it has.
func (s *pgxApp) settings(ctx context.Context) (any, error) {
	conn, err := pgx.Connect(ctx, "default_query_exec_mode=exec") // DISCARD ALL drops prepared statements
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	return (&pgxApp{conn}).with(ctx, nil, `set timezone = 'Asia/Tokyo'`, `select count(*) from customers`, `show timezone`, `select tz::text from kinds where id = 4`, `select tz::text from kinds where id > 5 order by id`,
		`set search_path = nowhere, public`, `select count(*) from orders`, `begin`, `set local timezone = 'UTC'`, `show timezone`, `commit`, `show timezone`, `select current_schemas(false)`, `discard all`, `show timezone`, `show search_path`)
}

func (s *pgxApp) temporary(ctx context.Context) (any, error) {
	return s.with(ctx, nil, `create temporary table picked (id bigint)`, `insert into picked select id from customers where id <= 6`, `select count(*) from picked`,
		`select c.id, c.name from customers c join picked p on p.id = c.id order by c.id`, `drop table picked`)
}

// large writes and reads rows of some megabytes.
func (s *pgxApp) large(ctx context.Context) (any, error) {
	long := strings.Repeat("0123456789abcdef", 1<<18) // 4 MiB
	var out []any
	for id := 60; id < 64; id++ {
		if _, err := s.Exec(ctx, `insert into kinds (id, t) values ($1, $2)`, id, long); err != nil {
			return nil, err
		}
		var back string
		if err := s.QueryRow(ctx, `select t from kinds where id = $1`, id).Scan(&back); err != nil {
			return nil, err
		}
		out = append(out, back == long)
	}
	got, err := rows(s.Query(ctx, `select id, t from kinds where id >= 60 order by id`))
	if err != nil {
		return nil, err
	}
	for _, row := range got[:len(got)-1] {
		out = append(out, row[0], row[1] == long)
	}
	return s.with(ctx, out, `select max(length(t)), sum(length(t)) from kinds where id >= 60`, `delete from kinds where id >= 60`)
}

// pgxReconnect restarts a server under a connection, and connects anew until it works.
func pgxReconnect(ctx context.Context) (any, error) {
	conn, err := pgx.Connect(ctx, "")
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, `select count(*) from customers`); err != nil {
		return nil, err
	}
	if err := shell(ctx, "RESTART", ""); err != nil {
		return nil, err
	}
	var got [][]any
	err = eventually(ctx, func(ctx context.Context) error {
		if conn.IsClosed() {
			if conn, err = pgx.Connect(ctx, ""); err != nil {
				return err
			}
		}
		got, err = rows(conn.Query(ctx, `select count(*), sum(id) from customers where id <= 40`))
		return err
	})
	if err != nil {
		return nil, err
	}
	return got, conn.Close(ctx)
}
