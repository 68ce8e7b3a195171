package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// sqlApp is the shop under database/sql; the two drivers differ in what is below.
type sqlApp struct {
	*sql.DB
	code func(error) string   // SQLSTATE
	list func(values any) any // an argument that is an array
}

// sqlChecks are those that both drivers pass in the same way.
func sqlChecks(r *report, s *sqlApp) {
	r.check("migrations", func(ctx context.Context) (any, error) {
		return makeShop(ctx, func(ctx context.Context, sql string) error {
			_, err := s.ExecContext(ctx, sql)
			return err
		})
	})
	r.check("questions", s.ask)
	r.check("questions of prepared statements", s.askPrepared)
	r.check("questions at once", func(ctx context.Context) (any, error) {
		return nil, atOnce(6, func(int) error { _, err := s.ask(ctx); return err })
	})
	r.check("create read update delete", s.crud)
	r.check("bulk insert", s.bulk)
	r.check("transactions", s.transactions)
	r.check("isolation", s.isolation)
	r.check("savepoints", s.savepoints)
	r.check("cursors", s.cursors)
	r.check("prepared statements", s.prepared)
	r.check("types", s.types)
	r.check("columns", s.columns)
	r.check("errors", s.errors)
	r.check("cancel", s.cancel)
	r.check("timeouts", s.timeouts)
	r.check("several statements", s.several)
	r.check("reconnect", s.reconnect)
}

// read reads a whole answer.
func read(r *sql.Rows, err error) ([][]any, error) {
	if err != nil {
		return nil, err
	}
	defer r.Close()
	columns, err := r.Columns()
	if err != nil {
		return nil, err
	}
	var out [][]any
	for r.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := r.Scan(into...); err != nil {
			return nil, err
		}
		out = append(out, values)
	}
	return out, r.Err()
}

// arguments are a question's, as the driver wants them.
func (s *sqlApp) arguments(q question) []any {
	out := make([]any, len(q.args))
	for i, a := range q.args {
		if _, isList := a.([]int64); isList {
			a = s.list(a)
		}
		out[i] = a
	}
	return out
}

func (s *sqlApp) ask(ctx context.Context) (any, error) {
	var out []any
	for _, q := range questions {
		got, err := read(s.QueryContext(ctx, q.sql, s.arguments(q)...))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.name, err)
		}
		out = append(out, q.name, got)
	}
	return list(out, "\n"), nil
}

func (s *sqlApp) askPrepared(ctx context.Context) (any, error) {
	var out []any
	for _, q := range questions {
		st, err := s.PrepareContext(ctx, q.sql)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.name, err)
		}
		for range 8 {
			got, err := read(st.QueryContext(ctx, s.arguments(q)...))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", q.name, err)
			}
			out = append(out, q.name, got)
		}
		if err := st.Close(); err != nil {
			return nil, err
		}
	}
	return list(out, "\n"), nil
}

// do runs statements and notes their answers, or how many rows they changed.
func (s *sqlApp) do(ctx context.Context, out []any, statements ...string) (any, error) {
	for _, text := range statements {
		if strings.HasPrefix(text, "select") || strings.HasPrefix(text, "show") || strings.Contains(text, "returning") || strings.HasPrefix(text, "fetch") {
			got, err := read(s.QueryContext(ctx, text))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", text, err)
			}
			out = append(out, got)
			continue
		}
		got, err := s.ExecContext(ctx, text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		n, _ := got.RowsAffected() // some have no number
		out = append(out, n)
	}
	return list(out, "\n"), nil
}

