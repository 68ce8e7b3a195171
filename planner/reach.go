package planner

import (
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/plan"
)

// The part reach alone judges the code that a statement runs: the functions, operators
// and types that it names, and code that runs without being named. catalog.Reach says
// which relations the code may touch; reach compares these with the declarations.
// Code runs on one shard and sees only that shard:
//
//   - on the home shard it may touch home tables and read reference tables;
//   - on the shard of a row it may read reference tables, and touch rows that are
//     proved to have that row's key (triggers, policies);
//   - in each copy of a reference table it may read reference tables.
//
// All else is refused.

// reached has the names of tables that code may touch: a sharded table, a home table, and a
// reference table that the code may write. opaque is set if the code may touch unknown tables too.
// ddl is set if the code changes schemas, which all shards have.
type reached struct {
	sharded, home, copied string
	opaque, ddl           bool
}

// reached returns the tables in a reach.
func (re reach) reached(r *catalog.Reach) (out reached) {
	if r.Opaque || len(r.Reads) > 0 {
		re.a.env.asked.noteAny() // a body may also name a table that does not exist yet
	}
	out.opaque = r.Opaque && !re.a.env.Tables.Empty()
	out.ddl = r.DDL && !re.a.env.Tables.Empty()
	for _, n := range r.Reads {
		rel := re.a.env.Schema.Relation(n)
		if rel == nil || rel.System() {
			continue
		}
		switch t := re.a.declared(rel); {
		case t == nil && rel.Kind == catalog.View:
			v := re.a.commands().viewReads(rel)
			if v.sharded != "" {
				out.sharded = v.sharded
			}
			if v.home != "" {
				out.home = v.home
			}
		case t == nil && (rel.Kind == catalog.Index || rel.Kind == catalog.Composite || rel.Kind == catalog.PartitionedIndex):
		case t == nil:
			out.home = n.Name
		case !t.Reference:
			out.sharded = n.Name
		case slices.Contains(r.Writes, n):
			out.copied = n.Name
		}
	}
	return out
}

// mentioned returns what a function may read or write: names of declared sharded tables, and of
// tables that are on the home shard alone.
func (re reach) mentioned(f *catalog.Function) (sharded, home string) {
	r := re.reached(&f.Reach)
	return r.sharded, r.home
}

// runNames notes the users' operators and types in a node of a tree. Operators and types that are
// not pure count as functions.
func (l *level) runNames(m any) {
	if l.a.env.Schema == nil {
		return
	}
	for _, name := range catalog.OperatorNames(m) {
		for _, o := range l.a.env.Schema.Operators(name) {
			if l.means(operatorSchema(m), o.Schema) {
				l.runs("operator "+name, &o.Reach)
			}
		}
	}
	if t, ok := m.(*pg.TypeName); ok {
		if isTemporary(schemaOf(t.Names)) {
			l.a.touched.homely = append(l.a.touched.homely, lastName(t.Names))
			l.a.touched.temporary = lastName(t.Names)
		}
		for _, y := range l.a.env.Schema.Types(lastName(t.Names)) {
			if l.means(schemaOf(t.Names), y.Schema) {
				l.runs("type "+y.Name.Name, &y.Reach)
			}
		}
	}
}

// means reports whether a name in the text may mean an object of a schema; given is the schema that
// the name is written with. A user who may create objects in some schema must not be able to make
// statements of other users fail. A name without a schema is looked up in the search path, and a
// type in the session's temporary schema before that. Stored texts, and texts whose path is not
// known, may have left schemas out.
func (l *level) means(given, schema string) bool {
	switch {
	case given != "":
		return given == schema || given == "pg_temp"
	case l.a.text.stored || len(l.a.text.path) == 0:
		return true
	}
	return slices.Contains(l.a.text.path, schema) || strings.HasPrefix(schema, "pg_temp_")
}

// operatorSchema returns the schema that a node of a tree names its operator with.
func operatorSchema(m any) string {
	switch m := m.(type) {
	case *pg.A_Expr:
		return schemaOf(m.Name)
	case *pg.SubLink:
		return schemaOf(m.OperName)
	case *pg.SortBy:
		return schemaOf(m.UseOp)
	}
	return ""
}

// schemaOf returns the schema of a qualified name.
func schemaOf(names []*pg.Node) string {
	if list := nameList(names); len(list) > 1 {
		return list[len(list)-2]
	}
	return ""
}

// runs notes an operator or a type that runs code like a function.
func (l *level) runs(what string, r *catalog.Reach) {
	l.a.functions = append(l.a.functions, &catalog.Function{
		Name: catalog.Name{Name: what}, Kind: unnamed, Volatility: 's', Mentions: r.Reads, Writes: r.Writes, Opaque: r.Opaque, Reach: *r,
	})
	l.a.notes.calls('v') // what runs code cannot be moved to another shard
}

// unnamed is the kind of a catalog.Function that stands for an operator or a type.
const unnamed = 'o'

