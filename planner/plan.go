package planner

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sort"
	"strings"
	"unicode/utf8"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/directory"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
)

// Plan decides what to do with a text. literals are the literals that the scanner found in it;
// paramTypes are the types that the client declared, 0 where it declared none. It always returns a
// plan: a text that does not parse is Unread, and the home shard's error is the answer.
func Plan(env *Env, sql string, literals []parser.Literal, paramTypes []uint32) (p *plan.Plan) {
	defer recovered(&p)
	return makePlan(env, sql, literals, paramTypes, unlessCertain)
}

// PlanLater is Plan, except that it does not yet plan what happens if a query with a key turns out
// to visit several shards.
func PlanLater(env *Env, sql string, literals []parser.Literal, paramTypes []uint32) (p *plan.Plan) {
	defer recovered(&p)
	return makePlan(env, sql, literals, paramTypes, later)
}

// PlanGathered is Plan for a query that has turned out to visit several shards.
func PlanGathered(env *Env, sql string, literals []parser.Literal, paramTypes []uint32) (p *plan.Plan) {
	defer recovered(&p)
	return makePlan(env, sql, literals, paramTypes, always)
}

// PlanTimed is Plan for a statement that uses the time of its transaction, on a shard where that
// time differs: see plan.Plan.Timed.
func PlanTimed(env *Env, sql string, literals []parser.Literal, paramTypes []uint32) (p *plan.Plan) {
	defer recovered(&p)
	return makePlan(env, sql, literals, paramTypes, timed)
}

// gathering says when the planner plans how several shards answer a query with a key.
type gathering uint8

const (
	unlessCertain gathering = iota // unless its conditions leave one shard
	later                          // not now: see plan.Postponed
	always
	timed // always, and also what one shard does
)

// recovered turns a panic into a refusal: a tree of an unforeseen shape does not end the session.
func recovered(p **plan.Plan) {
	if r := recover(); r != nil {
		refusal := pgerr.FromPanic(r, debug.Stack())
		refusal.Message = fmt.Sprintf("planner: %v", r) // for weft plan, which has no log
		*p = &plan.Plan{Route: plan.Refused, Exact: true, Refusal: refusal}
	}
}

func makePlan(env *Env, sql string, literals []parser.Literal, paramTypes []uint32, when gathering) *plan.Plan {
	tree, err := parser.ParseTree(sql, env.Options)
	if errors.Is(err, parser.ErrDeep) && !env.Tables.Empty() {
		// The server's own error is not wanted: the server might answer, with the rows of one
		// shard.
		return &plan.Plan{
			Route: plan.Refused, Exact: true,
			Refusal: pgerr.New(pgerr.FeatureNotSupported, "%s", err.Error()).WithHint("Send it in parts, or with fewer brackets, joins and set operations."),
		}
	}
	if err != nil {
		// The plan is Exact: the part that does not parse may be the escape in a literal, and a
		// text with another literal there may parse.
		if !env.Tables.Empty() {
			return &plan.Plan{
				Route: plan.Refused, Exact: true, Unread: true, Writes: true, Why: []string{"it does not parse"},
				Refusal: pgerr.New(pgerr.FeatureNotSupported, "weft cannot read this text: %s", err.Error()).
					WithHint("If PostgreSQL can, it has a name that is a keyword in later versions, such as system_user or json_value: write that in double quotes."),
			}
		}
		return &plan.Plan{Route: plan.Home, Writes: true, Exact: true, Why: []string{"it does not parse"}}
	}
	if env.asked == nil {
		e := *env
		e.asked = &asked{}
		env = &e
	}
	a := &analysis{
		env:    env,
		text:   text{sql: sql, tree: tree, literals: literals, path: env.Path, options: env.Options},
		out:    &plan.Plan{Route: plan.Any},
		params: newParams(paramTypes),
		held:   map[int]bool{},
	}
	a.client = a.text
	if a.when = when; when == later && (len(tree.Statements) != 1 || tree.Statements[0].Stmt.GetSelectStmt() == nil) {
		a.when = unlessCertain
	}
	if len(tree.Statements) == 1 && holds(tree.Statements[0].Stmt.GetDeclareCursorStmt()) {
		a.when = always
	}
	var original *pg.Node // the statement before planning, if it has WHERE CURRENT OF
	if len(tree.Statements) == 1 && currentOf(tree.Statements[0].Stmt) != nil && !env.Tables.Empty() {
		original = proto.Clone(tree.Statements[0].Stmt).(*pg.Node)
	}
	proved := len(tree.Statements) == 1 && (&steadiness{a: a}).isProved(tree.Statements[0].Stmt) // planning may change the tree
	for i, raw := range tree.Statements {
		if !confined(raw.Stmt) {
			env.asked.noteAny()
		}
		a.inline(raw.Stmt)
		r := a.commands().kept(a.statement(raw.Stmt))
		if a.refused() {
			break
		}
		if i == 0 {
			a.out.Route = r
		} else {
			a.combine(r)
		}
	}
	if len(tree.Statements) == 1 && !a.refused() {
		a.clock().tell(tree.Statements[0].Stmt)
	}
	if original != nil {
		a.writes().atCursor(original, paramTypes)
	}
	if len(tree.Statements) == 1 {
		a.drawsAtHome(tree.Statements[0].Stmt)
	}
	a.finish()
	a.out.Steady = isSteady(a.out, proved)
	env.asked.tell(a)
	// The meaning of U&"…" depends on the literal of its UESCAPE.
	if i := strings.IndexAny(sql, "uU"); i >= 0 && strings.Contains(strings.ToLower(sql[i:]), `u&"`) {
		a.out.Exact = true
	}
	return a.out
}

