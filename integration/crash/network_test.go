package crash

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"weft/config"
	"weft/directory"
	"weft/pgserver"
)

// TestNetwork breaks the network to a shard in each phase of a commit over two
// shards. Whatever the client is told is true: what it heard was committed is on
// both, what failed on none, and what nobody can know (08007) not by half.
func TestNetwork(t *testing.T) {
	together(t)
	var cables []*cable
	w := newWiredWorld(t, "c_network", func(snap *directory.Snapshot) {
		for i := range snap.Shards {
			c := newCable(t, snap.Shards[i].Hosts[0])
			cables = append(cables, c)
			snap.Shards[i].Hosts = []string{c.addr()}
		}
	}, func(c *config.Config) {
		c.Pool.ConnectTimeout, c.Pool.QueueTimeout = time.Second, 5*time.Second
	})
	w.shop()
	shards := w.any.Shards()
	key := func(shard, n int) int64 { return w.keyOn(shard, n) }
	a, b := key(1, 0), key(2, 0)
	conn := w.conn(0) // weft's own tables are made before anything breaks
	must(t, conn, "begin")
	must(t, conn, "update s set v = -1 where id = $1", a)
	must(t, conn, "update s set v = -1 where id = $1", b)
	must(t, conn, "commit")
	n, tried := 0, 0
	for _, phase := range []string{"weft.decide", "PREPARE TRANSACTION", "COMMIT\x00", "COMMIT PREPARED"} {
		for _, f := range []struct {
			name   string
			before bool
			hurt   func(*cable)
		}{
			{"cut before", true, (*cable).sever},
			{"cut after", false, (*cable).sever},
			{"frozen before", true, freezeAWhile},
			{"frozen after", false, freezeAWhile},
			{"delayed", true, func(*cable) { time.Sleep(300 * time.Millisecond) }},
		} {
			if tried++; *rounds == 1 && tried%3 != int(*seed)%3 {
				continue // in short, one of three
			}
			t.Run(fmt.Sprintf("%.14s/%s", phase, f.name), func(t *testing.T) {
				n++
				t.Cleanup(func() { heal(cables) })
				sprung := make(chan bool, len(cables))
				for _, c := range cables {
					c.lay(&trap{words: []byte(phase), before: f.before, spring: func() {
						f.hurt(c)
						sprung <- true
					}})
				}
				conn := w.conn(0)
				must(t, conn, "begin")
				must(t, conn, "update s set v = $1 where id = $2", n, a)
				must(t, conn, "update s set v = $1 where id = $2", n, b)
				got, _ := exec(conn, 30*time.Second, "COMMIT")
				select {
				case <-sprung:
				default:
					t.Errorf("a commit without %q", phase)
				}
				heal(cables)
				judgeNetwork(t, w, shards, got, n, a, b)
			})
		}
	}
}

// freezeAWhile lets nothing through for longer than weft waits for shards to
// confirm what has been decided.
func freezeAWhile(c *cable) {
	c.freeze()
	time.AfterFunc(6*time.Second, c.reconnect)
}

// heal gives everybody the network back.
func heal(cables []*cable) {
	for _, c := range cables {
		c.lay(nil)
		c.reconnect()
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
