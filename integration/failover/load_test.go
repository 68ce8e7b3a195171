package failover

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// load is a few clients that insert rows one by one, and what was acknowledged.
type load struct {
	c      *cluster
	cancel context.CancelFunc
	wait   sync.WaitGroup

	mu     sync.Mutex
	acked  []int
	errors int
}

const clients = 4

// startLoad lets clients insert into the table until stop.
func startLoad(c *cluster) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{c: c, cancel: cancel}
	for i := range clients {
		l.wait.Go(func() { l.run(ctx, i) })
	}
	c.t.Cleanup(func() { l.stop() })
	return l
}

// run inserts ids that no other client has. A session that is broken, or hangs, is
// replaced.
func (l *load) run(ctx context.Context, client int) {
	var conn *pgx.Conn
	for id := client; ctx.Err() == nil; id += clients {
		one, cancel := context.WithTimeout(ctx, 5*time.Second)
		var err error
		if conn == nil {
			conn, err = pgx.Connect(one, "postgres://postgres@"+l.c.listen+"/app?sslmode=disable")
		}
		if err == nil {
			_, err = conn.Exec(one, "insert into t (id) values ($1)", id)
		}
		cancel()
		l.note(id, err)
		if err != nil {
			if conn != nil && conn.IsClosed() {
				conn = nil
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	if conn != nil {
		_ = conn.Close(context.Background())
	}
}

func (l *load) note(id int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.errors++
		return
	}
	l.acked = append(l.acked, id)
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// goesOn waits until more rows are acknowledged.
func (l *load) goesOn() {
	l.c.t.Helper()
	before := l.count()
	await(l.c.t, "clients write", func() bool { return l.count() > before+20*clients })
}

// stop ends the clients and returns what was acknowledged.
func (l *load) stop() []int {
	l.cancel()
	l.wait.Wait()
	return l.acked
}

// check finds every acknowledged row.
func (c *cluster) check(acked []int) {
	c.t.Helper()
	slices.Sort(acked)
	var missing []int
	for part := range slices.Chunk(acked, 1000) {
		sql := "select count(*) from t where id in (" + fmt.Sprint(part[0])
		for _, id := range part[1:] {
			sql += fmt.Sprint(",", id)
		}
		if got := c.mustAsk(sql + ")"); got != fmt.Sprint(len(part)) {
			missing = append(missing, part[0])
			c.t.Errorf("%s of %d acknowledged rows from %d to %d are there", got, len(part), part[0], part[len(part)-1])
		}
	}
	if len(missing) == 0 {
		c.t.Logf("%d acknowledged rows are there", len(acked))
	}
}
