package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// poolSuite is an application with many goroutines on a pool of connections.
func poolSuite(r *report) {
	ctx := context.Background()
	pool, err := openPool(ctx, 8)
	if err != nil {
		r.check("connection", func(context.Context) (any, error) { return nil, err })
		return
	}
	defer pool.Close()
	s := poolApp{pool}
	r.check("migrations", func(ctx context.Context) (any, error) {
		return makeShop(ctx, func(ctx context.Context, sql string) error {
			_, err := pool.Exec(ctx, sql)
			return err
		})
	})
	r.check("types of every connection", s.types)
	r.check("questions at once", s.ask)
	r.check("transfers at once", s.transfers)
	r.check("counter at once", s.counter)
	r.check("queue", s.queue)
	r.check("copy at once", s.copy)
	r.check("batch", s.batch)
	r.check("listen", s.listen)
	r.check("settings stay", s.settings)
	r.check("waits for a connection", s.exhausted)
	r.check("context ends", s.contextEnds)
	r.check("reconnect", s.reconnect)
}

// openPool opens a pool whose connections know the shop's types.
func openPool(ctx context.Context, size int32) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig("channel_binding=require")
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = size
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		var there bool
		if err := conn.QueryRow(ctx, `select to_regtype('address') is not null`).Scan(&there); err != nil || !there {
			return err
		}
		types, err := conn.LoadTypes(ctx, []string{"mood", "_mood", "address", "_address"})
		if err != nil {
			return err
		}
		conn.TypeMap().RegisterTypes(types)
		return nil
	}
	return pgxpool.NewWithConfig(ctx, cfg)
}

type poolApp struct{ *pgxpool.Pool }

// atOnce does something in many goroutines and returns the first error.
func atOnce(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s poolApp) types(ctx context.Context) (any, error) {
	s.Reset() // the connections there are were opened before the types were made
	var home address
	err := atOnce(8, func(i int) error {
		var mine address
		err := s.QueryRow(ctx, `select home from customers where id = $1`, 3).Scan(&mine)
		if i == 0 {
			home = mine
		}
		return err
	})
	return home, err
}

func (s poolApp) ask(ctx context.Context) (any, error) {
	out := make([]any, len(questions))
	err := atOnce(16, func(int) error {
		for i, q := range questions {
			got, err := rows(s.Query(ctx, q.sql, q.args...))
			if err != nil {
				return fmt.Errorf("%s: %w", q.name, err)
			}
			if i == 0 {
				out[i] = got
			}
		}
		return nil
	})
	return list(out, "\n"), err
}

