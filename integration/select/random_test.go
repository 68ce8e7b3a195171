package selects

import (
	"flag"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/integration/harness"
	"weft/integration/pair"
)

var (
	seedFlag    = flag.Uint64("seed", 1, "first seed of TestRandom")
	forFlag     = flag.Duration("for", 25*time.Second, "how long TestRandom goes on, over all worlds")
	worldFlag   = flag.String("world", "", "the only world of TestRandom: five, four, two or one")
	modeFlag    = flag.String("mode", "", "put all statements of TestRandom in this way")
	traceFlag   = flag.Bool("verbose", false, "log every statement of TestRandom")
	shrinkFlag  = flag.Duration("shrink", 20*time.Second, "how long a mismatch is made smaller")
	mostFlag    = flag.Int("mismatches", 5, "after how many mismatches TestRandom gives up")
	knownFlag   = flag.String("known", "", "a regular expression of what is known to be wrong: it is counted, not reported")
	refusedFlag = flag.Float64("refused", 2, "how many of a hundred statements may be refused")
)

// perSeed is how many statements one seed stands for: few, so that one can be
// played again without those before it.
const perSeed = 50

// TestRandom asks statements that nobody wrote: never a wrong answer, never an
// internal error, hardly ever a refusal.
func TestRandom(t *testing.T) {
	worlds := slices.DeleteFunc(slices.Clone(settings), func(s setting) bool { return *worldFlag != "" && s.name != *worldFlag })
	for i, s := range worlds {
		t.Run(s.name, func(t *testing.T) {
			w := open(t, s)
			r := &run{world: w, t: t, refusals: map[string]int{}, failures: map[string]int{}}
			r.other = pair.Connect(t, harness.BesideUneven(t, s.weights...), w.database, "postgres")
			r.other.Must(t, "set statement_timeout = '10s'")
			harness.KeepMoving(t, harness.Uneven(t, s.weights...), w.database)
			deadline := time.Now().Add(*forFlag / time.Duration(len(worlds)))
			// Each world has seeds of its own.
			for seed := *seedFlag + uint64(i)*1_000_000; time.Now().Before(deadline) && r.mismatches < *mostFlag; seed++ {
				r.seed(seed, deadline)
			}
			r.report()
		})
	}
}

// run counts what became of the statements of one world.
type run struct {
	*world
	other      *pair.Peer // a client of another proxy
	t          *testing.T
	ending     string
	asked      int
	counts     [slow + 1]int
	errors     int // statements that fail on PostgreSQL
	rows       int // statements that have rows
	mismatches int
	known      int
	refusals   map[string]int // by message
	failures   map[string]int // PostgreSQL's own, by SQLSTATE and message
}

// endings make weft put rows together in each of the ways it has.
var endings = []string{
	"reset weft.native; reset weft.inline_bytes",
	"set weft.native = off; reset weft.inline_bytes",
	"set weft.native = off; set weft.inline_bytes = '1B'",
	"reset weft.native; set weft.inline_bytes = '1kB'",
}

func (r *run) seed(seed uint64, deadline time.Time) {
	g := newGenerator(seed)
	if seed%3 == 0 {
		r.Weft, r.other = r.other, r.Weft
	}
	r.ending = endings[seed%uint64(len(endings))]
	for sql := range strings.SplitSeq(r.ending, "; ") {
		r.Weft.Must(r.t, sql)
	}
	for i := range perSeed {
		if time.Now().After(deadline) || r.mismatches >= *mostFlag {
			return
		}
		sql, set := g.statement()
		m := pick(g, pair.Ways)
		if g.chance(1) {
			r.alter()
		}
		if *modeFlag != "" {
			m = pair.Mode(*modeFlag)
		}
		if m == pair.Prepared && len(r.Weft.Known) > 200 {
			m = pair.Text // there is a limit to what a session may prepare
		}
		r.one(fmt.Sprintf("seed %d, statement %d", seed, i), g.dressed(question{mode: m, sql: sql, set: set}))
	}
}

// alter has the client of the other proxy change tables, there and back: plans and
// prepared statements are old then.
func (r *run) alter() {
	for _, p := range []*pair.Peer{r.other, r.Plain, r.turned} {
		for _, sql := range []string{"alter table a add column passing int default 1", "alter table a drop column passing", "comment on table r is 'x'"} {
			p.Must(r.t, sql)
		}
	}
}

// blocks are what may come before a read in a transaction. What they write the
// read must see.
var blocks = [][]string{
	{"begin"},
	{"begin read only"},
	{"begin isolation level repeatable read"},
	{"begin", "update a set n = coalesce(n, 0) + 1, x = x * 2 where k = 1"},
	{"begin", "delete from b where k = 2"},
	{"begin", "insert into a (k, id, n, s) values (77, 1001, 5, 'new')", "update a set b = true where k = 77"},
	{"begin", "update h set n = 5, k = 1"},
	{"begin", "set local timezone = 'Asia/Kolkata'"},
	{"begin", "savepoint x", "delete from c where k = 1", "rollback to x"},
}

