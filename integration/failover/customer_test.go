package failover

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// customer is a client that does one kind of thing, in one session as long as that lives, and what came of it.
type customer struct {
	kind, proxy string
	number      int
	// shardOf has the shard of each account.
	shardOf map[int64]int

	mu      sync.Mutex
	done    int
	failed  []failure // of this round
	longest time.Duration
	answers []answer // of this round
	acked   []int64  // ids of rows, or numbers of transfers, that were acknowledged
}

// answer is that a shard, or all of them, has had a part in.
type answer struct {
	at    time.Time
	shard int
}

// allShards stands for all shards in an answer.
const allShards = -1

// failure is an error that a client has met.
type failure struct {
	at    time.Time
	login bool   // the client could not log in
	code  string // SQLSTATE, if the proxy has answered
	text  string
}

func (f failure) String() string { return f.at.Format("15:04:05.000") + " " + f.text }

// reads reports whether the client only reads.
func (u *customer) reads() bool { return u.kind == "read" || u.kind == "sum" }

// newCustomers returns clients of all kinds, in turns at the proxies.
func newCustomers(shardOf map[int64]int, proxies ...string) (all []*customer) {
	for i, kind := range []string{"insert", "insert", "drawn", "drawn", "read", "read", "sum", "transfer", "transfer", "transfer"} {
		all = append(all, &customer{kind: kind, proxy: proxies[i%len(proxies)], number: i, shardOf: shardOf})
	}
	return all
}

// serveAll lets clients work until stop is called.
func serveAll(ctx context.Context, all []*customer) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	for _, u := range all {
		wait.Go(func() { u.serve(ctx, len(all)) })
	}
	return func() {
		cancel()
		wait.Wait()
	}
}

// serve does things until ctx ends.
func (u *customer) serve(ctx context.Context, customers int) {
	var c *pgx.Conn
	for i := u.number; ctx.Err() == nil; i += customers {
		began := time.Now()
		var err error
		login := false
		if c == nil || c.IsClosed() {
			c, err = pgx.Connect(context.Background(), "postgres://postgres@"+u.proxy+"/app?sslmode=disable")
			login = err != nil
		}
		id := int64(i)
		if err == nil {
			id, err = u.act(c, id)
		}
		u.note(id, began, login, err)
		time.Sleep(*think)
	}
	if c != nil {
		_ = c.Close(context.Background())
	}
}

// act does one thing and returns the id of the row that it has added or read.
func (u *customer) act(c *pgx.Conn, i int64) (id int64, err error) {
	ctx := context.Background()
	switch u.kind {
	case "insert":
		_, err = c.Exec(ctx, "insert into t (id) values ($1)", i)
		return i, err
	case "drawn":
		err = c.QueryRow(ctx, "insert into u (who) values ($1) returning id", i).Scan(&id)
		return id, err
	case "read":
		var n int
		id = i % accounts
		return id, c.QueryRow(ctx, "select balance from account where id = $1", id).Scan(&n)
	case "sum":
		var n int
		err = c.QueryRow(ctx, "select count(*) from account").Scan(&n)
		if err == nil && n != accounts {
			err = fmt.Errorf("there are %d accounts", n)
		}
		return 0, err
	}
	err = entered(ctx, c, i, u.answered)
	if c.PgConn().TxStatus() != 'I' && !c.IsClosed() {
		_, _ = c.Exec(ctx, "rollback")
	}
	return i, err
}

// entered is a transfer that enters its number on both sides. It tells of each account that a shard has changed.
func entered(ctx context.Context, c *pgx.Conn, i int64, changed func(account int64)) error {
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		a, b := sides(int(i))
		for _, account := range []int{a, b} {
			if _, err := tx.Exec(ctx, "insert into journal (account, number) values ($1, $2)", account, i); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, "update account set balance = balance - 1 where id = $1", a); err != nil {
			return err
		}
		changed(int64(a))
		if _, err := tx.Exec(ctx, "update account set balance = balance + 1 where id = $1", b); err != nil {
			return err
		}
		changed(int64(b))
		return nil
	})
}

// answered notes that the shard of an account has answered.
func (u *customer) answered(account int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.answers = append(u.answers, answer{time.Now(), u.shardOf[account]})
}

func (u *customer) note(id int64, began time.Time, login bool, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.longest = max(u.longest, time.Since(began))
	if err == nil {
		u.done++
		switch u.kind {
		case "sum":
			u.answers = append(u.answers, answer{time.Now(), allShards})
		case "read":
			u.answers = append(u.answers, answer{time.Now(), u.shardOf[id]})
		}
		if !u.reads() {
			u.acked = append(u.acked, id)
		}
		return
	}
	f := failure{at: time.Now(), login: login, text: u.kind + ": " + err.Error()}
	if e := (*pgconn.PgError)(nil); errors.As(err, &e) {
		f.code = e.Code
	}
	u.failed = append(u.failed, f)
	if login || f.code == "" {
		time.Sleep(20 * time.Millisecond)
	}
}

// take returns what happened since the last call.
func (u *customer) take() (done int, failed []failure, longest time.Duration, answers []answer) {
	u.mu.Lock()
	defer u.mu.Unlock()
	done, failed, longest, answers = u.done, u.failed, u.longest, u.answers
	u.done, u.failed, u.longest, u.answers = 0, nil, 0, nil
	return done, failed, longest, answers
}
