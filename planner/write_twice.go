package planner

import (
	"slices"
	"strconv"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/pgerr"
)

// A statement may write one table several times:
//
//	WITH u AS (UPDATE t SET n = n + 1 WHERE k = 1 RETURNING *)
//	INSERT INTO t SELECT 1, 1 WHERE NOT EXISTS (SELECT FROM u)
//
// In PostgreSQL none of the writes sees what another one has done, and of a row that
// two of them would change one change takes place. The writes are steps one after the
// other, so each of them also returns the primary keys of the rows that it leaves, and
// the later ones pass these rows over:
//
//	UPDATE … AND NOT EXISTS (SELECT FROM <1> w WHERE w.c2 = t.k)
//
// PostgreSQL runs the statement itself first, and what it does not read last. Where
// that can be seen, because one write takes a key that another one frees, a later write
// must read an earlier one.
type repeated struct {
	rel  *catalog.Relation
	key  []string
	left []leftRows // what the writes before have left
}

// leftRows are rows that a step has left in the table.
type leftRows struct {
	step  int // the number of the step
	first int // how many columns it returns before the key
}

// part is a statement inside of a statement in steps that writes a table.
type part struct {
	node *pg.Node
	name string // its name in WITH, empty for the statement itself
}

// writeAgain prepares a statement whose parts write one table more than once, or refuses it.
func (s *steps) writeAgain(to *writable, parts []part) (*repeated, *pgerr.Error) {
	rel, name := to.base, to.base.Name.Name
	refuse := func(hint, why string) (*repeated, *pgerr.Error) {
		return nil, cannot(hint, "table %q is written twice by a statement over several shards, and %s", name, why)
	}
	const apart = "Write to it in two statements."
	out := &repeated{rel: rel, key: (&copier{a: s.a, rel: rel}).identity(&changes{})}
	if out.key == nil {
		return refuse("Give it a primary key, or write to it in two statements.", "has no primary key")
	}
	inserts := !slices.ContainsFunc(parts, func(p part) bool { return p.node.GetInsertStmt() == nil })
	for _, fk := range rel.ForeignKeys {
		if fk.References == rel.Name && !inserts {
			return refuse(apart, "a foreign key references the table itself")
		}
	}
	for _, tr := range rel.Triggers {
		for _, f := range s.a.reach().userFunctions(tr.Function.Schema, tr.Function.Name) {
			if f.Opaque || len(f.Mentions) > 0 {
				return refuse(apart, "its trigger "+strconv.Quote(tr.Name)+" may touch tables")
			}
		}
	}
	for i, later := range parts {
		for _, earlier := range parts[:i] {
			if len(s.a.writes().writable(writtenBy(later.node)).views) > 0 || len(s.a.writes().writable(writtenBy(earlier.node)).views) > 0 {
				return refuse("Write to the table itself.", "through a view")
			}
			if later.node.GetInsertStmt().GetOnConflictClause().GetAction() == pg.OnConflictAction_ONCONFLICT_UPDATE {
				return refuse(apart, "ON CONFLICT DO UPDATE must not change a row that another write has changed")
			}
			if ordered(rel, earlier.node, later.node) && !s.reads(later.node, earlier.name) {
				return refuse("Let the later write read the rows of "+earlier.name+", or write to it in two statements.", "which of them comes first is not known")
			}
		}
	}
	return out, nil
}

// ordered reports whether it can be seen which of two writes comes first.
func ordered(rel *catalog.Relation, a, b *pg.Node) bool {
	takes := func(n *pg.Node) bool { return n.GetInsertStmt() != nil || changesKey(rel, n) }
	frees := func(n *pg.Node) bool { return n.GetDeleteStmt() != nil || changesKey(rel, n) }
	skips := func(n *pg.Node) bool { return n.GetInsertStmt().GetOnConflictClause() != nil }
	return takes(a) && frees(b) || frees(a) && takes(b) || skips(a) && takes(b) || takes(a) && skips(b)
}