// holds reports whether a cursor outlives its transaction. The home shard keeps the rows of such a
// cursor, even if one other shard has them all.
func holds(n *pg.DeclareCursorStmt) bool {
	const cursorHold = 0x0020 // CURSOR_OPT_HOLD
	return n.GetOptions()&cursorHold != 0
}

// combine joins the route of a statement with that of the statements before it.
func (a *analysis) combine(r plan.Route) {
	was := a.out.Route
	switch {
	case a.out.Function != nil:
		a.unsupported("Send it alone.", "a weft function cannot be called together with other statements")
	case r == was && r != plan.Call, r == plan.Any:
	case was == plan.Any:
		a.out.Route = r
	case was == plan.AnyCopy && (r == plan.Keyed || r == plan.Home):
		a.out.Route = r
	case r == plan.AnyCopy && (was == plan.Keyed || was == plan.Home):
	default:
		a.unsupported("Send the statements one by one.", "these statements do not run on the same shards")
	}
}

// finish fills in what is known only after all statements.
func (a *analysis) finish() {
	out := a.out
	for i := range a.params.used {
		t, _ := a.params.resolve(i)
		out.Params = append(out.Params, t)
	}
	if out.Route == plan.Refused {
		out.Instances, out.Generate, out.Lots, out.Change, out.Function, out.Across, out.Described, out.Routine = nil, nil, nil, nil, nil, nil, false, ""
		return
	}
	if out.Route == plan.Keyed {
		a.solve()
		a.writes().followed()
	} else if out.Route == plan.Gathered {
		a.writes().conflicting()
	}
	a.placeEdits()
}

// unplaced is a table of the statement whose shard key has no known value.
type unplaced struct {
	name   string // the statement's name for the table
	key    string // the first column of its shard key
	stored bool   // the statement stores rows in the table: it gives the key no known value
}

// refusal returns the error for a statement that visits more than one shard. u is the reason, or
// nil.
func (u *unplaced) refusal() *pgerr.Error {
	const message = "this statement visits more than one shard"
	switch {
	case u == nil:
		return pgerr.New(pgerr.FeatureNotSupported, message).WithHint("Send it as a statement of its own.")
	case u.stored:
		return pgerr.New(pgerr.FeatureNotSupported, message+": %s has no known value for %s", u.name, u.key).
			WithHint("Give the shard key as a constant or a parameter, or send it as a statement of its own.")
	}
	return pgerr.New(pgerr.FeatureNotSupported, message+": %s has no condition on %s", u.name, u.key).
		WithHint("Add %s = … to WHERE, or send it as a statement of its own.", u.key)
}

