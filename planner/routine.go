package planner

import (
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/datum"
	"weft/directory"
	"weft/parser"
	"weft/plan"
	"weft/program"
	"weft/program/flow"
)

// A routine in PL/pgSQL keeps to an argument if every statement in it reads and writes rows that have the argument for their key, or reads reference tables.
// A statement that calls it runs on the shard of the argument, like one that calls a function which weft.distribute_function has declared. Here it is proved:
// each statement of the body is planned with the arguments as parameters, and nothing that weft would do beside the statement may be needed. What is not proved
// is run by weft as before, statement by statement.

// keeper is a routine that keeps to an argument.
type keeper struct {
	placed
	name string // of the argument
	// timed: a statement in it reads the time of its transaction. writes: it may change rows.
	timed, writes bool
	// lots are the sequences that it, or triggers that it fires, draw from on its shard.
	lots []string
}

// maxKept bounds how deep routines that keep to an argument call each other.
const maxKept = 4

// keyTypes are the types of arguments that may be keys, as pg_proc and CREATE FUNCTION spell them.
var keyTypes = map[string]datum.Type{
	"smallint": datum.Int2, "int2": datum.Int2, "integer": datum.Int4, "int": datum.Int4, "int4": datum.Int4, "bigint": datum.Int8, "int8": datum.Int8,
	"text": datum.Text, "character varying": datum.Varchar, "varchar": datum.Varchar, "uuid": datum.UUID,
}

// keeps returns what is known of a routine that keeps to an argument which a call gives as a value that is known, or nil.
func (l *level) keeps(f *catalog.Function, call *pg.FuncCall) *keeper {
	a := l.a
	if !a.keeping && a.env.routines == 0 || a.text.stored || call.FuncVariadic {
		return nil
	}
	k, known := a.keepers[f]
	if !known {
		k = a.reach().keeper(f)
		if a.keepers == nil {
			a.keepers = map[*catalog.Function]*keeper{}
		}
		a.keepers[f] = k
	}
	if k == nil || !l.givesKey(k, call) {
		return nil
	}
	return k
}

// keyArgument returns the argument of a call that a keeper keeps to, or nil.
func (k *keeper) keyArgument(call *pg.FuncCall) *pg.Node {
	for i, arg := range call.Args {
		if named := arg.GetNamedArgExpr(); named != nil {
			if named.Name == k.name {
				return named.Arg
			}
		} else if i == k.argument {
			return arg
		}
	}
	return nil
}

// givesKey reports whether a call gives a keeper its key as a value of the right type.
func (l *level) givesKey(k *keeper, call *pg.FuncCall) bool {
	arg := k.keyArgument(call)
	if arg == nil {
		return false
	}
	src, ok := l.predicates().constant(arg)
	if !ok {
		return false
	}
	want := datum.Type(k.table.keys[0].Type)
	switch src.Kind {
	case plan.Null:
		return true
	case plan.Literal, plan.Param:
	default:
		return false
	}
	switch src.Type {
	case 0, datum.Unknown, want:
		return true
	case datum.Int2:
		return want == datum.Int4 || want == datum.Int8
	case datum.Int4:
		return want == datum.Int8
	case datum.Varchar:
		return want == datum.Text
	}
	return false
}

