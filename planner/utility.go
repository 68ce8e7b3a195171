package planner

import (
	"maps"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/parser"
	"weft/plan"
)

// utility returns the route of a statement that is neither a query nor DML.
func (cm commands) utility(n any) plan.Route {
	switch n := n.(type) {
	case *pg.Node_TransactionStmt:
		return plan.Any
	case *pg.Node_VariableSetStmt, *pg.Node_VariableShowStmt, *pg.Node_DiscardStmt,
		*pg.Node_DeallocateStmt, *pg.Node_ConstraintsSetStmt, *pg.Node_FetchStmt, *pg.Node_ClosePortalStmt:
		return plan.Any
	case *pg.Node_ExplainStmt:
		return cm.explain(n.ExplainStmt)
	case *pg.Node_DeclareCursorStmt:
		return cm.declareCursor(n.DeclareCursorStmt)
	case *pg.Node_PrepareStmt:
		return cm.prepare(n.PrepareStmt)
	case *pg.Node_ExecuteStmt:
		cm.a.top().expressions(n.ExecuteStmt.Params)
		return cm.onHome("EXECUTE")
	case *pg.Node_CallStmt:
		if r, ok := cm.a.reach().commandCall(n.CallStmt.Funccall, "CALL"); ok {
			return r
		}
		if r, ok := cm.a.reach().programCall(n.CallStmt.Funccall, 'p'); ok {
			return r
		}
		cm.a.top().expression(&pg.Node{Node: &pg.Node_FuncCall{FuncCall: n.CallStmt.Funccall}})
		cm.a.out.Writes = true
		return cm.onHome("CALL")
	case *pg.Node_DoStmt:
		return cm.a.reach().do(n.DoStmt)
	case *pg.Node_CopyStmt:
		return cm.a.copying().copy(n.CopyStmt)
	case *pg.Node_TruncateStmt:
		return cm.truncate(n.TruncateStmt)
	case *pg.Node_LockStmt:
		return cm.lock(n.LockStmt)
	case *pg.Node_VacuumStmt:
		return cm.vacuum(n.VacuumStmt)
	case *pg.Node_ClusterStmt:
		if n.ClusterStmt.Relation == nil {
			return cm.alone(cm.global())
		}
		return cm.across(rangeVar(n.ClusterStmt.Relation))
	case *pg.Node_ReindexStmt:
		return cm.reindex(n.ReindexStmt)
	case *pg.Node_RefreshMatViewStmt:
		return cm.a.objects().refreshMatView(n.RefreshMatViewStmt)
	}
	return cm.a.definitions().ddl(n)
}

// onHome returns the route of a statement that runs on the home shard and may call functions.
func (cm commands) onHome(what string) plan.Route {
	switch r := cm.a.decide(); {
	case cm.a.refused():
		return plan.Refused
	case r == plan.Keyed && cm.a.touched.placed != "" && what == "CALL":
		cm.a.scattered = cm.onlyThere()
		return plan.Keyed
	case r == plan.Keyed:
		cm.a.unsupported("Read the table in a statement before, and give what it says as a parameter.", "%s cannot touch sharded table %q", what, cm.a.touched.sharded[0])
		return plan.Refused
	}
	return plan.Home
}

// nested returns the route of a statement inside another.
func (cm commands) nested(n *pg.Node, what string) plan.Route {
	cm.a.unkept = what != "EXPLAIN" && what != "PREPARE"
	r := cm.a.statement(n)
	if r == plan.Call {
		cm.a.out.Function = nil
		cm.a.unsupported("Call it as the only item of a SELECT.", "%s cannot be applied to a weft function", what)
		return plan.Refused
	}
	if r == plan.Program {
		cm.a.unsupported("Send the statement itself.", "%s cannot be applied to a function that touches sharded tables", what)
		return plan.Refused
	}
	if r == plan.Every && cm.a.out.Change != nil && cm.a.out.Change.Body && !cm.a.refused() {
		cm.a.unsupported("Send the statement itself.", "%s of a statement that changes all shards is not supported", what)
		return plan.Refused
	}
	if len(cm.a.copies) > 0 && what != "EXPLAIN" && what != "COPY" && !cm.a.refused() {
		cm.a.unsupported("Send the statement itself.", "%s of a statement that writes reference table %q is not supported", what, cm.a.copies[0].Name.Name)
		return plan.Refused
	}
	return r
}

// prepare returns the route of PREPARE. A statement that the home shard can run is prepared on a
// backend there. Any other is run by the proxy, as if its text came with EXECUTE, and the server
// only checks it here. Among other statements of one text that is not possible.
func (cm commands) prepare(n *pg.PrepareStmt) plan.Route {
	if len(cm.a.client.tree.Statements) == 1 && cm.preparesApart(n) {
		return plan.Home
	}
	outer := cm.a.params
	cm.a.params = newParams(nil)
	for _, t := range n.Argtypes {
		cm.a.top().runNames(t.GetTypeName())
	}
	r := cm.nested(n.Query, "PREPARE")
	cm.a.params = outer
	switch {
	case cm.a.refused():
		return plan.Refused
	case r == plan.Keyed:
		cm.a.unsupported("Send it as a text of its own.", "PREPARE of a statement on sharded table %q cannot be part of a text with several statements", cm.a.touched.sharded[0])
		return plan.Refused
	}
	cm.a.instances = nil
	return plan.Home
}

