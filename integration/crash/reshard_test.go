package crash

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/directory"
	"weft/integration/harness"
	"weft/reshard"
)

// joinPoints are the points of a job by which a shard joins, before other jobs bring it buckets.
var joinPoints = []string{"join-checked", "equipped-c_shards", "join-equipped", "join-held", "join-matched", "join-entered"}

// leavePoints are the points of a job by which a shard leaves that has no buckets any more.
var leavePoints = []string{"leave-held", "leave-entered"}

// shardSample are the cells of the short form of TestShardDeaths.
var shardSample = []string{"join join-held/P", "retire move-prepared/P", "join join-matched/nobody", "remove leave-held/P", "retire leave-held/nobody"}

// TestShardDeaths is TestMoveDeaths for jobs by which a fifth shard joins and leaves.
func TestShardDeaths(t *testing.T) {
	m := newMoving(t, "c_shards")
	c := m.conn(0)
	must(t, c, "create table ref (id bigint primary key, v int not null)")
	must(t, c, "insert into ref select i, 0 from generate_series(1, 20) i")
	declare(t, c, "select weft.reference_table('ref')")
	m.load.refer()
	m.reference = true
	// One of each in turn: what joins by one, leaves by another.
	in := diagonal("join", slices.Concat(joinPoints, movePoints), moveVictims)
	out := diagonal("retire", slices.Concat(leavePoints, movePoints), moveVictims)
	gone := diagonal("remove", leavePoints, moveVictims)
	var cells []string
	for i := range in {
		cells = append(cells, in[i])
		if i%3 == 2 {
			cells = append(cells, gone[i/3%len(gone)])
		} else {
			cells = append(cells, out[i%len(out)])
		}
	}
	m.all(shardSample, cells)
}

// TestShardElsewhere: a session that has used a shard which leaves, and another server that joins under the name of that
// shard, uses the new server.
func TestShardElsewhere(t *testing.T) {
	w := newWorld(t, "c_elsewhere", quietly)
	w.proxy(quietly)
	c, session := w.conn(0), w.conn(1)
	must(t, c, "create table e (id bigint primary key); insert into e select i from generate_series(1, 200) i")
	declare(t, c, "select weft.shard_table('e', 'id')")
	for i := range 3 {
		s := harness.EmptyServer(t, nil)
		must(t, c, "select weft.wait_move($1)", value[string](t, c, "select weft.add_shard($1, $2, max_pause => '5s')", fifth, s.Addr()))
		for range 20 {
			if n := value[int](t, session, "select count(*)::int from e"); n != 200 {
				t.Errorf("server %d: %d rows of 200", i, n)
			}
		}
		must(t, c, "select weft.wait_move($1)", value[string](t, c, "select * from weft.drain_shard($1, max_pause => '5s')", fifth))
		must(t, c, "select weft.remove_shard($1)", fifth)
		_ = s.Close()
	}
}

// fifth is the shard that joins and leaves.
const (
	fifth      = "shard-4"
	fifthIndex = 4
)

// shardPause is how long jobs by which a shard joins or leaves may hold statements.
const shardPause = 2 * time.Second

// thereIs reports whether the fifth shard is one of the shards.
func (m *moving) thereIs() bool {
	_, ok := m.snapshot().Shard(fifth)
	return ok
}

// proxyID returns the name under which the directory lists a proxy.
func (m *moving) proxyID(i int) string {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	list, err := m.store.Proxies(ctx)
	at := slices.IndexFunc(list, func(p directory.Proxy) bool { return p.Address == m.weft[i].Addr })
	if err != nil || at < 0 {
		m.t.Fatalf("proxy %d is not listed: %v", i, err)
	}
	return list[at].ID
}