// keeper proves that a routine keeps to an argument. It returns nil if it does not, or may not.
func (re reach) keeper(f *catalog.Function) *keeper {
	env := re.a.env
	if f.Create == "" || f.Sets || f.Kind != 'f' && f.Kind != 'p' || env.Schema == nil || env.Schema.Incomplete || env.routines >= maxKept || env.triggers > 0 ||
		slices.Contains(env.proving, f.Name) || len(env.Schema.Functions(f.Name.Name)) != 1 || env.Schema.Builtin(f.Name.Name).Known {
		return nil
	}
	if r := re.reached(&f.Reach); r.home != "" || r.copied != "" || r.opaque || r.ddl || r.sharded == "" || f.Opaque || f.Dynamic || f.Reach.Notifies || f.Reach.Locks {
		return nil
	}
	src, err := program.FromText(f.Create)
	if err != nil || !re.onEveryShard(f) {
		return nil
	}
	src.Name = f.Name.Name
	rt := &flow.Routine{Source: src, Keys: make([]flow.Key, len(src.Args)), Columns: re.columnsSeen}
	rt.Shadowed = func(name string) bool { return len(env.Schema.Functions(name)) > 0 }
	types := make([]uint32, len(src.Args))
	for i, arg := range src.Args {
		if arg.Mode == program.Variadic {
			return nil
		}
		if t := keyTypes[strings.TrimPrefix(arg.Type, "pg_catalog.")]; t != 0 && arg.Mode == program.In {
			types[i] = uint32(t)
			rt.Keys[i] = flow.Key{Name: arg.Name, Type: sqlType(directory.Column{Type: uint32(t)})}
		}
	}
	body, err := flow.ReadRoutine(rt)
	if err != nil || body.Unread > 0 || slices.ContainsFunc(body.Vars, func(v *program.Var) bool { return !re.typeStays(v) }) {
		return nil
	}
	inner := *env
	inner.routines++
	inner.proving = append(slices.Clone(env.proving), f.Name)
	inner.Options = parser.Options{}
	if f.Definer {
		inner.Role = nil // the owner's policies count
	}
	p := &proof{re: reach{&analysis{env: &inner, text: text{path: re.a.text.path}, out: &plan.Plan{}}}, types: types, argument: -1}
	for _, arg := range src.Args {
		if arg.Default != "" && !p.plainDefault(arg.Default) {
			return nil
		}
	}
	for i := range body.Statements {
		if !p.statement(&body.Statements[i]) {
			return nil
		}
	}
	if p.table == nil {
		return nil
	}
	k := &keeper{name: src.Args[p.argument].Name, lots: p.lots, timed: p.timed, writes: p.writes || f.Changes || len(f.Reach.Writes) > 0 || f.Volatility == 'v'}
	k.argument, k.table = p.position(src), p.keyed(src)
	return k
}

// onEveryShard reports whether all shards have a function: it names no home table where CREATE FUNCTION looks for one.
func (re reach) onEveryShard(f *catalog.Function) bool {
	tree, err := parser.Parse(f.Create)
	if err != nil || len(tree.Stmts) != 1 {
		return false
	}
	n := tree.Stmts[0].Stmt.GetCreateFunctionStmt()
	return n != nil && re.a.objects().homeType(typesOf(n)...) == "" && re.a.objects().declares(f.Body) == ""
}

// typeStays reports whether the type of a variable cannot go while the function stays on some shards only: that of a table is of a declared one.
func (re reach) typeStays(v *program.Var) bool {
	if len(v.Type.Like) == 0 {
		return true
	}
	names := v.Type.Like
	if !v.Type.RowType {
		names = names[:len(names)-1]
	}
	if v.Type.Same != nil || len(names) == 0 {
		return v.Type.Same != nil
	}
	schema := ""
	if len(names) > 1 {
		schema = names[len(names)-2]
	}
	return re.a.commands().placeOf(re.a.commands().named(named{schema, names[len(names)-1]})) == onEvery
}

// columnsSeen returns the names that may be columns or tables in a statement.
func (re reach) columnsSeen(tree *pg.Node) map[string]bool {
	seen := map[string]bool{}
	parser.Walk(tree, func(m any) bool {
		switch m := m.(type) {
		case *pg.RangeVar:
			seen[m.Relname] = true
			if rel := re.a.find(m.Schemaname, m.Relname); rel != nil {
				for i := range rel.Columns {
					seen[rel.Columns[i].Name] = true
				}
			}
		case *pg.ResTarget:
			seen[m.Name] = true
		case *pg.Alias:
			seen[m.Aliasname] = true
			for _, name := range nameList(m.Colnames) {
				seen[name] = true
			}
		case *pg.CommonTableExpr:
			seen[m.Ctename] = true
			for _, name := range nameList(m.Aliascolnames) {
				seen[name] = true
			}
		case *pg.ColumnDef:
			seen[m.Colname] = true
		case *pg.RangeFunction, *pg.RangeTableFunc:
			seen[flow.AnyName] = true // the columns of a function are not known here
		}
		return true
	})
	delete(seen, "")
	return seen
}

