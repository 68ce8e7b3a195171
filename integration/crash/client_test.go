package crash

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// client reads and writes keys of its own, and knows what it was told of them.
type client struct {
	w     *world
	id    int
	proxy int

	acked  map[int64]int64 // by key: the value that was acknowledged
	unsure map[int64]bool  // written, but never answered: v or v+1, there or not

	writes, reads, errors int
	codes                 map[string]int
}

// run works until ctx ends. It may run only while no quiesce does.
func (c *client) run(ctx context.Context) {
	c.codes = map[string]int{}
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			_ = conn.Close(context.Background())
		}
	}()
	next := int64(1000000 * (c.id + 1))
	for i := 0; ctx.Err() == nil; i++ {
		if conn == nil || conn.IsClosed() {
			c.w.mu.Lock()
			target := c.w.weft[c.proxy].ConnString("postgres", "dbname="+c.w.db)
			c.w.mu.Unlock()
			cctx, stop := context.WithTimeout(ctx, 5*time.Second)
			cfg, _ := pgx.ParseConfig(target)
			if c.id%3 == 0 {
				cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
			}
			var err error
			conn, err = pgx.ConnectConfig(cctx, cfg)
			stop()
			if err != nil {
				conn = nil
				time.Sleep(50 * time.Millisecond)
				continue
			}
		}
		c.w.busy.RLock()
		ok := true
		switch i % 4 {
		case 0:
			next++
			ok = c.insert(conn, next)
		case 1:
			ok = c.update(conn, int64(c.id*1000+i%500+1))
		case 2:
			ok = c.read(conn, int64(c.id*1000+i%500+1))
		default:
			ok = c.read(conn, next)
		}
		c.w.busy.RUnlock()
		if ok {
			c.w.mu.Lock()
			if c.w.passed != nil {
				c.w.passed[c.id] = true
			}
			c.w.mu.Unlock()
		}
	}
}

// answer sorts an error. known says that the statement has not happened.
func (c *client) answer(err error) (known bool) {
	c.errors++
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		c.codes["lost"]++
		return false
	}
	c.codes[e.Code]++
	switch e.Code {
	case "0A000": // a reference table cannot be written yet
		return true
	case "40001", "55006", "57014":
		return true
	case "08006", "57P01", "57P02", "57P03", "08000", "08001", "08003", "08004", "08007", "53300":
		return false
	}
	c.w.t.Errorf("client %d: %s %s (%s)", c.id, e.Code, e.Message, e.Detail)
	return false
}

func (c *client) ask(conn *pgx.Conn, sql string, args ...any) ([]int64, error) {
	ctx, stop := context.WithTimeout(context.Background(), 2*patience)
	defer stop()
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

func (c *client) insert(conn *pgx.Conn, key int64) bool {
	_, err := c.ask(conn, "insert into d values ($1, 1, 'new') returning v", key)
	switch {
	case err == nil:
		c.acked[key] = 1
		c.writes++
	case !c.answer(err):
		c.unsure[key] = true
	}
	return err == nil || code(err) == "0A000"
}

func (c *client) update(conn *pgx.Conn, key int64) bool {
	got, err := c.ask(conn, "update d set v = v + 1 where id = $1 returning v", key)
	switch {
	case err == nil && len(got) != 1:
		c.w.t.Errorf("client %d: update of %d found %d rows", c.id, key, len(got))
	case err == nil:
		c.check("update", key, got[0]-1)
		c.acked[key] = got[0]
		delete(c.unsure, key)
		c.writes++
	case !c.answer(err):
		c.unsure[key] = true
	}
	return err == nil || code(err) == "0A000"
}

func (c *client) read(conn *pgx.Conn, key int64) bool {
	got, err := c.ask(conn, "select v from d where id = $1", key)
	if err != nil {
		c.answer(err)
		return false
	}
	c.reads++
	_, acked := c.acked[key]
	switch {
	case len(got) > 1:
		c.w.t.Errorf("client %d: %d is there %d times", c.id, key, len(got))
	case len(got) == 1:
		c.check("select", key, got[0])
	case acked || key < tableRows:
		c.w.t.Errorf("client %d: %d is missing (acknowledged: %t)", c.id, key, acked)
	}
	return true
}

// check compares a value with what was acknowledged.
func (c *client) check(what string, key, v int64) {
	want, ok := c.acked[key]
	if v != want && !(c.unsure[key] && (v == want+1 || !ok && v == 1)) {
		c.w.t.Errorf("client %d: %s: %d is %d, acknowledged was %d (unsure: %t)", c.id, what, key, v, want, c.unsure[key])
	}
	if v != want {
		c.acked[key] = v
		delete(c.unsure, key)
	}
}

// judge compares all that was acknowledged with what is there.
func (c *client) judge(got map[int64]int64) {
	for key, want := range c.acked {
		v, ok := got[key]
		if !ok || v != want && !(c.unsure[key] && v == want+1) {
			c.w.t.Errorf("client %d: %d is %d (there: %t), acknowledged was %d, unsure %t", c.id, key, v, ok, want, c.unsure[key])
		}
	}
}
