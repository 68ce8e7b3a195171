package crash

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
	"weft/directory"
	"weft/pgserver"
	"weft/pgserver/pgtest"
	"weft/pool"
)

// network is a cluster whose ways to the shards can be broken.
type network struct {
	*world
	cables []*cable
	a, b   int64 // keys of two shards
	n      int   // rounds
}

// newNetwork has the ways to its shards at the given hosts.
func newNetwork(t *testing.T, db string, host func(shard int) string) *network {
	n := &network{}
	n.world = newWiredWorld(t, db, func(snap *directory.Snapshot) {
		for i := range snap.Shards {
			c := newCableAt(t, host(i), snap.Shards[i].Hosts[0])
			n.cables = append(n.cables, c)
			snap.Shards[i].Hosts = []string{c.addr()}
		}
	}, func(c *config.Config) {
		c.Pool.ConnectTimeout, c.Pool.QueueTimeout = pgtest.Stretch(time.Second), pgtest.Stretch(5*time.Second)
	})
	n.shop()
	n.a, n.b = n.keyOn(1, 0), n.keyOn(2, 0)
	conn := n.conn(0) // weft's own tables are made before anything breaks
	must(t, conn, "begin")
	must(t, conn, "update s set v = -1 where id = $1", n.a)
	must(t, conn, "update s set v = -1 where id = $1", n.b)
	must(t, conn, "commit")
	return n
}

// phases of a commit, by words that are sent in each: the first is the name under which
// backends know how to enter a decision, the third has its length, as other texts end
// with COMMIT too.
var phases = []string{pool.NamePrefix + "D\x00", "PREPARE TRANSACTION", "\vCOMMIT\x00", "COMMIT PREPARED"}

// TestNetwork breaks the network to a shard in each phase of a commit over two
// shards. Whatever the client is told is true: what it heard was committed is on
// both, what failed on none, and what nobody can know (08007) not by half.
func TestNetwork(t *testing.T) {
	together(t)
	net := newNetwork(t, "c_network", func(int) string { return "127.0.0.1" })
	tried := 0
	for _, phase := range phases {
		for _, f := range []struct {
			name   string
			before bool
			hurt   func(*cable)
		}{
			{"cut before", true, (*cable).sever},
			{"cut after", false, (*cable).sever},
			{"frozen before", true, (*cable).freeze},
			{"frozen after", false, (*cable).freeze},
			{"delayed", true, func(*cable) { time.Sleep(300 * time.Millisecond) }},
			{"half-closed to it", true, func(c *cable) { c.hush(true) }},
			{"half-closed from it", false, func(c *cable) { c.hush(false) }},
		} {
			if tried++; *rounds == 1 && tried%3 != int(*seed)%3 {
				continue // in short, one of three
			}
			t.Run(fmt.Sprintf("%.14q/%s", phase, f.name), func(t *testing.T) {
				net.try(t, phase, f.before, while, func(shard int) { f.hurt(net.cables[shard]) }, func(shard int) { net.cables[shard].whole() })
			})
		}
	}
}

// TestUnknown: while the deciding shard is away after it was sent COMMIT, nobody knows
// how that ended, and the client hears so.
func TestUnknown(t *testing.T) {
	together(t)
	net := newNetwork(t, "c_unknown", func(int) string { return "127.0.0.1" })
	told := net.try(t, "\vCOMMIT\x00", false, patience, func(shard int) { net.cables[shard].sever() }, func(shard int) { net.cables[shard].whole() })
	if told != "08007" {
		t.Errorf("told %q", told)
	}
}

// while is longer than weft waits for shards to confirm what has been decided.
const while = 6 * time.Second

// try hurts the way to the first shard that is sent the words of a phase, and heals it
// after a while, or when the client has been told: it returns what.
func (w *network) try(t *testing.T, phase string, before bool, while time.Duration, hurt, heal func(shard int)) string {
	t.Helper()
	w.n++
	type wound struct {
		shard int
		done  chan struct{} // closed when it hurts
	}
	wounds := make(chan wound, len(w.cables))
	for i, c := range w.cables {
		done := make(chan struct{})
		c.lay(&trap{
			words: []byte(phase), before: before, found: func() { wounds <- wound{i, done} },
			spring: func() {
				defer close(done)
				for j, other := range w.cables { // one is enough
					if j != i {
						other.lay(nil)
					}
				}
				hurt(i)
			},
		})
	}
	conn := w.conn(0)
	w.write(t, conn)
	done := later(t, conn, "COMMIT", pgx.QueryExecModeSimpleProtocol)
	var err error
	select {
	case err = <-done: // it need not wait for the network
	case <-time.After(while):
	}
	for _, c := range w.cables {
		c.lay(nil)
	}
	if len(wounds) == 0 {
		t.Errorf("a commit without %q", phase)
	}
	for len(wounds) > 0 {
		x := <-wounds
		<-x.done
		heal(x.shard)
	}
	if err == nil {
		select {
		case e, open := <-done:
			if err = e; !open {
				err = nil
			}
		case <-time.After(patience):
			t.Fatalf("COMMIT does not return although the network is back")
		}
	}
	judgeNetwork(t, w.world, w.any.Shards(), code(err), w.n, w.a, w.b)
	return code(err)
}

// write begins a block that writes on two shards. A connection that weft began to make while the
// network was away may still fail: then the block is begun again.
func (w *network) write(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	for began := time.Now(); ; {
		_, err := conn.Exec(t.Context(), "begin")
		for _, id := range []int64{w.a, w.b} {
			if err == nil {
				_, err = conn.Exec(t.Context(), "update s set v = $1 where id = $2", w.n, id)
			}
		}
		if err == nil {
			return
		}
		if code(err) != "08006" || time.Since(began) > patience {
			t.Fatalf("before the commit: %v", err)
		}
		must(t, conn, "rollback")
	}
}

// judgeNetwork compares what the client was told with what is there.
func judgeNetwork(t *testing.T, w *world, shards []*pgserver.Temp, told string, n int, a, b int64) {
	t.Helper()
	within(t, 12*time.Second, "no transaction is prepared", func() bool { return w.prepared() == 0 })
	// No lock is left: what has been given up on has ended.
	var there []bool
	for i, k := range []int64{a, b} {
		c := w.direct(i + 1)
		must(t, c, "set lock_timeout = '10s'")
		there = append(there, value[int](t, c, "select v::int from s where id = $1 for update", k) == n)
		_ = c.Close(t.Context())
	}
	switch {
	case there[0] != there[1]:
		t.Errorf("told %q, and it is on one shard only: %v", told, there)
	case told == "" && !there[0]:
		t.Error("acknowledged, and not there")
	case told != "" && told != "08007" && told != "?" && there[0]:
		t.Errorf("told %q, and it is there", told)
	case told != "" && !slices.Contains(append(gone, "40001", "57014"), told):
		t.Errorf("told %q", told)
	}
	t.Logf("told %q, there %v", told, there)
}
