package planner

import (
	"strconv"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/plan"
)

// explain returns the route of the explained statement. Only ANALYZE runs it.
func (cm commands) explain(n *pg.ExplainStmt) plan.Route {
	writes, locks, lookups := cm.a.out.Writes, cm.a.out.Locks, cm.a.out.Lookups
	r := cm.nested(n.Query, "EXPLAIN")
	e := explainOptions(n.Options)
	follows := e.Analyze && (cm.a.out.Lookups || cm.a.writes().strays(n.Query))
	if !e.Analyze {
		cm.a.out.Writes, cm.a.out.Locks, cm.a.out.Lookups = writes, locks, lookups
	}
	if cm.a.refused() {
		return r
	}
	alone, sel, w := len(cm.a.text.tree.Statements) == 1, n.Query.GetSelectStmt(), cm.a.out.Write()
	switch {
	case alone && sel != nil && sel.IntoClause == nil, alone && w != nil && !writesCopies(w), alone && w == nil && r == plan.Keyed && follows:
		cm.placeExplained(e, len(n.Options) > 0)
		cm.a.out.Explain = e
	case w != nil && r == plan.Gathered && !e.Analyze:
		cm.a.out.Across = nil
		return plan.Home // the home shard is asked first, and the others follow
	case cm.a.out.Gather() != nil || w != nil || follows:
		query := cm.a.out.Gather() != nil
		cm.a.out.Across = nil
		if r == plan.Gathered && query {
			cm.a.unsupported("EXPLAIN its SELECT, in a statement of its own.", "EXPLAIN over several shards is for SELECT")
			return plan.Refused
		}
		if w != nil && writesCopies(w) {
			cm.a.unsupported("Use EXPLAIN without ANALYZE.", "EXPLAIN ANALYZE of a statement that writes a reference table is not supported")
			return plan.Refused
		}
		if r == plan.Gathered || follows {
			cm.a.unsupported("Send it as a statement of its own.", "EXPLAIN ANALYZE of a write over several shards cannot be part of a text with several statements")
			return plan.Refused
		}
	}
	return r
}

// writesCopies reports whether a reference table is written.
func writesCopies(w *plan.Write) bool {
	_, ok := w.Shape.(*plan.Copies)
	return ok
}

// explainOptions reads the options as PostgreSQL does: of two with the same name the last one
// counts. PostgreSQL itself reports wrong options.
func explainOptions(options []*pg.Node) *plan.Explain {
	e := &plan.Explain{Format: "text"}
	timing, summary := -1, -1
	for _, o := range options {
		d := o.GetDefElem()
		if d == nil {
			continue
		}
		value := optionValue(d.Arg)
		if d.Defname == "format" {
			e.Format = strings.ToLower(value)
			continue
		}
		e.Options = append(e.Options, plan.ExplainOption{Name: d.Defname, Value: value})
		switch on := optionOn(value); d.Defname {
		case "analyze":
			e.Analyze = on == 1
		case "timing":
			timing = on
		case "summary":
			summary = on
		}
	}
	e.Timing = timing == 1 || timing < 0 && e.Analyze
	e.Summary = summary == 1 || summary < 0 && e.Analyze
	return e
}

func optionValue(n *pg.Node) string {
	switch n := n.GetNode().(type) {
	case *pg.Node_String_:
		return n.String_.Sval
	case *pg.Node_Integer:
		return strconv.Itoa(int(n.Integer.Ival))
	case *pg.Node_Float:
		return n.Float.Fval
	case *pg.Node_Boolean:
		return strconv.FormatBool(n.Boolean.Boolval)
	}
	return ""
}

// optionOn returns 1 for what PostgreSQL takes for on, 0 for off.
func optionOn(value string) int {
	switch strings.ToLower(value) {
	case "", "1", "true", "on":
		return 1
	}
	return 0
}

// placeExplained notes where the query begins in a text that is one EXPLAIN.
func (cm commands) placeExplained(e *plan.Explain, options bool) {
	e.After, e.Offset = cm.a.relative(cm.explainedAt(options))
}

// explainedAt returns the offset at which the query begins.
func (cm commands) explainedAt(options bool) int {
	sc := wordScanner{text: cm.a.client}
	word, _ := sc.next()
	for word != "" && !strings.EqualFold(word, "explain") {
		word, _ = sc.next() // an empty statement before it
	}
	word, start := sc.next()
	switch {
	case options && word == "(":
		for depth := 1; depth > 0 && word != ""; {
			switch word, _ = sc.next(); word {
			case "(":
				depth++
			case ")":
				depth--
			case "'":
				cm.a.out.Exact = true // the value of the literal has been looked at
			}
		}
		_, start = sc.next()
	case options:
		for strings.EqualFold(word, "analyze") || strings.EqualFold(word, "analyse") || strings.EqualFold(word, "verbose") {
			word, start = sc.next()
		}
	}
	return start
}
