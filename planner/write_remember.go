package planner

import (
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/datum"
	"weft/plan"
)

// An INSERT may store currval of a sequence, or lastval: the id of the row that the session has inserted before. weft
// has drawn that id, and no shard knows it, so weft supplies it.

// remembers reports whether a value, given for a column that may be nil, is currval or lastval of what weft has drawn before the statement. The
// sequence is empty for lastval.
func (g *generator) remembers(c *catalog.Column, v *pg.Node) (sequence string, ok bool) {
	f := v.GetFuncCall()
	if c == nil || f == nil || g.ignores(c) {
		return "", false
	}
	if ids := g.target.table.IDs; ids != nil && ids.Column == c.Name {
		return "", false
	}
	if isKey(g.target.table, c.Name) && !slices.Contains([]datum.Type{datum.Int2, datum.Int4, datum.Int8}, datum.Type(c.Base)) {
		return "", false
	}
	switch {
	case len(f.Args) == 0 && callsOwn(f, "lastval"):
	case len(f.Args) == 1 && callsOwn(f, "currval"):
		if sequence = sequenceNamed(g.a, f.Args[0]); sequence == "" {
			return "", false
		}
	default:
		return "", false
	}
	return sequence, !g.draws(sequence)
}

// draws reports whether the INSERT may draw from a sequence, or from any if the name is empty.
func (g *generator) draws(sequence string) bool {
	rel := g.target.rel
	for i := range rel.Columns {
		c := &rel.Columns[i]
		own := drawsFrom(c) && (sequence == "" || c.Sequence.SQL() == sequence)
		if (own || !drawsFrom(c) && strings.Contains(c.Default, "nextval")) && g.leaves(c) {
			return true
		}
	}
	return namesNextval(&pg.Node{Node: &pg.Node_InsertStmt{InsertStmt: g.stmt}})
}

// leaves reports whether the INSERT leaves a column to its default, in any row.
func (g *generator) leaves(c *catalog.Column) bool {
	at := g.position(c.Name, g.given)
	return at < 0 || g.ignores(c) || slices.ContainsFunc(g.lists, func(row *pg.Node) bool {
		items := row.GetList().GetItems()
		return at >= len(items) || items[at].GetSetToDefault() != nil
	})
}

// recall plans the value that the session has drawn last in the place of v.
func (g *generator) recall(c *catalog.Column, v *pg.Node, sequence string) storedKey {
	f := v.GetFuncCall()
	start, end := g.callAt(f)
	if end < 0 {
		return storedKey{}
	}
	if g.a.recalled == nil {
		g.a.recalled = map[*pg.FuncCall]bool{}
	}
	g.a.recalled[f] = true
	if g.a.out.Generate == nil {
		g.a.out.Generate = &plan.Generate{}
	}
	values := &g.a.out.Generate.Values
	*values = append(*values, plan.Value{Type: "bigint", Sequence: sequence, Remembered: true})
	i := len(*values) - 1
	g.edits = append(g.edits, textEdit{at: start, remove: end - start, value: i})
	return generated(c, i)
}
