package planner

import (
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/pgerr"
	"weft/plan"
	"weft/vindex"
)

// A query that no single shard can answer is gathered: see plan.Gather. What is
// refused then, each with a hint, because the answer could not be PostgreSQL's:
//
//   - a function that touches sharded tables, or runs SQL that cannot be looked
//     into: it would see one shard (called)
//   - ctid, xmin and the other system columns of a sharded or reference table, but for
//     tableoid: they are each shard's own
//   - FOR UPDATE and the like, unless the query runs whole inside each shard or in
//     steps (lock_apart.go)
//   - a view that has to be taken apart, but is a security barrier, or reads
//     tables with row-level security as its owner
//   - a whole row of a temporary table; beside *, one of a table on the nullable
//     side of an outer join that has no NOT NULL column
//   - a column that depends on a primary key that is grouped by, and is of a type
//     that cannot be grouped by (json, xml, geometric)
//   - TABLESAMPLE whose argument is a subquery
//   - set_config beside a table whose policies read parameters or call functions
//   - SELECT of several shards among other statements of one text
//   - PREPARE in SQL; materialized views of sharded tables with partitions

// gatherable refuses queries that are never gathered, whatever their pieces are.
func (ga gatherer) gatherable() *pgerr.Error {
	if refusal := ga.a.commands().onlyThere(); refusal != nil {
		return refusal
	}
	switch {
	case len(ga.a.client.tree.Statements) > 1:
		return cannot("Send the statements one by one.", "a query over several shards cannot be sent together with other statements")
	case ga.a.notes.modifying:
		return cannot("Change the rows in a statement of its own.", "a WITH that changes rows is not supported in a query over several shards")
	case ga.a.notes.system != "":
		return cannot("It is each shard's own.", "system column %s of a table on several shards is not supported", ga.a.notes.system)
	case ga.a.touched.guarded != "" && ga.a.setsParameters():
		return cannot("Set the parameter in a statement of its own.",
			"set_config beside table %q is not supported in a query over several shards: policies of the table may read what is set, row by row", ga.a.touched.guarded)
	case likeMark(ga.a.client.sql):
		return cannot("Take the control character out of the names.", "names with control characters are not supported in a query over several shards")
	}
	return nil
}

// likeMark reports whether a text contains something that could be taken for a mark.
func likeMark(sql string) bool {
	return strings.Contains(sql, mark) && (strings.Contains(sql, `"`+mark) || strings.Contains(sql, mark+`"`))
}

func cannot(hint, format string, args ...any) *pgerr.Error {
	return pgerr.New(pgerr.FeatureNotSupported, format, args...).WithHint("%s", hint)
}

// gather plans what to do if no single shard can answer a query. stmt is the analysed statement.
func (ga gatherer) gather(stmt *pg.Node, r plan.Route) {
	if ga.a.scattered = ga.gatherable(); ga.a.scattered != nil {
		return
	}
	defer ga.holds()
	defer ga.asksFirst()
	ga.a.timed = ga.a.clock().tells(stmt)
	ga.cut(stmt, r)
	if g := ga.a.out.Gather(); g != nil && makesRows(stmt) {
		ga.single(stmt, g)
	}
}

// cut finds the largest pieces that a query can be answered in.
func (ga gatherer) cut(stmt *pg.Node, r plan.Route) {
	if r == plan.Keyed && !ga.a.tablesOnly() {
		if g := ga.whole(stmt.GetSelectStmt()); g != nil {
			ga.a.out.Across = g
			if !forbids(g) || g.Otherwise != nil {
				return
			}
		}
	}
	rest, refusal := ga.remains(stmt)
	switch {
	case refusal != nil && ga.a.out.Gather() == nil:
		ga.a.scattered = refusal
	case refusal != nil:
	case ga.a.out.Gather() != nil:
		ga.a.out.Gather().Otherwise = rest.gather
	default:
		ga.a.out.Across = rest.gather
	}
}

// asksFirst has the home shard asked whether the client may call functions that stand no more in the texts for the shards.
func (ga gatherer) asksFirst() {
	if ga.a.inlined.private == "" {
		return
	}
	for g := ga.a.out.Gather(); g != nil; g = g.Otherwise {
		g.Probe = true
	}
}

// forbids reports whether a piece can be used only if its columns are not of some types.
func forbids(g *plan.Gather) bool {
	for i := range g.Pieces {
		if len(g.Pieces[i].Forbid) > 0 {
			return true
		}
	}
	return false
}

// classesOf returns the classes of equal columns in a scope, after all statements have been
// analysed.
func (ga gatherer) classesOf(s *scope) *classes {
	if ga.a.classes[s] == nil {
		if ga.a.classes == nil {
			ga.a.classes = map[*scope]*classes{}
		}
		ga.a.classes[s] = newClasses(s)
	}
	return ga.a.classes[s]
}

// certain reports whether all instances are on one shard for all values: then nothing is gathered.
func (ga gatherer) certain() bool {
	var first *instance
	var values []plan.Source
	for _, x := range ga.a.instances {
		if x.table.broken != nil || x.table.Vindex == nil {
			return false
		}
		if _, ok := x.table.Vindex.(vindex.Computed); !ok {
			return false
		}
		in := x.solve(ga.classesOf(x.scope))
		for i, sets := range in.Keys {
			at := slices.IndexFunc(sets, func(s plan.Set) bool {
				return len(s) == 1 && s[0].Kind != plan.Array && s[0].Kind != plan.ParamArray && s[0].Kind != plan.Computed
			})
			switch {
			case at < 0 || len(ga.a.settle(sets[at:at+1])) == 0:
				return false
			case first == nil:
				values = append(values, sets[at][0])
			case i >= len(values) || sets[at][0] != values[i]:
				return false
			}
		}
		if first == nil {
			first = x
		} else if !colocated(first.table, x.table) {
			return false
		}
	}
	return first != nil
}

// holds makes the plan hold for this text only if a literal was looked at without becoming a hole
// of some text.
func (ga gatherer) holds() {
	if len(ga.a.held) < len(ga.a.client.literals) {
		ga.a.out.Exact = true
	}
}

// selected plans a SELECT.
func (ga gatherer) selected(stmt *pg.Node) plan.Route {
	ga.a.notes = newNotes()
	ga.alike(stmt)
	ga.a.top().query(stmt.GetSelectStmt())
	r := ga.a.decide()
	if sized := ga.sized(stmt.GetSelectStmt(), r); sized != r {
		return sized
	}
	if ga.a.refused() || r != plan.Keyed && r != plan.Gathered || r == plan.Keyed && ga.a.when == unlessCertain && ga.certain() {
		return r
	}
	if ga.a.when == later && r == plan.Keyed {
		ga.a.out.Across = &plan.Postponed{}
		return r
	}
	ga.gather(stmt, r)
	if r == plan.Gathered && ga.a.out.Gather() == nil {
		ga.a.out.Route, ga.a.out.Refusal = plan.Refused, ga.a.scattered
		return plan.Refused
	}
	return r
}
