package planner

import (
	"cmp"
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/directory"
	"weft/parser"
	"weft/plan"
	"weft/program/flow"
)

// A trigger runs on the shard of its row and sees that shard alone. It may touch rows of sharded
// tables that are certainly there: those with the key of its own row.

// maxTriggers bounds how many triggers that set each other off are judged.
const maxTriggers = 4

// mayTrigger refuses a trigger whose function could need rows of other shards, or change objects
// that other shards have as well.
func (re reach) mayTrigger(rel *catalog.Relation, t *table, tr *catalog.Trigger, f *catalog.Function) {
	on := rel.Name.Name
	if re.a.env.Schema != nil {
		f = re.a.env.Schema.Fired(rel, tr, f)
	}
	if re.locksInTrigger(on, t, f) {
		return
	}
	const hint = "A trigger sees only the shard it runs on: it can touch reference tables, and rows whose key is that of NEW or OLD."
	sharded, home := re.mentioned(f)
	switch {
	case home != "":
		re.a.unsupported(hint, "trigger function %q of %q may touch %q, which is on the home shard alone", f.Name.Name, on, home)
		re.tellLine(re.lineNaming(rel, t, tr, f, home))
		return
	case f.Opaque:
		re.a.unsupported(hint, "trigger function %q of %q runs SQL that cannot be looked into", f.Name.Name, on)
		if body, err := re.flow(rel, t, tr, f); err == nil {
			re.tellLine(body.Unread, "EXECUTE of a text that depends on more than constants, TG_TABLE_NAME, TG_TABLE_SCHEMA and TG_ARGV")
		}
		return
	case f.Reach.DDL:
		re.a.unsupported(hint, "trigger function %q of %q changes the schema, which all shards have", f.Name.Name, on)
		return
	case sharded != "" && (t == nil || t.Reference):
		re.a.unsupported(hint, "trigger function %q of %q may touch rows of %q that are on other shards", f.Name.Name, on, sharded)
		re.tellLine(re.lineNaming(rel, t, tr, f, sharded))
		return
	case sharded != "":
		if s := re.strays(rel, t, tr, f); s != nil && s.why != "" {
			re.a.unsupported("Give the column a value, or a default that every shard can make, such as gen_random_uuid() or a sequence without routed ids.",
				"trigger function %q of %q %s", f.Name.Name, on, s.why)
			re.tellLine(s.line, s.sql)
			return
		} else if s != nil {
			re.a.unsupported(hint, "trigger function %q of %q may touch rows of %q that are on other shards", f.Name.Name, on, cmp.Or(s.table, sharded))
			re.tellLine(s.line, s.sql)
			return
		}
	}
	for _, n := range f.Writes {
		if d := re.a.declared(re.a.env.Schema.Relation(n)); d != nil && d.Reference {
			re.a.unsupported("Write it in a statement of its own.", "trigger function %q of %q writes reference table %q, which all shards have", f.Name.Name, on, n.Name)
			re.tellLine(re.lineNaming(rel, t, tr, f, n.Name))
		}
	}
	for _, k := range keysOf(t) {
		if slices.Contains(f.Assigns, "new."+k.Name) {
			re.a.unsupported("The shard of a row is chosen before its triggers run.", "trigger function %q of %q changes %q, the shard key", f.Name.Name, on, k.Name)
		}
	}
}

// tellLine adds to a refusal which line of a function is the cause of it.
func (re reach) tellLine(line int, sql string) {
	if line == 0 || !re.a.refused() || re.a.out.Refusal.Detail != "" {
		return
	}
	sql = strings.Join(strings.Fields(sql), " ")
	if len(sql) > 200 {
		sql = strings.ToValidUTF8(sql[:200], "") + "…"
	}
	_ = re.a.out.Refusal.WithDetail("Line %d of the function: %s", line, sql)
}

// guarded refuses a trigger that can change a row's key on a table without a guard
// (schema/sql/guard.sql).
func (re reach) guarded(rel *catalog.Relation, tr catalog.Trigger) {
	if tr.Changes && re.a.env.Schema.Live && !rel.Guarded() {
		re.a.unsupported("weft makes the guard by itself, within seconds after it has started: its service user (service.user in weft.yaml) must be a superuser.",
			"trigger %q of %q runs before a row is stored and could change its shard key, which the shards do not guard yet", tr.Name, rel.Name.Name)
	}
}

// stray is a statement of a trigger function that may touch rows of other shards.
type stray struct {
	line       int
	sql, table string
	// why is the only obstacle, if it is known.
	why string
}

