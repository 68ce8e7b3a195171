package planner_test

import (
	"testing"

	"weft/parser"
	"weft/planner"
)

// TestExplained: where the explained query begins is found in every text that
// the plan serves, and the options are read as PostgreSQL reads them.
func TestExplained(t *testing.T) {
	for _, test := range []struct {
		text, like, query string // like differs from text in comments and literals
		sql               string
		exact             bool
	}{
		{"EXPLAIN SELECT 'a'", "explain /* x */ SELECT 'bcd'", "SELECT 'bcd'", "EXPLAIN (FORMAT text) ", false},
		{";  EXPLAIN (SELECT 1)", "; /* ( */ EXPLAIN (SELECT 23)", "(SELECT 23)", "EXPLAIN (FORMAT text) ", false},
		{"EXPLAIN ANALYSE VERBOSE (SELECT 1)", "EXPLAIN ANALYSE VERBOSE (SELECT 1)", "(SELECT 1)", `EXPLAIN ("analyze", "verbose", FORMAT text) `, false},
		{
			"-- é (\nEXPLAIN (COSTS OFF, FORMAT JSON) SELECT 1 AS \"x\"", "EXPLAIN (COSTS OFF, FORMAT JSON) SELECT 4 AS \"x\"",
			"", `EXPLAIN ("costs" 'off', FORMAT json) `, false,
		},
		{"EXPLAIN (FORMAT 'JSON', ANALYZE 0, a 'b''\"') SELECT 1", "EXPLAIN (FORMAT 'JSON', ANALYZE 0, a 'b''\"') SELECT 1", "SELECT 1", `EXPLAIN ("analyze" '0', "a" 'b''"', FORMAT json) `, true},
		{"EXPLAIN VERBOSE WITH \"ANALYZE\" AS (SELECT 1) SELECT 2", "EXPLAIN VERBOSE WITH \"ANALYZE\" AS (SELECT 3) SELECT 4", "WITH \"ANALYZE\" AS (SELECT 3) SELECT 4", `EXPLAIN ("verbose", FORMAT text) `, false},
	} {
		env := &planner.Env{Database: "app", Path: []string{"pg_catalog"}}
		p := planOf(env, test.text)
		if p.Explain == nil {
			t.Errorf("%s: not explained: %s", test.text, p)
			continue
		}
		if got := p.Explain.SQL(); got != test.sql || p.Exact != test.exact {
			t.Errorf("%s: options are %s, exact %t", test.text, got, p.Exact)
		}
		var s parser.Scanner
		s.Scan([]byte(test.text), env.Options)
		norm := string(s.Norm)
		s.Scan([]byte(test.like), env.Options)
		if test.query == "" || norm != string(s.Norm) {
			continue
		}
		at, ok := parser.Place([]byte(test.like), s.Literals, p.Explain.After, p.Explain.Offset)
		if !ok || test.like[at:] != test.query {
			t.Errorf("%s: the query is %q, %t", test.like, test.like[at:], ok)
		}
	}
}