// changesKey reports whether an UPDATE may change the values of a unique index.
func changesKey(rel *catalog.Relation, n *pg.Node) bool {
	u := n.GetUpdateStmt()
	if u == nil {
		return false
	}
	set := setting(u.TargetList)
	return slices.ContainsFunc(rel.Unique, func(k catalog.Unique) bool {
		return k.Partial || k.Derived != nil || slices.Contains(k.Columns, "") || set.any(k.Columns)
	})
}

// reads reports whether a statement names a query of WITH, or one that does.
func (s *steps) reads(n *pg.Node, name string) bool {
	seen := map[string]bool{}
	var look func(n *pg.Node) bool
	look = func(n *pg.Node) bool {
		for used := range uses(withoutWith(n, s.stmt)) {
			if used == name {
				return true
			}
			if seen[used] {
				continue
			}
			seen[used] = true
			for _, e := range s.with.GetCtes() {
				if c := e.GetCommonTableExpr(); c.Ctename == used && look(c.Ctequery) {
					return true
				}
			}
		}
		return false
	}
	return look(n)
}

// withoutWith returns what a statement names outside of its WITH, if that is the WITH of the whole.
func withoutWith(n, whole *pg.Node) any {
	if n != whole {
		return n
	}
	if sel := n.GetSelectStmt(); sel != nil {
		return sel // a SELECT writes nothing
	}
	_, list := withOf(n)
	return &pg.List{Items: list}
}

// again prepares a copied part that writes a table which is written more than once: it passes over
// the rows that earlier parts have left, and returns the keys of those that it leaves. done notes
// these rows, when the number of the step is known.
func (s *steps) again(stmt *pg.Node) (done func(), refusal *pgerr.Error) {
	done = func() {}
	rv := writtenBy(stmt)
	if rv == nil {
		return done, nil
	}
	to := s.a.writes().writable(rv)
	w := s.rewrites[to.base]
	if w == nil {
		return done, nil
	}
	as := refName(rv)
	for _, l := range w.left {
		passOver(stmt, w.notLeft(l, as))
	}
	if stmt.GetDeleteStmt() != nil || s.last {
		return done, nil
	}
	list := returningOf(stmt)
	names, ok := returnedNames(to.shown, as, *list, joins(stmt))
	if !ok {
		return nil, cannot("Name the columns in RETURNING.", "table %q is written twice by a statement over several shards, and RETURNING * names columns of other tables", to.base.Name.Name)
	}
	for i, k := range w.key {
		*list = append(*list, targetOf(nameNode(as, k), "weft_key_"+strconv.Itoa(i+1)))
	}
	return func() {
		step := len(s.before) - 1
		s.shows[step] = names
		w.left = append(w.left, leftRows{step: step, first: len(names)})
	}, nil
}

// returningOf returns the RETURNING list of a statement.
func returningOf(stmt *pg.Node) *[]*pg.Node {
	switch n := stmt.GetNode().(type) {
	case *pg.Node_InsertStmt:
		return &n.InsertStmt.ReturningList
	case *pg.Node_UpdateStmt:
		return &n.UpdateStmt.ReturningList
	}
	return &stmt.GetDeleteStmt().ReturningList
}

// joins reports whether a statement names other tables beside the written one.
func joins(stmt *pg.Node) bool {
	return len(stmt.GetUpdateStmt().GetFromClause()) > 0 || len(stmt.GetDeleteStmt().GetUsingClause()) > 0
}

// returnedNames returns the names of the columns that RETURNING yields.
func returnedNames(rel *catalog.Relation, as string, list []*pg.Node, joins bool) (names []string, ok bool) {
	for _, n := range list {
		t := n.GetResTarget()
		ref := t.GetVal().GetColumnRef()
		switch {
		case !isStar(t.GetVal()) && t.Name != "":
			names = append(names, t.Name)
		case !isStar(t.GetVal()):
			names = append(names, figureName(t.Val))
		case len(ref.GetFields()) == 1 && joins, len(ref.GetFields()) > 1 && nameList(ref.Fields)[len(ref.Fields)-2] != as:
			return nil, false
		default:
			for i := range rel.Columns {
				names = append(names, rel.Columns[i].Name)
			}
		}
	}
	return names, true
}

