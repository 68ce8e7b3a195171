package crash

import (
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/directory"
)

// declarePoints are the points of a declaration before its job makes rounds, in their order.
var declarePoints = []string{
	"announced", "dialled", "locked", "defined", "indexed", "filled", "committed-on-shard-2", "shards-committed", "moved", "active",
}

// undeclarePoints are the points at which all rows are at home, and tables on other shards go.
var undeclarePoints = []string{"undeclaring", "dropped-on-shard-2"}

// onlineSample are the cells of the short form of TestDeclareDeaths.
var onlineSample = []string{
	"undeclare move-finishing/P", "declare move-prepared/P", "undeclare move-rows-carried/P", "declare move-finishing/P", "undeclare undeclaring/P",
	"declare filled/P", "declare moved/nobody", "undeclare move-all-clear/nobody",
}

// TestDeclareDeaths is TestMoveDeaths for jobs that declare tables, and take declarations back, while clients read and write
// the tables. When a job is over, or has been cancelled, the tables are declared and on all shards, or they are not.
func TestDeclareDeaths(t *testing.T) {
	m := newMoving(t, "c_online")
	m.with(1, func(c *pgx.Conn) {
		for _, child := range []string{"pair", "line"} {
			sql := "alter table " + child + " add foreign key (id) references bank"
			within(t, patience, sql, func() bool {
				_, err := exec(c, patience, sql)
				if err != nil && code(err) != "40P01" { // transactions of the load lock the two tables in another order
					t.Fatalf("%s: %v", sql, err)
				}
				return err == nil
			})
		}
		must(t, c, "create table stays (id bigint primary key)") // decisions are swept in databases with declared tables
		declare(t, c, "select weft.shard_table('stays', 'id')")
	})
	m.after = m.declaredOrNot
	// One of each in turn: what one declares, the other takes back.
	up := diagonal("declare", slices.Concat(declarePoints, movePoints), moveVictims)
	down := diagonal("undeclare", slices.Concat(undeclarePoints, movePoints), moveVictims)
	var cells []string
	for i := range max(len(up), len(down)) {
		cells = append(cells, down[i%len(down)], up[i%len(up)])
	}
	m.all(onlineSample, cells)
}

// TestCancelDeclaring: a job whose tables are just being made on the shards cannot be cancelled, and goes on.
func TestCancelDeclaring(t *testing.T) {
	w := newWorld(t, "c_cancel", nil)
	w.proxy(nil)
	c, other := w.conn(0), w.conn(1)
	must(t, c, "create table s (id bigint primary key, v bigint); insert into s select i, i from generate_series(1, 100) i")
	w.weft[0].StopAt(t, "locked", false)
	asked := later(t, c, "select weft.shard_table('s', 'id', online => true)")
	within(t, patience, "P makes the table", w.weft[0].Stopped)
	job := w.snapshot().Moves[0].ID
	if got, err := exec(other, patience, "select weft.cancel_move($1)", job); got != "55006" {
		t.Errorf("cancelled while the table is being made: %v", err)
	}
	w.weft[0].GoOn()
	if err := <-asked; err != nil {
		t.Error(err)
	}
	if rows := w.rowsOf("s"); len(rows) != 100 || w.snapshot().Table(w.db, "public", "s") == nil {
		t.Errorf("%d rows of 100, jobs %+v", len(rows), w.snapshot().Moves)
	}
}

const (
	declareSQL   = "select weft.shard_table('bank', 'id', cascade => true, wait => false, max_pause => '%s')"
	undeclareSQL = "select weft.unshard_table('bank', cascade => true, wait => false, max_pause => '%s')"
)

// declared reports whether the tables of the load are declared.
func (m *moving) declared() bool { return m.snapshot().Table(m.db, "public", "bank") != nil }

// declare asks P to declare the tables of the load, or to take their declarations back. If they are not as the
// cell expects them, Q makes them so first.
func (m *moving) declare(d *death) {
	t := m.t
	t.Helper()
	call, other := declareSQL, undeclareSQL
	d.a, d.b = 0, 1+m.r.IntN(3)
	if d.kind == "undeclare" {
		call, other = other, call
		d.a, d.b = d.b, d.a
	}
	if m.declared() == (d.kind == "declare") {
		m.with(1, func(c *pgx.Conn) { must(t, c, fmt.Sprintf(other, d.maxPause())) })
		within(t, patience, other, func() bool { return len(m.snapshot().Moves) == 0 && m.ungrouped() })
	}
	d.online, d.ends = true, m.r.IntN(3) > 0
	snap := m.snapshot()
	place := snap.PlacementOf(m.db, "")
	for b := range place {
		d.buckets = append(d.buckets, b)
	}
	m.load.concerns(place, d.buckets, func(int) []int { return []int{0, 1, 2, 3} })
	m.ask(d, fmt.Sprintf(call, d.maxPause()))
	within(t, patience, "there is a job", func() bool {
		if moves := m.snapshot().Moves; len(moves) > 0 {
			d.job = moves[0].ID
		}
		return d.job != ""
	})
}

// ungrouped reports whether all tables that are declared are where all others are.
func (m *moving) ungrouped() bool {
	snap := m.snapshot()
	return len(snap.Placements) == 0 && !slices.ContainsFunc(snap.Declared(m.db), func(t directory.Table) bool {
		return t.State != directory.Active || t.Group != ""
	})
}

// declaredOrNot complains of tables that only some shards have.
func (m *moving) declaredOrNot(d *death) {
	for shard := 1; shard < len(m.snapshot().Shards); shard++ {
		n := value[int](m.t, m.eye(shard), "select count(*)::int from pg_class where relname in ('bank', 'pair', 'line') and relkind = 'r'")
		if m.declared() && n != 3 || !m.declared() && n != 0 {
			m.complain("%s %s/%s: shard %d has %d of 3 tables, declared: %v", d.kind, d.point, d.victim, shard, n, m.declared())
		}
	}
}
