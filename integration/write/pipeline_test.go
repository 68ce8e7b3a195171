package writes

import (
	"fmt"
	"strings"

	"weft/integration/pair"
)

// pipeline makes up statements that are sent without a Sync between them: they are
// one transaction, or part of the open one. Some bring a BEGIN and COMMIT of their
// own along. It reports false if the two sides are not worth comparing any more.
func (r *run) pipeline(g *generator) bool {
	var list []pair.Query
	var ordered []bool
	add := func(sql string, set []pair.Param, in bool) {
		list = append(list, pair.Query{SQL: sql, Set: set, Flush: g.chance(25)})
		ordered = append(ordered, in)
	}
	alone := r.Weft.Conn.TxStatus() == 'I'
	block := alone && g.chance(30)
	if block {
		add("begin", nil, false)
	}
	for range 1 + g.IntN(5) {
		sql, set, in := g.statement()
		add(sql, set, in)
		if g.chance(10) && (block || !alone) {
			add("savepoint p", nil, false)
		}
	}
	if block {
		add(pick(g, []string{"commit", "commit", "rollback"}), nil, false)
	}
	r.asked += len(list)
	got := r.Weft.Pipeline(list, nil)
	var story []string
	for _, q := range list {
		story = append(story, pair.Inline(q.SQL, q.Set))
	}
	text := strings.Join(story, "; ")
	if *traceFlag {
		r.t.Logf("pipeline: %s: %q", text, got[len(got)-1].Code)
	}
	if last := got[len(got)-1]; last.Refused() {
		r.noteRefusal(last)
		if r.Weft.Conn.TxStatus() != 'I' {
			r.Weft.Ask(pair.Simple, "rollback", nil, nil)
		}
		if !alone {
			r.Plain.Ask(pair.Simple, "rollback", nil, nil)
		}
		return true
	}
	want := r.Plain.Pipeline(list, nil)
	r.story = append(r.story, "pipeline: "+text)
	if last := want[len(want)-1]; last.Code != "" {
		r.failed++
		r.failures[last.Code]++
	}
	for i := range min(len(want), len(got)) {
		w, h := want[i], got[i]
		if constraint(w.Code) && constraint(h.Code) && w.Status == h.Status {
			continue
		}
		if diff := pair.Diff(w, h, i < len(ordered) && ordered[i]); diff != "" {
			r.wrong("pipeline", text, nil, fmt.Sprintf("statement %d: %s", i+1, diff))
			return false
		}
	}
	if len(want) != len(got) {
		r.wrong("pipeline", text, nil, fmt.Sprintf("PostgreSQL gives %d answers, weft %d", len(want), len(got)))
		return false
	}
	if alone && r.Weft.Conn.TxStatus() != 'I' {
		r.control("rollback")
	}
	return true
}
