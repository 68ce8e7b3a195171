package writes

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/config"
	"weft/integration/harness"
	"weft/integration/pair"
)

var (
	seedFlag    = flag.Uint64("seed", 1, "first seed of TestRandom")
	forFlag     = flag.Duration("for", 15*time.Second, "how long TestRandom goes on")
	modeFlag    = flag.String("mode", "", "put all statements in this way")
	kindFlag    = flag.String("kind", "", "make up statements of this kind only")
	traceFlag   = flag.Bool("verbose", false, "log every statement")
	refusedFlag = flag.Float64("refused", 4, "how many of a hundred statements may be refused")
	undeclared  = flag.Bool("undeclared", false, "declare no table: the statements themselves are tested")
	mostFlag    = flag.Int("mismatches", 5, "after how many mismatches TestRandom gives up")
)

func TestMain(m *testing.M) {
	harness.ShardCount = 4
	os.Exit(harness.Main(m))
}

// perSeed is how many transactions one seed stands for.
const perSeed = 30

// TestRandom makes transactions that nobody wrote: never a wrong answer, never a
// row that is missing, too many or in the wrong place.
func TestRandom(t *testing.T) {
	r := newRun(t)
	deadline := time.Now().Add(*forFlag)
	for seed := *seedFlag; time.Now().Before(deadline) && r.mismatches < *mostFlag; seed++ {
		r.history(seed, deadline)
	}
	r.report()
}

// run is a pair of databases and what became of the statements.
type run struct {
	*pair.Pair
	other    *pair.Peer // a client of another proxy
	t        *testing.T
	database string

	seed       uint64
	story      []string // the statements of the history since the tables were last found equal
	asked      int
	failed     int // on both
	refused    int
	overtaken  int // statements that rows on the move have overtaken
	mismatches int
	refusals   map[string]int
	failures   map[string]int
}

func newRun(t *testing.T) *run {
	database := "writes"
	harness.Weft(t).CreateDatabase(t, database)
	harness.Postgres(t).CreateDatabase(t, database)
	r := &run{
		Pair: pair.New(t, harness.Postgres(t), harness.Weft(t), database), t: t, database: database,
		refusals: map[string]int{}, failures: map[string]int{},
	}
	for _, sql := range slices.Concat(schema, reaching) {
		r.Both(t, "schema", sql)
	}
	for _, sql := range declarations {
		if !*undeclared {
			r.Weft.Must(t, sql)
		}
	}
	for _, sql := range ruling {
		r.Both(t, "schema", sql)
	}
	r.Both(t, "limits", "set statement_timeout = '10s'")
	r.other = pair.Connect(t, harness.StartWeft(t, func(*config.Config) {}), database, "postgres")
	r.other.Must(t, "set statement_timeout = '10s'")
	harness.KeepMoving(t, harness.Weft(t), database)
	return r
}

// fill gives both sides the same rows again.
func (r *run) fill() {
	tables := "customers, orders, items, events, totals, readings, products, members, seats, lines, tickets, posts, ruled, ruled_log"
	r.Both(r.t, "data", "truncate "+tables)
	r.Both(r.t, "data", "truncate log, homely")
	for _, sql := range data {
		r.Both(r.t, "data", sql)
	}
}

func (r *run) history(seed uint64, deadline time.Time) {
	r.seed, r.story = seed, nil
	g := newGenerator(seed)
	if seed%3 == 0 {
		r.Weft, r.other = r.other, r.Weft
	}
	r.fill()
	for range perSeed {
		if time.Now().After(deadline) {
			return
		}
		if !r.transaction(g) {
			break
		}
	}
	r.compare()
}

// compare compares all tables, and reports whether they are equal.
func (r *run) compare() bool {
	ok := r.t.Run(fmt.Sprintf("seed=%d", r.seed), func(t *testing.T) {
		pair.SameTables(t, r.database, map[string]bool{"drawn": true})
		if !*undeclared {
			pair.Verified(t, r.Weft.Conn)
		}
		if t.Failed() {
			t.Logf("after:\n  %s", strings.Join(r.story, ";\n  "))
		}
	})
	if !ok {
		r.mismatches++
	}
	return ok
}

// alter has the client of the other proxy change tables, there and back: plans and
// prepared statements are old then.
func (r *run) alter() {
	for _, p := range []*pair.Peer{r.other, r.Plain} {
		for _, sql := range []string{"alter table orders add column passing int default 1", "alter table orders drop column passing", "comment on table products is 'x'"} {
			p.Must(r.t, sql)
		}
	}
}

