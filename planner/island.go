package planner

import (
	"slices"
	"strconv"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/parser"
	"weft/plan"
)

// An island is some of the tables in a FROM that are joined inside each shard,
// while others are not: sharded tables whose keys are equal in every combination
// of rows that counts, and reference tables with conditions of their own.
//
// Every combination of rows of its sharded tables that the statement uses has
// equal keys, by the facts of their scope, and so is on one shard. Further combinations
// that a shard finds are taken out above the island, where the conditions stay that the
// island does not check.
//
//	FROM a, b, e WHERE a.k = b.k AND e.x = b.y
//
//	island: SELECT a.x AS c1, b.y AS c2 FROM a, b WHERE a.k = b.k
//	above:  FROM <island> w, LATERAL (SELECT w.c1 AS x) a, LATERAL (SELECT w.c2 AS y) b, e WHERE e.x = b.y
type island struct {
	members []*appearance
	nodes   []*pg.RangeVar // the members in the tree
}

// joined is a condition that two columns of tables of one level are equal.
type joined struct {
	cond *pg.Node
	a, b *column
}

// joins notes a condition that two columns of tables of one level are equal.
func (n *notes) joins(of, l *level, s *scope, cond *pg.Node) {
	e := cond.GetAExpr()
	if e == nil || e.Kind != pg.A_Expr_Kind_AEXPR_OP || !isEquality(e.Name) || l.a.env.Schema.CustomEquality {
		return
	}
	a, b := l.column(e.Lexpr), l.column(e.Rexpr)
	if a == nil || b == nil || a.of == nil || b.of == nil || a.of == b.of || a.class() == 0 || a.class() != b.class() {
		return
	}
	for _, x := range []*appearance{a.of, b.of} {
		if x.level != of || x.scope != s {
			return
		}
	}
	n.joined = append(n.joined, joined{cond, a, b})
}

// islands finds the islands of all queries in a tree, and puts their tables side
// by side in FROM.
func (r *remainder) islands(n *pg.Node) {
	parser.Walk(n, func(m any) bool {
		if sel, ok := m.(*pg.SelectStmt); ok && r.queries[sel] != nil {
			r.islandsOf(sel)
		}
		return true
	})
}

func (r *remainder) islandsOf(sel *pg.SelectStmt) {
	for _, t := range sel.TargetList {
		if v := t.GetResTarget().GetVal(); isStar(v) && len(v.GetColumnRef().Fields) == 1 {
			return // the rows depend on the order
		}
	}
	var leaves, quals []*pg.Node
	for _, n := range sel.FromClause {
		leaves, quals = flatten(n, leaves, quals)
	}
	found := r.group(leaves)
	if len(found) == 0 {
		return
	}
	r.found = append(r.found, found...)
	sel.FromClause = leaves
	if sel.WhereClause != nil {
		quals = append(quals, sel.WhereClause)
	}
	sel.WhereClause = conjunction(quals)
	for _, is := range found {
		for _, j := range r.a.notes.joined {
			if is.has(j.a.of) && is.has(j.b.of) {
				r.a.notes.checked[j.cond] = true
			}
		}
	}
}

// flatten takes inner joins apart.
func flatten(n *pg.Node, leaves, quals []*pg.Node) (l, q []*pg.Node) {
	j := n.GetJoinExpr()
	if j == nil || j.Jointype != pg.JoinType_JOIN_INNER || j.IsNatural || len(j.UsingClause) > 0 || j.Alias != nil {
		return append(leaves, n), quals
	}
	leaves, quals = flatten(j.Larg, leaves, quals)
	leaves, quals = flatten(j.Rarg, leaves, quals)
	if j.Quals != nil {
		quals = append(quals, j.Quals)
	}
	return leaves, quals
}

func (is *island) has(x *appearance) bool { return slices.Contains(is.members, x) }

func (is *island) add(x *appearance, rv *pg.RangeVar) {
	is.members, is.nodes = append(is.members, x), append(is.nodes, rv)
}

