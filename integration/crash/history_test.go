package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
	"weft/integration/consistency"
	"weft/pgserver/pgtest"
)

const (
	accounts = 32  // of the bank
	balance  = 100 // of each, in the beginning
	keys     = 12  // that have lists
)

// historian is a client that notes what it does: transfers between accounts, and
// transactions that read lists and append to them.
type historian struct {
	w  *world
	id int
	r  *rand.Rand

	count     int
	history   []consistency.Transaction
	transfers []string // acknowledged
	maybe     int      // not known how they ended
	broken    error    // an error that nobody could have expected
}

// TestHistory makes transactions over all shards through two proxies while these,
// shards and the way to etcd die and come back. In the end the bank has what it
// had, what was acknowledged is there, nothing was seen that never was, nothing
// came before itself, and no transaction is left prepared.
func TestHistory(t *testing.T) {
	w := newWorld(t, "c_history", func(c *config.Config) { c.Pool.ConnectTimeout = pgtest.Stretch(2 * time.Second) })
	w.proxy(func(c *config.Config) { c.Pool.ConnectTimeout = pgtest.Stretch(2 * time.Second) })
	w.bank()
	for _, s := range w.any.Shards() {
		t.Cleanup(func() { revive(t, s) })
	}
	for round := range *rounds {
		w.historic(round)
		if t.Failed() {
			return
		}
	}
}

func (w *world) bank() {
	c := w.conn(0)
	must(w.t, c, `create table account (id bigint primary key, balance bigint not null);
		create table transfer (account bigint, name text, amount bigint, primary key (account, name));
		create table list (key bigint primary key, items text not null default '')`)
	must(w.t, c, fmt.Sprintf("insert into account select i, %d from generate_series(1, %d) i; insert into list select i from generate_series(1, %d) i", balance, accounts, keys))
	for _, sql := range []string{"select weft.shard_table('account', 'id')", "select weft.shard_table('transfer', 'account')", "select weft.shard_table('list', 'key')"} {
		declare(w.t, c, sql)
	}
}

// historic is one round: load, and one thing after the other that dies.
func (w *world) historic(round int) {
	t := w.t
	r := newRand(uint64(1000 + round))
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var clients []*historian
	var n atomic.Int64
	for i := range 12 {
		h := &historian{w: w, id: round*100 + i, r: newRand(uint64(round*100 + i))}
		clients = append(clients, h)
		wg.Go(func() {
			for ctx.Err() == nil && h.broken == nil {
				h.connected(ctx, &n)
			}
		})
	}
	var auditors []*auditor
	for i, mode := range []string{"atomic", "atomic", "shard"} {
		a := &auditor{mode: mode, sql: "select sum(balance)::int8 from account", total: accounts * balance, target: func() string {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.weft[i%2].ConnString("postgres", "dbname="+w.db)
		}}
		auditors = append(auditors, a.start())
	}
	var deaths []string
	for end := time.Now().Add(*long); time.Now().Before(end); {
		time.Sleep(time.Duration(200+r.IntN(800)) * time.Millisecond)
		deaths = append(deaths, w.fault(r))
	}
	time.Sleep(500 * time.Millisecond)
	stop()
	wg.Wait()
	for i, a := range auditors {
		if a.end(t); a.mode == "atomic" && a.wrong.Load() > 0 {
			t.Errorf("auditor %d saw halves of transactions", i)
		}
		t.Logf("round %d: %v", round, a)
	}
	var history []consistency.Transaction
	var transfers []string
	maybe := 0
	for _, h := range clients {
		if h.broken != nil {
			t.Errorf("client %d: %v", h.id, h.broken)
		}
		history, transfers = append(history, h.history...), append(transfers, h.transfers...)
		maybe += h.maybe
	}
	t.Logf("round %d: %d transactions, %d transfers acknowledged, %d not known; %s", round, n.Load(), len(transfers), maybe, strings.Join(deaths, ", "))
	if n.Load() < 20 {
		t.Error("hardly anything was done")
	}
	within(t, 10*time.Second, "no transaction is prepared", func() bool { return w.prepared() == 0 })
	within(t, 20*time.Second, "no decision is left", func() bool { return w.decisions() == 0 })
	w.audit(transfers)
	w.examine(history)
}