// notLeft returns the condition that a row is none of those that a step has left.
func (w *repeated) notLeft(l leftRows, as string) *pg.Node {
	sel := newSelect()
	sel.FromClause = []*pg.Node{stepNode(l.step, l.first+len(w.key))}
	var conds []*pg.Node
	for i, k := range w.key {
		conds = append(conds, pg.MakeAExprNode(pg.A_Expr_Kind_AEXPR_OP, []*pg.Node{pg.MakeStrNode("=")},
			nameNode(inputAlias, inputColumn(l.first+i)), nameNode(as, k), -1))
	}
	sel.WhereClause = conjunction(conds)
	exists := &pg.Node{Node: &pg.Node_SubLink{SubLink: &pg.SubLink{SubLinkType: pg.SubLinkType_EXISTS_SUBLINK, Subselect: selectNode(sel), Location: -1}}}
	return &pg.Node{Node: &pg.Node_BoolExpr{BoolExpr: &pg.BoolExpr{Boolop: pg.BoolExprType_NOT_EXPR, Args: []*pg.Node{exists}, Location: -1}}}
}

// stepNode returns the rows of a step as an item of FROM.
func stepNode(step, columns int) *pg.Node {
	n := inputNode(0, columns, nil)
	n.GetRangeVar().Relname = stepMark(step)
	return n
}

// passOver adds a condition on the rows that a statement changes.
func passOver(stmt, cond *pg.Node) {
	var where **pg.Node
	switch n := stmt.GetNode().(type) {
	case *pg.Node_UpdateStmt:
		where = &n.UpdateStmt.WhereClause
	case *pg.Node_DeleteStmt:
		where = &n.DeleteStmt.WhereClause
	default:
		return
	}
	if *where != nil {
		cond = conjunction([]*pg.Node{*where, cond})
	}
	*where = cond
}

// shown returns the rows of a step without the keys behind them, under the name that the statement
// has for them.
func (s *steps) shown(step int, names []string, alias *pg.Alias) *pg.Node {
	sel := newSelect()
	keys := 0
	for _, w := range s.rewrites {
		for _, l := range w.left {
			if l.step == step {
				keys = len(w.key)
			}
		}
	}
	sel.FromClause = []*pg.Node{stepNode(step, len(names)+keys)}
	out := &pg.Alias{Aliasname: alias.Aliasname}
	for i, name := range names {
		sel.TargetList = append(sel.TargetList, targetOf(nameNode(inputAlias, inputColumn(i)), inputColumn(i)))
		if i < len(alias.Colnames) {
			name = alias.Colnames[i].GetString_().GetSval()
		}
		out.Colnames = append(out.Colnames, pg.MakeStrNode(name))
	}
	return &pg.Node{Node: &pg.Node_RangeSubselect{RangeSubselect: &pg.RangeSubselect{Subquery: selectNode(sel), Alias: out}}}
}

// writtenAgain finds the tables that several parts write, and prepares these parts.
func (s *steps) writtenAgain(parts []part) *pgerr.Error {
	by := map[*catalog.Relation][]part{}
	for _, p := range parts {
		rv := writtenBy(p.node)
		if rv == nil {
			continue
		}
		to := s.a.writes().writable(rv)
		by[to.base] = append(by[to.base], p)
		if len(by[to.base]) == 1 {
			for r := to.base; r != nil; r = r.Parent {
				if s.written[r] {
					return cannot("Write to it once, or in two statements.", "table %q is written twice by a statement over several shards, as a whole and as a partition", rv.Relname)
				}
			}
		}
		for r := to.base; r != nil; r = r.Parent {
			s.written[r] = true
		}
	}
	for _, p := range parts {
		if rv := writtenBy(p.node); rv != nil {
			to := s.a.writes().writable(rv)
			if len(by[to.base]) < 2 || s.rewrites[to.base] != nil {
				continue
			}
			w, refusal := s.writeAgain(to, by[to.base])
			if refusal != nil {
				return refusal
			}
			s.rewrites[to.base] = w
		}
	}
	return nil
}
