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
)

// A function in SQL that touches sharded tables sees only the rows of the shard that it runs on. Its call is therefore
// replaced, before the statement is analysed, by the query that is its body:
//
//	SELECT total(o.k) FROM o       SELECT (SELECT sum(i.n) FROM i WHERE i.k = o.k)::bigint FROM o
//	SELECT * FROM items(5) AS x    SELECT * FROM (SELECT i.k, i.n FROM i WHERE i.k = 5) AS x
//
// The tree with these queries tells which rows are read, and is what pieces and remainders are made of. If one shard has all
// of the rows, it is sent the client's text: the function runs there, and PostgreSQL itself says what it does.
//
// When the two are not the same for sure, the statement may run on one shard only (inlining.apart), or the call is left
// alone, and refused like that of any other function over sharded tables (inlining.why).
//
//   - SECURITY DEFINER and SET are a function's own: one shard.
//   - A VOLATILE function sees rows that have changed since the statement began. In a statement that only reads, without locks
//     and waits, nobody can tell whether there were any; in any other: one shard.
//   - A function that returns a row, one of many arguments (VARIADIC) or of any type, or whose body is more than a SELECT is left alone.

// embedded is the location of constants that stand in the body of a function.
const embedded = -2

// maxInlined bounds how deep calls in bodies are replaced, and maxInlines how many one text may have.
const maxInlined, maxInlines = 16, 200

// inlining is what an analysis notes of the functions that it has replaced by their queries.
type inlining struct {
	statement *pg.Node // the statement of the client
	count     int      // how many calls have been replaced
	aliases   int      // how many names have been given to arguments
	// apart is the reason why only one shard can run the statement, or nil.
	apart *pgerr.Error
	// volatile names a VOLATILE function, or is empty.
	volatile string
	// private names a function that not every role may call, or is empty.
	private string
	// why has the reasons why functions were not replaced.
	why map[string]string
}

// inliner replaces calls in a tree.
type inliner struct {
	a    *analysis
	root *pg.Node
	path []string // finds functions that the tree names without a schema
	// around are the functions whose bodies the tree is inside.
	around []*catalog.Function
	stored bool // the tree is that of a view
}

// inline replaces the calls in a statement of the client.
func (a *analysis) inline(stmt *pg.Node) {
	if a.env.Schema == nil || a.env.Tables.Empty() {
		return
	}
	a.inlined = inlining{statement: stmt}
	in := &inliner{a: a, root: stmt, path: a.client.path}
	switch n := stmt.GetNode().(type) {
	case *pg.Node_SelectStmt:
		if f, _ := soleCall(n.SelectStmt); f != nil {
			in.alone(stmt)
			return
		}
	case *pg.Node_InsertStmt, *pg.Node_UpdateStmt, *pg.Node_DeleteStmt, *pg.Node_MergeStmt:
	case *pg.Node_ExplainStmt:
		a.inline(n.ExplainStmt.Query)
		return
	case *pg.Node_DeclareCursorStmt:
		stmt = n.DeclareCursorStmt.Query
	case *pg.Node_CopyStmt:
		stmt = n.CopyStmt.Query
	case *pg.Node_CreateTableAsStmt:
		if n.CreateTableAsStmt.Objtype != pg.ObjectType_OBJECT_TABLE {
			return // a materialized view is refreshed by its definition
		}
		stmt = n.CreateTableAsStmt.Query
	default:
		return
	}
	if stmt == nil {
		return
	}
	in.tree(stmt)
}

// inlineView replaces the calls in the query of a view.
func (a *analysis) inlineView(query *pg.Node) {
	if a.env.Schema != nil && !a.env.Tables.Empty() {
		(&inliner{a: a, root: query, path: []string{"pg_catalog"}, stored: true}).tree(query)
	}
}

// alone replaces the call that a statement consists of, if one shard has all the rows for sure. Else weft runs the function
// statement by statement, and the rows come in the order of the body.
func (in *inliner) alone(stmt *pg.Node) {
	a := in.a
	again := &analysis{
		env: a.env, text: a.client, client: a.client, out: &plan.Plan{Route: plan.Any}, reads: a.reads, held: map[int]bool{}, when: later, params: &params{types: a.params.types},
	}
	tried := proto.Clone(stmt).(*pg.Node)
	(&inliner{a: again, root: tried, path: in.path}).tree(tried)
	if again.inlined.count == 0 {
		a.inlined.why = again.inlined.why
		return
	}
	if again.gatherer().selected(tried) != plan.Keyed || again.refused() || !again.gatherer().certain() {
		return
	}
	in.tree(stmt)
}