// fault makes something die, and brings it back.
func (w *world) fault(r *rand.Rand) string {
	switch r.IntN(5) {
	case 0, 1:
		i := r.IntN(2)
		w.mu.Lock()
		p := w.weft[i]
		w.mu.Unlock()
		p.Signal(w.t, syscall.SIGKILL)
		p.WaitExit(w.t, 5*time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		fresh := w.proxy(func(c *config.Config) { c.Pool.ConnectTimeout = pgtest.Stretch(2 * time.Second) })
		w.weft[i], w.wire[i] = fresh, w.wire[len(w.wire)-1]
		w.weft, w.wire = w.weft[:2], w.wire[:2]
		return "proxy killed"
	case 2:
		s := w.any.Shards()[r.IntN(len(w.any.Shards()))]
		s.Kill()
		time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
		if err := s.Restart(context.Background()); err != nil {
			w.t.Error(err)
		}
		return "shard killed"
	case 3:
		s := w.any.Shards()[r.IntN(len(w.any.Shards()))]
		s.Pause()
		time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
		s.Resume()
		return "shard paused"
	}
	i := r.IntN(2)
	w.mu.Lock()
	c := w.wire[i]
	w.mu.Unlock()
	c.sever()
	time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
	c.reconnect()
	return "etcd cut off"
}

// connected uses one connection until it is lost.
func (h *historian) connected(ctx context.Context, n *atomic.Int64) {
	h.w.mu.Lock()
	p := h.w.weft[h.id%2]
	h.w.mu.Unlock()
	dial, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := pgx.Connect(dial, p.ConnString("postgres", "dbname="+h.w.db))
	if err != nil {
		time.Sleep(50 * time.Millisecond) // its proxy is dead, or its shard
		return
	}
	defer c.Close(context.Background())
	for ctx.Err() == nil && !c.IsClosed() && h.broken == nil {
		if h.r.IntN(2) == 0 {
			h.transfer(c)
		} else {
			h.lists(c)
		}
		n.Add(1)
	}
}

// do runs a statement. An answer that does not come in half a minute is a hang.
func (h *historian) do(c *pgx.Conn, sql string, args ...any) error {
	got, err := exec(c, patience, sql, args...)
	if err != nil && !slices.Contains(survivable, got) {
		h.broken = fmt.Errorf("%s: %w", sql, err)
	}
	return err
}

// survivable are the SQLSTATEs that deaths and conflicts give.
var survivable = append([]string{"?", "40001", "40P01", "25P02", "53300", "57014", "55000"}, gone...)

// end commits, or rolls back what has failed, and says how it ended.
func (h *historian) end(c *pgx.Conn, failed error) consistency.Outcome {
	if failed != nil {
		_ = h.do(c, "rollback")
		return consistency.Aborted
	}
	err := h.do(c, "commit")
	switch got := code(err); {
	case err == nil:
		return consistency.Committed
	case got == "08007", got == "?", strings.HasPrefix(got, "08"), strings.HasPrefix(got, "57P"):
		return consistency.Unknown
	}
	return consistency.Aborted
}

func (h *historian) transfer(c *pgx.Conn) {
	h.count++
	name := fmt.Sprintf("%d.%d", h.id, h.count)
	from, to := int64(1+h.r.IntN(accounts)), int64(1+h.r.IntN(accounts))
	if from == to {
		return
	}
	first, second := min(from, to), max(from, to) // so that two transfers cannot wait for each other
	amount := map[int64]int64{from: -1, to: 1}
	err := h.do(c, "begin")
	for _, id := range []int64{first, second} {
		if err == nil {
			err = h.do(c, "update account set balance = balance + $2 where id = $1", id, amount[id])
		}
	}
	if err == nil {
		err = h.do(c, "insert into transfer values ($1, $2, $3)", from, name, int64(1))
	}
	switch h.end(c, err) {
	case consistency.Committed:
		h.transfers = append(h.transfers, name)
	case consistency.Unknown:
		h.maybe++
	}
}

func (h *historian) lists(c *pgx.Conn) {
	h.count++
	t := consistency.Transaction{Name: fmt.Sprintf("%d.%d", h.id, h.count)}
	picked := h.r.Perm(keys)[:2+h.r.IntN(3)]
	slices.Sort(picked)
	err := h.do(c, "begin")
	for i, k := range picked {
		if err != nil {
			break
		}
		op := consistency.Op{Key: fmt.Sprint(k + 1)}
		if h.r.IntN(2) == 0 {
			op.Append = fmt.Sprintf("%s.%d", t.Name, i)
			err = h.do(c, "update list set items = items || ' ' || $2::text where key = $1", int64(k+1), op.Append)
		} else {
			op.Read, err = h.read(c, int64(k+1))
		}
		if err == nil || op.Append != "" {
			t.Ops = append(t.Ops, op)
		}
	}
	t.Outcome = h.end(c, err)
	h.history = append(h.history, t)
}

func (h *historian) read(c *pgx.Conn, key int64) ([]string, error) {
	ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
	defer stop()
	var items string
	err := c.QueryRow(ctx, "select items from list where key = $1", key).Scan(&items)
	if errors.Is(err, pgx.ErrNoRows) {
		h.broken = fmt.Errorf("list %d is gone", key)
	} else if err != nil && !slices.Contains(survivable, code(err)) {
		h.broken = err
	}
	return strings.Fields(items), err
}

// audit looks at the bank: it has the money it had, and every transfer that was
// acknowledged is in the books.
func (w *world) audit(acknowledged []string) {
	var total, rows int64
	books := map[string]bool{}
	for shard := range w.any.Shards() {
		c := w.eye(shard)
		total += value[int64](w.t, c, "select coalesce(sum(balance), 0)::bigint from account")
		rows += value[int64](w.t, c, "select count(*) from account")
		for _, name := range strings.Fields(value[string](w.t, c, "select coalesce(string_agg(name, ' '), '') from transfer")) {
			books[name] = true
		}
	}
	if total != accounts*balance || rows != accounts {
		w.t.Errorf("the bank has %d in %d accounts, it had %d in %d", total, rows, accounts*balance, accounts)
	}
	for _, name := range acknowledged {
		if !books[name] {
			w.t.Errorf("transfer %s was acknowledged and is not there", name)
		}
	}
}

// examine looks for anomalies in what the clients saw.
func (w *world) examine(history []consistency.Transaction) {
	w.history = append(w.history, history...)
	final := map[string][]string{}
	for shard := range w.any.Shards() {
		c := w.eye(shard)
		for k := range keys {
			items := value[string](w.t, c, fmt.Sprintf("select coalesce((select items from list where key = %d), '')", k+1))
			if items != "" {
				final[fmt.Sprint(k+1)] = strings.Fields(items)
			}
		}
	}
	for i, a := range consistency.Check(w.history, final) {
		if w.t.Errorf("%s", a); i > 10 {
			break
		}
	}
}
