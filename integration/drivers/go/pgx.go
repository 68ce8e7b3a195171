package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// modes are the ways in which pgx can put a query.
var modes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

// pgxSuite uses pgx as itself: one connection, and a second one where two are needed.
func pgxSuite(r *report) {
	ctx := context.Background()
	r.check("connect", pgxConnect)
	conn, err := pgx.Connect(ctx, "")
	if err != nil {
		r.check("connection", func(context.Context) (any, error) { return nil, err })
		return
	}
	defer func() { _ = conn.Close(ctx) }()
	s := &pgxApp{conn}
	r.check("migrations", func(ctx context.Context) (any, error) {
		return makeShop(ctx, func(ctx context.Context, sql string) error {
			_, err := conn.Exec(ctx, sql)
			return err
		})
	})
	for _, mode := range modes {
		r.check("questions "+mode.String(), func(ctx context.Context) (any, error) { return s.ask(ctx, mode) })
	}
	r.check("create read update delete", s.crud)
	r.check("relations", s.relations)
	r.check("bulk insert", s.bulk)
	r.check("copy in", s.copyIn)
	r.check("copy in fails", s.copyFails)
	r.check("copy out", s.copyOut)
	r.check("transactions", s.transactions)
	r.check("savepoints", s.savepoints)
	r.check("isolation", s.isolation)
	r.check("cursors", s.cursors)
	r.check("prepared statements", s.prepared)
	r.check("prepared by sql", s.sqlPrepared)
	r.check("many texts", s.manyTexts)
	for _, mode := range modes {
		r.check("types "+mode.String(), func(ctx context.Context) (any, error) { return s.types(ctx, mode) })
	}
	r.check("own types", s.ownTypes)
	r.check("formats", s.formats)
	r.check("errors", s.errors)
	r.check("errors in a block", s.errorsInBlock)
	r.check("batches", s.batches)
	r.check("batch fails", s.batchFails)
	r.check("pipeline", s.pipeline)
	r.check("pipeline fails", s.pipelineFails)
	r.check("cancel", s.cancel)
	r.check("timeouts", s.timeouts)
	r.check("context ends", pgxContextEnds)
	r.check("listen and notify", s.listen)
	r.check("settings", s.settings)
	r.check("temporary tables", s.temporary)
	r.check("large rows", s.large)
	r.check("reconnect", pgxReconnect)
}

// pgxConnect logs in with SCRAM over TLS, with and without channel binding, and fails to otherwise.
func pgxConnect(ctx context.Context) (any, error) {
	var said []any
	for _, options := range []string{
		"channel_binding=require", "channel_binding=disable", "sslmode=verify-full host=localhost hostaddr=127.0.0.1",
		"password=wrong", "user=stranger", "sslmode=disable", "dbname=nosuch", "application_name=suite default_query_exec_mode=exec",
	} {
		conn, err := pgx.Connect(ctx, strings.ReplaceAll(options, " hostaddr=127.0.0.1", ""))
		if err != nil {
			var e *pgconn.PgError
			if !errors.As(err, &e) {
				return nil, fmt.Errorf("%s: %w", options, err)
			}
			said = append(said, options+": "+e.Code)
			continue
		}
		said = append(said, options+": in")
		if err := conn.Ping(ctx); err != nil {
			return nil, err
		}
		if err := conn.Close(ctx); err != nil {
			return nil, err
		}
	}
	return list(said, "\n"), nil
}

// pgxApp is the shop on one connection.
type pgxApp struct{ *pgx.Conn }

// rows reads a whole answer, with the names and types of its columns.
func rows(r pgx.Rows, err error) ([][]any, error) {
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var out [][]any
	for r.Next() {
		values, err := r.Values()
		if err != nil {
			return nil, err
		}
		out = append(out, values)
	}
	return append(out, []any{r.CommandTag().String()}), r.Err()
}

func (s *pgxApp) ask(ctx context.Context, mode pgx.QueryExecMode) (any, error) {
	var out []any
	for range 2 { // the second time from pgx's cache, and from weft's
		for _, q := range questions {
			got, err := rows(s.Query(ctx, q.sql, append([]any{mode}, q.args...)...))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", q.name, err)
			}
			out = append(out, q.name, got)
		}
	}
	return list(out, "\n"), nil
}

func (s *pgxApp) crud(ctx context.Context) (any, error) {
	var id int64
	var created time.Time
	if err := s.QueryRow(ctx, `insert into customers (name, tags) values ($1, $2) returning id, created`, "ada", []string{"new", "it's"}).Scan(&id, &created); err != nil {
		return nil, err
	}
	if id <= 1000 {
		return nil, fmt.Errorf("the id %d was used before", id)
	}
	out := []any{created}
	for _, sql := range []string{
		`update customers set name = name || '!', balance = balance + 1.25 where id = $1 returning name, balance::text, tags`,
		`insert into customers (id, name) values ($1, 'other') on conflict (id) do update set name = excluded.name || ' of ' || customers.name returning name`,
		`insert into customers (id, name) values ($1, 'other') on conflict do nothing`,
		`select name, tags from customers where id = $1`,
		`delete from customers where id = $1 returning name`,
		`delete from customers where id = $1`,
	} {
		got, err := rows(s.Query(ctx, sql, id))
		if err != nil {
			return nil, err
		}
		out = append(out, got)
	}
	for _, sql := range []string{ // of all shards
		`update customers set balance = balance + 1 where vip`,
		`update products set price = price + 1 where id <= 3`,
		`update orders o set status = 'late' from customers c where c.id = o.customer_id and c.mood = 'sad' and o.status = 'open'`,
		`delete from orders where note @> '{"n": 7}'`,
		`select status, count(*) from orders group by status order by status`,
		`select sum(balance)::text from customers`,
	} {
		got, err := rows(s.Query(ctx, sql))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sql, err)
		}
		out = append(out, got)
	}
	return list(out, "\n"), nil
}