func (s *sqlApp) crud(ctx context.Context) (any, error) {
	var id int64
	var tags string
	if err := s.QueryRowContext(ctx, `insert into customers (name, tags) values ($1, $2) returning id, tags::text`, "ada", `{new,"it's"}`).Scan(&id, &tags); err != nil {
		return nil, err
	}
	if id <= 1000 {
		return nil, fmt.Errorf("the id %d was used before", id)
	}
	out := []any{tags}
	for _, text := range []string{
		`update customers set name = name || '!', balance = balance + 1.25 where id = $1`,
		`insert into customers (id, name) values ($1, 'other') on conflict (id) do update set name = excluded.name || ' of ' || customers.name`,
		`insert into customers (id, name) values ($1, 'other') on conflict do nothing`,
		`delete from customers where id = $1`, `delete from customers where id = $1`,
	} {
		got, err := s.ExecContext(ctx, text, id)
		if err != nil {
			return nil, err
		}
		n, err := got.RowsAffected()
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return s.do(ctx, out, `update customers set balance = balance + 1 where vip`, `update products set price = price + 1 where id <= 3`,
		`delete from orders where note @> '{"n": 7}'`, `select status, count(*) from orders group by status order by status`)
}

func (s *sqlApp) bulk(ctx context.Context) (any, error) {
	var text strings.Builder
	var args []any
	for i := range 200 {
		if i > 0 {
			text.WriteString(", ")
		}
		fmt.Fprintf(&text, "($%d, $%d)", 2*i+1, 2*i+2)
		args = append(args, 2000+i, fmt.Sprintf("bulk %d", i))
	}
	if _, err := s.ExecContext(ctx, `insert into customers (id, name) values `+text.String(), args...); err != nil {
		return nil, err
	}
	return s.do(ctx, nil, `select count(*), min(name), max(name) from customers where id >= 2000`, `delete from customers where id >= 2000`)
}

func (s *sqlApp) transactions(ctx context.Context) (any, error) {
	for i := 1; i < 10; i++ {
		tx, err := s.BeginTx(ctx, nil)
		if err != nil {
			return nil, err
		}
		for id, delta := range map[int]int{i: -5, i + 1: 5} {
			if _, err := tx.ExecContext(ctx, `update customers set balance = balance + $2 where id = $1`, id, delta); err != nil {
				return nil, errors.Join(err, tx.Rollback())
			}
		}
		end := tx.Commit
		if i%3 == 0 {
			end = tx.Rollback
		}
		if err := end(); err != nil {
			return nil, err
		}
	}
	// A context that ends rolls back.
	inner, stop := context.WithCancel(ctx)
	tx, err := s.BeginTx(inner, nil)
	if err != nil {
		stop()
		return nil, err
	}
	_, err = tx.ExecContext(ctx, `update customers set balance = 0`)
	stop()
	if err != nil {
		return nil, err
	}
	return s.do(ctx, []any{tx.Commit() != nil}, `select id, balance::text from customers where id < 12 order by id`)
}

func (s *sqlApp) isolation(ctx context.Context) (any, error) {
	var out []any
	for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead} {
		tx, err := s.BeginTx(ctx, &sql.TxOptions{Isolation: level, ReadOnly: true})
		if err != nil {
			return nil, err
		}
		got, err := read(tx.QueryContext(ctx, `select current_setting('transaction_isolation'), current_setting('transaction_read_only'), count(*) from customers`))
		if err != nil {
			return nil, errors.Join(err, tx.Rollback())
		}
		_, refused := tx.ExecContext(ctx, `update customers set balance = 0`)
		out = append(out, got, s.code(refused))
		if err := tx.Rollback(); err != nil {
			return nil, err
		}
	}
	return list(out, "\n"), nil
}

func (s *sqlApp) savepoints(ctx context.Context) (any, error) {
	tx, err := s.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	var out []any
	for i := 1; i <= 6; i++ {
		for _, text := range []string{
			`savepoint s`, fmt.Sprintf(`insert into orders (customer_id, id, placed) values (%d, %d, '2024-01-01')`, i, 6000+i),
			fmt.Sprintf(`insert into orders (customer_id, id, placed) values (%d, %d, '2024-01-01')`, i, 6000+i+i%2),
		} {
			_, err := tx.ExecContext(ctx, text)
			out = append(out, s.code(err))
		}
		end := `release savepoint s`
		if out[len(out)-1] != "" {
			end = `rollback to savepoint s`
		}
		if _, err := tx.ExecContext(ctx, end); err != nil {
			return nil, err
		}
	}
	if err := tx.Commit(); err != nil {
		return nil, err
	}
	return s.do(ctx, out, `select customer_id, id from orders where id > 6000 order by id`, `delete from orders where id > 6000`)
}

func (s *sqlApp) cursors(ctx context.Context) (any, error) {
	tx, err := s.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, `declare every cursor for select id, name from customers order by id`); err != nil {
		return nil, err
	}
	var out []any
	for {
		got, err := read(tx.QueryContext(ctx, `fetch 9 from every`))
		if err != nil {
			return nil, err
		}
		out = append(out, got)
		if len(got) == 0 {
			return list(out, "\n"), tx.Commit()
		}
	}
}

func (s *sqlApp) prepared(ctx context.Context) (any, error) {
	st, err := s.PrepareContext(ctx, `select name, $2::int from customers where id = $1`)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	err = atOnce(4, func(int) error { // on several connections, each of which prepares it anew
		for i := range 60 {
			var name string
			var n int
			if err := st.QueryRowContext(ctx, 1+i%40, i).Scan(&name, &n); err != nil {
				return err
			}
			if err := want("row", []any{name, n}, []any{fmt.Sprintf("customer %d", 1+i%40), i}); err != nil {
				return err
			}
		}
		return nil
	})
	_, broken := s.PrepareContext(ctx, `select nosuch from customers`)
	return failure(broken), err
}