// proof collects what the statements of a routine have in common.
type proof struct {
	re    reach // with the environment of the routine
	types []uint32
	// argument is the one that all keys are, -1 while none is known, and table one of the tables.
	argument      int
	table         *table
	timed, writes bool
	lots          []string // see keeper
}

// statement reports whether a statement of the routine keeps to the argument.
func (p *proof) statement(st *flow.Statement) bool {
	n, ok := st.Tree(true)
	return ok && !st.Dynamic && p.plain(n) && p.planned(n)
}

// plainDefault reports whether the default of an argument, which is evaluated where the routine runs, has the same value on every shard.
func (p *proof) plainDefault(expr string) bool {
	tree, err := parser.Parse("SELECT " + expr)
	if err != nil || len(tree.Stmts) != 1 {
		return false
	}
	n := tree.Stmts[0].Stmt
	value := n.GetSelectStmt().GetTargetList()[0].GetResTarget().GetVal()
	return p.re.plainArguments(&pg.FuncCall{Args: []*pg.Node{value}}) && p.planned(n)
}

// planned reports whether the plan of a statement keeps to the argument.
func (p *proof) planned(n *pg.Node) bool {
	sql, err := parser.Deparse(n)
	if err != nil {
		return false
	}
	var sc parser.Scanner
	if !sc.Scan([]byte(sql), parser.Options{}) {
		return false
	}
	pl := makePlan(p.re.a.env, sql, sc.Literals, p.types, unlessCertain)
	p.timed, p.writes, p.lots = p.timed || pl.Timed, p.writes || pl.Writes, append(p.lots, pl.Lots...)
	if pl.Generate != nil || pl.Change != nil || pl.Function != nil || pl.Explain != nil || pl.Lookups || pl.Strays || pl.Looks || pl.AtCursor || pl.Unread || pl.Missing != "" || pl.Waits {
		return false
	}
	switch pl.Route {
	case plan.Any, plan.AnyCopy:
		return !pl.Writes && !pl.Locks && pl.Across == nil
	case plan.Keyed:
		return p.keys(pl) && (!pl.Locks || p.locksKeyed(n))
	}
	return false
}

// keys reports whether the key of every sharded table in a plan is the argument.
func (p *proof) keys(pl *plan.Plan) bool {
	for i := range pl.Instances {
		in := &pl.Instances[i]
		t := p.re.a.env.Tables.find(catalog.Name{Schema: in.Table.Schema, Name: in.Table.Name})
		if t == nil || t.broken != nil || len(t.keys) != 1 || len(in.Keys) != 1 || t.state != "" || p.table != nil && !colocated(t, p.table) {
			return false
		}
		at := -1
		for _, s := range in.Keys[0] {
			if len(s) == 1 && s[0].Kind == plan.Param && s[0].Index < len(p.types) && (p.argument < 0 || s[0].Index == p.argument) && at < 0 {
				at = s[0].Index
			}
		}
		if at < 0 || !sameKey(datum.Type(p.types[at]), t.keys[0]) {
			return false
		}
		p.argument = at
		if p.table == nil {
			p.table = t
		}
	}
	return len(pl.Instances) > 0
}

// sameKey reports whether every value of an argument's type is a key of the column, and the same key.
func sameKey(t datum.Type, column directory.Column) bool {
	if column.Mod >= 0 {
		return false
	}
	switch c := datum.Type(column.Type); t {
	case datum.Int2:
		return c == datum.Int2 || c == datum.Int4 || c == datum.Int8
	case datum.Int4:
		return c == datum.Int4 || c == datum.Int8
	case datum.Text, datum.Varchar:
		return c == datum.Text || c == datum.Varchar
	default:
		return t == c && t != 0
	}
}

