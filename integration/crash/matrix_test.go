package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/twopc"
)

// victims are who can die. A bystander is a shard that takes no part.
var victims = []string{"proxy", "decider", "participant", "etcd", "bystander", "nobody"}

// TestCommitAtomic stops a commit at each of its points and kills something there.
// Money is neither made nor lost, what was acknowledged is there on all shards, what
// was refused is on none, and within seconds nothing is left that waits for an end. In
// half of the rounds there is a second proxy, through which others go on meanwhile.
func TestCommitAtomic(t *testing.T) {
	m := newMatrix(t, "c_commit")
	for range *rounds {
		for _, two := range []bool{false, true} {
			m.proxies(two)
			for i, point := range twopc.CommitPoints {
				for j, victim := range victims {
					// In short, the proxy at each point, and one of the others.
					if *rounds == 1 && j != 0 && j != 1+(i+int(*seed))%5 || (i+j)%2 == 0 != two {
						continue
					}
					m.round(point, victim)
				}
			}
		}
	}
	m.report()
}

// TestCommitChaos is TestCommitAtomic with several deaths at once, at random.
func TestCommitChaos(t *testing.T) {
	m := newMatrix(t, "c_chaos")
	for n := range 10 * *rounds {
		if *rounds == 1 && n == 4 {
			break
		}
		if n%10 == 0 || n%10 == 2 && *rounds == 1 || n%10 == 5 {
			m.proxies(n%10 != 0)
		}
		var dead []string
		for _, i := range m.r.Perm(5)[:2+m.r.IntN(3)] {
			dead = append(dead, victims[i])
		}
		m.round(twopc.CommitPoints[m.r.IntN(len(twopc.CommitPoints))], dead...)
	}
	m.report()
}

// matrix is a bank in which things die.
type matrix struct {
	*bank
	r      *rand.Rand
	two    bool // there are two proxies
	n      int  // rounds
	counts map[string]int
}

func newMatrix(t *testing.T, db string) *matrix {
	return &matrix{bank: newBank(t, db), r: newRand(uint64(len(db))), two: true, counts: map[string]int{}}
}

// proxies makes it one or two.
func (m *matrix) proxies(two bool) {
	m.t.Helper()
	if m.two == two {
		return
	}
	if m.two = two; two {
		m.replace(1, nil)
	} else {
		m.weft[1].Signal(m.t, syscall.SIGKILL)
		m.weft[1].WaitExit(m.t, patience)
	}
}

func (m *matrix) report() {
	m.t.Helper()
	var list []string
	for what, n := range m.counts {
		list = append(list, fmt.Sprintf("%s %d", what, n))
	}
	slices.Sort(list)
	m.t.Logf("%d rounds: %s", m.n, strings.Join(list, ", "))
	if m.n >= 20 && (m.counts["committed"] == 0 || m.counts["rolled back"] == 0) {
		m.t.Error("not both outcomes were seen")
	}
}

