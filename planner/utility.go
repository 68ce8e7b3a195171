package planner

import (
	"maps"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/parser"
	"weft/plan"
)

// utility finds the route of everything that is neither a query nor DML.
func (a *analysis) utility(n any) plan.Route {
	switch n := n.(type) {
	case *pg.Node_TransactionStmt:
		switch n.TransactionStmt.Kind {
		case pg.TransactionStmtKind_TRANS_STMT_PREPARE, pg.TransactionStmtKind_TRANS_STMT_COMMIT_PREPARED, pg.TransactionStmtKind_TRANS_STMT_ROLLBACK_PREPARED:
			a.unsupported("Use COMMIT: weft itself prepares and commits what several shards take part in.",
				"transactions cannot be prepared by clients in a database with sharded tables")
		}
		return plan.Any
	case *pg.Node_VariableSetStmt, *pg.Node_VariableShowStmt, *pg.Node_DiscardStmt,
		*pg.Node_DeallocateStmt, *pg.Node_ConstraintsSetStmt, *pg.Node_FetchStmt, *pg.Node_ClosePortalStmt:
		return plan.Any
	case *pg.Node_ExplainStmt:
		return a.explain(n.ExplainStmt)
	case *pg.Node_DeclareCursorStmt:
		return a.declareCursor(n.DeclareCursorStmt)
	case *pg.Node_PrepareStmt:
		return a.prepare(n.PrepareStmt)
	case *pg.Node_ExecuteStmt:
		a.top().expressions(n.ExecuteStmt.Params)
		return a.onHome("EXECUTE")
	case *pg.Node_CallStmt:
		if r, ok := a.commandCall(n.CallStmt.Funccall, "CALL"); ok {
			return r
		}
		a.top().expression(&pg.Node{Node: &pg.Node_FuncCall{FuncCall: n.CallStmt.Funccall}})
		a.out.Writes = true
		return a.onHome("CALL")
	case *pg.Node_DoStmt:
		return a.do(n.DoStmt)
	case *pg.Node_CopyStmt:
		return a.copy(n.CopyStmt)
	case *pg.Node_TruncateStmt:
		return a.truncate(n.TruncateStmt)
	case *pg.Node_LockStmt:
		return a.lock(n.LockStmt)
	case *pg.Node_VacuumStmt:
		return a.vacuum(n.VacuumStmt)
	case *pg.Node_ClusterStmt:
		if n.ClusterStmt.Relation == nil {
			return a.alone(a.global())
		}
		return a.across(rangeVar(n.ClusterStmt.Relation))
	case *pg.Node_ReindexStmt:
		return a.reindex(n.ReindexStmt)
	case *pg.Node_RefreshMatViewStmt:
		return a.refreshMatView(n.RefreshMatViewStmt)
	}
	return a.ddl(n)
}

// onHome is the route of what runs on the home shard, and may call functions.
func (a *analysis) onHome(what string) plan.Route {
	switch r := a.decide(); {
	case a.refused():
		return plan.Refused
	case r == plan.Keyed && a.touched.placed != "" && what == "CALL":
		a.scattered = a.onlyThere()
		return plan.Keyed
	case r == plan.Keyed:
		a.unsupported("", "%s cannot touch sharded table %q", what, a.touched.sharded[0])
		return plan.Refused
	}
	return plan.Home
}

// nested is the route of a statement inside another.
func (a *analysis) nested(n *pg.Node, what string) plan.Route {
	r := a.statement(n)
	if r == plan.Call {
		a.out.Function = nil
		a.unsupported("Call it as the only item of a SELECT.", "%s cannot be applied to a weft function", what)
		return plan.Refused
	}
	if r == plan.Every && a.out.Change != nil && a.out.Change.Body && !a.refused() {
		a.unsupported("Send the statement itself.", "%s of a statement that changes all shards is not supported", what)
		return plan.Refused
	}
	if len(a.copies) > 0 && what != "EXPLAIN" && !a.refused() {
		a.unsupported("Send the statement itself.", "%s of a statement that writes reference table %q is not supported", what, a.copies[0].Name.Name)
		return plan.Refused
	}
	return r
}

// prepare: a statement prepared in SQL is on the backend that has it, and runs there if
// that is the home shard's business. Else the proxy runs it itself, as if its text came
// with EXECUTE: here is no more to do than to let the server look at it. Beside other
// statements that is not so.
func (a *analysis) prepare(n *pg.PrepareStmt) plan.Route {
	if len(a.client.tree.Statements) == 1 && a.preparesApart(n) {
		return plan.Home
	}
	outer := a.params
	a.params = newParams(nil)
	for _, t := range n.Argtypes {
		a.top().runNames(t.GetTypeName())
	}
	r := a.nested(n.Query, "PREPARE")
	a.params = outer
	switch {
	case a.refused():
		return plan.Refused
	case r == plan.Keyed:
		a.unsupported("Send it as a text of its own.", "PREPARE of a statement on sharded table %q cannot be part of a text with several statements", a.touched.sharded[0])
		return plan.Refused
	}
	a.instances = nil
	return plan.Home
}

