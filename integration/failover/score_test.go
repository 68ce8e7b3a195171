package failover

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// score is what came of many rounds.
type score struct {
	t      testing.TB
	pauses []time.Duration  // the longest that a client has waited for one thing, by round
	ours   []time.Duration  // those of firsts while which nobody else had much of the processors
	firsts []time.Duration  // from when the new primary was a standby for the last time to the first answer that it has a part in, by round
	failed map[string]int   // errors by kind of client
	most   int              // errors that one client has met in one round, refusals not counted
	waited int              // blocks that were refused because they had waited for as long as they may while they hold something
	found  map[string]int   // lost, half, duplicates
	rows   map[string][]int // acknowledged, there
}

func newScore(t testing.TB) *score {
	return &score{t: t, failed: map[string]int{}, found: map[string]int{"lost": 0, "half": 0, "duplicates": 0}, rows: map[string][]int{}}
}

// waitInTransaction is failover.wait_in_transaction: a block that holds something on another shard waits no longer.
const waitInTransaction = 5 * time.Second

// round counts what clients have met since the last call. No read fails and no login; of writes that were under way when the primary was lost, one per client may.
func (s *score) round(round, shard int, lost, promoted time.Time, stolen func(from, to time.Time) float64, customers []*customer) {
	s.t.Helper()
	met, pause, first := 0, time.Duration(0), time.Duration(-1)
	for _, u := range customers {
		done, failed, longest, answers := u.take()
		pause = max(pause, longest)
		i := slices.IndexFunc(answers, func(a answer) bool { return promoted.Before(a.at) && (a.shard == shard || a.shard == allShards) })
		if i >= 0 && !promoted.IsZero() && (first < 0 || answers[i].at.Sub(promoted) < first) {
			first = answers[i].at.Sub(promoted)
		}
		met += len(failed)
		s.failed[u.kind] += len(failed)
		if done == 0 {
			s.t.Errorf("round %d: a client does not go on: %s", round, u.kind)
		}
		counted, login := 0, false
		for _, f := range failed {
			login = login || f.login
			if u.kind == "transfer" && f.code == "57P03" && f.at.Sub(lost) > waitInTransaction {
				s.waited++
				continue
			}
			counted++
		}
		s.most = max(s.most, counted)
		if counted > 1 || login || u.reads() && len(failed) > 0 {
			s.t.Errorf("round %d, shard-%d lost its primary at %s: %d errors:\n%s", round, shard, lost.Format("15:04:05.000"), len(failed), list(failed))
		}
	}
	s.pauses = append(s.pauses, pause)
	others := 0.0
	if first >= 0 {
		s.firsts = append(s.firsts, first)
		if others = stolen(promoted.Add(-time.Second), promoted.Add(time.Second)); others < muchStolen {
			s.ours = append(s.ours, first)
		}
	}
	s.t.Logf("round %d: shard-%d, pause %v, first answer %v after the promotion, %d writes failed, %.0f %% of the processors stolen", round, shard,
		pause.Round(time.Millisecond), first.Round(time.Millisecond), met, 100*others)
}

func list(failed []failure) string {
	var lines []string
	for _, f := range failed {
		lines = append(lines, f.String())
	}
	return strings.Join(lines, "\n")
}

// percentile returns the time that p of 100 rounds do not exceed.
func percentile(times []time.Duration, p int) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max((len(sorted)*p+99)/100, 1)-1].Round(time.Millisecond)
}

// muchStolen is the part of the processors from which on times say nothing of weft.
const muchStolen = 0.05

// enough is how many rounds are held against a bar: one round on a busy machine says nothing.
const enough = 10

// report prints everything, and holds the pauses against a bar.
func (s *score) report(bar time.Duration) {
	s.t.Helper()
	s.t.Logf("%d rounds: pause p50 %v, p99 %v, max %v (bar %v)", len(s.pauses), percentile(s.pauses, 50), percentile(s.pauses, 99), percentile(s.pauses, 100), bar)
	s.t.Logf("%d promotions: first answer after p50 %v, p99 %v, max %v (bar %v)", len(s.firsts), percentile(s.firsts, 50), percentile(s.firsts, 99),
		percentile(s.firsts, 100), barFirst)
	s.t.Logf("%d of them while less than %.0f %% of the processors were stolen: p50 %v, p99 %v, max %v", len(s.ours), 100*muchStolen,
		percentile(s.ours, 50), percentile(s.ours, 99), percentile(s.ours, 100))
	for _, what := range slices.Sorted(maps.Keys(s.found)) {
		s.t.Logf("%s: %d", what, s.found[what])
	}
	for _, kind := range slices.Sorted(maps.Keys(s.failed)) {
		s.t.Logf("errors of %s: %d", kind, s.failed[kind])
	}
	s.t.Logf("errors of one client in one round: at most %d; blocks refused after %v: %d", s.most, waitInTransaction, s.waited)
	for _, table := range slices.Sorted(maps.Keys(s.rows)) {
		s.t.Logf("%s: %d acknowledged, %d there", table, s.rows[table][0], s.rows[table][1])
	}
	for what, n := range s.found {
		if n != 0 {
			s.t.Errorf("%s: %d", what, n)
		}
	}
	if got := percentile(s.pauses, 99); got > bar && len(s.pauses) >= enough {
		s.t.Errorf("a pause of %v: the bar is %v", got, bar)
	}
	if got := percentile(s.firsts, 99); got > barFirst && len(s.firsts) >= enough {
		s.t.Errorf("the first answer came %v after a promotion: the bar is %v", got, barFirst)
	}
}

// audit looks for everything that was acknowledged, when all clients have ended.
func (s *score) audit(c *cluster, customers []*customer) {
	s.t.Helper()
	for shard := range shards {
		await(c.t, "no prepared transaction", func() bool {
			got, err := ask(c.t.Context(), c.primary(shard).Address, "select count(*) from pg_prepared_xacts")
			return err == nil && got == "0"
		})
	}
	if got := c.mustAsk("select sum(balance) from account"); got != fmt.Sprint(accounts*funds) {
		s.t.Errorf("the accounts hold %s", got)
	}
	for _, table := range []struct{ name, column, kind string }{{"t", "id", "insert"}, {"u", "id", "drawn"}, {"journal", "number", "transfer"}} {
		there := map[int64]int{}
		for _, id := range c.column(table.name, table.column) {
			there[id]++
		}
		want := 1
		if table.kind == "transfer" {
			want = 2 // sides
		}
		for _, n := range there {
			switch {
			case n < want:
				s.found["half"]++
			case n > want:
				s.found["duplicates"]++
			}
		}
		given := map[int64]bool{}
		for _, u := range customers {
			if u.kind != table.kind {
				continue
			}
			for _, id := range u.acked {
				if given[id] {
					s.found["duplicates"]++
				}
				given[id] = true
				if there[id] == 0 {
					s.found["lost"]++
				}
			}
		}
		s.rows[table.name] = []int{len(given), len(there)}
	}
}

// column reads a column of a table.
func (c *cluster) column(table, column string) []int64 {
	c.t.Helper()
	conn, err := pgx.Connect(c.t.Context(), "postgres://postgres@"+c.listen+"/app?sslmode=disable")
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close(c.t.Context())
	rows, err := conn.Query(c.t.Context(), "select "+column+" from "+table)
	if err != nil {
		c.t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		c.t.Fatal(err)
	}
	return ids
}