// round is one transfer in which all of dead die at a point.
func (m *matrix) round(point twopc.Point, dead ...string) {
	t := m.t
	t.Helper()
	m.n++
	n, p, c := m.n, m.weft[0], m.conn(0)
	least := 2
	if point == twopc.DuringPrepare || point == twopc.DuringFollow {
		least = 3
	}
	shards := m.transfer(c, m.r, n, least)
	var others *bankTraffic
	if m.two {
		others = m.background(m.r, n*1_000_000)
	}
	alone := len(dead) == 1 && dead[0] == "proxy" // then it dies by itself, right there
	p.StopAt(t, string(point), alone)
	done := later(t, c, "commit", pgx.QueryExecModeSimpleProtocol)
	if !alone {
		within(t, patience, fmt.Sprintf("round %d: comes to %s", n, point), p.Stopped)
	}
	m.kill(p, shards, dead, alone)
	var err error
	select {
	case err = <-done:
	case <-time.After(patience):
		t.Fatalf("round %d: COMMIT does not return after the death of %v at %s", n, dead, point)
	}
	began := time.Now()
	what := fmt.Sprintf("round %d: %v died at %s of shards %v: answer %s", n, dead, point, shards, brief(err))
	if others != nil {
		others.end(m.bank, what)
		m.counts["others'"] += len(others.told)
	}
	within(t, 10*time.Second, what+": nothing is prepared", func() bool { return m.prepared() == 0 })
	settled := time.Since(began)
	within(t, 20*time.Second, what+": no decision is left", func() bool { return m.decisions() == 0 })
	parts, sum := m.applied(n)
	t.Logf("%s, %d of %d parts, settled after %s, clean after %s", what, parts, len(shards), settled.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	proxyDied, shardDied := slices.Contains(dead, "proxy"), slices.Contains(dead, "decider") || slices.Contains(dead, "participant")
	switch {
	case parts != 0 && parts != len(shards):
		t.Fatalf("%s: halves: %d of %d", what, parts, len(shards))
	case sum != m.total:
		t.Fatalf("%s: the sum is %d, not %d", what, sum, m.total)
	case err == nil && parts == 0:
		t.Fatalf("%s: acknowledged, and not there", what)
	case err != nil && !proxyDied && parts != 0 && code(err) != "08007":
		t.Fatalf("%s: there, and the client was told otherwise", what)
	case err != nil && !proxyDied && !shardDied:
		t.Fatalf("%s: none who took part has died", what)
	}
	end := "committed"
	if parts == 0 {
		end = "rolled back"
	}
	m.counts[end]++
	for _, who := range dead {
		m.counts[who+" died"]++
	}
	if m.two {
		m.counts["with two proxies"]++
	}
}

// kill makes those die who shall while a proxy stands at its point, lets it go on, and
// brings the dead back.
func (m *matrix) kill(p interface{ GoOn() }, shards []int, dead []string, alone bool) {
	t := m.t
	t.Helper()
	decider, other, bystander := roles(shards)
	var down []int
	for _, who := range dead {
		switch who {
		case "proxy":
			if !alone {
				m.weft[0].Signal(t, syscall.SIGKILL)
			}
			m.weft[0].WaitExit(t, patience)
		case "etcd":
			m.etcd.Kill()
		case "decider", "participant", "bystander":
			if s := map[string]int{"decider": decider, "participant": other, "bystander": bystander}[who]; s >= 0 {
				m.any.Shards()[s].Kill()
				down = append(down, s)
			}
		}
	}
	p.GoOn()
	if len(down) > 0 || slices.Contains(dead, "etcd") {
		time.Sleep(time.Duration(m.r.IntN(1000)) * time.Millisecond)
	}
	if slices.Contains(dead, "etcd") {
		if err := m.etcd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range down {
		if err := m.any.Shards()[s].Restart(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if slices.Contains(dead, "proxy") {
		m.replace(0, nil)
	}
}

// TestResolverStopped kills a resolver at each point of its work, or a shard or etcd while
// it stands there, after the proxy that commits was: the next one ends it.
func TestResolverStopped(t *testing.T) {
	m := newMatrix(t, "c_resolver")
	for range *rounds {
		for _, at := range []twopc.Point{twopc.AfterPrepare, twopc.DuringFollow, twopc.AfterCommit} {
			for i, point := range twopc.RecoveryPoints {
				swept := point == twopc.BeforeSweep || point == twopc.AfterSweep
				if swept && at == twopc.AfterPrepare {
					continue // there is no decision
				}
				for j, victim := range victims[:4] {
					// In short, the resolver at each point, and one of the others.
					if *rounds == 1 && (at == twopc.AfterPrepare && j != 0 || at == twopc.AfterCommit && (j != 1+(i+int(*seed))%3 || point == twopc.AfterSweep) ||
						at == twopc.DuringFollow && (j != 0 || !swept)) {
						continue
					}
					m.recovery(at, point, victim)
				}
			}
		}
	}
	t.Logf("%d rounds", m.n)
}

// recovery kills proxy 0 in its commit, and a victim while proxy 1 stands at a point of
// its recovery.
func (m *matrix) recovery(at, point twopc.Point, victim string) {
	t := m.t
	t.Helper()
	m.n++
	c := m.conn(0)
	shards := m.transfer(c, m.r, m.n, 3)
	m.weft[0].StopAt(t, string(at), true)
	m.weft[1].StopAt(t, string(point), victim == "proxy")
	if _, err := c.Exec(context.Background(), "commit", pgx.QueryExecModeSimpleProtocol); err == nil {
		t.Fatalf("%s: COMMIT is answered by the dead", at)
	}
	m.weft[0].WaitExit(t, patience)
	what := fmt.Sprintf("round %d: %s, and then %s at %s", m.n, at, victim, point)
	if victim == "proxy" {
		m.weft[1].WaitExit(t, patience) // found it, and died of it
		m.replace(1, nil)
	} else {
		within(t, patience, what+": the resolver comes there", m.weft[1].Stopped)
		m.kill(m.weft[1], shards, []string{victim}, false)
	}
	began := time.Now()
	m.replace(0, nil)
	within(t, 10*time.Second, what+": nothing is prepared", func() bool { return m.prepared() == 0 })
	settled := time.Since(began)
	within(t, 20*time.Second, what+": no decision is left", func() bool { return m.decisions() == 0 })
	parts, sum := m.applied(m.n)
	want := len(shards)
	if at == twopc.AfterPrepare {
		want = 0
	}
	t.Logf("%s: %d of %d parts, settled after %s", what, parts, len(shards), settled.Round(time.Millisecond))
	if parts != want || sum != m.total {
		t.Fatalf("%s: %d of %d parts, sum %d", what, parts, len(shards), sum)
	}
}
