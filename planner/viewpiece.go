package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
	"weft/plan"
)

// localViews makes pieces of the views that run unchanged inside each shard. The shards then check
// who may read them, and what their conditions hide. A view that only filters is taken apart
// instead, if that is allowed and conditions around it can be checked in it.
func (r *remainder) localViews(n *pg.Node) {
	var named *mentions
	walkNodes(n, func(m *pg.Node) bool {
		rv := m.GetRangeVar()
		if rv == nil {
			return r.refusal == nil
		}
		use := r.a.notes.views[r.tables[rv]]
		if use == nil || r.staying(rv) {
			return true
		}
		if named == nil {
			named = mentionsOf(n)
		}
		r.viewPiece(m, rv, use, named)
		return true
	})
}

func (r *remainder) viewPiece(n *pg.Node, rv *pg.RangeVar, use *viewUse, named *mentions) {
	rel := use.rel
	open := !rel.SecurityBarrier && (rel.SecurityInvoker || !r.protected(use.query))
	if open && r.through(use.query.GetSelectStmt()) {
		return
	}
	sel := newSelect()
	sel.FromClause = []*pg.Node{{Node: &pg.Node_RangeVar{RangeVar: &pg.RangeVar{
		Schemaname: rel.Schema, Relname: rel.Name.Name, Inh: true, Relpersistence: "p", Location: -1,
	}}}}
	alias := rv.Alias
	if alias == nil {
		alias = &pg.Alias{Aliasname: rv.Relname}
	}
	p := plan.Piece{Name: called(rv)}
	renamed := nameList(alias.Colnames)
	all := named.all[rv] || named.starred[alias.Aliasname] || named.bare[alias.Aliasname]
	for i := range rel.Columns {
		c := &rel.Columns[i]
		name := c.Name
		if i < len(renamed) {
			name = renamed[i]
		}
		if !all && !named.column(alias.Aliasname, name) {
			continue
		}
		typ, coll := "", ""
		if c.Type != c.Base {
			typ = c.TypeName
		}
		if c.Collation.Name != "" {
			coll = c.Collation.SQL()
		}
		sel.TargetList = append(sel.TargetList, targetNode(nameNode(c.Name), ""))
		p.Types, p.Collations = append(p.Types, typ), append(p.Collations, coll)
	}
	if len(sel.TargetList) == 0 || named.bare[alias.Aliasname] {
		return // the rows are counted, or used as a whole
	}
	b, _ := r.a.gatherer().local(sel)
	if b == nil {
		return
	}
	text, err := r.a.gatherer().render(selectNode(sel))
	if err != nil {
		return
	}
	p.Text, p.Instances = text, r.instancesIn(use.query)
	if len(p.Instances) == 0 {
		p.Instances = b.instances
	}
	n.Node = &pg.Node_RangeVar{RangeVar: &pg.RangeVar{
		Relname: inputMark(r.add(p, true)), Inh: true, Relpersistence: "p", Alias: alias, Location: -1,
	}}
}

// instancesIn returns the sharded tables in a view's query, with what the statement says of their
// keys.
func (r *remainder) instancesIn(query *pg.Node) []plan.Instance {
	var out []plan.Instance
	parser.Walk(query, func(m any) bool {
		if rv, ok := m.(*pg.RangeVar); ok {
			if x := r.a.notes.byNode[rv]; x != nil && x.instance != nil {
				out = append(out, r.solved(x.instance))
			}
			if v := r.a.notes.views[rv]; v != nil {
				out = slices.Concat(out, r.instancesIn(v.query))
			}
		}
		return true
	})
	return out
}
