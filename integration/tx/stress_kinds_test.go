package tx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// What the clients of TestStress do.

// everything is what clients do.
var everything = []func(*stressor) (fate, error){
	(*stressor).transfer, (*stressor).transfer, (*stressor).insert, (*stressor).text, (*stressor).batch, (*stressor).copies,
	(*stressor).copyInBlock, (*stressor).move, (*stressor).scatter, (*stressor).upsert, (*stressor).reference,
}

var mixes = []mix{
	{name: "all", kill: true, alter: true, ops: everything},
	{name: "blocks", ops: []func(*stressor) (fate, error){(*stressor).transfer, (*stressor).transfer, (*stressor).transfer, (*stressor).move, (*stressor).scatter}},
	{name: "statements", ops: []func(*stressor) (fate, error){(*stressor).insert, (*stressor).text, (*stressor).upsert, (*stressor).batch, (*stressor).scatter, (*stressor).reference}},
	{name: "copies", ops: []func(*stressor) (fate, error){(*stressor).copies, (*stressor).copyInBlock, (*stressor).batch}},
	{name: "ddl", alter: true, ops: []func(*stressor) (fate, error){(*stressor).transfer, (*stressor).insert, (*stressor).batch, (*stressor).copies}},
	{name: "kill", kill: true, ops: everything},
}

// exec runs a statement, disturbed, in one of the protocols.
func (c *stressor) exec(sql string, args ...any) (tag string, err error) {
	c.about = sql
	err = c.disturbed(func(ctx context.Context) error {
		mode := []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement}[c.IntN(3)]
		got, err := c.conn.Exec(ctx, sql, append([]any{mode}, args...)...)
		tag = got.String()
		return err
	})
	return tag, err
}

// judge is what an answer to something that commits says.
func judge(err error) fate {
	e := (*pgconn.PgError)(nil)
	switch {
	case err == nil:
		return there
	case !errors.As(err, &e), e.Severity == "FATAL", e.Code == "08007":
		return unknown
	}
	return nowhere
}

// key returns a key of its own; with the transaction in it, so that one can tell
// what a row belongs to.
func (c *stressor) key(i int) int64 { return c.tx*1000 + int64(i) }

// rows says how many rows the transaction is going to write.
func (c *stressor) rows(n int) {
	c.mu.Lock()
	c.sizes[c.tx] = n
	c.mu.Unlock()
}

// two returns two accounts, mostly in the order that keeps deadlocks rare: those
// take time.
func (c *stressor) two() (a, b int64) {
	a, b = c.account(), c.account()
	if a > b && c.IntN(20) > 0 {
		a, b = b, a
	}
	return a, b
}

func (c *stressor) account() int64 {
	keys := c.keys[c.IntN(shards)]
	return keys[c.IntN(len(keys))]
}

const (
	give  = "update acct set balance = balance + $2 where id = $1"
	enter = "insert into journal (id, tx, mail) values ($1, $2, 'm' || $1::bigint), ($3, $2, 'm' || $3::bigint)"
)

// transfer is a block with or without savepoints.
func (c *stressor) transfer() (fate, error) {
	c.rows(2)
	from, to := c.two()
	steps := []func() error{
		func() error { return c.step("begin") },
		func() error { return c.step(give, from, 5) },
		func() error { return c.step(give, to, -5) },
		func() error { return c.step(enter, c.key(0), c.tx, c.key(1)) },
	}
	if c.IntN(2) == 0 {
		steps = slices.Insert(steps, 1+c.IntN(2), c.digress)
	}
	for _, f := range steps {
		if err := f(); err != nil {
			return nowhere, err
		}
		if c.IntN(20) == 0 {
			time.Sleep(time.Duration(c.IntN(20)) * time.Millisecond)
		}
	}
	switch c.IntN(8) {
	case 0:
		return nowhere, c.step("rollback")
	case 1:
		_ = c.conn.PgConn().Conn().Close()
		_ = c.conn.Close(context.Background())
		return nowhere, nil
	}
	return c.commit()
}

func (c *stressor) step(sql string, args ...any) error {
	_, err := c.exec(sql, args...)
	return err
}

// commit ends the block.
func (c *stressor) commit() (fate, error) {
	tag, err := c.exec("commit")
	if err == nil && tag != "COMMIT" {
		return nowhere, nil
	}
	return judge(err), err
}

// digress sets a savepoint and goes back to it, maybe after an error.
func (c *stressor) digress() error {
	if err := c.step("savepoint s"); err != nil {
		return err
	}
	if err := c.step(give, c.account(), 100*(1-c.IntN(2)*2)); err != nil && c.conn.IsClosed() {
		return err
	}
	if err := c.step(enter, c.key(10), c.tx, c.key(11)); err != nil && c.conn.IsClosed() {
		return err
	}
	return c.step("rollback to s")
}