// solve finds what is known of each instance.
func (a *analysis) solve() {
	var free *unplaced // the first table without a known key
	known := map[*scope]*classes{}
	for _, x := range a.instances {
		if known[x.scope] == nil {
			known[x.scope] = newClasses(x.scope)
		}
		in := x.solve(known[x.scope])
		a.settleInstance(&in)
		a.out.Instances = append(a.out.Instances, in)
		a.out.Policed = a.out.Policed || in.Policy != nil
		if len(in.Keys[0]) == 0 && free == nil {
			free = &unplaced{name: x.name, key: x.table.keys[0].Name, stored: x.stored}
		}
		a.out.Why = append(a.out.Why, describe(&in, x.table.keys))
	}
	if a.scattered != nil {
		a.out.Refusal = a.scattered
		return
	}
	a.out.Refusal = free.refusal()
}

// settleInstance gives the parameters of an instance their types.
func (a *analysis) settleInstance(in *plan.Instance) {
	for i := range in.Keys {
		in.Keys[i] = a.settle(in.Keys[i])
	}
	in.IDs = a.settle(in.IDs)
	a.writes().lookAt(in)
	var bounds []plan.Bound
	for _, b := range in.Bounds {
		if src, ok := a.settleSource(b.Source); ok {
			bounds = append(bounds, plan.Bound{Source: src, Low: b.Low})
		}
	}
	in.Bounds = bounds
}

// settle gives the parameters of sets their types. A set with a parameter whose type cannot be told
// is dropped.
func (a *analysis) settle(sets []plan.Set) []plan.Set {
	var out []plan.Set
	for _, s := range sets {
		settled := make(plan.Set, len(s))
		ok := true
		for i, src := range s {
			settled[i], ok = a.settleSource(src)
			if !ok {
				break
			}
		}
		if ok {
			out = append(out, settled)
		}
	}
	return out
}

func (a *analysis) settleSource(src plan.Source) (plan.Source, bool) {
	switch src.Kind {
	case plan.Param, plan.ParamArray:
		t, sure := a.params.resolve(src.Index)
		if !sure {
			return src, false
		}
		if src.Kind == plan.ParamArray {
			if t != 0 {
				t = elementOf(t)
				if t == 0 {
					return src, false
				}
			}
		}
		src.Type = t
	case plan.Computed:
		e := *src.Expr
		var l, r bool
		e.Left, l = a.settleSource(e.Left)
		e.Right, r = a.settleSource(e.Right)
		src.Expr = &e
		return src, l && r
	}
	return src, true
}

// placeEdits expresses the positions of edits relative to literals.
func (a *analysis) placeEdits() {
	if len(a.edits) == 0 {
		return
	}
	sort.SliceStable(a.edits, func(i, j int) bool { return a.edits[i].at < a.edits[j].at })
	at, after, offset := -1, 0, 0
	for _, e := range a.edits {
		if at >= 0 && !a.literalBetween(at, e.at) {
			offset += a.normDistance(at, e.at)
		} else {
			after, offset = a.relative(e.at)
		}
		at = e.at
		a.out.Generate.Edits = append(a.out.Generate.Edits, plan.Edit{
			After: after, Offset: offset, Delete: e.remove, Text: e.text, Value: e.value,
		})
	}
}

// literalBetween reports whether a literal ends between two positions.
func (a *analysis) literalBetween(from, to int) bool {
	i := sort.Search(len(a.text.literals), func(i int) bool { return int(a.text.literals[i].End) > from })
	return i < len(a.text.literals) && int(a.text.literals[i].End) <= to
}

// relative expresses a position of the text relative to literals.
func (a *analysis) relative(at int) (after, offset int) {
	lit, from := sort.Search(len(a.text.literals), func(i int) bool { return int(a.text.literals[i].End) > at }), 0
	if lit > 0 {
		from = int(a.text.literals[lit-1].End)
	}
	return lit - 1, a.normDistance(from, at)
}