// relations reads customers with their orders, one query for each, as an application does by hand.
func (s *pgxApp) relations(ctx context.Context) (any, error) {
	type order struct {
		ID         int64
		CustomerID int64
		Status     string
		Note       map[string]any
	}
	type customer struct {
		ID     int64
		Name   string
		Orders []order `db:"-"`
	}
	r, err := s.Query(ctx, `select id, name from customers where id between $1 and $2 order by id`, 10, 14)
	if err != nil {
		return nil, err
	}
	customers, err := pgx.CollectRows(r, pgx.RowToStructByName[customer])
	if err != nil {
		return nil, err
	}
	ids := make([]int64, len(customers))
	at := map[int64]int{}
	for i, c := range customers {
		ids[i], at[c.ID] = c.ID, i
	}
	r, err = s.Query(ctx, `select id, customer_id, status, note from orders where customer_id = any($1) order by id`, ids)
	if err != nil {
		return nil, err
	}
	orders, err := pgx.CollectRows(r, pgx.RowToStructByPos[order])
	if err != nil {
		return nil, err
	}
	for _, o := range orders {
		customers[at[o.CustomerID]].Orders = append(customers[at[o.CustomerID]].Orders, o)
	}
	return customers, nil
}

func (s *pgxApp) bulk(ctx context.Context) (any, error) {
	var text strings.Builder
	var args []any
	for i := range 300 {
		if i > 0 {
			text.WriteString(", ")
		}
		fmt.Fprintf(&text, "($%d, $%d)", 2*i+1, 2*i+2)
		args = append(args, 2000+i, fmt.Sprintf("bulk %d", i))
	}
	tag, err := s.Exec(ctx, `insert into customers (id, name) values `+text.String(), args...)
	if err != nil {
		return nil, err
	}
	ids, names := make([]int64, 500), make([]string, 500)
	for i := range ids {
		ids[i], names[i] = int64(3000+i), fmt.Sprintf("unnested %d", i)
	}
	tag2, err := s.Exec(ctx, `insert into customers (id, name) select * from unnest($1::bigint[], $2::text[])`, ids, names)
	if err != nil {
		return nil, err
	}
	return s.with(ctx, []any{tag, tag2}, `select count(*), min(name), max(name) from customers where id >= 2000`, `delete from customers where id >= 2000`)
}

// with adds the answers of further statements.
func (s *pgxApp) with(ctx context.Context, out []any, statements ...string) (any, error) {
	for _, sql := range statements {
		got, err := rows(s.Query(ctx, sql))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sql, err)
		}
		out = append(out, got)
	}
	return list(out, "\n"), nil
}

func (s *pgxApp) copyIn(ctx context.Context) (any, error) {
	input := make([][]any, 1000)
	for i := range input {
		input[i] = []any{4000 + i, fmt.Sprintf("copied\t%d\n\\", i), []string{"a", "b\"c"}}
	}
	n, err := s.CopyFrom(ctx, pgx.Identifier{"customers"}, []string{"id", "name", "tags"}, pgx.CopyFromRows(input))
	if err != nil {
		return nil, err
	}
	// As text, and without the id, which then comes from the sequence.
	tag, err := s.PgConn().CopyFrom(ctx, strings.NewReader("x\t5\ny\t6.5\n"), `copy customers (name, balance) from stdin`)
	if err != nil {
		return nil, err
	}
	return s.with(ctx, []any{n, tag}, `select count(*), min(name), max(tags) from customers where id >= 4000`,
		`select name, balance::text from customers where id between 1001 and 3999 order by name`, `delete from customers where id > 1000`)
}

func (s *pgxApp) copyFails(ctx context.Context) (any, error) {
	_, err := s.PgConn().CopyFrom(ctx, strings.NewReader("5001,a\n5002,b\n7,taken\n5003,c\n"), `copy customers (id, name) from stdin csv`)
	_, err2 := s.CopyFrom(ctx, pgx.Identifier{"customers"}, []string{"id", "name"}, pgx.CopyFromFunc(func() ([]any, error) { return nil, errors.New("source ended") }))
	return s.with(ctx, []any{err, err2}, `select count(*) from customers where id > 1000`)
}

func (s *pgxApp) copyOut(ctx context.Context) (any, error) {
	var out []any
	for _, sql := range []string{
		`copy (select id, name, mood, home from customers order by id) to stdout csv header`,
		`copy (select * from kinds where id = 3) to stdout`,
		`copy (select customer_id, count(*) from orders group by 1 order by 1) to stdout (format binary)`,
		`copy products to stdout`,
	} {
		var text bytes.Buffer
		tag, err := s.PgConn().CopyTo(ctx, &text, sql)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sql, err)
		}
		out = append(out, tag, fmt.Sprintf("%q", text.String()))
	}
	return list(out, "\n"), nil
}
