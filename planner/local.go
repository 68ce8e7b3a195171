package planner

import (
	"fmt"
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/plan"
)

// A block is local if it may run inside each shard: the rows that it yields on
// all shards, put together, are those it would yield if one server had
// everything.
//
// This is proved by a mark. Some FROM element of the block, the anchor, has a row
// in every combination of rows that the block looks at (it is on no nullable side
// of an outer join), and a shard key. Let the condition "the anchor's key is K"
// be added to the block, for an unknown value K. If it follows for every
// other instance in the block, wherever it stands, that its key is K too, then
// by the claim of scope its rows of other keys can be taken away without changing
// what the block yields for the anchor's rows of key K. Tables colocated with the
// anchor's have their rows of K on the same shard. So a combination with a row of
// the anchor is the same, whether all rows are there or that shard's alone: the
// combinations of the shards are all combinations, each once.
//
// A row whose key is NULL is on one shard as well. If an instance has the mark by
// an equality, no row of it takes part beside such a row of the anchor; if it has
// it because its column is the anchor's, as an arm of a set operation yields it,
// then its key is NULL too, and NULLs are in one place.
//
// What the block makes of the combinations must not put those of two shards
// together: grouping, DISTINCT and the partitions of windows have to contain the
// anchor's key.
//
// The anchor may also be a subquery that is local itself. Its rows are then each
// on one shard, and if it yields its own anchor's key, then on the one of that
// key.
type block struct {
	cols   []output
	opaque bool
	// table is the anchor's table. Nil if no column tells how the rows are spread.
	table *table
	// key lists, for each column of the table's key, the outputs that have its value.
	key [][]int
	// instances are the instances without whose rows a shard yields none.
	instances []plan.Instance
	anchors   []*instance // the instances of the analysis behind these
	name      string

	// level is the block's FROM, nil for a set operation.
	level *level
	// collated is set if something in the block has a collation of its own.
	collated bool
}

// markKind is the kind of the unknown value K.
const markKind plan.SourceKind = 255

// local judges a query that names nothing of the levels around it and includes its CTEs. It returns
// nil, and the reason, if the query is not local.
func (ga gatherer) local(sel *pg.SelectStmt) (*block, string) {
	return ga.localIn(sel, ga.a.text, true)
}

// localIn is local for a query of the text t. top is set if the query is not inside another.
func (ga gatherer) localIn(sel *pg.SelectStmt, t text, top bool) (*block, string) {
	switch {
	case sel.LimitCount != nil || sel.LimitOffset != nil:
		return nil, "LIMIT is counted over all shards"
	case len(sel.LockingClause) > 0:
		return nil, "it locks rows"
	case len(sel.ValuesLists) > 0:
		return nil, noSharded
	case sel.Op != pg.SetOperation_SETOP_NONE:
		return ga.localSet(sel, t)
	}
	in := ga.probing(t)
	l := in.top()
	b := &block{level: l}
	b.cols, b.opaque = l.query(sel)
	if why := in.gatherer().unfit(sel, top); why != "" {
		return nil, why
	}
	if l.inherits(sel) {
		return nil, "a subquery is ordered over all shards"
	}
	anchor, why := ga.anchor(l)
	if anchor == nil {
		return nil, why
	}
	for _, x := range in.instances[anchor.first:anchor.last] {
		solved := x.solve(newClasses(x.scope))
		ga.a.settleInstance(&solved)
		b.instances = append(b.instances, solved)
		b.anchors = append(b.anchors, x)
	}
	b.name, b.collated = in.gatherer().tables(), in.probe.collated
	why = b.divided(sel, anchor)
	ga.a.out.Exact = ga.a.out.Exact || in.out.Exact
	if why != "" {
		return nil, why
	}
	return b, ""
}

// probing returns an analysis that looks at a part of this one's statement.
func (ga gatherer) probing(t text) *analysis {
	return &analysis{
		env: ga.a.env, text: t, client: ga.a.client, out: &plan.Plan{}, reads: ga.a.reads,
		params: &params{types: ga.a.params.types}, probe: &probe{}, view: viewing{owner: ga.a.view.owner}, judged: ga.a.judged,
	}
}

// tables names the block to people by its sharded tables.
func (ga gatherer) tables() string {
	var out []string
	for _, x := range ga.a.instances {
		if !slices.Contains(out, x.name) {
			out = append(out, x.name)
		}
	}
	return strings.Join(out, ", ")
}

