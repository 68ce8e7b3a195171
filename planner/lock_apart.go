package planner

import (
	"slices"
	"strconv"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/quote"
)

// A query that locks rows and cannot run whole inside each shard is carried out in steps, each a statement of its own: see
// plan.Locked. So the tables whose rows are locked need keys by which rows are found again.

// lockApart plans such steps for a query that is not gathered otherwise. r is the route that has been found for it.
func (cm commands) lockApart(sel *pg.SelectStmt, r plan.Route) plan.Route {
	a := cm.a
	if len(sel.LockingClause) == 0 || a.scattered == nil || a.out.Across != nil || a.gatherer().gatherable() != nil {
		return r
	}
	l, refusal := cm.lockSteps(sel)
	switch {
	case refusal != nil && r == plan.Refused:
		a.out.Refusal = refusal
	case refusal != nil:
		a.scattered = refusal
	case l != nil:
		if r == plan.Refused {
			r = plan.Gathered
		}
		a.out.Route, a.out.Refusal, a.scattered, a.out.Across, a.out.Exact = r, nil, nil, l, true
	}
	return r
}

// rowsMark is the name that stands for a condition on rows.
const rowsMark = "weft_rows_of_interest"

// lockSteps returns the steps. It returns nil if PostgreSQL refuses the query, or weft has said why it does.
func (cm commands) lockSteps(sel *pg.SelectStmt) (*plan.Locked, *pgerr.Error) {
	apart := "Lock the rows in a statement of its own."
	switch {
	case sel.Op != pg.SetOperation_SETOP_NONE, len(sel.DistinctClause) > 0, len(sel.GroupClause) > 0, sel.HavingClause != nil, sel.IntoClause != nil:
		return nil, nil
	case strings.Contains(cm.a.client.sql, rowsMark):
		return nil, cannot("Choose another name.", "the name %s is not supported in a query that locks rows over several shards", rowsMark)
	case locksInside(sel):
		return nil, cannot(apart, "a query that locks rows inside of another is not supported over several shards")
	case sel.LimitOffset != nil:
		return nil, cannot("Leave OFFSET out, and pass over the first rows.", "OFFSET is not supported in a query that locks rows of this kind over several shards")
	case cm.drawsEachTime(sel):
		return nil, cannot("Call it in a statement of its own.", "a volatile function is not supported in a query that locks rows of this kind over several shards")
	}
	l := &plan.Locked{Rows: rowsMark}
	if refusal := cm.lockedTables(sel, l); refusal != nil || len(l.Tables) == 0 {
		return nil, refusal
	}
	look := proto.Clone(sel).(*pg.SelectStmt)
	look.LockingClause = nil
	key := 0
	for i := range l.Tables {
		for _, k := range l.Tables[i].Keys {
			key++
			look.TargetList = append(look.TargetList, targetNode(nameNode(l.Tables[i].Name, k), "weft_key_"+strconv.Itoa(key)))
		}
	}
	limited := sel.LimitCount != nil && !isNull(sel.LimitCount)
	limit := intNode(-1)
	if limited {
		limit = proto.Clone(sel.LimitCount).(*pg.Node)
	}
	look.TargetList = append(look.TargetList, targetNode(cast(limit, "int8"), "weft_limit"))
	mark := nameNode(rowsMark)
	if look.WhereClause != nil {
		mark = pg.MakeBoolExprNode(pg.BoolExprType_AND_EXPR, []*pg.Node{look.WhereClause, mark}, -1)
	}
	look.WhereClause = mark
	var err error
	if l.Look, err = parser.Deparse(selectNode(look)); err != nil {
		return nil, unwritable(err)
	}
	if limited {
		look.LimitCount, look.LimitOption = nil, pg.LimitOption_LIMIT_OPTION_DEFAULT
		if l.All, err = parser.Deparse(selectNode(look)); err != nil {
			return nil, unwritable(err)
		}
	}
	return l, nil
}