// functionName returns the name that messages give to code that runs.
func functionName(f *catalog.Function) string {
	if f.Kind == unnamed {
		return f.Name.Name
	}
	return `function "` + f.Name.Name + `"`
}

// called judges the functions of a statement that runs on one shard, and refuses the statement for
// a function that one shard cannot run. homely names a function that touches a home table, if there
// is one, and the table.
func (re reach) called() (homely string) {
	re.casts()
	for _, f := range re.a.functions {
		if f.Volatility == 'v' {
			re.a.out.Writes = true
		}
		r := re.reached(&f.Reach)
		switch {
		case f.Reach.DDL && re.commandsAll(f):
			re.a.unsupported("Call it alone: SELECT "+f.Name.Name+"(…), with constants; or send its statements one by one.",
				"%s changes what all shards have, and runs on one shard here", functionName(f))
		case r.sharded != "":
			re.a.unsupported(re.a.inlined.hint(f)+placeHint(f), "%s touches sharded table %q", functionName(f), r.sharded)
		case r.copied != "":
			re.a.unsupported("A function runs on one shard. Write the table in a statement of its own, or call the function alone: SELECT "+f.Name.Name+"(…).",
				"%s may write reference table %q, and would change one copy of it", functionName(f), r.copied)
		case r.opaque:
			re.a.unsupported("A function sees only the shard it runs on. Write the names of the tables it uses into its text, without EXECUTE of a computed string.",
				"%s runs SQL that cannot be looked into, and would see one shard", functionName(f))
		case r.home != "" && f.Kind == unnamed && len(re.a.touched.sharded) > 0:
			re.a.unsupported("Compare in a statement over the home table alone.",
				"%s touches %q on the home shard, and sharded table %q is on all shards", functionName(f), r.home, re.a.touched.sharded[0])
		case r.home != "":
			homely = `"` + f.Name.Name + `" touches "` + r.home + `" on the home shard`
		}
	}
	return homely
}

// placeHint tells how a function that touches sharded tables can run.
func placeHint(f *catalog.Function) string {
	if f.Kind == unnamed {
		return "A function sees only the shard it runs on. Send its statements themselves."
	}
	if f.Program {
		return "Call it alone: weft runs SELECT " + f.Name.Name + "(…), SELECT * FROM " + f.Name.Name + "(…) and CALL, with arguments that need no table. " +
			"If it works on the rows of one shard key that an argument names, say which: SELECT weft.distribute_function('" + f.Name.Name + "', 'argument')."
	}
	return "A function sees only the shard it runs on. If it works on the rows of one shard key that an argument names, say which: SELECT weft.distribute_function('" +
		f.Name.Name + "', 'argument'). Else send its statements themselves."
}

// casts judges code that no text names: functions of casts and of operator classes. Any statement
// may run them, on any shard.
func (re reach) casts() {
	if re.a.env.Schema == nil || re.a.env.Tables.Empty() {
		return
	}
	for _, c := range re.a.env.Schema.Casts() {
		if why := re.beyond(&c.Reach); why != "" {
			re.a.unsupported("Drop it: any statement might run it, on any shard.", "%s %s", c.What, why)
		}
	}
}

// beyond returns the reason why code cannot run on each shard alike, or "".
func (re reach) beyond(reach *catalog.Reach) string { return re.reached(reach).beyond() }

func (r reached) beyond() string {
	switch {
	case r.sharded != "":
		return `touches sharded table "` + r.sharded + `"`
	case r.copied != "":
		return `may write reference table "` + r.copied + `"`
	case r.opaque:
		return "runs SQL that cannot be looked into"
	case r.ddl:
		return "changes the schema"
	case r.home != "":
		return `touches "` + r.home + `", which is on the home shard alone`
	}
	return ""
}