func (s *sqlApp) types(ctx context.Context) (any, error) {
	at := time.Date(2024, 2, 29, 23, 59, 59, 123456000, time.UTC)
	if _, err := s.ExecContext(ctx, `insert into kinds (id, i2, i4, i8, f8, num, t, b, raw, d, ts, tz, u, j, jb, ia, ta, mood, moods, addr) values (50, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)`,
		-7, 1<<30, int64(-1)<<62, 0.1, "123456789.000100", "ünï \\ ' 日本", true, []byte{0, 1, 255, '\\'}, at, at, at, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
		`{"k": "v"}`, `{"n": [1.5, null]}`, s.list([]int64{1, -2, 3}), s.list([]string{"x", "", "a,b\"c\\"}), "sad", `{happy,ok}`, `("x y",,5)`); err != nil {
		return nil, err
	}
	return s.do(ctx, nil, `select * from kinds where id = 50`, `select * from kinds order by id`, `select max(num), min(tz), sum(iv), avg(f8), array_agg(mood order by id) from kinds`, `delete from kinds where id = 50`)
}

func (s *sqlApp) columns(ctx context.Context) (any, error) {
	var out []any
	for _, text := range []string{`select * from kinds where id = 1`, `select * from kinds order by id`, `select count(*) as n, max(name) from customers`, `update customers set name = name where id = 1 returning id as x, name`} {
		r, err := s.QueryContext(ctx, text)
		if err != nil {
			return nil, err
		}
		columns, err := r.ColumnTypes()
		if err != nil {
			return nil, err
		}
		for _, c := range columns {
			length, hasLength := c.Length()
			precision, scale, has := c.DecimalSize()
			name := c.DatabaseTypeName()
			if name != "" && name[0] >= '0' && name[0] <= '9' {
				name = "own" // a number that each server has its own for
			}
			out = append(out, []any{c.Name(), name, c.ScanType(), length, hasLength, precision, scale, has})
		}
		if err := r.Close(); err != nil {
			return nil, err
		}
	}
	return list(out, "\n"), nil
}

func (s *sqlApp) errors(ctx context.Context) (any, error) {
	var out []any
	for _, b := range blunders {
		_, err := s.ExecContext(ctx, b.sql)
		if code := s.code(err); code != b.code {
			return nil, fmt.Errorf("%s: %w, want %s", b.name, err, b.code)
		}
		_, again := read(s.QueryContext(ctx, b.sql+" "))
		out = append(out, b.name, err, again)
	}
	return s.do(ctx, out, `select count(*) from customers`)
}

func (s *sqlApp) cancel(ctx context.Context) (any, error) {
	var out []any
	for _, text := range []string{`select pg_sleep(20)`, `select count(*), max(pg_sleep(5)::text) from customers`} {
		began := time.Now()
		soon, stop := context.WithTimeout(ctx, 150*time.Millisecond)
		_, err := s.ExecContext(soon, text)
		stop()
		if took := time.Since(began); took > 4*time.Second {
			return nil, fmt.Errorf("%s ended after %v", text, took)
		}
		out = append(out, err != nil)
	}
	return s.do(ctx, out, `select count(*) from customers`)
}

func (s *sqlApp) timeouts(ctx context.Context) (any, error) {
	conn, err := s.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var out []any
	for _, text := range []string{`set statement_timeout = '100ms'`, `select pg_sleep(10)`, `select max(pg_sleep(1)::text) from customers`, `reset statement_timeout`, `select pg_sleep(0.15)`} {
		_, err := conn.ExecContext(ctx, text)
		out = append(out, failure(orNothing(err)))
	}
	return list(out, "\n"), nil
}

func orNothing(err error) error {
	if err == nil {
		return errors.New("no error")
	}
	return err
}

// several statements in one text, which both drivers send as a simple query.
func (s *sqlApp) several(ctx context.Context) (any, error) {
	_, err := s.ExecContext(ctx, `update customers set balance = 1 where id = 1; update customers set balance = 2 where id = 2; select 1/0`)
	if s.code(err) != "22012" {
		return nil, err
	}
	return s.do(ctx, []any{err}, `update customers set balance = 7 where id = 1; update customers set balance = 8 where id = 2`, `select id, balance::text from customers where id < 3 order by id`)
}

func (s *sqlApp) reconnect(ctx context.Context) (any, error) {
	if err := atOnce(4, func(int) error { _, err := s.ExecContext(ctx, `select count(*) from customers`); return err }); err != nil {
		return nil, err
	}
	if err := shell(ctx, "RESTART", ""); err != nil {
		return nil, err
	}
	var got [][]any
	err := eventually(ctx, func(ctx context.Context) (err error) {
		if _, err = s.ExecContext(ctx, `update customers set balance = 1 where id in (1, 2, 3, 4, 5, 6)`); err != nil {
			return err
		}
		got, err = read(s.QueryContext(ctx, `select count(*), sum(balance)::text from customers`))
		return err
	})
	return got, err
}