// watched are such transactions of a role that row security holds for.
var watched = [][]string{
	watchedBy("a", "n % 2 = 0 or exists (select from r where r.id = a.n)", "c", "k < 5", "r", "id <> 3", "h", "n > 1"),
	watchedBy("b", "exists (select from a where a.k = b.k and a.n > 1)", "m", "true", "u", "current_user = 'watched' and n is not null"),
}

// watchedBy begins a transaction in which row security holds, of a role that it holds for.
// policies are tables, and what the role sees of each.
func watchedBy(policies ...string) []string {
	block := []string{"begin"}
	for i := 0; i < len(policies); i += 2 {
		table, using := policies[i], policies[i+1]
		block = append(block, "alter table "+table+" enable row level security", "create policy sees on "+table+" using ("+using+")")
	}
	return append(block, "grant select on all tables in schema public to watched", "set local role watched")
}

// dressed puts a question into a transaction now and then.
func (g *generator) dressed(q question) question {
	switch {
	case g.chance(1): // their DDL takes longer than all else
		q.block = pick(g, watched)
	case g.chance(12):
		q.block = pick(g, blocks)
		q.cursor = g.chance(30)
	}
	return q
}

func (r *run) one(pos string, q question) {
	if *traceFlag {
		r.t.Logf("%s, %s: %s %s", pos, q, q.sql, pair.Show(q.set))
	}
	j := r.judge(q)
	r.asked++
	r.counts[j.verdict]++
	if j.want.Code != "" {
		r.errors++
		r.failures[j.want.Code+" "+names.ReplaceAllString(j.want.Message, "…")]++
		if *traceFlag {
			r.t.Logf("  %s %s", j.want.Code, j.want.Message)
		}
	} else if len(j.want.Results) > 0 && len(j.want.Results[0].Rows) > 0 {
		r.rows++
	}
	switch j.verdict {
	case refused:
		r.refusals[names.ReplaceAllString(strings.SplitN(j.got.Message, " (hint", 2)[0], "…")]++
		if *traceFlag {
			r.t.Logf("  refused: %s", j.got.Message)
		}
	case wrong, internal:
		if *knownFlag != "" && regexp.MustCompile(*knownFlag).MatchString(j.diff+" in "+q.sql+", "+q.String()) {
			r.known++
			return
		}
		r.mismatches++
		// At once: making it smaller could end in a crash of pg_query.
		fmt.Printf("%s (world %s), %s: %s %s\n", pos, r.name, q, q.sql, pair.Show(q.set))
		small := r.shrink(q, j, *shrinkFlag)
		again := r.judge(small)
		r.t.Errorf("%s (world %s, %s)\n  asked as %s: %s\n  parameters %s\n  %s\n\n  smaller, as %s: %s\n  %s",
			pos, r.name, r.ending, q, q.sql, pair.Show(q.set), j.diff, small, small.sql, again.diff)
		if j.got.Code == "?????" {
			r.t.Fatalf("%s: the connection is lost: %s", pos, j.got.Message)
		}
	}
}

// names are what differs in messages that say the same.
var names = regexp.MustCompile(`"[^"]*"|: \w+( \w+)? has no condition on \w+|\b[tscfvl]\d+\b|cte\d+`)

func (r *run) report() {
	t := r.t
	t.Logf("%d statements: %d the same (%d with rows, %d errors on both), %d refused, %d loose, %d too slow, %d wrong, %d internal errors; %d of these known",
		r.asked, r.counts[same], r.rows, r.errors, r.counts[refused], r.counts[loose], r.counts[slow], r.counts[wrong], r.counts[internal], r.known)
	if list := mostFrequent(r.refusals); list != "" {
		t.Logf("refusals:\n%s", list)
	}
	if *traceFlag {
		t.Logf("errors:\n%s", mostFrequent(r.failures))
	}
	share := func(n int) float64 { return 100 * float64(n) / float64(max(1, r.asked)) }
	if s := share(r.counts[refused]); s > *refusedFlag {
		t.Errorf("%.1f %% of the statements are refused", s)
	}
	// A generator whose statements say nothing tests nothing.
	if s := share(r.errors); s > 25 {
		t.Errorf("%.1f %% of the statements fail on PostgreSQL", s)
	}
	if s := share(r.rows); s < 50 && r.asked > 200 {
		t.Errorf("only %.1f %% of the statements have rows", s)
	}
}

func mostFrequent(count map[string]int) string {
	var out []string
	for _, m := range slices.SortedFunc(maps.Keys(count), func(a, b string) int { return count[b] - count[a] }) {
		out = append(out, fmt.Sprintf("%6d %s", count[m], m))
	}
	return strings.Join(out, "\n")
}