// group finds the islands among the elements of a FROM.
func (r *remainder) group(leaves []*pg.Node) []*island {
	var all []*island
	var copies []*pg.RangeVar
	for _, n := range leaves {
		rv := n.GetRangeVar()
		x := r.a.notes.byNode[r.tables[rv]]
		switch {
		case rv == nil || r.staying(rv) || x == nil || x.table == nil || !x.known() || len(x.rv.Alias.GetColnames()) > 0 || x.marked || len(x.system) > 0:
		case x.table.Reference:
			copies = append(copies, rv)
		default:
			if at := slices.IndexFunc(all, func(is *island) bool { return r.sameKey(is.members[0], x) }); at >= 0 {
				all[at].add(x, rv)
			} else {
				is := &island{}
				is.add(x, rv)
				all = append(all, is)
			}
		}
	}
	// A reference table with a condition of its own makes rows fewer.
	for more := true; more; {
		more = false
		for i, rv := range copies {
			x := r.a.notes.byNode[r.tables[rv]]
			at := slices.IndexFunc(all, func(is *island) bool { return r.meets(is, x) })
			if at < 0 || len(r.conditions(x)) == 0 {
				continue
			}
			all[at].add(x, rv)
			copies, more = slices.Delete(copies, i, i+1), true
			break
		}
	}
	return slices.DeleteFunc(all, func(is *island) bool { return len(is.members) < 2 })
}

// sameKey reports whether two sharded tables have equal keys in every combination of rows that
// counts.
func (r *remainder) sameKey(a, b *appearance) bool {
	if a.scope != b.scope || a.level != b.level || !colocated(a.table, b.table) {
		return false
	}
	cl := r.a.gatherer().classesOf(a.scope)
	for i := range a.table.keys {
		x, y := a.instance.cols[a.table.keys[i].Name], b.instance.cols[b.table.keys[i].Name]
		if x == nil || y == nil || x.class() == 0 || x.class() != y.class() || cl.find(x) != cl.find(y) {
			return false
		}
	}
	return true
}

// meets reports whether a table is joined with a table of an island.
func (r *remainder) meets(is *island, x *appearance) bool {
	return slices.ContainsFunc(r.a.notes.joined, func(j joined) bool {
		return j.a.of == x && is.has(j.b.of) || j.b.of == x && is.has(j.a.of)
	})
}

// settleIslands puts the rows of islands in the place of their tables.
func (r *remainder) settleIslands(n *pg.Node) error {
	for _, is := range r.found {
		sides, piece, name, err := r.islandPiece(is)
		if err != nil {
			return err
		}
		rows := &pg.RangeVar{Relname: inputMark(piece), Inh: true, Relpersistence: "p", Alias: &pg.Alias{Aliasname: name}, Location: -1}
		items := append([]*pg.Node{{Node: &pg.Node_RangeVar{RangeVar: rows}}}, sides...)
		parser.Walk(n, func(m any) bool {
			sel, ok := m.(*pg.SelectStmt)
			if !ok {
				return true
			}
			at := slices.IndexFunc(sel.FromClause, func(n *pg.Node) bool { return is.holds(n) })
			if at < 0 {
				return true
			}
			rest := slices.DeleteFunc(slices.Clone(sel.FromClause[at:]), is.holds)
			sel.FromClause = slices.Concat(sel.FromClause[:at:at], items, rest)
			return false
		})
	}
	return nil
}

func (is *island) holds(n *pg.Node) bool {
	rv := n.GetRangeVar()
	return rv != nil && slices.Contains(is.nodes, rv)
}

