package failover

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/dev/patroni"
)

var (
	rounds      = flag.Int("rounds", 2, "how often TestKills kills a primary")
	withPatroni = flag.Bool("patroni", false, "let Patroni run the servers of TestKills")
)

// customer is a client that does one kind of thing, in one session as long as that lives, and what came of it.
type customer struct {
	kind, proxy string
	number      int

	mu      sync.Mutex
	done    int
	failed  []string // errors of this round
	longest time.Duration
	acked   []int64 // ids of rows that were acknowledged
}

// errNoSession says that a client could not log in.
var errNoSession = errors.New("login")

// serve does things until ctx ends.
func (u *customer) serve(ctx context.Context, customers int) {
	var c *pgx.Conn
	for i := u.number; ctx.Err() == nil; i += customers {
		began := time.Now()
		var err error
		if c == nil || c.IsClosed() {
			if c, err = pgx.Connect(context.Background(), "postgres://postgres@"+u.proxy+"/app?sslmode=disable"); err != nil {
				err = fmt.Errorf("%w: %w", errNoSession, err)
			}
		}
		id := int64(i)
		if err == nil {
			id, err = u.act(c, id)
		}
		u.note(id, time.Since(began), err)
	}
	if c != nil {
		_ = c.Close(context.Background())
	}
}

// act does one thing and returns the id of the row that it has added.
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
		return 0, c.QueryRow(ctx, "select balance from account where id = $1", i%accounts).Scan(&n)
	case "sum":
		var n int
		err = c.QueryRow(ctx, "select count(*) from account").Scan(&n)
		if err == nil && n != accounts {
			err = fmt.Errorf("there are %d accounts", n)
		}
		return 0, err
	}
	err = transfer(ctx, c, int(i), 0)
	if c.PgConn().TxStatus() != 'I' && !c.IsClosed() {
		_, _ = c.Exec(ctx, "rollback")
	}
	return 0, err
}

func (u *customer) note(id int64, took time.Duration, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.longest = max(u.longest, took)
	if err == nil {
		u.done++
		u.acked = append(u.acked, id)
		return
	}
	u.failed = append(u.failed, fmt.Sprintf("%s at %s: %v", u.kind, time.Now().Format("15:04:05.000"), err))
	var e *pgconn.PgError
	if errors.Is(err, errNoSession) || !errors.As(err, &e) {
		time.Sleep(20 * time.Millisecond)
	}
}

// take returns what happened since the last call.
func (u *customer) take() (done int, failed []string, longest time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	done, failed, longest = u.done, u.failed, u.longest
	u.done, u.failed, u.longest = 0, nil, 0
	return done, failed, longest
}

// TestKills kills primaries with synchronous standbys, one after the other, under two proxies and clients of many kinds. Nothing
// acknowledged is lost, nothing is half there, no id is given twice. No read fails and no login; of writes that were under way when
// the primary died, at most one per client does.
func TestKills(t *testing.T) {
	if *withPatroni {
		if _, err := patroni.Find(); err != nil {
			t.Skip("Patroni is a package of its own: ", err)
		}
	}
	c := newCluster(t, map[bool][]string{true: {"--patroni"}}[*withPatroni]...)
	proxies := []string{c.listen, c.secondProxy()}
	c.openBank()
	c.mustAsk("create table u (id bigserial primary key, who bigint)")
	c.mustAsk("select weft.shard_table('u', 'id')")
	var customers []*customer
	for i, kind := range []string{"insert", "insert", "drawn", "drawn", "read", "read", "sum", "transfer", "transfer", "transfer"} {
		customers = append(customers, &customer{kind: kind, proxy: proxies[i%2], number: i})
	}
	ctx, stop := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	defer wait.Wait()
	defer stop()
	for _, u := range customers {
		wait.Go(func() { u.serve(ctx, len(customers)) })
	}
	var pauses []time.Duration
	for round := range *rounds {
		shard := rand.IntN(shards)
		c.awaitStandby(shard)
		for _, u := range customers {
			u.take()
		}
		time.Sleep(500 * time.Millisecond)
		old := c.primary(shard)
		if err := syscall.Kill(old.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		killed := time.Now()
		await(t, "another primary", func() bool { return c.primary(shard).PID != old.PID }) // or the same one again, if no standby had caught up
		time.Sleep(time.Second)
		pauses = append(pauses, c.judge(round, shard, killed, customers))
		if t.Failed() {
			break
		}
	}
	stop()
	wait.Wait()
	c.audit(customers)
	slices.Sort(pauses)
	t.Logf("%d rounds, pauses: median %v, longest %v", len(pauses), pauses[len(pauses)/2].Round(time.Millisecond), pauses[len(pauses)-1].Round(time.Millisecond))
}

// judge looks at what clients have met in a round, and returns the longest pause of one.
func (c *cluster) judge(round, shard int, killed time.Time, customers []*customer) (pause time.Duration) {
	c.t.Helper()
	met := 0
	for _, u := range customers {
		done, failed, longest := u.take()
		pause = max(pause, longest)
		met += len(failed)
		if done == 0 {
			c.t.Errorf("round %d: a client does not go on: %s", round, u.kind)
		}
		allowed := 1
		if u.kind == "read" || u.kind == "sum" {
			allowed = 0
		}
		for _, text := range failed {
			if strings.Contains(text, errNoSession.Error()) {
				allowed = 0
			}
		}
		if len(failed) > allowed {
			c.t.Errorf("round %d, shard-%d killed at %s: %d errors:\n%s", round, shard, killed.Format("15:04:05.000"), len(failed), strings.Join(failed, "\n"))
		}
	}
	c.t.Logf("round %d: shard-%d, pause %v, %d writes failed", round, shard, pause.Round(time.Millisecond), met)
	return pause
}

// audit looks for everything that was acknowledged, when all clients have ended.
func (c *cluster) audit(customers []*customer) {
	c.t.Helper()
	if got := c.mustAsk("select sum(balance) from account"); got != fmt.Sprint(accounts*funds) {
		c.t.Errorf("the accounts hold %s", got)
	}
	for table, kind := range map[string]string{"t": "insert", "u": "drawn"} {
		seen := map[int64]int{}
		for _, u := range customers {
			if u.kind == kind {
				for _, id := range u.acked {
					seen[id]++
				}
			}
		}
		there := map[int64]bool{}
		conn, err := pgx.Connect(c.t.Context(), "postgres://postgres@"+c.listen+"/app?sslmode=disable")
		if err != nil {
			c.t.Fatal(err)
		}
		rows, err := conn.Query(c.t.Context(), "select id from "+table)
		if err != nil {
			c.t.Fatal(err)
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			c.t.Fatal(err)
		}
		_ = conn.Close(c.t.Context())
		for _, id := range ids {
			if there[id] {
				c.t.Errorf("%s has id %d twice", table, id)
			}
			there[id] = true
		}
		lost := 0
		for id, n := range seen {
			if n > 1 {
				c.t.Errorf("id %d of %s was given %d times", id, table, n)
			}
			if !there[id] {
				lost++
			}
		}
		if lost > 0 {
			c.t.Errorf("%d of %d acknowledged rows of %s are lost", lost, len(seen), table)
		}
		c.t.Logf("%s: %d rows acknowledged, %d there", table, len(seen), len(there))
	}
	for shard := range shards {
		await(c.t, "no prepared transaction", func() bool {
			got, err := ask(c.t.Context(), c.primary(shard).Address, "select count(*) from pg_prepared_xacts")
			return err == nil && got == "0"
		})
	}
}
