package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/twopc"
)

// commitPoints are where a commit of several shards is stopped.
var commitPoints = []twopc.Point{
	twopc.BeforeDecide, twopc.AfterDecide, twopc.BeforePrepare, twopc.AfterPrepare, twopc.AfterCommit, twopc.AfterFollow,
	twopc.BeforeForget, twopc.AfterForget,
}

// bank is a table with accounts on all shards, whose sum never changes.
type bank struct {
	*world
	accounts [][]int64 // by shard
	total    int
}

func newBank(t *testing.T, db string) *bank {
	w := newWorld(t, db, nil)
	w.proxy(nil)
	b := &bank{world: w, total: 4 * 5 * 100}
	c := w.conn(0)
	must(t, c, "create table bank (id bigint primary key, v int not null)")
	must(t, c, "create table done (id bigint primary key, n int not null)")
	must(t, c, "select weft.shard_table('bank', 'id')")
	must(t, c, "select weft.shard_table('done', 'id')")
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

// transfer moves money between accounts of different shards, the first of which is the
// deciding one, and notes its number with both.
func (b *bank) transfer(c *pgx.Conn, r *rand.Rand, n int) (shards []int) {
	shards = r.Perm(4)[:2+r.IntN(3)]
	mode := []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement}[n%3]
	must(b.t, c, "begin", mode)
	for i, shard := range shards {
		amount := 1
		if i == 0 {
			amount = 1 - len(shards)
		}
		must(b.t, c, "update bank set v = v + $1 where id = $2", mode, amount, b.accounts[shard][r.IntN(5)])
		must(b.t, c, "insert into done values ($1, $2)", mode, b.accounts[shard][0]+int64(n)<<32, n)
	}
	return shards
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

// decisions counts the rows of decisions on all shards.
func (b *bank) decisions() (n int) {
	for shard := range 4 {
		n += value[int](b.t, b.eye(shard), "select count(*)::int from weft.decision")
	}
	return n
}

// TestCommitAtomic stops a commit at each of its points and kills something there: the
// proxy that commits, the deciding shard, another participant. Money is neither made nor
// lost, what was acknowledged is there on all shards, what was refused is on
// none, and within seconds nothing is left that waits for an end.
func TestCommitAtomic(t *testing.T) {
	b := newBank(t, "c_commit")
	r := newRand(*seed)
	counts := map[string]int{}
	n := 0
	for range *rounds {
		for _, point := range commitPoints {
			for _, victim := range []string{"proxy", "decider", "participant", "nobody"} {
				if testing.Short() && victim == "participant" {
					continue
				}
				n++
				counts[b.crash(r, n, point, victim)]++
			}
		}
	}
	t.Logf("%d rounds: %v", n, counts)
	if counts["committed"] == 0 || counts["rolled back"] == 0 {
		t.Errorf("not both outcomes were seen: %v", counts)
	}
}

// crash is one round. It returns how the transaction ended.
func (b *bank) crash(r *rand.Rand, n int, point twopc.Point, victim string) string {
	t := b.t
	t.Helper()
	p := b.weft[0]
	c := b.conn(0)
	shards := b.transfer(c, r, n)
	decider := shards[len(shards)-1] // the one at hand
	for _, s := range shards {
		if s == 0 {
			decider = 0 // home, whenever it has written
		}
	}
	other := shards[0]
	if other == decider {
		other = shards[1]
	}
	p.StopAt(t, string(point), victim == "proxy")
	done := later(t, c, "commit", pgx.QueryExecModeSimpleProtocol)
	if victim != "proxy" {
		within(t, patience, fmt.Sprintf("round %d: comes to %s", n, point), p.Stopped)
	}
	switch victim {
	case "proxy":
		p.WaitExit(t, patience)
		p = b.proxy(nil)
		b.weft[0], b.wire[0] = p, b.wire[len(b.wire)-1]
		b.weft, b.wire = b.weft[:2], b.wire[:2]
	case "decider", "participant":
		s := b.any.Shards()[map[string]int{"decider": decider, "participant": other}[victim]]
		s.Kill()
		p.GoOn()
		time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
		if err := s.Restart(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	p.GoOn()
	var err error
	select {
	case err = <-done:
	case <-time.After(patience):
		t.Fatalf("round %d: COMMIT does not return after the death of %s at %s", n, victim, point)
	}
	began := time.Now()
	what := fmt.Sprintf("round %d: %s died at %s of shards %v: answer %s", n, victim, point, shards, brief(err))
	within(t, 10*time.Second, what+": nothing is prepared", func() bool { return b.prepared() == 0 })
	settled := time.Since(began)
	within(t, 20*time.Second, what+": no decision is left", func() bool { return b.decisions() == 0 })
	parts, sum := b.applied(n)
	t.Logf("%s, %d of %d parts, settled after %s, clean after %s", what, parts, len(shards), settled.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	switch {
	case parts != 0 && parts != len(shards):
		t.Fatalf("%s: halves: %d of %d", what, parts, len(shards))
	case sum != b.total:
		t.Fatalf("%s: the sum is %d, not %d", what, sum, b.total)
	case err == nil && parts == 0:
		t.Fatalf("%s: acknowledged, and not there", what)
	case err != nil && victim != "proxy" && parts != 0 && code(err) != "08007":
		t.Fatalf("%s: there, and the client was told otherwise", what)
	case err != nil && victim == "nobody":
		t.Fatal(what)
	}
	if parts == 0 {
		return "rolled back"
	}
	return "committed"
}

// TestResolverStopped kills a resolver at each point of its work, after the proxy that
// commits was: the next one ends it.
func TestResolverStopped(t *testing.T) {
	b := newBank(t, "c_resolver")
	r := newRand(*seed + 1)
	for n, at := range []twopc.Point{twopc.AfterPrepare, twopc.AfterCommit} {
		for m, point := range []twopc.Point{twopc.BeforeArbitrate, twopc.AfterArbitrate, twopc.AfterResolve} {
			n := n*10 + m
			c := b.conn(0)
			shards := b.transfer(c, r, n)
			b.weft[0].StopAt(t, string(at), true)
			b.weft[1].StopAt(t, string(point), true)
			if _, err := c.Exec(context.Background(), "commit", pgx.QueryExecModeSimpleProtocol); err == nil {
				t.Fatalf("%s: COMMIT is answered by the dead", at)
			}
			b.weft[0].WaitExit(t, patience)
			b.weft[1].WaitExit(t, patience) // found it, and died of it
			for i := range 2 {
				p := b.proxy(nil)
				b.weft[i], b.wire[i] = p, b.wire[len(b.wire)-1]
				b.weft, b.wire = b.weft[:2], b.wire[:2]
			}
			what := fmt.Sprintf("%s, then the resolver died at %s", at, point)
			within(t, 10*time.Second, what+": nothing is prepared", func() bool { return b.prepared() == 0 })
			within(t, 20*time.Second, what+": no decision is left", func() bool { return b.decisions() == 0 })
			parts, sum := b.applied(n)
			if want := map[twopc.Point]int{twopc.AfterPrepare: 0, twopc.AfterCommit: len(shards)}[at]; parts != want || sum != b.total {
				t.Fatalf("%s: %d of %d parts, sum %d", what, parts, len(shards), sum)
			}
		}
	}
}

// TestOwnerStandsStill stops the proxy that commits, as a machine that has lost its
// network is: others end its transaction, and when it comes back it can neither
// commit half of it nor say that it was committed.
func TestOwnerStandsStill(t *testing.T) {
	b := newBank(t, "c_still")
	r := newRand(*seed + 2)
	for n, point := range []twopc.Point{twopc.AfterPrepare, twopc.AfterDecide} {
		c := b.conn(0)
		shards := b.transfer(c, r, n)
		p := b.weft[0]
		p.StopAt(t, string(point), false)
		done := later(t, c, "commit", pgx.QueryExecModeSimpleProtocol)
		within(t, patience, "comes to "+string(point), p.Stopped)
		p.Signal(t, syscall.SIGSTOP)
		if point == twopc.AfterPrepare {
			within(t, patience, "others end it", func() bool { return b.prepared() == 0 })
			if parts, _ := b.applied(n); parts != 0 {
				t.Fatalf("committed by others: %d parts", parts)
			}
		} else {
			time.Sleep(2 * time.Second)
		}
		p.GoOn()
		p.Signal(t, syscall.SIGCONT)
		err := <-done
		within(t, 10*time.Second, "nothing is prepared", func() bool { return b.prepared() == 0 })
		parts, sum := b.applied(n)
		t.Logf("%s: answer %s, %d of %d parts", point, brief(err), parts, len(shards))
		if sum != b.total || parts != 0 && parts != len(shards) || (err == nil) != (parts != 0) {
			t.Fatalf("%s: answer %v, %d of %d parts, sum %d", point, err, parts, len(shards), sum)
		}
		if point == twopc.AfterPrepare && err == nil {
			t.Fatal("committed although others had ended it")
		}
	}
}

// TestRecover: what is in doubt when no proxy is left is shown and settled by weft
// recover; and while a commit stands still, by weft.transactions.
func TestRecover(t *testing.T) {
	b := newBank(t, "c_recover")
	r := newRand(*seed + 3)
	c, watch := b.conn(0), b.conn(1)
	shards := b.transfer(c, r, 1)
	p := b.weft[0]
	p.StopAt(t, string(twopc.AfterPrepare), false)
	done := later(t, c, "commit", pgx.QueryExecModeSimpleProtocol)
	within(t, patience, "stops", p.Stopped)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement} {
		var n, parts int
		err := watch.QueryRow(context.Background(), `select count(*)::int, count(distinct shard)::int from weft.transactions
			where state = 'prepared' and database = 'c_recover' and age < '1 minute' and role = 'postgres' and decider <> shard`, mode).Scan(&n, &parts)
		if err != nil || n != len(shards)-1 || parts != n {
			t.Errorf("weft.transactions shows %d on %d shards, want %d: %v", n, parts, len(shards)-1, err)
		}
	}
	b.weft[1].Signal(t, syscall.SIGKILL)
	b.weft[1].WaitExit(t, patience)
	p.Signal(t, syscall.SIGKILL)
	p.WaitExit(t, patience)
	<-done
	out, err := p.Run("recover")
	if err != nil || strings.Count(out, "prepared") != len(shards)-1 {
		t.Errorf("weft recover: %v\n%s", err, out)
	}
	if out, err = p.Run("recover", "--settle"); err != nil || !strings.Contains(out, "nothing is in doubt") {
		t.Errorf("weft recover --settle: %v\n%s", err, out)
	}
	if out, err = p.Run("recover", "--json"); err != nil || strings.TrimSpace(out) != "[]" {
		t.Errorf("weft recover --json: %v\n%s", err, out)
	}
	if parts, sum := b.applied(1); parts != 0 || sum != b.total || b.prepared() != 0 || b.decisions() != 0 {
		t.Errorf("%d parts, sum %d", parts, sum)
	}
}

// TestCannotPrepare: a shard that cannot prepare transactions takes part in those that
// write there alone. weft says so at start, and before anything is written.
func TestCannotPrepare(t *testing.T) {
	b := newBank(t, "c_unable")
	s := b.any.Shards()[2]
	restart := func(sql string) {
		t.Helper()
		must(t, b.direct(2), sql)
		s.Kill()
		if err := s.Restart(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	restart("alter system set max_prepared_transactions = 0")
	t.Cleanup(func() { restart("alter system reset max_prepared_transactions") })
	p := b.proxy(nil)
	within(t, patience, "a warning", func() bool {
		log, err := os.ReadFile(p.LogFile())
		return err == nil && strings.Contains(string(log), "max_prepared_transactions is 0")
	})
	c := b.conn(2)
	must(t, c, "begin")
	must(t, c, "update bank set v = v + 1 where id = $1", b.accounts[1][0])
	if got, err := exec(c, patience, "update bank set v = v - 1 where id = $1", b.accounts[2][0]); got != "55000" || !strings.Contains(err.Error(), "shard-2") {
		t.Errorf("the second shard: %v", err)
	}
	must(t, c, "rollback")
	if got, err := exec(c, patience, "alter table bank add column x int"); got != "55000" {
		t.Errorf("DDL: %v", err)
	}
	must(t, c, "update bank set v = v + 1 where id = $1", b.accounts[2][0])
	must(t, c, "begin")
	must(t, c, "update bank set v = v - 1 where id = $1", b.accounts[2][0])
	if n := value[int](t, c, "select count(*)::int from bank"); n != 20 {
		t.Errorf("%d accounts", n)
	}
	must(t, c, "commit")
	must(t, c, "begin")
	must(t, c, "update bank set v = v - 1 where id = $1", b.accounts[1][0])
	must(t, c, "update bank set v = v + 1 where id = $1", b.accounts[3][0])
	must(t, c, "commit")
	if _, sum := b.applied(0); sum != b.total {
		t.Errorf("the sum is %d", sum)
	}
}

// TestCommitSingle: weft.commit = 'single' refuses the statement that would write on
// a second shard, in one statement too, and what one shard does costs no decision.
func TestCommitSingle(t *testing.T) {
	b := newBank(t, "c_single")
	c := b.conn(0)
	must(t, c, "set weft.commit = 'single'")
	must(t, c, "begin")
	must(t, c, "update bank set v = v + 1 where id = $1", b.accounts[1][0])
	if got, err := exec(c, patience, "update bank set v = v - 1 where id = $1", b.accounts[2][0]); got != "0A000" {
		t.Errorf("the second shard: %v", err)
	}
	must(t, c, "rollback")
	if got, err := exec(c, patience, "update bank set v = v + 1"); got != "0A000" {
		t.Errorf("all shards: %v", err)
	}
	must(t, c, "begin")
	must(t, c, "update bank set v = v + 1 where id = $1", b.accounts[1][0])
	must(t, c, "update bank set v = v - 1 where id = $1", b.accounts[1][1])
	must(t, c, "commit")
	// Set within the block, too.
	must(t, c, "set weft.commit = 'atomic'")
	must(t, c, "begin")
	must(t, c, "set local weft.commit = 'single'")
	must(t, c, "update bank set v = v + 1 where id = $1", b.accounts[1][0])
	if got, err := exec(c, patience, "update bank set v = v - 1 where id = $1", b.accounts[2][0]); got != "0A000" {
		t.Errorf("set in the block: %v", err)
	}
	must(t, c, "rollback")
	if _, sum := b.applied(0); sum != b.total {
		t.Errorf("the sum is %d", sum)
	}
}