// islandPiece makes the piece, and the subqueries that give each table's columns back under their
// names. name is the name of the piece's rows: equal pieces have the same name, since an expression
// that is written twice must stay equal to itself, names included.
func (r *remainder) islandPiece(is *island) (sides []*pg.Node, piece int, name string, err error) {
	sel := &pg.SelectStmt{LimitOption: pg.LimitOption_LIMIT_OPTION_DEFAULT, Op: pg.SetOperation_SETOP_NONE}
	p := plan.Piece{}
	var where []*pg.Node
	for i, x := range is.members {
		one := &pg.SelectStmt{LimitOption: pg.LimitOption_LIMIT_OPTION_DEFAULT, Op: pg.SetOperation_SETOP_NONE}
		first := len(sel.TargetList)
		q := plan.Piece{}
		r.columns(x, is.nodes[i], one, &q)
		side := &pg.SelectStmt{LimitOption: pg.LimitOption_LIMIT_OPTION_DEFAULT, Op: pg.SetOperation_SETOP_NONE}
		for j, n := range one.TargetList {
			t := n.GetResTarget()
			input := inputColumn(first + j)
			value := t.Val
			column := t.Name
			if ref := t.Val.GetColumnRef(); ref != nil {
				column = nameList(ref.Fields)[0]
				value = nameNode(x.name, column)
			}
			sel.TargetList = append(sel.TargetList, targetOf(value, input))
			side.TargetList = append(side.TargetList, targetOf(nameNode(input), column))
		}
		p.Types, p.Collations = append(p.Types, q.Types...), append(p.Collations, q.Collations...)
		for _, c := range q.Index {
			p.Index = append(p.Index, first+c)
		}
		sides = append(sides, &pg.Node{Node: &pg.Node_RangeSubselect{RangeSubselect: &pg.RangeSubselect{
			Lateral: true, Subquery: selectOf(side), Alias: &pg.Alias{Aliasname: x.name},
		}}})
		sel.FromClause = append(sel.FromClause, &pg.Node{Node: &pg.Node_RangeVar{RangeVar: &pg.RangeVar{
			Schemaname: x.rel.Schema, Relname: x.rv.Relname, Inh: x.rv.Inh, Relpersistence: "p", Alias: &pg.Alias{Aliasname: x.name}, Location: -1,
		}}})
		if i > 0 {
			p.Name += ", "
		}
		p.Name += x.calledName()
		for _, c := range r.conditions(x) {
			where = append(where, qualified(c, x.name))
		}
	}
	sel.WhereClause = conjunction(append(r.bridges(is), where...))
	if p.Text, err = r.a.gatherer().render(selectOf(sel)); err != nil {
		return nil, 0, "", err
	}
	p.Instances = []plan.Instance{r.solved(is.members[0].instance)}
	piece = r.add(p, true)
	name = r.unnamed("weft_join" + strconv.Itoa(piece+1))
	for _, side := range sides {
		for _, t := range side.GetRangeSubselect().GetSubquery().GetSelectStmt().TargetList {
			ref := t.GetResTarget().GetVal().GetColumnRef()
			ref.Fields = append([]*pg.Node{pg.MakeStrNode(name)}, ref.Fields...)
		}
	}
	return sides, piece, name, nil
}

// bridges returns the conditions that hold an island together.
func (r *remainder) bridges(is *island) []*pg.Node {
	var out []*pg.Node
	equal := func(a, b *pg.Node) {
		n := pg.MakeAExprNode(pg.A_Expr_Kind_AEXPR_OP, []*pg.Node{pg.MakeStrNode("=")}, a, b, -1)
		if !slices.ContainsFunc(out, func(o *pg.Node) bool { return proto.Equal(o, n) }) {
			out = append(out, n)
		}
	}
	first := is.members[0]
	for _, x := range is.members[1:] {
		if x.table.Reference {
			continue
		}
		for i := range first.table.keys {
			equal(nameNode(first.name, first.table.keys[i].Name), nameNode(x.name, x.table.keys[i].Name))
		}
	}
	for _, j := range r.a.notes.joined {
		if is.has(j.a.of) && is.has(j.b.of) {
			equal(nameNode(j.a.of.name, j.a.base), nameNode(j.b.of.name, j.b.base))
		}
	}
	return out
}

// qualified returns a condition with the name of its table before the names of columns.
func qualified(n *pg.Node, table string) *pg.Node {
	n = proto.Clone(n).(*pg.Node)
	parser.Walk(n, func(m any) bool {
		if ref, ok := m.(*pg.ColumnRef); ok && len(ref.Fields) == 1 && nameList(ref.Fields)[0][:1] != mark {
			ref.Fields = append([]*pg.Node{pg.MakeStrNode(table)}, ref.Fields...)
		}
		return true
	})
	return n
}