// normDistance returns how many bytes of the Norm lie between two positions of a text without a
// literal between them: a comment counts for one.
func (a *analysis) normDistance(from, to int) int {
	n := 0
	sc := wordScanner{text: a.text, at: from}
	for sc.at < to {
		switch {
		case sc.comment():
		case a.text.sql[sc.at] == '"':
			start := sc.at
			sc.next()
			n += sc.at - start - 1
		default:
			sc.at++
		}
		n++
	}
	return n
}

// top returns a level for a statement.
func (a *analysis) top() *level { return &level{a: a, scope: &scope{}} }

// statement analyses one statement and returns its route.
func (a *analysis) statement(n *pg.Node) plan.Route {
	a.touched, a.functions, a.notes, a.classes, a.copies = touched{}, nil, nil, nil, nil
	a.writes().setValues(n)
	switch n := n.GetNode().(type) {
	case *pg.Node_SelectStmt:
		if r, ok := a.reach().weftCall(n.SelectStmt); ok {
			return r
		}
		if f, _ := soleCall(n.SelectStmt); f != nil {
			if r, ok := a.reach().commandCall(f, "SELECT"); ok {
				return r
			}
			if r, ok := a.reach().programCall(f, 'f'); ok {
				return r
			}
		}
		if intoOf(n.SelectStmt) != nil {
			return a.commands().selectInto(n.SelectStmt)
		}
		if changesInWith(n.SelectStmt.WithClause) {
			return a.writes().withSteps(&pg.Node{Node: n}, func(l *level) { l.query(n.SelectStmt) })
		}
		return a.commands().lockApart(n.SelectStmt, a.gatherer().selected(&pg.Node{Node: n}))
	case *pg.Node_InsertStmt:
		return a.writes().inserts(n.InsertStmt)
	case *pg.Node_UpdateStmt:
		if changesInWith(n.UpdateStmt.WithClause) {
			return a.writes().withSteps(&pg.Node{Node: n}, func(l *level) { l.modification().update(n.UpdateStmt) })
		}
		a.writes().notesOfWrite()
		a.top().modification().update(n.UpdateStmt)
		return a.writes().changed(&pg.Node{Node: n})
	case *pg.Node_DeleteStmt:
		if changesInWith(n.DeleteStmt.WithClause) {
			return a.writes().withSteps(&pg.Node{Node: n}, func(l *level) { l.modification().remove(n.DeleteStmt) })
		}
		a.writes().notesOfWrite()
		a.top().modification().remove(n.DeleteStmt)
		return a.writes().changed(&pg.Node{Node: n})
	case *pg.Node_MergeStmt:
		a.writes().notesOfWrite()
		a.top().modification().merge(n.MergeStmt)
		return a.writes().changed(&pg.Node{Node: n})
	}
	return a.commands().utility(n.GetNode())
}

// describe returns a line about what is known of an instance.
func describe(in *plan.Instance, keys []directory.Column) string {
	var parts []string
	for i, sets := range in.Keys {
		for _, s := range sets {
			parts = append(parts, keys[i].Name+" "+s.String())
		}
		if len(sets) == 0 && i == 0 {
			parts = append(parts, "no condition on "+keys[i].Name)
			if in.Stored {
				parts[len(parts)-1] = "no known value for " + keys[i].Name
			}
		}
	}
	if in.Lookup != nil {
		parts = append(parts, in.Lookup.String())
	}
	for _, s := range in.IDs {
		parts = append(parts, "routed "+in.Table.IDs.Column+" "+s.String())
	}
	if in.Policy != nil {
		parts = append(parts, in.Policy.String())
	}
	verb := ": "
	if in.Stored {
		verb = " stores: "
	}
	return in.Name + verb + strings.Join(parts, ", ")
}