// tree replaces the calls in a tree.
func (in *inliner) tree(n any) {
	parser.Walk(n, func(m any) bool {
		switch m := m.(type) {
		case *pg.SelectStmt:
			in.number(m)
			in.label(m.TargetList)
		case *pg.InsertStmt:
			in.label(m.ReturningList)
		case *pg.UpdateStmt:
			in.label(m.ReturningList)
		case *pg.DeleteStmt:
			in.label(m.ReturningList)
		case *pg.Node:
			switch v := m.Node.(type) {
			case *pg.Node_FuncCall:
				return !in.scalar(m, v.FuncCall)
			case *pg.Node_RangeFunction:
				if !in.rows(m, v.RangeFunction) {
					for _, f := range v.RangeFunction.Functions {
						for _, item := range f.GetList().GetItems() {
							for _, arg := range item.GetFuncCall().GetArgs() {
								in.tree(arg)
							}
						}
					}
				}
				return false
			}
		}
		return true
	})
}

// number writes GROUP BY f(x) as GROUP BY 1, and ORDER BY likewise, if f(x) is the first item of the query: two queries in the
// place of the calls need not be seen to be the same.
func (in *inliner) number(sel *pg.SelectStmt) {
	for _, n := range slices.Concat(sel.GroupClause, sel.SortClause) {
		if by := n.GetSortBy(); by != nil {
			n = by.Node
		}
		if !in.calls(n) {
			continue
		}
		for i, t := range sel.TargetList {
			v := t.GetResTarget().GetVal()
			if v == nil || isStar(v) || isFieldStar(v) {
				break // it stands for several columns
			}
			if proto.Equal(normal(v), normal(n)) {
				n.Node = intNode(i + 1).Node
				break
			}
		}
	}
}

// calls reports whether an expression has a call that may be replaced.
func (in *inliner) calls(n *pg.Node) bool {
	found := false
	walkNodes(n, func(m *pg.Node) bool {
		found = found || m.GetFuncCall() != nil && in.wanted(m.GetFuncCall()) != nil
		return !found
	})
	return found
}

// label gives unnamed columns the names that they have by the calls in them.
func (in *inliner) label(targets []*pg.Node) {
	for _, n := range targets {
		t := n.GetResTarget()
		if t == nil || t.Name != "" || isStar(t.Val) || isFieldStar(t.Val) {
			continue
		}
		if name := figureName(t.Val); in.calls(t.Val) && name != "?column?" {
			t.Name = name
		}
	}
}

// wanted returns the functions that a call may mean, if one of them touches sharded tables.
func (in *inliner) wanted(f *pg.FuncCall) []*catalog.Function {
	names := nameList(f.Funcname)
	if len(names) == 0 || len(names) > 2 {
		return nil
	}
	var out []*catalog.Function
	sharded := false
	for _, u := range in.a.env.Schema.Functions(names[len(names)-1]) {
		if len(names) == 2 && u.Schema == names[0] || len(names) == 1 && slices.Contains(in.path, u.Schema) {
			out = append(out, u)
			sharded = sharded || in.a.reach().reached(&u.Reach).sharded != ""
		}
	}
	if !sharded || len(out) == 1 && in.a.commands().placed(out[0]) != nil {
		return nil
	}
	return out
}

// leave notes why a call is left alone.
func (in *inliner) leave(name, why string) {
	if in.a.inlined.why == nil {
		in.a.inlined.why = map[string]string{}
	}
	if in.a.inlined.why[name] == "" {
		in.a.inlined.why[name] = why
	}
}

// scalar replaces a call in an expression.
func (in *inliner) scalar(n *pg.Node, f *pg.FuncCall) bool {
	c := in.call(f)
	if c == nil {
		return false
	}
	sub, why := c.scalar(in)
	if sub == nil {
		in.leave(c.function.Name.Name, why)
		return false
	}
	in.take(c)
	n.Node = sub.Node
	return true
}

// rows replaces a function in FROM.
func (in *inliner) rows(n *pg.Node, rf *pg.RangeFunction) bool {
	if len(rf.Functions) != 1 {
		return false
	}
	items := rf.Functions[0].GetList().GetItems()
	if len(items) == 0 || items[0].GetFuncCall() == nil || in.wanted(items[0].GetFuncCall()) == nil {
		return false
	}
	f := items[0].GetFuncCall()
	name := lastName(f.Funcname)
	if rf.Ordinality || rf.IsRowsfrom || len(rf.Coldeflist) > 0 || len(items) > 1 && len(items[1].GetList().GetItems()) > 0 {
		in.leave(name, "it stands in FROM with ROWS FROM, WITH ORDINALITY or a list of column definitions")
		return false
	}
	c := in.call(f)
	if c == nil {
		return false
	}
	sub, why := c.rows(in, rf)
	if sub != nil && in.whole(sub.GetRangeSubselect().Alias, c) {
		sub, why = nil, "its row is used as a whole: name the columns"
	}
	if sub == nil {
		in.leave(name, why)
		return false
	}
	in.take(c)
	n.Node = sub.Node
	return true
}