// plain reports whether a statement reads or changes rows, and gives no row another key.
func (p *proof) plain(n *pg.Node) bool {
	switch n.GetNode().(type) {
	case *pg.Node_SelectStmt, *pg.Node_InsertStmt, *pg.Node_UpdateStmt, *pg.Node_DeleteStmt, *pg.Node_MergeStmt:
	default:
		return false
	}
	ok := true
	sets := func(rv *pg.RangeVar, list []*pg.Node) {
		_, t := p.re.a.relation(rv)
		for _, item := range list {
			ok = ok && (t != nil && !t.Reference && !isKey(t, item.GetResTarget().GetName()))
		}
	}
	parser.Walk(n, func(m any) bool {
		switch m := m.(type) {
		case *pg.UpdateStmt:
			sets(m.Relation, m.TargetList)
		case *pg.InsertStmt:
			sets(m.Relation, m.OnConflictClause.GetTargetList())
		case *pg.MergeStmt, *pg.IntoClause, *pg.CurrentOfExpr:
			ok = false
		}
		return ok
	})
	return ok
}

// locksKeyed reports whether a statement that locks rows names sharded tables only.
func (p *proof) locksKeyed(n *pg.Node) bool {
	ok := true
	parser.Walk(n, func(m any) bool {
		if rv, is := m.(*pg.RangeVar); is {
			_, t := p.re.a.relation(rv)
			ok = ok && t != nil && !t.Reference
		}
		return ok
	})
	return ok
}

// position returns where a call without names has the argument.
func (p *proof) position(src program.Source) int {
	at := 0
	for _, a := range src.Args[:p.argument] {
		if a.Mode == program.In || a.Mode == program.InOut || a.Mode == program.Out && src.Kind == program.Procedure {
			at++
		}
	}
	return at
}

// keyed returns a table whose key is the argument, and whose rows are where those of the routine's tables are.
func (p *proof) keyed(src program.Source) *table {
	t := *p.table
	t.IDs = nil
	t.keys = []directory.Column{p.table.keys[0]}
	t.keys[0].Name, t.keys[0].Type = src.Args[p.argument].Name, p.types[p.argument]
	return &t
}

// keptCall notes what follows from the call of a routine that keeps to an argument.
func (l *level) keptCall(k *keeper, name string) {
	out := l.a.out
	out.Routine, out.Described = name, true
	out.Timed = out.Timed || k.timed
	out.Writes = out.Writes || k.writes
	l.a.reach().needLots(k.lots)
	l.a.why("%s keeps to rows whose key is its argument %s", name, k.name)
}

// keepsProgram reports whether a statement that only calls a routine goes whole to the shard of an argument.
func (re reach) keepsProgram(users []*catalog.Function, f *pg.FuncCall) bool {
	if len(users) != 1 || len(re.a.client.tree.Statements) != 1 || re.a.when == timed || re.a.unkept || !re.plainArguments(f) {
		return false
	}
	re.a.keeping = true
	if re.a.top().keeps(users[0], f) == nil {
		re.a.keeping = false
		return false
	}
	return true
}

// plainArguments reports whether the arguments of a call have the same values on every shard: nothing in them touches tables, or has a place.
func (re reach) plainArguments(f *pg.FuncCall) bool {
	plain := true
	for _, arg := range f.Args {
		parser.Walk(arg, func(m any) bool {
			switch m := m.(type) {
			case *pg.SubLink:
				plain = false
			case *pg.ColumnRef:
				plain = plain && re.a.env.routines > 0 // there it is a variable
			case *pg.FuncCall:
				name := lastName(m.Funcname)
				t := re.a.env.Schema.Builtin(name)
				plain = plain && t.Known && t.Volatility != 'v' && !homely(name) && !runsSQL[name] && len(re.a.env.Schema.Functions(name)) == 0
			}
			return plain
		})
	}
	return plain
}