// unfit returns the reason why a block cannot run in shards, whatever its keys are, or "".
func (ga gatherer) unfit(sel *pg.SelectStmt, top bool) string {
	t := &ga.a.touched
	switch {
	case ga.a.refused():
		return ga.a.out.Refusal.Message
	case len(t.missing) > 0:
		return t.missing[0].Relname + " does not exist"
	case len(t.home) > 0:
		return t.home[0] + " is on the home shard"
	case len(t.sequences) > 0:
		return t.sequences[0] + " runs on the home shard"
	case len(t.homely) > 0:
		return t.homely[0] + " runs on the home shard"
	case t.catalog:
		return "names of objects mean something on the home shard only"
	case t.system != "":
		return t.system + " is told by each shard for itself"
	case ga.a.out.Writes, ga.a.out.Locks:
		return "it locks or changes rows"
	case ga.a.probe.unsteady != "":
		return ga.a.probe.unsteady + " may differ from shard to shard"
	}
	for _, f := range ga.a.functions {
		if f.Volatility == 'v' || ga.a.reach().beyond(&f.Reach) != "" {
			return "function " + f.Name.Name + " is to be called where the whole statement is"
		}
	}
	harmless := map[*pg.FuncCall]bool{}
	if top {
		perRow(sel, harmless)
	}
	for _, f := range ga.a.probe.calls {
		names := nameList(f.Funcname)
		name := names[len(names)-1]
		if ofServer[name] {
			return "function " + name + " tells of the shard it runs on"
		}
		if t := ga.a.env.Schema.Builtin(name); !harmless[f] && (!t.Known || t.Volatility == 'v') {
			return "function " + name + " is volatile"
		}
	}
	if len(ga.a.instances) == 0 {
		return noSharded
	}
	return ""
}

// ofServer are functions whose value depends on the server or the moment of the call. (now() is the
// same everywhere: see nowCall.)
var ofServer = set("statement_timestamp", "current_database", "version", "inet_client_addr", "inet_client_port", "pg_backend_pid",
	"pg_postmaster_start_time", "pg_conf_load_time")

// inherits reports whether a query's rows come in the order of the only subquery in its FROM.
// PostgreSQL does not document that order but keeps it, and queries with LIMIT or string_agg around
// a subquery with ORDER BY count on it.
func (l *level) inherits(sel *pg.SelectStmt) bool {
	if len(sel.FromClause) != 1 || len(sel.SortClause) > 0 || len(sel.DistinctClause) > 0 || l.grouping().grouped(sel) && !l.ordered(sel) {
		return false
	}
	switch sel.FromClause[0].GetNode().(type) {
	case *pg.Node_RangeSubselect, *pg.Node_RangeVar:
	default:
		return false
	}
	for _, d := range l.a.probe.derived {
		if d.sel != nil && !d.semi && len(d.sel.SortClause) > 0 && d.scope == l.scope {
			return true
		}
	}
	return false
}

// perRow finds the calls of volatile functions that are evaluated for each row and have no other
// effect: these may run on any shard.
func perRow(sel *pg.SelectStmt, calls map[*pg.FuncCall]bool) {
	if len(sel.DistinctClause) > 0 || len(sel.GroupClause) > 0 {
		return
	}
	for _, n := range append(append([]*pg.Node(nil), sel.TargetList...), sel.SortClause...) {
		walkLevel(n, func(m any) {
			f, ok := m.(*pg.FuncCall)
			if !ok {
				return
			}
			switch names := nameList(f.Funcname); names[len(names)-1] {
			case "random", "clock_timestamp", "gen_random_uuid":
				calls[f] = true
			}
		})
	}
}

// anchor is the item of FROM that has a row in every combination of rows of a block.
type anchor struct {
	key         []*column // nil if no columns tell where the rows are
	table       *table
	first, last int // bounds of the instances
}