// strays returns a statement of a trigger function that is not proved to touch only rows with the
// key of the trigger's row, or nil.
func (re reach) strays(rel *catalog.Relation, t *table, tr *catalog.Trigger, f *catalog.Function) *stray {
	body, err := re.flow(rel, t, tr, f)
	if err != nil || body.Unread > 0 || re.a.env.triggers >= maxTriggers {
		return &stray{}
	}
	own := map[catalog.Name]bool{}
	for i := range body.Statements {
		st := &body.Statements[i]
		out := &stray{line: st.Line, sql: st.SQL}
		tree, err := parser.Parse(st.SQL)
		if err != nil {
			return out
		}
		strays := false
		parser.Walk(tree, func(m any) bool {
			if rv, ok := m.(*pg.RangeVar); ok {
				if rel := re.a.find(rv.Schemaname, rv.Relname); rel != nil && !rel.System() {
					own[rel.Name] = true
					if s := re.a.definitions().relationReads(rel).sharded; s != "" {
						out.table = s
					}
				}
			}
			strays = strays || re.runsSharded(m)
			return true
		})
		if strays {
			return out
		}
		if out.table == "" {
			continue
		}
		if stays, why := re.keptBeside(t, st); !stays {
			out.why = why
			return out
		}
	}
	// The functions that the trigger function calls are not judged here.
	for _, n := range f.Mentions {
		rel := re.a.env.Schema.Relation(n)
		if rel != nil && !rel.System() && !own[n] && (rel.Kind == catalog.View || re.a.declared(rel) != nil) && re.a.definitions().relationReads(rel).sharded != "" {
			return &stray{table: n.Name}
		}
	}
	return nil
}

// runsSharded reports whether a node of a tree calls something that touches sharded tables, with
// any key.
func (re reach) runsSharded(m any) bool {
	at := re.a.text
	at.path = nil // the function may have a search_path of its own
	in := re.a.gatherer().probing(at)
	l := &level{a: in, scope: &scope{}}
	l.runNames(m)
	if f, ok := m.(*pg.FuncCall); ok {
		names := nameList(f.Funcname)
		schema := ""
		if len(names) > 1 {
			schema = names[len(names)-2]
		}
		in.functions = append(in.functions, re.userFunctions(schema, names[len(names)-1])...)
	}
	return slices.ContainsFunc(in.functions, func(f *catalog.Function) bool { return re.reached(&f.Reach).sharded != "" })
}

// keptBeside reports whether a statement touches only rows with the key of a trigger's row. It
// plans the statement with the key as parameters.
func (re reach) keptBeside(t *table, st *flow.Statement) (kept bool, why string) {
	original, ok := st.Tree(false)
	if !ok {
		return false, ""
	}
	strict := re.nullable(original)
	stmt := original
	if strict {
		stmt, _ = st.Tree(true)
	}
	types := make([]uint32, len(t.keys))
	for i, k := range t.keys {
		types[i] = k.Type
	}
	parser.Walk(stmt, func(m any) bool {
		if p, ok := m.(*pg.ParamRef); ok {
			for int(p.Number) > len(types) && len(types) < maxParams {
				types = append(types, 0)
			}
		}
		return true
	})
	sql, err := parser.Deparse(stmt)
	if err != nil {
		return false, ""
	}
	var sc parser.Scanner
	if !sc.Scan([]byte(sql), parser.Options{}) {
		return false, ""
	}
	env := *re.a.env
	env.triggers++
	env.Options = parser.Options{}
	p := makePlan(&env, sql, sc.Literals, types, later)
	if !re.keyedByParams(p, t) {
		return false, ""
	}
	lots, why := drawnOnShard(p)
	if why == "" {
		re.needLots(lots)
	}
	return why == "", why
}

// keyedByParams reports whether the key of every sharded table in a plan is the parameters.
func (re reach) keyedByParams(p *plan.Plan, t *table) bool {
	if p.Route != plan.Keyed {
		return false
	}
	for _, in := range p.Instances {
		other := re.a.env.Tables.find(catalog.Name{Schema: in.Table.Schema, Name: in.Table.Name})
		if other == nil || !colocated(other, t) || len(in.Keys) != len(t.keys) {
			return false
		}
		for i := range in.Keys {
			if !slices.ContainsFunc(in.Keys[i], func(s plan.Set) bool {
				return len(s) == 1 && s[0].Kind == plan.Param && s[0].Index == i
			}) {
				return false
			}
		}
	}
	return true
}

func keysOf(t *table) []directory.Column {
	if t == nil {
		return nil
	}
	return t.keys
}