// transaction makes one up and carries it out on both sides. It reports false if
// the two are not worth comparing any more.
func (r *run) transaction(g *generator) bool {
	if g.chance(2) {
		r.alter()
	}
	if g.chance(25) {
		return r.pipeline(g)
	}
	if g.chance(40) {
		return r.statement(g, "")
	}
	r.control(pick(g, []string{"begin", "begin", "begin", "begin isolation level repeatable read"}))
	for range 1 + g.IntN(6) {
		savepoint := ""
		if g.chance(60) {
			savepoint = pick(g, []string{"a", "b"})
			r.control("savepoint " + savepoint)
		}
		step := func() bool { return r.statement(g, savepoint) }
		if g.chance(15) {
			step = func() bool { return r.pipeline(g) }
		}
		if !step() {
			return false
		}
		switch status := r.Weft.Conn.TxStatus(); {
		case status == 'E' && savepoint != "" && g.chance(80):
			r.control("rollback to " + savepoint)
		case status == 'E', status == 'I':
			r.control("rollback")
			return true
		case savepoint != "" && g.chance(30):
			r.control(pick(g, []string{"release ", "rollback to "}) + savepoint)
		}
	}
	r.control(pick(g, []string{"commit", "commit", "commit", "rollback"}))
	return true
}

// control runs a command about the transaction on both sides.
func (r *run) control(sql string) {
	got, want := r.Weft.Ask(pair.Simple, sql, nil, nil), r.Plain.Ask(pair.Simple, sql, nil, nil)
	r.story = append(r.story, sql)
	if diff := pair.Diff(want, got, false); diff != "" {
		r.wrong(pair.Simple, sql, nil, diff)
	}
}

// statement makes up a statement and asks both sides. savepoint is where the
// transaction stood before it, if there is such a place.
func (r *run) statement(g *generator, savepoint string) bool {
	sql, set, ordered := g.statement()
	m := pick(g, pair.Ways)
	if *modeFlag != "" {
		m = pair.Mode(*modeFlag)
	}
	if m == pair.Prepared && len(r.Weft.Known) > 100 {
		m = pair.Text
	}
	r.asked++
	inside := r.Weft.Conn.TxStatus() == 'T'
	got := r.Weft.Ask(m, sql, set, nil)
	if *traceFlag {
		r.t.Logf("%s: %s: %q %s", m, pair.Inline(sql, set), got.Code, got.Message)
	}
	if got.Refused() {
		r.noteRefusal(got)
		switch {
		case inside && savepoint != "":
			r.Weft.Ask(pair.Simple, "rollback to "+savepoint, nil, nil)
			r.Plain.Ask(pair.Simple, "rollback to "+savepoint, nil, nil)
		case inside:
			r.Plain.Ask(pair.Simple, "rollback", nil, nil)
			r.Weft.Ask(pair.Simple, "rollback", nil, nil)
		}
		return true
	}
	want := r.Plain.Ask(m, sql, set, nil)
	r.story = append(r.story, pair.Inline(sql, set))
	if want.Code != "" {
		r.failed++
		r.failures[want.Code]++
	}
	if constraint(want.Code) && constraint(got.Code) && want.Status == got.Status {
		return true // which row is met first is nobody's promise
	}
	if diff := pair.Diff(want, got, ordered); diff != "" {
		r.wrong(m, sql, set, diff)
		return false
	}
	return true
}

// noteRefusal counts a refusal.
func (r *run) noteRefusal(got pair.Answer) {
	if got.Code == "40001" {
		r.overtaken++ // a client would ask again
	} else {
		r.refused++
	}
	r.refusals[got.Message]++
}

// constraint reports whether a row was not allowed.
func constraint(code string) bool { return strings.HasPrefix(code, "23") || code == "21000" }

func (r *run) wrong(m pair.Mode, sql string, set []pair.Param, diff string) {
	r.mismatches++
	r.t.Errorf("seed %d, %s: %s\n  parameters %s\n  %s\n  after:\n    %s", r.seed, m, pair.Inline(sql, set), pair.Show(set), diff,
		strings.Join(r.story[:max(len(r.story)-1, 0)], ";\n    "))
	for _, p := range []*pair.Peer{r.Weft, r.Plain} {
		if p.Conn.TxStatus() != 'I' {
			p.Ask(pair.Simple, "rollback", nil, nil)
		}
	}
}

func (r *run) report() {
	share := 100 * float64(r.refused) / float64(max(r.asked, 1))
	r.t.Logf("%d statements, %d failed on both, %d refused (%.1f %%), %d overtaken by rows that move", r.asked, r.failed, r.refused, share, r.overtaken)
	for _, counts := range []map[string]int{r.refusals, r.failures} {
		for _, m := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return counts[b] - counts[a] }) {
			r.t.Logf("  %d × %s", counts[m], m)
		}
	}
	if share > *refusedFlag {
		r.t.Errorf("%.1f %% of the statements were refused, at most %.1f %% may be", share, *refusedFlag)
	}
	if r.asked > 100 && r.failed*2 > r.asked {
		r.t.Errorf("most statements fail on PostgreSQL: they show little")
	}
}