// leaves enters a job that takes the fifth shard out of the cluster and is a proxy's, and returns it.
func (m *moving) leaves(proxy int, pause time.Duration) string {
	id := m.proxyID(proxy)
	m.change(func(next *directory.Snapshot) {
		if err := reshard.Retire(next, fifth, directory.Move{User: "postgres", Proxy: id, Options: directory.MoveOptions{MaxPause: pause}}); err != nil {
			m.t.Fatal(err)
		}
	})
	moves := m.snapshot().Moves
	return moves[len(moves)-1].ID
}

// present makes the fifth shard one of the shards, or not, without a death.
func (m *moving) present(yes bool) {
	t := m.t
	t.Helper()
	switch there := m.thereIs(); {
	case yes && !there:
		m.renew()
		m.with(1, func(c *pgx.Conn) {
			must(t, c, "select weft.add_shard($1, $2, max_pause => '5s')", fifth, m.more[0].Addr())
		})
	case !yes && there:
		m.leaves(1, 5*time.Second)
	}
	within(t, patience, fmt.Sprintf("%s is there: %v", fifth, yes), func() bool { return len(m.snapshot().Moves) == 0 && m.thereIs() == yes })
}

// renew replaces the server of the fifth shard by an empty one.
func (m *moving) renew() {
	if c := m.eyes[fifthIndex]; c != nil {
		_ = c.Close(context.Background())
		delete(m.eyes, fifthIndex)
	}
	for _, s := range m.more {
		_ = s.Close()
	}
	m.more = append(m.more[:0], harness.EmptyServer(m.t, nil))
}

// join asks P for the job by which the fifth shard joins.
func (m *moving) join(d *death) {
	t := m.t
	t.Helper()
	m.present(false)
	m.renew()
	d.a, d.b, d.pause, d.ends = 1+m.r.IntN(3), fifthIndex, max(d.pause, shardPause), m.r.IntN(4) > 0
	m.resized(d)
	m.with(0, func(c *pgx.Conn) {
		d.job = value[string](t, c, "select weft.add_shard($1, $2, max_pause => $3)", fifth, m.more[0].Addr(), d.maxPause())
	})
}

// retire asks P for the job that takes all buckets off the fifth shard, and the shard out of the cluster.
func (m *moving) retire(d *death) {
	m.t.Helper()
	m.present(true)
	d.a, d.b, d.pause, d.ends = fifthIndex, 1+m.r.IntN(3), max(d.pause, shardPause), m.r.IntN(4) > 0
	m.resized(d)
	d.job = m.leaves(0, d.pause)
}

// remove asks P to take the fifth shard out of the cluster, without buckets.
func (m *moving) remove(d *death) {
	t := m.t
	t.Helper()
	m.present(true)
	m.with(1, func(c *pgx.Conn) { must(t, c, "select weft.drain_shard($1, max_pause => '5s')", fifth) })
	within(t, patience, fifth+" is drained", func() bool { return len(m.snapshot().Moves) == 0 })
	d.a, d.b, d.pause, d.ends = fifthIndex, 1+m.r.IntN(3), max(d.pause, shardPause), true
	m.resized(d)
	m.ask(d, "select weft.remove_shard($1)", fifth)
}

// resized says that any bucket may go to the fifth shard, or come from there.
func (m *moving) resized(d *death) {
	place := m.snapshot().PlacementOf(m.db, "")
	for b := range place {
		d.buckets = append(d.buckets, b)
	}
	m.load.concerns(place, d.buckets, func(b int) []int { return []int{int(place[b]), d.a, d.b} })
}

// alike complains of copies of reference tables that differ.
func (m *moving) alike(what string, c *pgx.Conn) {
	if !m.reference {
		return
	}
	rows, _ := c.Query(context.Background(), "select * from weft.verify_reference()")
	found, err := pgx.CollectRows(rows, pgx.RowToMap)
	if err != nil || slices.ContainsFunc(found, func(f map[string]any) bool { return !strings.Contains(fmt.Sprint(f["finding"]), "are the same") }) {
		m.complain("%s: reference tables: %v, %v", what, found, err)
	}
}
