package crash

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/directory"
)

// onlineSample are the cells of TestDeclareDeaths: a point, and whether the job goes to its end. Otherwise it is cancelled after
// the death.
var onlineSample = []struct {
	point string
	ends  bool
}{
	{"move-finishing", true}, {"move-prepared", true}, {"move-rows-carried", false}, {"move-committed", true}, {"move-finishing", true}, {"move-all-clear", false},
}

// TestDeclareDeaths kills the proxy that takes declarations of tables back, or declares them, while clients read and write
// them. Another proxy goes on, or takes everything back if it is told to: every answer is exact, every row is there once and
// where it belongs, and the tables are on the shards or are not.
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
	switch {
	case *moveCell != "":
		m.onlineCell(*moveCell, true)
		m.onlineCell(*moveCell, true)
	case *moveTime == 0:
		for _, c := range onlineSample {
			m.onlineCell(c.point, c.ends)
		}
	default:
		for end := time.Now().Add(*moveTime); time.Now().Before(end) && m.bad < 20; {
			m.onlineCell(movePoints[m.r.IntN(len(movePoints))], m.r.IntN(3) > 0)
		}
	}
	m.end()
}

// onlineCell takes the declarations back if there are some, and makes them otherwise. P dies at a point.
func (m *moving) onlineCell(point string, ends bool) {
	t := m.t
	t.Helper()
	m.n++
	before := m.bad
	d := &death{point: point, victim: "P", began: time.Now(), lasting: 500 * time.Millisecond, b: 1, online: true, ends: ends}
	was := m.snapshot().Table(m.db, "public", "bank") != nil
	call := "select weft.shard_table('bank', 'id', cascade => true, wait => false)"
	if was {
		call = "select weft.unshard_table('bank', cascade => true, wait => false)"
	}
	m.weft[0].StopAt(t, point, false)
	m.load.concerns(nil, d)
	m.with(0, func(c *pgx.Conn) { must(t, c, call) })
	d.job = m.snapshot().Moves[0].ID
	within(t, patience, fmt.Sprintf("%s: P comes there", point), m.weft[0].Stopped)
	m.kill(d)
	m.weft[0].GoOn()
	time.Sleep(d.lasting)
	m.revive(d)
	m.settle(d)
	now := m.snapshot().Declared(m.db)
	t.Logf("cell %d, %s, %s, ends %v: %s, %d tables are declared, %s", m.n, call, point, ends, time.Since(d.began).Round(time.Millisecond), len(now), m.load.report())
	if slices.ContainsFunc(now, func(t directory.Table) bool { return t.State != directory.Active || t.Group != "" }) || len(m.snapshot().Placements) > 0 {
		m.complain("%s: something of the group is left", point)
	}
	if m.bad > before {
		t.Logf("repeat it with: go test ./integration/crash -run TestDeclareDeaths -v -args -cell %s -seed %d", point, *seed)
	}
}