// drawsEachTime reports whether a query calls a function that may do something else each time.
func (cm commands) drawsEachTime(sel *pg.SelectStmt) bool {
	found := slices.ContainsFunc(cm.a.functions, func(f *catalog.Function) bool { return f.Volatility == 'v' })
	parser.Walk(sel, func(m any) bool {
		if f, ok := m.(*pg.FuncCall); ok {
			found = found || cm.a.env.Schema.Builtin(lastName(f.Funcname)).Volatility == 'v'
		}
		return !found
	})
	return found
}

// lockStrengths are the words of FOR, from the weakest on.
var lockStrengths = map[pg.LockClauseStrength]string{
	pg.LockClauseStrength_LCS_FORKEYSHARE: "KEY SHARE", pg.LockClauseStrength_LCS_FORSHARE: "SHARE",
	pg.LockClauseStrength_LCS_FORNOKEYUPDATE: "NO KEY UPDATE", pg.LockClauseStrength_LCS_FORUPDATE: "UPDATE",
}

// lockedTables finds the tables whose rows are locked.
func (cm commands) lockedTables(sel *pg.SelectStmt, l *plan.Locked) *pgerr.Error {
	items, refusal := fromItems(sel)
	if refusal != nil {
		return refusal
	}
	ctes := map[string]bool{}
	for _, n := range sel.WithClause.GetCtes() {
		ctes[n.GetCommonTableExpr().GetCtename()] = true
	}
	for _, item := range items {
		name := calledName(item.rv)
		var strength pg.LockClauseStrength
		var wait pg.LockWaitPolicy
		for _, n := range sel.LockingClause {
			c := n.GetLockingClause()
			if len(c.LockedRels) == 0 || slices.ContainsFunc(c.LockedRels, func(n *pg.Node) bool { return n.GetRangeVar().GetRelname() == name }) {
				strength, wait = max(strength, c.Strength), max(wait, c.WaitPolicy)
			}
		}
		switch {
		case strength == 0, item.rv.Schemaname == "" && ctes[item.rv.Relname]:
			continue
		case item.nullable:
			return cannot("Lock the tables of the other side: FOR UPDATE OF …; or write JOIN.", "FOR %s cannot be applied to the nullable side of an outer join", lockStrengths[strength])
		case item.subquery:
			return cannot("FOR UPDATE OF the tables in FROM, or lock the rows in a statement of its own.", "locking the rows of a subquery is not supported in this query over several shards")
		}
		t, refusal := cm.lockedTable(item.rv)
		if refusal != nil {
			return refusal
		}
		t.Clause = "FOR " + lockStrengths[strength]
		switch wait {
		case pg.LockWaitPolicy_LockWaitSkip:
			t.Skips = true
			t.Clause += " SKIP LOCKED"
		case pg.LockWaitPolicy_LockWaitError:
			t.Clause += " NOWAIT"
		}
		l.Tables = append(l.Tables, *t)
	}
	return nil
}

// fromItem is an item of FROM: a table, or a subquery.
type fromItem struct {
	rv       *pg.RangeVar
	subquery bool
	nullable bool // an outer join may have no row of it
}

// fromItems lists the items of FROM.
func fromItems(sel *pg.SelectStmt) (out []fromItem, refusal *pgerr.Error) {
	var in func(n *pg.Node, nullable bool)
	in = func(n *pg.Node, nullable bool) {
		switch v := n.GetNode().(type) {
		case *pg.Node_RangeVar:
			out = append(out, fromItem{v.RangeVar, false, nullable})
		case *pg.Node_JoinExpr:
			j := v.JoinExpr
			if j.Alias != nil {
				refusal = cannot("Leave the name of the join out.", "a join with a name is not supported in a query that locks rows of this kind over several shards")
			}
			in(j.Larg, nullable || j.Jointype == pg.JoinType_JOIN_RIGHT || j.Jointype == pg.JoinType_JOIN_FULL)
			in(j.Rarg, nullable || j.Jointype == pg.JoinType_JOIN_LEFT || j.Jointype == pg.JoinType_JOIN_FULL)
		case *pg.Node_RangeSubselect:
			out = append(out, fromItem{&pg.RangeVar{Alias: v.RangeSubselect.Alias}, true, nullable})
		case *pg.Node_RangeFunction:
		default:
			refusal = cannot("Lock the rows in a statement of its own.", "this item of FROM is not supported in a query that locks rows over several shards")
		}
	}
	for _, n := range sel.FromClause {
		in(n, false)
	}
	return out, refusal
}

