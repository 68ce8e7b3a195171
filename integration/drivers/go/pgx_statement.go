package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func (s *pgxApp) prepared(ctx context.Context) (any, error) {
	d, err := s.Prepare(ctx, "by_id", `select name, mood, home from customers where id = $1`)
	if err != nil {
		return nil, err
	}
	out := []any{d.ParamOIDs, names(d.Fields)}
	for i := range 200 { // far beyond the five after which the server may take a generic plan
		var name string
		err := s.QueryRow(ctx, "by_id", 1+i%40).Scan(&name, nil, nil)
		if err != nil {
			return nil, err
		}
		if err := want("name", name, fmt.Sprintf("customer %d", 1+i%40)); err != nil {
			return nil, err
		}
	}
	if _, err := s.Prepare(ctx, "of_all", `select count(*) from orders where status = $1 and id > $2`); err != nil {
		return nil, err
	}
	for i := range 60 {
		got, err := rows(s.Query(ctx, "of_all", []string{"open", "paid", "sent"}[i%3], i))
		if err != nil {
			return nil, err
		}
		out = append(out, got)
	}
	_, err = s.Prepare(ctx, "broken", `select nosuch from customers where id = $1`)
	out = append(out, err)
	if err := s.Deallocate(ctx, "by_id"); err != nil {
		return nil, err
	}
	return s.with(ctx, out, `alter table customers add column extra int`, `select count(extra) from customers`, `alter table customers drop column extra`)
}

// sqlPrepared prepares by SQL's own commands.
func (s *pgxApp) sqlPrepared(ctx context.Context) (any, error) {
	var out []any
	for _, sql := range []string{
		`prepare p (bigint) as select name from customers where id = $1`, `prepare q as select count(*) from customers`,
		`execute p (3)`, `execute p (4)`, `execute q`, `select name, statement, parameter_types::text from pg_prepared_statements where from_sql order by name`, `deallocate p`, `deallocate q`,
	} {
		got, err := s.PgConn().Exec(ctx, sql).ReadAll() // a simple query
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sql, err)
		}
		out = append(out, fmt.Sprintf("%q %s", got[0].Rows, got[0].CommandTag))
	}
	return list(out, "\n"), nil
}

func names(fields []pgconn.FieldDescription) string {
	out := ""
	for _, f := range fields {
		out += fmt.Sprintf("%s size %d mod %d format %d; ", f.Name, f.DataTypeSize, f.TypeModifier, f.Format)
	}
	return out
}

// manyTexts sends more texts than any cache of prepared statements holds.
func (s *pgxApp) manyTexts(ctx context.Context) (any, error) {
	total := 0
	for i := range 700 {
		var n int
		if err := s.QueryRow(ctx, fmt.Sprintf(`select id + %d as n%d from customers where id = $1`, i, i), 1+i%40).Scan(&n); err != nil {
			return nil, err
		}
		total += n
	}
	return total, nil
}

func (s *pgxApp) batches(ctx context.Context) (any, error) {
	b := &pgx.Batch{}
	var out []any
	keep := func(r pgx.Rows) error {
		got, err := rows(r, nil)
		out = append(out, got)
		return err
	}
	for i := 1; i <= 10; i++ {
		b.Queue(`update customers set balance = balance + $2 where id = $1`, i, i).Exec(func(tag pgconn.CommandTag) error {
			out = append(out, tag)
			return nil
		})
		b.Queue(`select balance::text from customers where id = $1`, i).Query(keep)
		b.Queue(`insert into orders (customer_id, id, placed) values ($1, $2, '2024-01-01') returning status`, i, 7000+i).Query(keep)
	}
	b.Queue(`select count(*), sum(id) from orders where id > 7000`).Query(keep)
	b.Queue(`delete from orders where id > 7000`).Query(keep)
	b.Queue(`select count(*) from orders where id > 7000`).Query(keep)
	if err := s.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	return list(out, "\n"), nil
}

// batchFails: a batch is one transaction.
func (s *pgxApp) batchFails(ctx context.Context) (any, error) {
	b := &pgx.Batch{}
	for i := 1; i <= 5; i++ {
		b.Queue(`insert into orders (customer_id, id, placed) values ($1, $2, '2024-01-01')`, i, 7000+i)
	}
	b.Queue(`insert into orders (customer_id, id, placed) values (4711, 7010, '2024-01-01')`)
	b.Queue(`select 1`)
	err := s.SendBatch(ctx, b).Close()
	return s.with(ctx, []any{err}, `select count(*) from orders where id > 7000`)
}

// pipeline sends several transactions before it reads an answer.
func (s *pgxApp) pipeline(ctx context.Context) (any, error) {
	p := s.PgConn().StartPipeline(ctx)
	p.SendPrepare("piped", `select name from customers where id = $1`, nil)
	p.SendPipelineSync()
	for i := 1; i <= 20; i++ {
		p.SendQueryPrepared("piped", [][]byte{fmt.Append(nil, i)}, nil, nil)
		p.SendQueryParams(`update customers set balance = balance + 1 where id = $1`, [][]byte{fmt.Append(nil, i)}, nil, nil, nil)
		if i%5 == 0 {
			p.SendQueryParams(`select count(*), sum(balance) from customers`, nil, nil, nil, nil)
			p.SendPipelineSync()
		}
	}
	p.SendDeallocate("piped")
	out, err := answers(p, p.Sync())
	if err != nil {
		return nil, err
	}
	return list(out, "\n"), nil
}

func (s *pgxApp) pipelineFails(ctx context.Context) (any, error) {
	p := s.PgConn().StartPipeline(ctx)
	for i := 1; i <= 3; i++ {
		p.SendQueryParams(`update customers set balance = balance + 100 where id = $1`, [][]byte{fmt.Append(nil, i)}, nil, nil, nil)
		if i == 2 {
			p.SendQueryParams(`select 1/0`, nil, nil, nil, nil)
		}
		p.SendQueryParams(`select count(*) from orders`, nil, nil, nil, nil)
		p.SendPipelineSync()
	}
	out, err := answers(p, p.Flush())
	if err != nil {
		return nil, err
	}
	return s.with(ctx, out, `select id, balance::text from customers where id < 5 order by id`)
}

// answers reads a pipeline to its end.
func answers(p *pgconn.Pipeline, err error) ([]any, error) {
	if err != nil {
		return nil, err
	}
	var out []any
	for {
		got, err := p.GetResults()
		var failed *pgconn.PgError
		switch {
		case errors.As(err, &failed):
			out = append(out, failed)
			continue
		case err != nil:
			return nil, err
		case got == nil:
			return out, p.Close()
		}
		switch got := got.(type) {
		case *pgconn.ResultReader:
			r := got.Read()
			out = append(out, fmt.Sprintf("%q %s", r.Rows, r.CommandTag), r.Err)
		case *pgconn.StatementDescription:
			out = append(out, names(got.Fields))
		default:
			out = append(out, fmt.Sprintf("%T", got))
		}
	}
}