// followers lists the tables whose rows a write to a table may change: the table itself, its
// partitions and children, and tables whose foreign keys act. c is what the write changes in
// existing rows, nil for nothing.
func (re reach) followers(rel *catalog.Relation, c *changes) []*catalog.Relation {
	out := []*catalog.Relation{rel}
	for i := 0; i < len(out); i++ {
		re.a.env.asked.note(out[i].Name.Name)
		add := func(r *catalog.Relation) {
			if r != nil && !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
		for _, c := range out[i].Children {
			add(c)
		}
		for r := out[i]; r != nil && c != nil; r = r.Parent { // a foreign key on the whole table is one on its partitions
			for j := range r.Referenced {
				if fk := &r.Referenced[j]; fk.Acts() {
					add(re.a.env.Schema.Relation(fk.Table))
				}
			}
			if r.Inherited {
				break
			}
		}
	}
	return out
}

// storing judges the code that stored rows set off, without triggers and rules: checks, generated
// columns, types, indexes, conditions of triggers. t is the table's declaration, or nil.
func (re reach) storing(rel *catalog.Relation, t *table, c *changes) {
	if c != nil && c.gone || re.a.env.Schema == nil {
		return
	}
	for i := range rel.Runs {
		switch run := &rel.Runs[i]; run.Kind {
		case catalog.RunDefault, catalog.RunTrigger, catalog.RunRule:
		default:
			re.runsWith(rel, t, run)
		}
	}
}

// runsWith judges code that runs where a row is stored.
func (re reach) runsWith(rel *catalog.Relation, t *table, run *catalog.Run) {
	r := re.reached(&run.Reach)
	if re.a.env.Tables.Empty() {
		return
	}
	hint := "It runs on the shard of the row, and sees that alone: it can read reference tables."
	if t == nil {
		hint = "It runs on the home shard, and sees that alone: it can touch home tables and read reference tables."
	}
	switch {
	case r.sharded != "":
		re.a.unsupported(hint, "%s of %q touches sharded table %q", run, rel.Name.Name, r.sharded)
	case r.copied != "":
		re.a.unsupported(hint, "%s of %q may write reference table %q, and would change one copy of it", run, rel.Name.Name, r.copied)
	case r.opaque:
		re.a.unsupported(hint, "%s of %q runs SQL that cannot be looked into", run, rel.Name.Name)
	case r.ddl:
		re.a.unsupported(hint, "%s of %q changes the schema", run, rel.Name.Name)
	case r.home != "" && t != nil:
		re.a.unsupported(hint, "%s of %q touches %q, which is on the home shard alone", run, rel.Name.Name, r.home)
	}
}

// given returns a function that reports whether a column is in a list. Without a list it reports
// true for all.
func given(list []*pg.Node) func(column string) bool {
	names := nameList(list)
	return func(column string) bool { return len(names) == 0 || slices.Contains(names, column) }
}

// defaulting judges the defaults that an INSERT takes. A default of a declared table is evaluated
// on the home shard if it touches objects of the home shard.
func (re reach) defaulting(rel *catalog.Relation, given func(column string) bool) {
	if rel == nil {
		return
	}
	for i := range rel.Runs {
		if run := &rel.Runs[i]; run.Kind == catalog.RunDefault && !given(run.Name) {
			re.runsWith(rel, nil, run)
		}
	}
}

// viewDefaults judges the defaults of the views that an INSERT goes through: they are evaluated
// where the row is.
func (l *level) viewDefaults(tg *target) {
	if tg.through == nil {
		return
	}
	for _, v := range tg.through.views {
		for j := range v.Runs {
			if run := &v.Runs[j]; run.Kind == catalog.RunDefault {
				l.a.reach().runsWith(v, tg.table, run)
			}
		}
	}
}

// eventTriggers judges what a DDL command sets off. Event triggers are on the home shard.
func (re reach) eventTriggers(n any) {
	if re.a.env.Schema == nil || re.a.env.Tables.Empty() {
		return
	}
	judge := func(name string, reach *catalog.Reach) {
		const hint = "It runs on the home shard, and sees that alone. Drop it, or disable it: ALTER EVENT TRIGGER … DISABLE."
		switch r := re.reached(reach); {
		case r.sharded != "":
			re.a.unsupported(hint, "event trigger %q touches sharded table %q", name, r.sharded)
		case r.copied != "":
			re.a.unsupported(hint, "event trigger %q may write reference table %q, and would change one copy of it", name, r.copied)
		case r.opaque:
			re.a.unsupported(hint, "event trigger %q runs SQL that cannot be looked into", name)
		case r.ddl:
			re.a.unsupported(hint, "event trigger %q changes the schema, which all shards have", name)
		}
	}
	switch n := n.(type) {
	case *pg.Node_CreateEventTrigStmt:
		names := nameList(n.CreateEventTrigStmt.Funcname)
		schema := ""
		if len(names) > 1 {
			schema = names[len(names)-2]
		}
		for _, f := range re.userFunctions(schema, names[len(names)-1]) {
			judge(n.CreateEventTrigStmt.Trigname, &f.Reach)
		}
		return
	case *pg.Node_AlterEventTrigStmt:
		return
	case *pg.Node_DropStmt:
		if n.DropStmt.RemoveType == pg.ObjectType_OBJECT_EVENT_TRIGGER || n.DropStmt.RemoveType == pg.ObjectType_OBJECT_FUNCTION {
			return // this command is the way to get rid of the trigger
		}
	}
	for _, e := range re.a.env.Schema.EventTriggers() {
		judge(e.Name.Name, &e.Reach)
	}
}

// createCast returns the route of CREATE CAST: any statement may run a cast's function, on any
// shard.
func (re reach) createCast(n *pg.CreateCastStmt) plan.Route {
	names := nameList(n.Func.GetObjname())
	if len(names) > 0 && re.a.env.Schema != nil && !re.a.env.Tables.Empty() {
		schema := ""
		if len(names) > 1 {
			schema = names[len(names)-2]
		}
		for _, f := range re.userFunctions(schema, names[len(names)-1]) {
			if why := re.beyond(&f.Reach); why != "" {
				re.a.unsupported("Any statement might run a cast, on any shard: its function can read reference tables only.", "function %q %s", f.Name.Name, why)
			}
		}
	}
	return re.a.commands().refusedOr(re.a.commands().global())
}
