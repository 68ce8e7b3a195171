package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/integration/harness"
)

// bank is a table with accounts on all shards, whose sum never changes. It has an
// etcd that can be killed.
type bank struct {
	*world
	etcd     *harness.Etcd
	accounts [][]int64 // by shard
	total    int
	notes    []int // by shard: how many keys of done are used
}

func newBank(t *testing.T, db string) *bank {
	e := harness.StartEtcdProcess(t)
	w := newWorldAt(t, e.Endpoint, db, nil, nil)
	w.proxy(nil)
	b := &bank{world: w, etcd: e, total: 4 * 5 * 100, notes: make([]int, 4)}
	c := w.conn(0)
	must(t, c, "create table bank (id bigint primary key, v int not null)")
	must(t, c, "create table done (id bigint primary key, n int not null)")
	declare(t, c, "select weft.shard_table('bank', 'id')")
	declare(t, c, "select weft.shard_table('done', 'id')")
	for shard := range 4 {
		var keys []int64
		for n := range 5 {
			k := w.keyOn(shard, n)
			keys = append(keys, k)
			must(t, c, "insert into bank values ($1, 100)", k)
		}
		b.accounts = append(b.accounts, keys)
	}
	return b
}

// transfer moves money between accounts of at least so many shards, and notes its
// number with each, on the same shard. The transaction stays open.
func (b *bank) transfer(c *pgx.Conn, r *rand.Rand, n, least int) (shards []int) {
	b.t.Helper()
	shards = r.Perm(4)[:least+r.IntN(5-least)]
	mode := []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement}[n%3]
	must(b.t, c, "begin", mode)
	for i, shard := range shards {
		amount := 1
		if i == 0 {
			amount = 1 - len(shards)
		}
		must(b.t, c, "update bank set v = v + $1 where id = $2", mode, amount, b.accounts[shard][r.IntN(3)])
		must(b.t, c, "insert into done values ($1, $2)", mode, b.keyOn(shard, b.notes[shard]), n)
		b.notes[shard]++
	}
	return shards
}

// roles says who decides over a transaction of these shards, who else takes part, and
// who does not, -1 if all do.
func roles(shards []int) (decider, other, bystander int) {
	decider, bystander = slices.Min(shards), -1 // home, whenever it has written, else the first
	in := map[int]bool{}
	for _, s := range shards {
		in[s] = true
	}
	if other = shards[0]; other == decider {
		other = shards[1]
	}
	for s := range 4 {
		if !in[s] {
			bystander = s
		}
	}
	return decider, other, bystander
}

// applied returns on how many shards a transfer is to be seen, and all shards' sum.
func (b *bank) applied(n int) (parts, sum int) {
	b.t.Helper()
	for shard := range 4 {
		c := b.eye(shard)
		parts += value[int](b.t, c, "select count(*)::int from done where n = $1", n)
		sum += value[int](b.t, c, "select coalesce(sum(v), 0)::int from bank")
	}
	return parts, sum
}

// noted returns, for transfers from a number on, on how many shards each is to be seen.
func (b *bank) noted(from int) map[int]int {
	b.t.Helper()
	parts := map[int]int{}
	for shard := range 4 {
		rows, err := b.eye(shard).Query(context.Background(), "select n from done where n >= $1", from)
		if err != nil {
			b.t.Fatal(err)
		}
		var n int
		if _, err := pgx.ForEachRow(rows, []any{&n}, func() error { parts[n]++; return nil }); err != nil {
			b.t.Fatal(err)
		}
	}
	return parts
}

// decisions counts the rows of decisions on all shards.
func (w *world) decisions() (n int) {
	for shard := range w.any.Shards() {
		n += value[int](w.t, w.eye(shard), "select count(*)::int from weft.decision")
	}
	return n
}

// traffic is what a client of the other proxy does meanwhile, with accounts of its
// own: transfers over two shards, one after the other.
type bankTraffic struct {
	stop context.CancelFunc
	done chan struct{}
	from int
	told map[int]error // by number: what it was told of the transfer
}

// background begins it. The first number of its transfers is given.
func (b *bank) background(r *rand.Rand, first int) *bankTraffic {
	ctx, stop := context.WithCancel(context.Background())
	x := &bankTraffic{stop: stop, done: make(chan struct{}), from: first, told: map[int]error{}}
	target := b.weft[1].ConnString("postgres", "dbname="+b.db)
	r = rand.New(rand.NewPCG(r.Uint64(), 1)) // its own
	go func() {
		defer close(x.done)
		var c *pgx.Conn
		for n := first; ctx.Err() == nil; {
			dial, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			var err error
			if c == nil || c.IsClosed() {
				if c, err = pgx.Connect(dial, target); err != nil {
					c = nil
					time.Sleep(20 * time.Millisecond)
				}
			}
			cancel()
			if c == nil {
				continue
			}
			x.told[n] = b.move(c, r, n)
			n++
			time.Sleep(3 * time.Millisecond)
		}
		if c != nil {
			_ = c.Close(context.Background())
		}
	}()
	return x
}

var errUndone = errors.New("did not come to COMMIT")

// move is one of its transfers.
func (b *bank) move(c *pgx.Conn, r *rand.Rand, n int) error {
	shards := r.Perm(4)[:2]
	if _, err := exec(c, patience, "begin"); err != nil {
		return errUndone
	}
	for i, shard := range shards {
		id := b.accounts[shard][3+r.IntN(2)]
		_, err := exec(c, patience, fmt.Sprintf("update bank set v = v + %d where id = %d; insert into done values (%d, %d)", 2*i-1, id, int64(n)<<32+int64(i), n))
		if err != nil {
			_, _ = exec(c, patience, "rollback")
			return errUndone
		}
	}
	_, err := exec(c, patience, "commit")
	return err
}

// end ends it, and complains of transfers that are there by half, or not as was told.
func (x *bankTraffic) end(b *bank, what string) {
	b.t.Helper()
	x.stop()
	select {
	case <-x.done:
	case <-time.After(patience):
		b.t.Fatalf("%s: a client of the other proxy hangs", what)
	}
	within(b.t, 10*time.Second, what+": nothing is prepared", func() bool { return b.prepared() == 0 })
	noted := b.noted(x.from)
	for n, err := range x.told {
		parts := noted[n]
		switch {
		case parts == 1:
			b.t.Errorf("%s: transfer %d of the other proxy, told %v, is there by half", what, n, err)
		case err == nil && parts == 0:
			b.t.Errorf("%s: transfer %d of the other proxy was acknowledged and is not there", what, n)
		case errors.Is(err, errUndone) && parts != 0:
			b.t.Errorf("%s: transfer %d of the other proxy never came to COMMIT and is there", what, n)
		}
	}
}