// preparesApart reports whether the home shard cannot run the statement being prepared.
func (cm commands) preparesApart(n *pg.PrepareStmt) bool {
	trial, out := *cm.a, *cm.a.out
	trial.out, trial.params, trial.held = &out, newParams(nil), maps.Clone(cm.a.held)
	r := trial.commands().nested(n.Query, "PREPARE")
	return trial.refused() || r != plan.Home && r != plan.Any && r != plan.AnyCopy
}

// bodyReach returns everything that may happen when the body of a function or of DO runs.
func (cm commands) bodyReach(language string, create *pg.Node, body string) *catalog.Reach {
	if cm.a.env.Schema == nil {
		return &catalog.Reach{}
	}
	sql, err := parser.Deparse(create)
	if err != nil {
		sql = ""
	}
	r := cm.a.env.Schema.BodyReach(language, sql, body)
	return &r
}

// bodyOf returns the relations that the body of a function or of DO names, and whether it runs SQL
// that is not in the body.
func (cm commands) bodyOf(language string, create *pg.Node, body string) (out reads, dynamic bool) {
	if cm.a.env.Schema == nil {
		return out, false
	}
	sql, err := parser.Deparse(create)
	if err == nil {
		if b, ok := catalog.ParseBody(language, sql, body); ok {
			for _, n := range b.Names {
				if rel := cm.a.find(n.Schema, n.Name); rel != nil && !rel.System() {
					out.add(cm.a.definitions().relationReads(rel))
				}
			}
			return out, b.Dynamic
		}
	}
	return cm.bodyReads(body), catalog.Dynamic(body)
}

func (cm commands) refusedOr(r plan.Route) plan.Route {
	if cm.a.refused() {
		return plan.Refused
	}
	return r
}

// lock is the route of LOCK TABLE.
func (cm commands) lock(n *pg.LockStmt) plan.Route {
	return cm.a.definitions().parted(n.Relations, func(o *pg.Node) plan.Route { return cm.across(rangeVar(o.GetRangeVar())) }, func(every []*pg.Node) *pg.Node {
		fewer := proto.Clone(n).(*pg.LockStmt)
		fewer.Relations = every
		return &pg.Node{Node: &pg.Node_LockStmt{LockStmt: fewer}}
	})
}

// alone marks a command that cannot run in a transaction block.
func (cm commands) alone(r plan.Route) plan.Route {
	if r == plan.Every {
		cm.change().Alone = true
	}
	return r
}

// vacuum returns the route of VACUUM and ANALYZE. Of a list of tables each shard does those that it
// has.
func (cm commands) vacuum(n *pg.VacuumStmt) plan.Route {
	r := cm.global()
	if len(n.Rels) > 0 {
		r = cm.a.definitions().parted(n.Rels, func(o *pg.Node) plan.Route {
			return cm.across(rangeVar(o.GetVacuumRelation().GetRelation()))
		}, func(every []*pg.Node) *pg.Node {
			fewer := proto.Clone(n).(*pg.VacuumStmt)
			fewer.Rels = every
			return &pg.Node{Node: &pg.Node_VacuumStmt{VacuumStmt: fewer}}
		})
	}
	if n.IsVacuumcmd {
		return cm.alone(r)
	}
	return r
}

func (cm commands) reindex(n *pg.ReindexStmt) plan.Route {
	r := cm.global()
	if n.Relation != nil {
		r = cm.across(rangeVar(n.Relation))
	}
	concurrently := n.Relation == nil
	for _, p := range n.Params {
		concurrently = concurrently || p.GetDefElem().GetDefname() == "concurrently"
	}
	if concurrently {
		if rel := cm.named(rangeVar(n.Relation)); rel != nil && r == plan.Every {
			table := rel.Name
			if rel.Kind == catalog.Index || rel.Kind == catalog.PartitionedIndex {
				table = rel.OwnedBy
			}
			cm.change().Again = &plan.Again{Kind: plan.Reindexes, Table: nameOf(table)}
		}
		return cm.alone(r)
	}
	return r
}

// bodyReads returns the relations that a text in some language mentions.
func (cm commands) bodyReads(body string) (out reads) {
	if cm.a.env.Schema == nil {
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
				out.add(cm.bodyReads(inner[1 : len(inner)-1])) // dynamic SQL, or a nested body
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
		rel := cm.a.find(schema, name)
		if rel == nil || rel.System() {
			continue
		}
		out.add(cm.a.definitions().relationReads(rel))
	}
}
