package tx

import (
	"context"
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

var cost = flag.Int("cost", 0, "how often to do what is measured of atomic reads; 0: not at all")

// TestCost measures what atomic reads cost readers and writers, side by side: the
// medians of many rounds, each of which does all there is to compare.
func TestCost(t *testing.T) {
	if *cost == 0 {
		t.Skip("only with -cost: it measures and proves nothing")
	}
	w := newWorld(t, "cost", 1)
	shard, atomic, d := w.conn(0), w.conn(0), w.direct(1)
	must(t, atomic, "set weft.read = 'atomic'")
	took := map[string][]time.Duration{}
	measure := func(what string, c *pgx.Conn, sql string) {
		began := time.Now()
		if _, err := c.PgConn().Exec(context.Background(), sql).ReadAll(); err != nil {
			t.Fatal(err)
		}
		took[what] = append(took[what], time.Since(began))
	}
	must(t, atomic, sums[0]) // and the gate is there
	for range *cost {
		measure("read, shard", shard, sums[0])
		measure("read, atomic", atomic, sums[0])
		measure("prepare on a shard", d, "begin; update acct set note = 'a'; prepare transaction 'cost'")
		must(t, d, "rollback prepared 'cost'")
		measure("prepare on a shard, through the gate", d, "begin; update acct set note = 'a'; lock table only weft_gate.gate in row exclusive mode; prepare transaction 'cost'")
		must(t, d, "rollback prepared 'cost'")
	}
	for what, list := range took {
		slices.Sort(list)
		t.Logf("%-40s median %s, 90%% %s", what, list[len(list)/2], list[len(list)*9/10])
	}
}
