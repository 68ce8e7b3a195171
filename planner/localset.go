package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// localSet judges a set operation. UNION ALL of local arms is local: it compares nothing. The other
// operations compare rows, and rows of two shards are never equal if both arms yield their keys in
// the same columns: then equal rows have equal keys.
func (ga gatherer) localSet(sel *pg.SelectStmt, t text) (*block, string) {
	var arms [2]*block
	for i, arm := range []*pg.SelectStmt{sel.Larg, sel.Rarg} {
		arm = encloseWith(arm, sel.WithClause)
		if arm == nil {
			return nil, "a CTE hides another of the same name"
		}
		var why string
		arms[i], why = ga.localIn(arm, t, false)
		switch {
		case arms[i] != nil:
		case i == 1 && sel.Op != pg.SetOperation_SETOP_UNION && arms[0].table != nil && ga.copied(arm, t):
			// The right arm is the same everywhere, so it removes or keeps the same rows of the
			// left arm.
			return arms[0].limitedTo(arm), ""
		default:
			return nil, why
		}
	}
	l, r := arms[0], arms[1]
	out := &block{opaque: l.opaque || r.opaque || len(l.cols) != len(r.cols), instances: l.instances, anchors: l.anchors, name: l.name, collated: l.collated || r.collated}
	if !out.opaque {
		out.cols = bothArms(l.cols, r.cols)
	}
	if sel.Op == pg.SetOperation_SETOP_UNION {
		out.instances = append(slices.Clone(l.instances), r.instances...)
		out.anchors = append(slices.Clone(l.anchors), r.anchors...)
		out.name += ", " + r.name
	}
	if l.table != nil && r.table != nil && !out.opaque && colocated(l.table, r.table) {
		out.table = l.table
		for k := range l.key {
			var both []int
			for _, i := range l.key[k] {
				if c := l.cols[i].column.class(); c != 0 && c == r.cols[i].column.class() && slices.Contains(r.key[k], i) {
					both = append(both, i)
				}
			}
			if len(both) == 0 {
				out.table, out.key = nil, nil
				break
			}
			out.key = append(out.key, both)
		}
	}
	if out.table == nil && (sel.Op != pg.SetOperation_SETOP_UNION || !sel.All) {
		return nil, "the set operation compares rows of different shards"
	}
	return out, ""
}

// limitedTo returns the block reduced to the rows that another query has or lacks, which yields the
// same everywhere.
func (b *block) limitedTo(*pg.SelectStmt) *block {
	out := *b
	out.level = nil
	out.cols = bothArms(b.cols, nil)
	return &out
}

// bothArms returns the columns of a set operation. A column counts as a column of a table only if
// it is one in both arms.
func bothArms(l, r []output) []output {
	out := make([]output, len(l))
	for i, o := range l {
		c := &column{name: o.name, typ: o.column.typ, declared: o.column.declared, apart: o.column.apart}
		if i < len(r) {
			x, y := o.column.stored, r[i].column.stored
			if x != nil && y != nil && x.Collation == y.Collation {
				c.stored = x
			}
			if o.column.typ != r[i].column.typ {
				c.typ, c.declared = 0, 0
			}
		}
		out[i] = output{o.name, c}
	}
	return out
}

// copied reports whether a query yields the same rows on every shard.
func (ga gatherer) copied(sel *pg.SelectStmt, t text) bool {
	in := ga.probing(t)
	in.top().query(sel)
	if len(in.instances) > 0 {
		return false
	}
	why := in.gatherer().unfit(sel, false)
	return why == noSharded
}

// noSharded is the reason why a block without sharded tables is not local: it would yield its rows
// on each shard.
const noSharded = "it reads no sharded table"