// transfers moves money between customers of different shards, and then does the books.
func (s poolApp) transfers(ctx context.Context) (any, error) {
	err := atOnce(8, func(i int) error {
		for n := range 10 {
			from, to := 1+(i*7+n)%40, 1+(i*11+n*3+5)%40
			if from == to {
				continue
			}
			err := pgx.BeginFunc(ctx, s, func(tx pgx.Tx) error {
				for _, id := range []int{min(from, to), max(from, to)} { // in one order, so that nobody waits in a circle
					delta := 1
					if id == from {
						delta = -1
					}
					if _, err := tx.Exec(ctx, `update customers set balance = balance + $2 where id = $1`, id, delta); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rows(s.Query(ctx, `select id, balance::text from customers order by id`))
}

func (s poolApp) counter(ctx context.Context) (any, error) {
	err := atOnce(8, func(int) error {
		for range 10 {
			if _, err := s.Exec(ctx, `update products set price = price + 1 where id = 1`); err != nil {
				return err
			}
			if _, err := s.Exec(ctx, `insert into kinds (id, i4) values (70, 1) on conflict (id) do update set i4 = kinds.i4 + 1`); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rows(s.Query(ctx, `select price::text, (select i4 from kinds where id = 70) from products where id = 1`))
}

// queue takes jobs with SKIP LOCKED: each is done once.
func (s poolApp) queue(ctx context.Context) (any, error) {
	if _, err := s.Exec(ctx, `insert into orders (customer_id, id, status, placed) select i % 40 + 1, 8000 + i, 'job', '2024-01-01' from generate_series(1, 40) i`); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	times := map[int64]int{}
	err := atOnce(6, func(int) error {
		for {
			var id, customer int64
			err := pgx.BeginFunc(ctx, s, func(tx pgx.Tx) error {
				if err := tx.QueryRow(ctx, `select customer_id, id from orders where status = 'job' order by id limit 1 for update skip locked`).Scan(&customer, &id); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, `update orders set status = 'done' where customer_id = $1 and id = $2`, customer, id)
				return err
			})
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			if err != nil {
				return err
			}
			mu.Lock()
			times[id]++
			mu.Unlock()
		}
	})
	if err != nil {
		return nil, err
	}
	for id, n := range times {
		if n != 1 {
			return nil, fmt.Errorf("job %d was done %d times", id, n)
		}
	}
	if len(times) != 40 {
		return nil, fmt.Errorf("%d jobs were done", len(times))
	}
	return rows(s.Query(ctx, `delete from orders where status = 'done'`))
}

func (s poolApp) copy(ctx context.Context) (any, error) {
	err := atOnce(4, func(i int) error {
		_, err := s.CopyFrom(ctx, pgx.Identifier{"customers"}, []string{"id", "name", "mood", "home"}, pgx.CopyFromSlice(250, func(n int) ([]any, error) {
			return []any{10000 + i*250 + n, "copied", "sad", address{}}, nil
		}))
		return err
	})
	if err != nil {
		return nil, err
	}
	return rows(s.Query(ctx, `with gone as (delete from customers where id >= 10000 returning id, mood) select count(*), sum(id), min(mood), max(mood) from gone`))
}

func (s poolApp) batch(ctx context.Context) (any, error) {
	b := &pgx.Batch{}
	for i := range 30 {
		b.Queue(`select name from customers where id = $1`, i+1)
	}
	return nil, s.SendBatch(ctx, b).Close()
}

func (s poolApp) listen(ctx context.Context) (any, error) {
	conn, err := s.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, `listen jobs`); err != nil {
		return nil, err
	}
	if err := atOnce(5, func(int) error { _, err := s.Exec(ctx, `notify jobs, 'one more'`); return err }); err != nil {
		return nil, err
	}
	for range 5 {
		n, err := conn.Conn().WaitForNotification(ctx)
		if err != nil {
			return nil, err
		}
		if n.Payload != "one more" {
			return nil, fmt.Errorf("notification %q", n.Payload)
		}
	}
	_, err = conn.Exec(ctx, `unlisten *`)
	return "five", err
}

// settings of one connection of the pool are not another's.
func (s poolApp) settings(ctx context.Context) (any, error) {
	one, err := s.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer one.Release()
	if _, err := one.Exec(ctx, `set application_name = 'one'; set work_mem = '7MB'`); err != nil {
		return nil, err
	}
	if err := atOnce(7, func(int) error {
		var mem string
		if err := s.QueryRow(ctx, `select current_setting('work_mem') from customers where id = 2`).Scan(&mem); err != nil {
			return err
		}
		return want("work_mem", mem, "4MB")
	}); err != nil {
		return nil, err
	}
	got, err := rows(one.Query(ctx, `select current_setting('work_mem'), current_setting('application_name') from customers where id = 2`))
	if err != nil {
		return nil, err
	}
	_, err = one.Exec(ctx, `reset all`)
	return got, err
}

func (s poolApp) exhausted(ctx context.Context) (any, error) {
	small, err := openPool(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer small.Close()
	tx, err := small.Begin(ctx)
	if err != nil {
		return nil, err
	}
	soon, stop := context.WithTimeout(ctx, 100*time.Millisecond)
	defer stop()
	_, err = small.Exec(soon, `select 1`)
	return errors.Is(err, context.DeadlineExceeded), tx.Rollback(ctx)
}

// contextEnds leaves statements behind; the pool goes on with other connections.
func (s poolApp) contextEnds(ctx context.Context) (any, error) {
	err := atOnce(4, func(int) error {
		soon, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		defer stop()
		_, err := s.Exec(soon, `select count(*), pg_sleep(3) from customers`)
		if !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("ended with %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rows(s.Query(ctx, `select count(*) from customers`))
}

// reconnect: a pool finds out by itself that its connections are gone.
func (s poolApp) reconnect(ctx context.Context) (any, error) {
	if err := atOnce(8, func(int) error { _, err := s.Exec(ctx, `select count(*) from customers`); return err }); err != nil {
		return nil, err
	}
	if err := shell(ctx, "RESTART", ""); err != nil {
		return nil, err
	}
	if err := atOnce(8, func(int) error {
		return eventually(ctx, func(ctx context.Context) error {
			_, err := s.Exec(ctx, `select sum(balance) from customers`)
			return err
		})
	}); err != nil {
		return nil, err
	}
	return rows(s.Query(ctx, `select count(*), sum(balance)::text from customers`))
}
