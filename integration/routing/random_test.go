package routing

import (
	"flag"
	"fmt"
	"testing"
	"time"
)

var (
	seedFlag  = flag.Uint64("seed", 1, "first seed of TestRandom")
	countFlag = flag.Int("statements", 1000, "how many statements TestRandom makes up")
	traceFlag = flag.Bool("verbose", false, "log every statement of TestRandom")
	modeFlag  = flag.String("mode", "", "put all statements of TestRandom in this way")
	blockFlag = flag.Int("blocks", 10, "how many of a hundred statements of TestRandomBlocks begin a transaction block")
	forFlag   = flag.Duration("for", 0, "go on with further seeds for so long")
)

// TestRandom asks both sides statements that nobody wrote: never a wrong answer,
// never a hang, never a row in the wrong place.
func TestRandom(t *testing.T) { randomly(t, 0) }

// TestRandomBlocks is the same with transaction blocks and savepoints.
func TestRandomBlocks(t *testing.T) { randomly(t, *blockFlag) }

func randomly(t *testing.T, blocks int) {
	deadline := time.Now().Add(*forFlag)
	for seed := *seedFlag; ; seed++ {
		ok := t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { random(t, seed, *countFlag, blocks) })
		if !ok || time.Now().After(deadline) {
			return
		}
	}
}

func random(t *testing.T, seed uint64, count, blocks int) {
	db := database(t, fmt.Sprintf("random_%d_%d", seed, blocks))
	p := newPair(t, db)
	for _, name := range []string{"shop", "types"} {
		for _, s := range readScript(t, name) {
			for _, st := range s.statements {
				switch s.kind {
				case "setup", "data":
					p.both(t, st.pos, st.sql)
				case "weft":
					declare(t, p, st)
				}
			}
		}
	}
	p.both(t, "views", views)
	p.both(t, "limits", "set statement_timeout = '5s'")
	g := newGenerator(seed)
	fine := 0   // statements that did what they say
	inside := 0 // statements left in the transaction
	for i := range count {
		if inside == 0 && g.chance(blocks) {
			p.both(t, "begin", "begin")
			inside = 1 + g.IntN(5)
		}
		sql, set := g.statement()
		m := pick(g, modes)
		if *modeFlag != "" {
			m = mode(*modeFlag)
		}
		if m == prepared && len(p.weft.known) > 200 {
			m = text // there is a limit to what a session may prepare
		}
		if inside > 1 && g.chance(15) {
			sql, set, m = pick(g, []string{"savepoint a", "rollback to a", "release a"}), nil, simple
		}
		wrong, want, got := p.run(m, sql, set)
		if *traceFlag {
			t.Logf("%d %s: %s %s: %q %c", i, m, sql, show(set), got.code, got.status)
		}
		if wrong != "" && want.code != "57014" { // both may be too slow, at different moments
			t.Errorf("statement %d, %s: %s\n  parameters %s\n  %s", i, m, inline(sql, set), show(set), wrong)
		}
		if got.code == "?????" || want.code == "?????" {
			t.Fatalf("statement %d, %s: %s: the connection is lost: %s %s", i, m, inline(sql, set), got.message, want.message)
		}
		if want.code == "" && !got.refused() {
			fine++
		}
		if got.status == 'I' {
			inside = 0
		} else if inside--; inside <= 0 {
			inside = 0
			p.both(t, "end", pick(g, []string{"commit", "rollback"}))
		}
		if i%250 == 249 && inside == 0 && !t.Failed() && !*undeclared {
			sameTables(t, db, nil)
			prune(t, p)
		}
		if t.Failed() && i > count/10 {
			break // what follows would be the same again
		}
	}
	if inside > 0 {
		p.both(t, "end", "commit")
	}
	if !*undeclared {
		sameTables(t, db, nil)
	}
	t.Logf("%d statements, %d done, %d refused", p.counts.asked, fine, p.counts.refused)
	if fine < count/4 {
		t.Errorf("only %d of %d statements were done", fine, count)
	}
}

// prune keeps joins small.
func prune(t *testing.T, p *pair) {
	for _, k := range samples["int8"] {
		p.both(t, "prune", "delete from order_items where customer_id = "+k+" and order_id > 1000")
		p.both(t, "prune", "delete from orders where customer_id = "+k+" and id > 1000")
	}
	p.both(t, "prune", "delete from orders where customer_id is null")
}

func show(set []param) string {
	out := ""
	for i, p := range set {
		v := "NULL"
		if p.text != nil {
			v = *p.text
		}
		out += fmt.Sprintf("$%d %s %q ", i+1, p.typ, v)
	}
	return out
}