// anchor finds an anchor of the level, or returns the reason why there is none.
func (ga gatherer) anchor(l *level) (*anchor, string) {
	in := l.a
	why := ""
	for i, x := range in.instances {
		if x.scope != l.scope || x.semi {
			continue
		}
		at := &anchor{table: x.table, first: i, last: i + 1}
		for _, k := range x.table.keys {
			at.key = append(at.key, x.cols[k.Name])
		}
		if slices.Contains(at.key, nil) {
			continue
		}
		odd := at.odd(ga.a, l)
		if odd == nil {
			return at, ""
		}
		if why == "" {
			why = fmt.Sprintf("%s and %s are not joined by their shard keys", x.name, odd.name)
		}
	}
	for _, d := range in.probe.derived {
		if d.scope != l.scope || d.semi {
			continue
		}
		inner := d.look(ga.a)
		if inner == nil {
			if why == "" {
				why = d.why
			}
			continue
		}
		at := &anchor{first: d.first, last: d.last, table: inner.table, key: d.key()}
		odd := at.odd(ga.a, l)
		if odd == nil {
			return at, ""
		}
		if why == "" {
			why = fmt.Sprintf("%s is not joined by the shard key of what stands beside it", odd.name)
		}
	}
	if why == "" {
		why = "no sharded table is there in every row"
	}
	return nil, why
}

// odd returns an instance that need not have the anchor's key, or nil.
func (at *anchor) odd(a *analysis, l *level) *instance {
	defer at.mark(l)()
	known := map[*scope]*classes{}
	for i, x := range l.a.instances {
		if !at.marks(a, l, i, known) {
			return x
		}
	}
	return nil
}

// beside returns for each instance whether it must have the anchor's key.
func (at *anchor) beside(a *analysis, l *level) []bool {
	defer at.mark(l)()
	known := map[*scope]*classes{}
	out := make([]bool, len(l.a.instances))
	for i := range out {
		out[i] = at.marks(a, l, i, known)
	}
	return out
}

// mark adds the condition that the anchor's key is K, and returns a function that removes it.
func (at *anchor) mark(l *level) func() {
	was := len(l.scope.among)
	for i, c := range at.key {
		l.scope.among = append(l.scope.among, among{column: c, set: plan.Set{{Kind: markKind, Index: i}}})
	}
	return func() { l.scope.among = l.scope.among[:was] }
}

// marks reports whether an instance must have the anchor's key.
func (at *anchor) marks(a *analysis, l *level, i int, known map[*scope]*classes) bool {
	x := l.a.instances[i]
	switch {
	case i >= at.first && i < at.last:
		return true
	case at.table == nil:
		return false
	}
	cl := known[x.scope]
	if cl == nil {
		cl = newClasses(x.scope)
		known[x.scope] = cl
	}
	alike := colocated(at.table, x.table)
	for i, k := range x.table.keys {
		c := x.cols[k.Name]
		alike = alike && c != nil && marked(cl, c, i)
	}
	return alike || l.fromClause().covered(a, at, i)
}

// divided returns what puts rows of several shards together, or "", and notes which outputs are the
// key.
func (b *block) divided(sel *pg.SelectStmt, at *anchor) string {
	l := b.level
	o := l.grouping().outputsOf(sel)
	cl := newClasses(l.scope)
	has := func(list []*column) bool {
		for _, k := range at.key {
			if k.class() == 0 || !slices.ContainsFunc(list, func(c *column) bool { return c != nil && cl.find(c) == cl.find(k) }) {
				return false
			}
		}
		return len(at.key) > 0
	}
	sets := false
	if l.grouping().grouped(sel) {
		plain, every := l.grouping().groupColumns(sel, o)
		if !has(plain) {
			if len(every) == 0 || slices.ContainsFunc(every, func(set []*column) bool { return !has(append(set, plain...)) }) {
				return "GROUP BY does not contain the shard key"
			}
			sets = true
		}
	}
	for _, w := range l.grouping().windows(sel) {
		if !has(l.grouping().partition(sel, w, 0)) {
			return "a window's PARTITION BY does not contain the shard key"
		}
	}
	if on := sel.DistinctClause; len(on) > 0 {
		list := o.columns
		if on[0].GetNode() != nil {
			list = nil
			for _, n := range on {
				list = append(list, l.grouping().sortColumn(n, o))
			}
		}
		if !has(list) {
			return "DISTINCT does not contain the shard key"
		}
	}
	if at.table == nil || sets || o.opaque || b.opaque {
		return ""
	}
	var key [][]int
	for _, k := range at.key {
		var found []int
		for i, c := range o.columns {
			if c != nil && k.class() != 0 && cl.find(c) == cl.find(k) {
				found = append(found, i)
			}
		}
		if len(found) == 0 {
			return ""
		}
		key = append(key, found)
	}
	b.table, b.key = at.table, key
	return ""
}
