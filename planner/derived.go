package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/plan"
)

// derived is an item of FROM that makes rows of its own: a subquery, a view or CTE that is named
// there, or a FULL join.
type derived struct {
	sel    *pg.SelectStmt
	with   *with
	text   text
	scope  *scope
	cols   []output
	opaque bool
	semi   bool // the item is in a subquery whose rows are asked for and not used
	// first and last bound the item's instances in the list of all.
	first, last int
	full        *fullJoin

	looked bool
	block  *block
	why    string
}

// fullJoin is a join of which either side may be missing.
type fullJoin struct {
	node        *pg.JoinExpr
	left, right *source
	using       []string
	facts       []fact // the facts of ON
}

// derive notes a derived item.
func (p *probe) derive(a *analysis, d derived) {
	if p == nil {
		return
	}
	p.copies++
	d.last, d.text, d.semi = len(a.instances), a.text, p.semi > 0
	if d.first < d.last && (d.sel != nil || d.full != nil) {
		p.derived = append(p.derived, &d)
	}
}

// look finds out whether the item is local by itself.
func (d *derived) look(a *analysis) *block {
	if d.looked {
		return d.block
	}
	d.looked = true
	switch {
	case d.full != nil:
		d.block, d.why = d.lookFull(a)
	default:
		d.block, d.why = d.lookIn(a, d.sel)
	}
	if b := d.block; b != nil && b.table != nil && (d.opaque || len(d.cols) != len(b.cols)) {
		copied := *b
		copied.table, copied.key = nil, nil
		d.block = &copied
	}
	return d.block
}

func (d *derived) lookIn(a *analysis, sel *pg.SelectStmt) (*block, string) {
	sel = enclose(sel, d.with)
	if sel == nil {
		return nil, "a CTE hides another of the same name"
	}
	return a.gatherer().localIn(sel, d.text, false)
}

// key returns the columns that tell on which shard a row of the item is.
func (d *derived) key() []*column {
	var out []*column
	for _, outputs := range d.block.key {
		out = append(out, d.cols[outputs[0]].column)
	}
	return out
}

// lookFull judges a FULL join: a join of local items on their keys is local. A row can match only
// rows of its own key, which are on its own shard; a row without a match is there alone, once.
func (d *derived) lookFull(a *analysis) (*block, string) {
	f := d.full
	var sides [2]*block
	var keys [2][]*column
	for i, n := range []*pg.Node{f.node.Larg, f.node.Rarg} {
		sel := newSelect()
		sel.TargetList = []*pg.Node{targetNode(pg.MakeColumnRefNode([]*pg.Node{pg.MakeAStarNode()}, -1), "")}
		sel.FromClause = []*pg.Node{n}
		b, why := d.lookIn(a, sel)
		cols := f.left.cols
		if i == 1 {
			cols = f.right.cols
		}
		switch {
		case b == nil:
			return nil, why
		case b.table == nil || b.opaque || len(cols) != len(b.cols):
			return nil, "a side of the FULL JOIN does not yield its shard key"
		}
		sides[i] = b
		for _, outputs := range b.key {
			keys[i] = append(keys[i], cols[outputs[0]].column)
		}
	}
	l, r := sides[0], sides[1]
	on := &scope{}
	on.add(f.facts...)
	cl := newClasses(on)
	out := &block{cols: d.cols, opaque: d.opaque, collated: l.collated || r.collated, name: l.name + ", " + r.name}
	out.instances = append(slices.Clone(l.instances), r.instances...)
	out.anchors = append(slices.Clone(l.anchors), r.anchors...)
	if !colocated(l.table, r.table) {
		return nil, "the sides of the FULL JOIN are not colocated"
	}
	for i := range keys[0] {
		x, y := keys[0][i], keys[1][i]
		if x.class() == 0 || cl.find(x) != cl.find(y) {
			return nil, "the FULL JOIN is not on the shard keys"
		}
		// The column of USING has the value of the side that is not missing.
		at := slices.IndexFunc(f.using, func(name string) bool { return only(f.left, name) == x && only(f.right, name) == y })
		if at >= 0 && (i == 0 || out.key != nil) {
			out.key = append(out.key, []int{at})
		} else {
			out.key = nil
		}
	}
	if len(out.key) == len(keys[0]) {
		out.table = l.table
	} else {
		out.key = nil
	}
	return out, ""
}

// covered reports whether a row of an instance exists only beside an anchor's row of the same
// shard, because a local item that the instance is part of has the anchor's key.
func (fr fromClause) covered(a *analysis, at *anchor, i int) bool {
	for _, d := range fr.l.a.probe.derived {
		if i < d.first || i >= d.last || d.first <= at.first && at.last <= d.last {
			continue
		}
		b := d.look(a)
		if b == nil || b.table == nil || !colocated(at.table, b.table) {
			continue
		}
		cl := newClasses(d.scope)
		if !slices.ContainsFunc(numbered(d.key()), func(k numberedColumn) bool { return !marked(cl, k.column, k.number) }) {
			return true
		}
	}
	return false
}

type numberedColumn struct {
	number int
	column *column
}

func numbered(cols []*column) []numberedColumn {
	var out []numberedColumn
	for i, c := range cols {
		out = append(out, numberedColumn{i, c})
	}
	return out
}

// marked reports whether a column must have the unknown value of marks: see local.go.
func marked(cl *classes, c *column, i int) bool {
	return slices.ContainsFunc(cl.sets(c), func(s plan.Set) bool {
		return len(s) == 1 && s[0].Kind == markKind && s[0].Index == i
	})
}

// fullJoin notes a FULL join for a probe.
func (fr fromClause) fullJoin(n *pg.JoinExpr, s *scope, a, b, out *source, using []string, first int) {
	f := &fullJoin{node: n, left: a, right: b, using: using}
	for _, name := range using {
		if x, y := only(a, name), only(b, name); x != nil && y != nil && x.class() != 0 && x.class() == y.class() {
			f.facts = append(f.facts, fact{left: x, right: y})
		}
	}
	if n.Quals != nil {
		at := &level{a: fr.l.a, parent: fr.l.parent, with: fr.l.with, sources: []*source{a, b}, scope: fr.outside()}
		f.facts = append(f.facts, at.predicates().facts(n.Quals)...)
	}
	fr.l.a.probe.derive(fr.l.a, derived{full: f, with: fr.l.with, scope: s, first: first, cols: out.cols, opaque: out.opaque})
}