// decide returns the route of a query or DML, by what it touches.
func (a *analysis) decide() plan.Route {
	if a.refused() {
		return plan.Refused
	}
	t := &a.touched
	if len(t.waits) > 0 {
		a.commands().wait()
		return plan.Refused
	}
	if len(a.copies) > 0 && !a.insert.stepped {
		a.unsupported("Write it in a statement of its own.", "reference table %q cannot be written inside another statement", a.copies[0].Name.Name)
		return plan.Refused
	}
	homely := a.reach().called()
	a.reach().locksInNames()
	if a.refused() {
		return plan.Refused
	}
	switch {
	case len(t.sharded) > 0:
		return a.decideSharded(homely)
	case len(t.home) > 0 || len(t.missing) > 0:
		if len(t.home) > 0 {
			a.why("%s is on the home shard", t.home[0])
		} else {
			a.why("%s does not exist, and the home shard says so", names(t.missing)[0])
			a.out.Missing = writtenName(t.missing[0])
		}
		return plan.Home
	case homely != "" || len(t.homely) > 0 || len(t.sequences) > 0 || t.catalog:
		return plan.Home
	case len(t.reference) > 0 && (a.out.Writes || a.out.Locks):
		a.why("%s is locked on the home shard first", t.reference[0])
		return plan.Home
	case len(t.reference) > 0:
		a.why("%s is on every shard", t.reference[0])
		return plan.AnyCopy
	}
	for _, f := range a.functions {
		if f.Volatility == 'v' {
			return plan.Home
		}
	}
	return plan.Any
}

// writtenName returns a relation's name as the text has it.
func writtenName(rv *pg.RangeVar) string {
	if rv.Schemaname != "" {
		return rv.Schemaname + "." + rv.Relname
	}
	return rv.Relname
}

func (a *analysis) decideSharded(homely string) plan.Route {
	t := &a.touched
	switch {
	case len(t.missing) > 0:
		rv := t.missing[0]
		a.out.Missing = writtenName(rv)
		a.refuse(pgerr.UndefinedTable, "", "relation %q does not exist", a.out.Missing)
		a.out.Refusal.Position = a.position(rv.Location)
	case a.notes != nil && !a.notes.writes && (len(t.home) > 0 || homely != "" || t.temporary != "" || len(t.sequences) > 0 || t.advisory):
		// The query is put together on the home shard, which has these tables and functions.
		return plan.Gathered
	case a.notes != nil && len(t.home) > 0 && homely == "" && t.temporary == "" && len(t.sequences) == 0 && !t.advisory:
		return plan.Gathered // rows of the home tables are lent
	case len(t.home) > 0:
		a.unsupported(a.reachHint(t.home[0]), "%q is on the home shard alone, and %q is on all shards", t.home[0], t.sharded[0])
	case homely != "":
		a.unsupported("A function sees only the shard it runs on. Call it in a statement of its own, and give what it says as a parameter; or declare the home table as a reference table.", "function %s, and sharded table %q is on all shards", homely, t.sharded[0])
	case t.temporary != "":
		a.unsupported("Use it in a statement of its own.", "%q is temporary, and so on the home shard alone, and %q is on all shards", t.temporary, t.sharded[0])
	case len(t.sequences) > 0:
		a.unsupported("Call it in a statement of its own.", "%s runs on the home shard, and %q is on all shards", t.sequences[0], t.sharded[0])
	case t.advisory:
		a.unsupported(lockHint, "advisory locks are on the home shard, and %q is on all shards", t.sharded[0])
	}
	if a.refused() {
		return plan.Refused
	}
	return plan.Keyed
}

// position converts a position of the tree into that of an error: in characters, from 1.
func (a *analysis) position(location int32) int {
	at := a.text.tree.Offset(location)
	if a.text.stored || at < 0 || at > len(a.text.sql) {
		return 0
	}
	return utf8.RuneCountInString(a.text.sql[:at]) + 1
}

// reachHint returns the hint how to use a home table beside a sharded one.
func (a *analysis) reachHint(name string) string {
	switch rel := a.find("", name); {
	case rel != nil && rel.System():
		return "Ask the system catalogs in a statement of their own."
	case rel != nil && rel.Kind == catalog.View:
		return "Declare the tables that the view reads."
	}
	return "Declare it: SELECT weft.reference_table('" + name + "') or SELECT weft.shard_table('" + name + "', …)."
}

func names(list []*pg.RangeVar) []string {
	var out []string
	for _, rv := range list {
		out = append(out, rv.Relname)
	}
	return out
}
