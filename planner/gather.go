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
//   - ctid, xmin, tableoid and the other system columns of a sharded or reference
//     table: they are each shard's own
//   - FOR UPDATE and the like, unless the query runs whole inside each shard
//   - a view that has to be taken apart, but is a security barrier, or reads
//     tables with row-level security as its owner
//   - a whole row of a temporary table; beside *, one of a table on the nullable
//     side of an outer join that has no NOT NULL column
//   - a column that depends on a primary key that is grouped by, and is of a type
//     that cannot be grouped by (json, xml, geometric)
//   - TABLESAMPLE whose argument is a subquery
//   - SELECT of several shards among other statements of one text
//   - PREPARE in SQL; materialized views of sharded tables with partitions

// gatherable refuses what is not gathered, whatever the pieces are.
func (a *analysis) gatherable() *pgerr.Error {
	if refusal := a.onlyThere(); refusal != nil {
		return refusal
	}
	switch {
	case len(a.client.tree.Statements) > 1:
		return cannot("Send the statements one by one.", "a query over several shards cannot be sent together with other statements")
	case a.notes.modifying:
		return cannot("Change the rows in a statement of its own.", "a WITH that changes rows is not supported in a query over several shards")
	case a.notes.system != "":
		return cannot("It is each shard's own.", "system column %s of a table on several shards is not supported", a.notes.system)
	case likeMark(a.client.sql):
		return cannot("Take the control character out of the names.", "names with control characters are not supported in a query over several shards")
	}
	return nil
}

// likeMark reports whether a text has what could be taken for a mark.
func likeMark(sql string) bool {
	return strings.Contains(sql, mark) && (strings.Contains(sql, `"`+mark) || strings.Contains(sql, mark+`"`))
}

func cannot(hint, format string, args ...any) *pgerr.Error {
	return pgerr.New(pgerr.FeatureNotSupported, format, args...).WithHint("%s", hint)
}

// gather plans what is done if no shard can answer a query. stmt is the
// statement that was analysed.
func (a *analysis) gather(stmt *pg.Node, r plan.Route) {
	if a.scattered = a.gatherable(); a.scattered != nil {
		return
	}
	defer a.holds()
	a.timed = a.tells(stmt)
	if r == plan.Keyed && !a.env.tablesOnly {
		if g := a.whole(stmt.GetSelectStmt()); g != nil {
			a.out.Gather = g
			if !forbids(g) || g.Otherwise != nil {
				return
			}
		}
	}
	rest, refusal := a.remains(stmt)
	switch {
	case refusal != nil && a.out.Gather == nil:
		a.scattered = refusal
	case refusal != nil:
	case a.out.Gather != nil:
		a.out.Gather.Otherwise = rest.gather
	default:
		a.out.Gather = rest.gather
	}
}

// forbids: whether it is the way depends on types.
func forbids(g *plan.Gather) bool {
	for i := range g.Pieces {
		if len(g.Pieces[i].Forbid) > 0 {
			return true
		}
	}
	return false
}

// classesOf returns what is equal in a scope. All statements have been analysed.
func (a *analysis) classesOf(s *scope) *classes {
	if a.classes[s] == nil {
		if a.classes == nil {
			a.classes = map[*scope]*classes{}
		}
		a.classes[s] = newClasses(s)
	}
	return a.classes[s]
}

// certain reports whether all instances are on one shard, whatever the values
// are: then nothing is gathered.
func (a *analysis) certain() bool {
	var first *instance
	var values []plan.Source
	for _, x := range a.instances {
		if x.table.broken != nil || x.table.Vindex == nil {
			return false
		}
		if _, ok := x.table.Vindex.(vindex.Computed); !ok {
			return false
		}
		in := x.solve(a.classesOf(x.scope))
		for i, sets := range in.Keys {
			at := slices.IndexFunc(sets, func(s plan.Set) bool {
				return len(s) == 1 && s[0].Kind != plan.Array && s[0].Kind != plan.ParamArray && s[0].Kind != plan.Computed
			})
			switch {
			case at < 0 || len(a.settle(sets[at:at+1])) == 0:
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

// holds: a literal that is no hole of any text has been looked at, so the plan
// is for this text.
func (a *analysis) holds() {
	if len(a.held) < len(a.client.literals) {
		a.out.Exact = true
	}
}

// selected plans a SELECT.
func (a *analysis) selected(stmt *pg.Node) plan.Route {
	a.notes = newNotes()
	a.alike(stmt)
	a.top().query(stmt.GetSelectStmt())
	r := a.decide()
	if sized := a.sized(stmt.GetSelectStmt(), r); sized != r {
		return sized
	}
	if a.refused() || r != plan.Keyed && r != plan.Gathered || r == plan.Keyed && a.when == unlessCertain && a.certain() {
		return r
	}
	if a.out.Postponed = a.when == later && r == plan.Keyed; a.out.Postponed {
		return r
	}
	a.gather(stmt, r)
	if r == plan.Gathered && a.out.Gather == nil {
		a.out.Route, a.out.Refusal = plan.Refused, a.scattered
		return plan.Refused
	}
	return r
}
