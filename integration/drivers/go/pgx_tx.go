package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

var errChanged = errors.New("changed my mind")

func (s *pgxApp) transactions(ctx context.Context) (any, error) {
	move := func(from, to int, fail error) error {
		return pgx.BeginFunc(ctx, s.Conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `update customers set balance = balance - 5 where id = $1`, from); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `update customers set balance = balance + 5 where id = $1`, to); err != nil {
				return err
			}
			return fail
		})
	}
	for i := 1; i < 10; i++ {
		if err := move(i, i+1, nil); err != nil {
			return nil, err
		}
	}
	if err := move(1, 2, errChanged); !errors.Is(err, errChanged) {
		return nil, fmt.Errorf("rollback: %w", err)
	}
	tx, err := s.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, `update customers set balance = 0`); err != nil {
		return nil, err
	}
	inside, err := rows(tx.Query(ctx, `select sum(balance)::text, count(*) from customers`))
	if err != nil {
		return nil, err
	}
	// A failed statement dooms the transaction: COMMIT rolls back.
	_, failed := tx.Exec(ctx, `insert into customers (id, name) values (1, 'again')`)
	_, after := tx.Exec(ctx, `select 1`)
	commit := tx.Commit(ctx)
	return s.with(ctx, []any{inside, failed, after, commit}, `select id, balance::text from customers where id < 12 order by id`, `select sum(balance)::text from customers`)
}

func (s *pgxApp) savepoints(ctx context.Context) (any, error) {
	var inner []any
	err := pgx.BeginFunc(ctx, s.Conn, func(tx pgx.Tx) error {
		for i := 1; i <= 6; i++ {
			err := pgx.BeginFunc(ctx, tx, func(nested pgx.Tx) error {
				if _, err := nested.Exec(ctx, `insert into orders (customer_id, id, placed) values ($1, $2, '2024-01-01')`, i, 6000+i); err != nil {
					return err
				}
				if i%2 == 0 {
					_, err := nested.Exec(ctx, `insert into customers (id, name) values ($1, 'again')`, i+7)
					return err
				}
				return nil
			})
			inner = append(inner, err)
		}
		if _, err := tx.Exec(ctx, `savepoint here; insert into orders (customer_id, id, placed) values (9, 6100, '2024-01-01'); rollback to here; release here`); err != nil {
			return err
		}
		return nil
	})
	return s.with(ctx, append(inner, err), `select customer_id, id from orders where id > 6000 order by id`, `delete from orders where id > 6000`)
}

func (s *pgxApp) isolation(ctx context.Context) (any, error) {
	other, err := pgx.Connect(ctx, "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = other.Close(ctx) }()
	var out []any
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead} {
		tx, err := s.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
		if err != nil {
			return nil, err
		}
		first, err := rows(tx.Query(ctx, `select sum(balance)::text from customers`))
		if err != nil {
			return nil, err
		}
		if _, err := other.Exec(ctx, `update customers set balance = balance + 1 where id in (1, 2, 3, 4, 5)`); err != nil {
			return nil, err
		}
		second, err := rows(tx.Query(ctx, `select sum(balance)::text from customers`))
		if err != nil {
			return nil, err
		}
		_, conflict := tx.Exec(ctx, `update customers set balance = balance - 1 where id = 3`)
		out = append(out, level, first, second, conflict)
		if err := tx.Rollback(ctx); err != nil {
			return nil, err
		}
	}
	tx, err := s.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly, DeferrableMode: pgx.Deferrable})
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, `update customers set balance = 0 where id = 1`)
	out = append(out, err, tx.Rollback(ctx))
	return s.with(ctx, out, `show transaction_isolation`)
}

func (s *pgxApp) cursors(ctx context.Context) (any, error) {
	tx, err := s.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	var out []any
	for _, sql := range []string{
		`declare one cursor for select id, status from orders where customer_id = 3 order by id`,
		`declare every scroll cursor for select id, name from customers order by id`,
		`fetch 2 from one`, `fetch 3 from every`, `fetch all from one`, `fetch 0 from every`, `move 5 in every`, `fetch next from every`,
		`fetch backward 2 from every`, `fetch absolute 30 from every`, `fetch last from every`, `close one`,
		`select name, is_scrollable, is_holdable from pg_cursors order by name`, `close all`,
	} {
		got, err := rows(tx.Query(ctx, sql))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sql, err)
		}
		out = append(out, sql, got)
	}
	if err := tx.Commit(ctx); err != nil {
		return nil, err
	}
	// One that outlives its transaction.
	return s.with(ctx, out, `declare held cursor with hold for select id from customers order by id`, `fetch 3 from held`, `fetch 2 from held`, `close held`)
}