// preparesApart reports whether a statement is none that the home shard can run.
func (a *analysis) preparesApart(n *pg.PrepareStmt) bool {
	trial, out := *a, *a.out
	trial.out, trial.params, trial.held = &out, newParams(nil), maps.Clone(a.held)
	r := trial.nested(n.Query, "PREPARE")
	return trial.refused() || r != plan.Home && r != plan.Any && r != plan.AnyCopy
}

// bodyReach is all that may happen when the body of a function or of DO runs.
func (a *analysis) bodyReach(language string, create *pg.Node, body string) *catalog.Reach {
	if a.env.Schema == nil {
		return &catalog.Reach{}
	}
	sql, err := parser.Deparse(create)
	if err != nil {
		sql = ""
	}
	r := a.env.Schema.BodyReach(language, sql, body)
	return &r
}

// bodyOf says which relations the body of a function or of DO names, and whether
// it runs SQL that does not stand in it.
func (a *analysis) bodyOf(language string, create *pg.Node, body string) (out reads, dynamic bool) {
	if a.env.Schema == nil {
		return out, false
	}
	sql, err := parser.Deparse(create)
	if err == nil {
		if b, ok := catalog.ParseBody(language, sql, body); ok {
			for _, n := range b.Names {
				if rel := a.find(n.Schema, n.Name); rel != nil && !rel.System() {
					out.add(a.relationReads(rel))
				}
			}
			return out, b.Dynamic
		}
	}
	return a.bodyReads(body), catalog.Dynamic(body)
}

func (a *analysis) refusedOr(r plan.Route) plan.Route {
	if a.refused() {
		return plan.Refused
	}
	return r
}

// lock is the route of LOCK TABLE.
func (a *analysis) lock(n *pg.LockStmt) plan.Route {
	return a.parted(n.Relations, func(o *pg.Node) plan.Route { return a.across(rangeVar(o.GetRangeVar())) }, func(every []*pg.Node) *pg.Node {
		fewer := proto.Clone(n).(*pg.LockStmt)
		fewer.Relations = every
		return &pg.Node{Node: &pg.Node_LockStmt{LockStmt: fewer}}
	})
}

// alone marks a command that cannot run in a transaction block.
func (a *analysis) alone(r plan.Route) plan.Route {
	if r == plan.Every {
		a.change().Alone = true
	}
	return r
}

func (a *analysis) vacuum(n *pg.VacuumStmt) plan.Route {
	var list []named
	for _, r := range n.Rels {
		if v := r.GetVacuumRelation(); v.GetRelation() != nil {
			list = append(list, rangeVar(v.Relation))
		}
	}
	r := a.global()
	if len(list) > 0 {
		r = a.across(list...)
	}
	if n.IsVacuumcmd {
		return a.alone(r)
	}
	return r
}

func (a *analysis) reindex(n *pg.ReindexStmt) plan.Route {
	r := a.global()
	if n.Relation != nil {
		r = a.across(rangeVar(n.Relation))
	}
	concurrently := n.Relation == nil
	for _, p := range n.Params {
		concurrently = concurrently || p.GetDefElem().GetDefname() == "concurrently"
	}
	if concurrently {
		if rel := a.named(rangeVar(n.Relation)); rel != nil && r == plan.Every {
			table := rel.Name
			if rel.Kind == catalog.Index || rel.Kind == catalog.PartitionedIndex {
				table = rel.OwnedBy
			}
			a.change().Again = &plan.Again{Kind: plan.Reindexes, Table: nameOf(table)}
		}
		return a.alone(r)
	}
	return r
}

// bodyReads says which relations a text of some language mentions.
func (a *analysis) bodyReads(body string) (out reads) {
	if a.env.Schema == nil {
		return out
	}
	var s parser.Scanner
	t := text{sql: body}
	if s.Scan([]byte(body), parser.Options{}) {
		t.literals = s.Literals
	}
	sc := wordScanner{text: t}
	before := "" // the name before a dot
	dot := false
	for {
		word, start := sc.next()
		if word == "" {
			return out
		}
		if word == "'" {
			if inner := body[start:sc.at]; len(inner) > 2 {
				out.add(a.bodyReads(inner[1 : len(inner)-1])) // dynamic SQL, or a nested body
			}
		}
		if word == "." {
			dot = before != ""
			continue
		}
		_, name, ok := regclass(word)
		if !ok || !isWord(name[0]) {
			before, dot = "", false
			continue
		}
		schema := ""
		if dot {
			schema = before
		}
		before, dot = name, false
		rel := a.find(schema, name)
		if rel == nil || rel.System() {
			continue
		}
		out.add(a.relationReads(rel))
	}
}
