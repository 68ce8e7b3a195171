package crash

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/twopc"
)

// TestOwnerStandsStill stops the proxy that commits, as a machine that has lost its
// network is: others end its transaction, and when it comes back it can neither
// commit half of it nor say that it was committed.
func TestOwnerStandsStill(t *testing.T) {
	together(t)
	b := newBank(t, "c_still")
	r := newRand(*seed + 2)
	for n, point := range []twopc.Point{twopc.AfterPrepare, twopc.AfterDecide} {
		c := b.conn(0)
		shards := b.transfer(c, r, n, 2)
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
	together(t)
	b := newBank(t, "c_recover")
	r := newRand(*seed + 3)
	c, watch := b.conn(0), b.conn(1)
	shards := b.transfer(c, r, 1, 2)
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
	together(t)
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
