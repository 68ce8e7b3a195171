package planner

import (
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/parser"
	"weft/plan"
)

// A statement over several shards may call nextval on the home shard, beside the values that weft
// draws for it. What weft remembers for currval and lastval is older then.

// homeDraws collects the draws of one statement.
type homeDraws struct {
	wr    writes
	found *plan.HomeDraws
}

// drawsAtHome notes what a statement over several shards draws on the home shard itself, and refuses
// functions that would read what another statement has drawn.
func (a *analysis) drawsAtHome(stmt *pg.Node) {
	if a.refused() || a.out.Route != plan.Gathered {
		return
	}
	parser.Walk(stmt, func(m any) bool {
		f, ok := m.(*pg.FuncCall)
		if name := lastName(f.GetFuncname()); ok && (name == "currval" || name == "lastval") && !a.recalled[f] {
			a.unsupported("Ask for the value in a statement of its own, and give it in this one.", "%s is not supported in a statement over several shards", name)
			a.out.Route = plan.Refused
		}
		return !a.refused()
	})
	if a.refused() {
		return
	}
	h := &homeDraws{wr: a.writes()}
	if e := stmt.GetExplainStmt(); e != nil {
		stmt = e.Query
	}
	switch {
	case stmt.GetInsertStmt() != nil:
		h.insert(stmt.GetInsertStmt())
	case stmt.GetUpdateStmt() != nil && a.drawn:
		u := stmt.GetUpdateStmt()
		for _, n := range append(slices.Clone(u.FromClause), u.WhereClause) {
			h.look(n)
		}
		h.weftsLast()
	default:
		h.look(stmt)
		h.defaults(stmt.GetUpdateStmt())
	}
	a.out.HomeDraws = h.found
}

// look notes the calls of nextval in an expression or a query, and reports whether there are any.
func (h *homeDraws) look(n *pg.Node) bool {
	found := false
	parser.Walk(n, func(m any) bool {
		f, ok := m.(*pg.FuncCall)
		if ok && lastName(f.Funcname) == "setval" {
			h.sets()
		}
		if !ok || lastName(f.Funcname) != "nextval" {
			return true
		}
		found = true
		h.note(h.wr.sequenceOf(f))
		return true
	})
	return found
}

// sets notes that a sequence is set.
func (h *homeDraws) sets() {
	if h.found == nil {
		h.found = &plan.HomeDraws{}
	}
	h.found.Sets = true
}

// note notes a draw from a sequence, or from an unknown one if the name is empty.
func (h *homeDraws) note(sequence string) {
	if h.found == nil {
		h.found = &plan.HomeDraws{}
	}
	h.found.Last = true
	h.found.Any = h.found.Any || sequence == ""
	if sequence != "" && !slices.Contains(h.found.Sequences, sequence) {
		h.found.Sequences = append(h.found.Sequences, sequence)
	}
}

// weftsLast notes that weft draws a value after what has been noted.
func (h *homeDraws) weftsLast() {
	if h.found != nil {
		h.found.Last = false
	}
}

// insert notes the draws of an INSERT, in the order of columns.
func (h *homeDraws) insert(n *pg.InsertStmt) {
	to := h.wr.writable(n.Relation)
	sel := n.SelectStmt.GetSelectStmt()
	if to == nil {
		h.look(&pg.Node{Node: &pg.Node_InsertStmt{InsertStmt: n}})
		return
	}
	if n.WithClause != nil {
		h.look(&pg.Node{Node: &pg.Node_WithClause{WithClause: n.WithClause}})
	}
	var names []string
	for _, c := range n.Cols {
		names = append(names, c.GetResTarget().GetName())
	}
	cols := insertColumns(to.shown, names)
	values := sel != nil && plainValues(sel)
	if sel != nil && !values {
		h.look(n.SelectStmt)
	}
	wefts := to.table != nil && !to.table.Reference
	for i := range to.rel.Columns {
		c := &to.rel.Columns[i]
		at := slices.IndexFunc(cols, func(g *catalog.Column) bool { return g != nil && g.Name == c.Name })
		if !values {
			// More columns than the query yields are left to their defaults, as far as can be told here.
			if sel == nil || at < 0 {
				h.unset(c, wefts)
			}
			continue
		}
		given := false
		for _, row := range sel.ValuesLists {
			items := row.GetList().GetItems()
			if at < 0 || at >= len(items) || items[at].GetSetToDefault() != nil {
				continue
			}
			given = true
			if f := items[at].GetFuncCall(); f != nil && wefts && drawsFrom(c) && h.wr.sequenceOf(f) == c.Sequence.SQL() {
				h.weftsLast()
			} else {
				h.look(items[at])
			}
		}
		if !given || slices.ContainsFunc(sel.ValuesLists, func(row *pg.Node) bool {
			items := row.GetList().GetItems()
			return at >= 0 && at < len(items) && items[at].GetSetToDefault() != nil
		}) {
			h.unset(c, wefts)
		}
	}
}

// defaults notes the draws of an UPDATE that sets columns to their defaults, on the home shard.
func (h *homeDraws) defaults(n *pg.UpdateStmt) {
	if n == nil {
		return
	}
	to := h.wr.writable(n.Relation)
	if to == nil {
		return
	}
	for _, item := range oneByOne(n.TargetList) {
		t := item.GetResTarget()
		if c := to.updated(t.GetName()); c != nil && t.GetVal().GetSetToDefault() != nil {
			h.unset(c, false)
		}
	}
}

// unset notes what the default of a column draws.
func (h *homeDraws) unset(c *catalog.Column, wefts bool) {
	switch {
	case drawsFrom(c) && wefts:
		h.weftsLast()
	case drawsFrom(c):
		h.note(c.Sequence.SQL())
	case strings.Contains(c.Default, "nextval"):
		h.wr.withDefault(c, func(n *pg.Node) { h.look(n) })
	}
}
