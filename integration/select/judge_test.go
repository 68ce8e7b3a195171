package selects

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"weft/integration/pair"
)

// question is one statement, put in one way.
type question struct {
	mode   pair.Mode
	sql    string
	set    []pair.Param
	block  []string // statements of a transaction block that come before it; it is rolled back after it
	cursor bool     // read through DECLARE and FETCH ALL, inside the block
}

// ask puts a question to a server.
func (q question) ask(p *pair.Peer) (a pair.Answer) {
	if len(q.block) == 0 {
		return p.Ask(q.mode, q.sql, q.set, nil)
	}
	defer p.Ask(pair.Simple, "rollback", nil, nil)
	for _, sql := range q.block {
		if a = p.Ask(pair.Simple, sql, nil, nil); a.Code != "" {
			return a
		}
	}
	if !q.cursor {
		return p.Ask(q.mode, q.sql, q.set, nil)
	}
	if a = p.Ask(pair.Simple, "declare cur cursor for "+pair.Inline(q.sql, q.set), nil, nil); a.Code != "" {
		return a
	}
	return p.Ask(pair.Simple, "fetch all from cur", nil, nil)
}

func (q question) String() string {
	text := string(q.mode)
	if len(q.block) > 0 {
		text += ", after " + strings.Join(q.block, "; ")
	}
	if q.cursor {
		text += ", by cursor"
	}
	return text
}

// verdict is what judge has to say about weft's answer.
type verdict int

const (
	same     verdict = iota // as PostgreSQL says
	refused                 // 0A000
	wrong                   // not what PostgreSQL says
	internal                // an error of weft's own making (XX000), or no answer at all
	loose                   // not the same, but PostgreSQL does not agree with itself either
	slow                    // one of them ran out of time
)

// judgment is a verdict with its reasons.
type judgment struct {
	verdict   verdict
	diff      string // for wrong and internal
	want, got pair.Answer
}

// judge asks both and compares.
func (w *world) judge(q question) judgment {
	j := judgment{got: q.ask(w.Weft), want: q.ask(w.Plain)}
	j.diff = w.compare(q, j.want, j.got)
	switch {
	case j.got.Code == "?????" || j.want.Code == "?????" || strings.HasPrefix(j.got.Code, "XX"):
		j.verdict = internal
	case j.got.Refused() && j.want.Code != "0A000":
		j.verdict = refused
	case j.want.Code == "57014" || j.got.Code == "57014":
		j.verdict = slow
	case j.diff == "":
		j.verdict = same
	case w.isLoose(q, j.want):
		j.verdict = loose
	default:
		j.verdict = wrong
	}
	return j
}

// compare says how an answer differs from the first server's.
func (w *world) compare(q question, want, got pair.Answer) string {
	if duringRun(want.Code) && duringRun(got.Code) {
		return "" // of several errors either may come first
	}
	if q.cursor {
		want, got = withoutOrigin(want), withoutOrigin(got)
	}
	want = w.planned(q, want, got)
	ordered := pair.Ordered(q.sql)
	diff := pair.Diff(want, got, ordered)
	if diff == "" || !ordered || pair.Diff(want, got, false) != "" {
		return diff
	}
	if w.onlyTies(q, got) {
		return ""
	}
	return "order of " + diff
}

// withoutOrigin leaves out which table's column a column is: the rows of a cursor
// over several shards come from weft's own query.
func withoutOrigin(a pair.Answer) pair.Answer {
	a.Results = slices.Clone(a.Results)
	for i := range a.Results {
		fields := slices.Clone(a.Results[i].Fields)
		for n, f := range fields {
			fields[n] = origin.ReplaceAllString(f, " ")
		}
		a.Results[i].Fields = fields
	}
	return a
}

// planned makes allowance for modifiers that PostgreSQL only finds out when it
// plans: COALESCE(x, NULL) is numeric, and numeric(12,2) once the NULL is gone. weft
// says what PostgreSQL says when it is asked to describe the statement.
func (w *world) planned(q question, want, got pair.Answer) pair.Answer {
	if len(want.Results) != 1 || len(got.Results) != 1 || slices.Equal(want.Results[0].Fields, got.Results[0].Fields) {
		return want
	}
	ctx, stop := context.WithTimeout(context.Background(), pair.Patience)
	defer stop()
	sd, err := w.Plain.Conn.Prepare(ctx, "", pair.Inline(q.sql, q.set), nil)
	if err != nil || len(sd.Fields) != len(want.Results[0].Fields) {
		return want
	}
	want.Results = slices.Clone(want.Results)
	fields := slices.Clone(want.Results[0].Fields)
	for i, f := range sd.Fields {
		fields[i] = modifier.ReplaceAllString(fields[i], fmt.Sprintf(" mod %d len ", f.TypeModifier))
	}
	want.Results[0].Fields = fields
	return want
}

var modifier = regexp.MustCompile(` mod -?\d+ len `)

// duringRun: an error of evaluation, not of the statement.
func duringRun(code string) bool {
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "21") || strings.HasPrefix(code, "23")
}

// otherPlans makes PostgreSQL go about it in other ways.
var otherPlans = []string{
	"set enable_hashjoin = off; set enable_hashagg = off; set enable_sort = on",
	"set enable_mergejoin = off; set enable_nestloop = off; set enable_memoize = off",
}

// isLoose reports whether the statement has no single answer: PostgreSQL gives
// another one when rows lie elsewhere or it plans differently.
func (w *world) isLoose(q question, want pair.Answer) bool {
	if w.cutsTies(q) {
		return true
	}
	if w.compare(q, want, q.ask(w.turned)) != "" {
		return true
	}
	defer w.turned.Ask(pair.Simple, "reset all; set statement_timeout = '10s'", nil, nil)
	return slices.ContainsFunc(otherPlans, func(settings string) bool {
		w.turned.Ask(pair.Simple, "reset all; set statement_timeout = '10s';"+settings, nil, nil)
		return w.compare(q, want, q.ask(w.turned)) != ""
	})
}
