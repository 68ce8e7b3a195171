package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/twopc"
)

// pledging is a bank whose clients prepare their transfers.
type pledging struct {
	*bank
	t *testing.T
	r *rand.Rand
	n int // the last transfer
}

func newPledging(t *testing.T, database string) *pledging {
	return &pledging{bank: newBank(t, database), t: t, r: newRand(*seed + 7)}
}

// prepare has the first proxy's client prepare a transfer. The proxy dies at a point, if there is one.
func (b *pledging) prepare(point twopc.Point) (gid string, shards []int) {
	b.t.Helper()
	b.n++
	c := b.conn(0)
	shards = b.transfer(c, b.r, b.n, 3)
	gid = fmt.Sprintf("pledge %d", b.n)
	if point != "" {
		b.weft[0].StopAt(b.t, string(point), true)
	}
	got, err := exec(c, patience, "prepare transaction '"+gid+"'", b.mode())
	if point == "" && got != "" {
		b.t.Fatalf("prepare transaction: %v", err)
	}
	if point != "" {
		b.weft[0].WaitExit(b.t, patience)
		b.replace(0, nil)
	}
	return gid, shards
}

// mode is the protocol of a transfer's commands: one after the other.
func (b *pledging) mode() pgx.QueryExecMode {
	return []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec}[b.n%2]
}

// listed reports whether a proxy's client sees that a transaction is prepared.
func (b *pledging) listed(i int, gid string) bool {
	return value[int](b.t, b.conn(i), "select count(*)::int from pg_prepared_xacts where gid = $1", gid) == 1
}

// ended waits until nothing is prepared, and looks that the last transfer is there whole, or not at all.
func (b *pledging) ended(what string, committed bool, shards []int) {
	b.t.Helper()
	within(b.t, 10*time.Second, what+": nothing is prepared", func() bool { return b.prepared() == 0 })
	want := 0
	if committed {
		want = len(shards)
	}
	if parts, sum := b.applied(b.n); parts != want || sum != b.total {
		b.t.Fatalf("%s: %d of %d parts, sum %d", what, parts, len(shards), sum)
	}
}

// TestPledges: a proxy dies at each point at which a client's PREPARE TRANSACTION, COMMIT PREPARED or ROLLBACK PREPARED can be. Either the transaction is
// prepared on all its shards under the client's name, or on none; and it ends alike on all, through whatever proxy.
func TestPledges(t *testing.T) {
	together(t)
	b := newPledging(t, "c_pledge")
	for _, point := range []twopc.Point{
		twopc.BeforeDecide, twopc.AfterDecide, twopc.BeforePrepare, twopc.DuringPrepare, twopc.AfterPrepare, twopc.AfterCommit, twopc.AfterFollow,
	} {
		gid, shards := b.prepare(point)
		if point != twopc.AfterCommit && point != twopc.AfterFollow {
			within(t, 10*time.Second, "its home shard lets go", func() bool { return !b.listed(1, gid) })
			b.ended(string(point), false, shards)
			continue
		}
		// It stays, however long nobody comes.
		time.Sleep(3 * time.Second)
		others := len(shards)
		for _, s := range shards {
			if s == 0 {
				others--
			}
		}
		if !b.listed(1, gid) || b.prepared() != 1+others {
			t.Fatalf("%s: %d are prepared, want 1 and %d", point, b.prepared(), others)
		}
		if pledged := value[int](t, b.conn(1), "select count(*)::int from weft.transactions where state = 'pledged'"); pledged != 1+others {
			t.Errorf("weft.transactions shows %d, want %d", pledged, 1+others)
		}
		if parts, sum := b.applied(b.n); parts != 0 || sum != b.total {
			t.Fatalf("%s: %d parts are to be seen, sum %d", point, parts, sum)
		}
		if out, err := b.weft[1].Run("recover", "--settle"); err != nil || strings.Count(out, "pledged") != 1+others {
			t.Errorf("weft recover --settle: %v\n%s", err, out)
		}
		must(t, b.conn(1), "commit prepared '"+gid+"'")
		if parts, sum := b.applied(b.n); parts != len(shards) || sum != b.total || b.prepared() != 0 {
			t.Fatalf("%s: after COMMIT PREPARED %d of %d parts, sum %d, %d are prepared", point, parts, len(shards), sum, b.prepared())
		}
	}
	for i, verb := range []string{"commit", "rollback"} {
		for _, point := range []twopc.Point{twopc.AfterCommit, twopc.BeforeArbitrate, twopc.AfterResolve, ""} {
			gid, shards := b.prepare("")
			c := b.conn(1 - i)
			if point != "" {
				b.weft[1-i].StopAt(t, string(point), true)
			}
			got, err := exec(c, patience, verb+" prepared '"+gid+"'", b.mode())
			if point != "" && point != twopc.BeforeArbitrate {
				b.weft[1-i].WaitExit(t, patience)
				b.replace(1-i, nil)
			} else if got != "" {
				t.Fatalf("%s prepared: %v", verb, err)
			}
			b.ended(verb+" "+string(point), verb == "commit", shards)
			if got, _ := exec(b.conn(0), patience, verb+" prepared '"+gid+"'"); got != "42704" {
				t.Errorf("%s prepared again: %q", verb, got)
			}
		}
	}

	// Rows do not move away beneath it, and no backup point is made, until its client has ended it.
	gid, shards := b.prepare("")
	from, to := shards[1], shards[0]
	bucket := b.bucketOf(b.accounts[from][0])
	time.Sleep(1100 * time.Millisecond)
	job := value[string](t, b.conn(0), "select weft.move_buckets($1, $2)", fmt.Sprint(bucket), b.snapshot().Shards[to].Name)
	within(t, 10*time.Second, "the job says what is in its way", func() bool {
		return strings.Contains(value[string](t, b.conn(0), "select coalesce(blocked_by, '') from weft.moves where job = $1", job), "prepared")
	})
	if _, err := exec(b.conn(1), patience, "select weft.restore_point('pledged')"); err == nil || !strings.Contains(err.Error(), gid) {
		t.Errorf("weft.restore_point: %v", err)
	}
	must(t, b.conn(1), "commit prepared '"+gid+"'")
	within(t, 30*time.Second, "the job goes on", func() bool {
		return value[string](t, b.conn(0), "select state from weft.moves where job = $1", job) == "done"
	})
	b.ended("moved", true, shards)

	// No proxy is left.
	gid, shards = b.prepare("")
	for _, p := range b.weft {
		p.Signal(t, syscall.SIGKILL)
		p.WaitExit(t, patience)
	}
	must(t, b.direct(0), "commit prepared '"+gid+"'")
	if out, _ := b.weft[0].Run("recover", "--settle"); strings.Contains(out, "prepared") { // a decision may be too young to be deleted
		t.Errorf("weft recover --settle: %s", out)
	}
	b.ended("without a proxy", true, shards)
}

// TestPledgeServerAway: a participant's server comes back while its part is prepared, and is away when the client commits.
func TestPledgeServerAway(t *testing.T) {
	b := newPledging(t, "c_pledge_away")
	gid, shards := b.prepare("")
	shard := shards[0]
	if shard == 0 {
		shard = shards[1]
	}
	b.any.Shards()[shard].Kill()
	done := later(t, b.conn(1), "commit prepared '"+gid+"'", pgx.QueryExecModeSimpleProtocol)
	time.Sleep(time.Second) // the server is away for so long
	if err := b.any.Shards()[shard].Restart(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil && code(err) != "08007" {
		t.Errorf("commit prepared while %d is away: %v", shard, err)
	}
	b.ended("a server was away", true, shards)
}