// lockedTable returns how rows of a table are found again.
func (cm commands) lockedTable(rv *pg.RangeVar) (*plan.LockedTable, *pgerr.Error) {
	rel, t := cm.a.relation(rv)
	switch {
	case rel == nil || cm.a.temporary(rv) || rel.Kind != catalog.Table && rel.Kind != catalog.PartitionedTable || rel.System():
		return nil, cannot("FOR UPDATE OF the tables, or lock the rows in a statement of its own.",
			"locking rows of %q, which is not an ordinary table, is not supported in this query over several shards", rv.Relname)
	case cm.policed(rel):
		return nil, cannot("Lock the rows in a statement of its own.", "locking rows of %q, which has row-level security, is not supported in this query over several shards", rv.Relname)
	}
	columns := identity(rel)
	if columns == nil {
		return nil, cannot("Give it a primary key.", "locking rows of %q, which has no primary key, is not supported in this query over several shards", rv.Relname)
	}
	out := &plan.LockedTable{Name: calledName(rv)}
	if t != nil && !t.Reference {
		alone := slices.ContainsFunc(rel.Lookups, func(l catalog.Lookup) bool { return l.Unique && slices.Equal(l.Columns, columns) })
		for _, k := range t.keys {
			if !slices.Contains(columns, k.Name) && alone && !notNull(rel, k.Name) {
				continue // the key is unique over all shards
			}
			if !slices.Contains(columns, k.Name) {
				columns = append(columns, k.Name)
			}
			out.Shard = append(out.Shard, slices.Index(columns, k.Name))
		}
	}
	for _, name := range columns {
		if !notNull(rel, name) {
			return nil, cannot("Declare it NOT NULL.", "locking rows of %q, whose shard key %q may be NULL, is not supported in this query over several shards", rv.Relname, name)
		}
		at := slices.IndexFunc(rel.Columns, func(c catalog.Column) bool { return c.Name == name })
		out.Keys, out.Types = append(out.Keys, name), append(out.Types, rel.Columns[at].TypeName)
	}
	if out.From = quote.Ident(rv.Relname); rv.Schemaname != "" {
		out.From = quote.Ident(rv.Schemaname) + "." + out.From
	}
	if !rv.Inh {
		out.From = "ONLY " + out.From
	}
	out.From += " AS " + quote.Ident(out.Name)
	return out, nil
}

// policed reports whether policies of a table may concern the client.
func (cm commands) policed(rel *catalog.Relation) bool {
	role := cm.a.env.Role
	return rel.RowSecurity && (role == nil || !role.Bypass && (!role.Has[rel.Owner] || rel.ForceSecurity))
}

// identity returns columns that tell the rows of a table apart: those of its primary key, or of another unique one without NULLs.
func identity(rel *catalog.Relation) []string {
	var found []string
	for i := range rel.Unique {
		u := &rel.Unique[i]
		if u.Partial || u.Deferrable || u.Exclusion || u.Derived != nil || slices.Contains(u.Columns, "") {
			continue
		}
		if u.Primary {
			return slices.Clone(u.Columns)
		}
		if found == nil && !slices.ContainsFunc(u.Columns, func(name string) bool { return !notNull(rel, name) }) {
			found = slices.Clone(u.Columns)
		}
	}
	return found
}

// notNull reports whether a table has a column of that name that is never NULL.
func notNull(rel *catalog.Relation, name string) bool {
	return slices.ContainsFunc(rel.Columns, func(c catalog.Column) bool { return c.Name == name && c.NotNull })
}