// whole reports whether the rows of a function in FROM are used as values of another type than rows of a subquery have.
func (in *inliner) whole(alias *pg.Alias, c *inlineCall) bool {
	if slices.Contains(nameList(alias.Colnames), alias.Aliasname) || len(c.outs) > 1 {
		return false
	}
	found := false
	parser.Walk(in.root, func(m any) bool {
		if ref, ok := m.(*pg.ColumnRef); ok {
			found = found || len(ref.Fields) == 1 && lastName(ref.Fields) == alias.Aliasname
		}
		return !found
	})
	return found
}

// take notes a function that has been replaced.
func (in *inliner) take(c *inlineCall) {
	d, name := c.function.SQL, c.function.Name.Name
	note := &in.a.inlined
	note.merge(&c.body.inlined)
	note.count++
	switch {
	case note.apart != nil:
	case d.Definer:
		note.apart = cannot("Give the shard key as a constant or a parameter, so that one shard has all rows, or make the function SECURITY INVOKER.",
			"function %q is SECURITY DEFINER, and this statement visits several shards", name)
	case len(d.Settings) > 0:
		note.apart = cannot("Give the shard key as a constant or a parameter, so that one shard has all rows, or take SET out of the function.",
			"function %q has SET clauses, and this statement visits several shards", name)
	}
	if c.function.Volatility == 'v' && note.volatile == "" {
		note.volatile = name
	}
	if !d.Public && note.private == "" {
		note.private = name
	}
	in.a.env.asked.noteAny()
}

// merge adds what the calls in a body have noted.
func (n *inlining) merge(o *inlining) {
	n.count += o.count
	if n.apart == nil {
		n.apart = o.apart
	}
	if n.volatile == "" {
		n.volatile = o.volatile
	}
	if n.private == "" {
		n.private = o.private
	}
}

// oneShard returns the reason why only one shard can run the statement at hand, or nil.
func (a *analysis) oneShard() *pgerr.Error {
	note := &a.inlined
	switch {
	case note.count == 0 || note.apart != nil:
		return note.apart
	case a.out.Writes && note.private != "":
		return cannot("Give the shard key as a constant or a parameter, so that one shard has all rows, or GRANT EXECUTE on the function TO PUBLIC.",
			"not every role may call function %q, and this statement visits several shards", note.private)
	case note.volatile == "":
		return nil
	}
	a.volatileInlined(note.statement)
	if a.notes != nil {
		for _, v := range a.notes.views {
			a.volatileInlined(v.query)
		}
	}
	return note.apart
}

// volatileInlined looks for what lets a VOLATILE function see other rows than the statement around it.
func (a *analysis) volatileInlined(stmt *pg.Node) {
	const hint = "Declare it STABLE, if it only reads; or give the shard key as a constant or a parameter, so that one shard has all rows."
	note := &a.inlined
	parser.Walk(stmt, func(m any) bool {
		switch m := m.(type) {
		case *pg.InsertStmt, *pg.UpdateStmt, *pg.DeleteStmt, *pg.MergeStmt:
			note.apart = cannot(hint, "function %q is VOLATILE, and sees what this statement changes on several shards", note.volatile)
		case *pg.LockingClause:
			note.apart = cannot(hint, "function %q is VOLATILE, and sees what has changed while this statement waits for locks on several shards", note.volatile)
		case *pg.FuncCall:
			if a.waits(m) {
				note.apart = cannot(hint, "function %q is VOLATILE, and sees what has changed when %s has run, in a statement over several shards", note.volatile, lastName(m.Funcname))
			}
		}
		return note.apart == nil
	})
}

// waits reports whether a call may take time, or may change what other calls in the statement see.
func (a *analysis) waits(f *pg.FuncCall) bool {
	names := nameList(f.Funcname)
	name := names[len(names)-1]
	users := a.env.Schema.Functions(name)
	if slices.ContainsFunc(users, func(u *catalog.Function) bool { return u.Volatility == 'v' && !u.Reach.Pure() }) {
		return true
	}
	return len(users) == 0 && a.reach().volatility(name) == 'v' && !slices.Contains([]string{"random", "gen_random_uuid", "clock_timestamp", "timeofday"}, name)
}

// alias returns a name for the arguments of a call.
func (in *inliner) alias() string {
	in.a.inlined.aliases++
	return "weft_args" + strconv.Itoa(in.a.inlined.aliases)
}

// hint returns what to do about a function that could not be replaced by its query, or "".
func (n *inlining) hint(f *catalog.Function) string {
	why := n.why[f.Name.Name]
	if why == "" {
		return ""
	}
	return "weft would put the query of the function in its place, but " + strings.TrimSuffix(why, ".") + ". "
}