// insert is one statement of several shards.
func (c *stressor) insert() (fate, error) {
	n := 1 + c.IntN(12)
	c.rows(n)
	var values []string
	for i := range n {
		values = append(values, fmt.Sprintf("(%d, %d, 'm%[1]d')", c.key(i), c.tx))
	}
	err := c.step("insert into journal (id, tx, mail) values " + strings.Join(values, ", ") + []string{"", " returning id"}[c.IntN(2)])
	return judge(err), err
}

// text is several statements in one text.
func (c *stressor) text() (fate, error) {
	c.rows(2)
	from, to := c.two()
	sql := fmt.Sprintf("update acct set balance = balance + 3 where id = %d; update acct set balance = balance - 3 where id = %d;"+
		"insert into journal (id, tx) values (%d, %[4]d); insert into journal (id, tx) values (%[5]d, %[4]d)",
		from, to, c.key(0), c.tx, c.key(1))
	c.about = sql
	err := c.disturbed(func(ctx context.Context) error {
		_, err := c.conn.PgConn().Exec(ctx, sql).ReadAll()
		return err
	})
	return judge(err), err
}

// batch is a pipeline, with one Sync.
func (c *stressor) batch() (fate, error) {
	c.rows(4)
	c.about = "batch"
	from, to := c.two()
	err := c.disturbed(func(ctx context.Context) error {
		var b pgx.Batch
		b.Queue(give, from, 7)
		b.Queue(enter, c.key(0), c.tx, c.key(1))
		b.Queue(give, to, -7)
		b.Queue("select count(*) from acct")
		b.Queue(enter, c.key(2), c.tx, c.key(3))
		return c.conn.SendBatch(ctx, &b).Close()
	})
	return judge(err), err
}

// copies loads rows.
func (c *stressor) copies() (fate, error) {
	n := 1 + c.IntN(400)
	c.rows(n)
	c.about = "copy"
	err := c.disturbed(func(ctx context.Context) error {
		_, err := c.conn.CopyFrom(ctx, pgx.Identifier{"journal"}, []string{"id", "tx", "mail"}, pgx.CopyFromSlice(n, func(i int) ([]any, error) {
			return []any{c.key(i), c.tx, fmt.Sprintf("m%d", c.key(i))}, nil
		}))
		return err
	})
	return judge(err), err
}

// copyInBlock loads rows beside a transfer.
func (c *stressor) copyInBlock() (fate, error) {
	from, to := c.two()
	if err := c.step("begin"); err != nil {
		return nowhere, err
	}
	if err := c.step(give, from, 2); err != nil {
		return nowhere, err
	}
	if f, err := c.copies(); f != there {
		return nowhere, err
	}
	if err := c.step(give, to, -2); err != nil {
		return nowhere, err
	}
	return c.commit()
}

// scatter changes rows on all shards, and takes the change back within the block.
func (c *stressor) scatter() (fate, error) {
	c.rows(0)
	if c.IntN(2) == 0 {
		err := c.step("update acct set note = $1::text, balance = balance + 1 - 1", fmt.Sprint(c.tx))
		return judge(err), err
	}
	for _, sql := range []string{"begin", "update acct set balance = balance + 1", "update ref set v = v + 1", "update acct set balance = balance - 1"} {
		if err := c.step(sql); err != nil {
			return nowhere, err
		}
	}
	return c.commit()
}

// move gives rows of its own other keys, which are on other shards.
func (c *stressor) move() (fate, error) {
	c.rows(2)
	for _, f := range []func() error{
		func() error { return c.step("begin") },
		func() error { return c.step(enter, c.key(0), c.tx, c.key(1)) },
		func() error { return c.step("update journal set id = id + 100 where id = $1", c.key(0)) },
		func() error { return c.step("update journal set n = n + 1, mail = 'x' || id where tx = $1", c.tx) },
	} {
		if err := f(); err != nil {
			return nowhere, err
		}
	}
	return c.commit()
}

// reference writes a reference table beside a sharded one.
func (c *stressor) reference() (fate, error) {
	c.rows(2)
	for _, f := range []func() error{
		func() error { return c.step("begin") },
		func() error { return c.step(enter, c.key(0), c.tx, c.key(1)) },
		func() error { return c.step("update ref set v = v + 1 where id = $1", 1+c.IntN(10)) },
	} {
		if err := f(); err != nil {
			return nowhere, err
		}
	}
	return c.commit()
}

// upsert inserts rows twice, by a unique column that a lookup keeps.
func (c *stressor) upsert() (fate, error) {
	c.rows(3)
	sql := "insert into journal (id, tx, mail) values ($1, $2, $5), ($3, $2, $6), ($4, $2, null) on conflict (id) do update set n = journal.n + 1"
	if c.IntN(2) == 0 {
		sql = strings.Replace(sql, "(id)", "(mail)", 1)
	}
	err := c.step(sql, c.key(0), c.tx, c.key(1), c.key(2), fmt.Sprint("m", c.key(0)), fmt.Sprint("m", c.key(1)))
	return judge(err), err
}
