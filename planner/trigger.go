package planner

import (
	"fmt"
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/directory"
	"weft/parser"
	"weft/plan"
)

// A trigger runs on the shard of its row and sees that shard alone. It may touch rows of sharded
// tables that are certainly there: those with the key of its own row.

// maxTriggers bounds how many triggers that set each other off are judged.
const maxTriggers = 4

// mayTrigger refuses a trigger function that could need rows of other shards, or change objects
// that other shards have as well.
func (re reach) mayTrigger(on string, t *table, f *catalog.Function) {
	if re.locksInTrigger(on, t, f) {
		return
	}
	const hint = "A trigger sees only the shard it runs on: it can touch reference tables, and rows whose key is that of NEW or OLD."
	sharded, home := re.mentioned(f)
	switch {
	case home != "":
		re.a.unsupported(hint, "trigger function %q of %q may touch %q, which is on the home shard alone", f.Name.Name, on, home)
		return
	case f.Opaque:
		re.a.unsupported(hint, "trigger function %q of %q runs SQL that cannot be looked into", f.Name.Name, on)
		return
	case f.Reach.DDL:
		re.a.unsupported(hint, "trigger function %q of %q changes the schema, which all shards have", f.Name.Name, on)
		return
	case sharded != "" && (t == nil || t.Reference):
		re.a.unsupported(hint, "trigger function %q of %q may touch rows of %q that are on other shards", f.Name.Name, on, sharded)
		return
	case sharded != "":
		if stays, why := re.staysWith(t, f); why != "" {
			re.a.unsupported("A trigger cannot draw from a sequence of the home shard: give the column a default that needs none, such as gen_random_uuid(), or a value.",
				"trigger function %q of %q %s", f.Name.Name, on, why)
			return
		} else if !stays {
			re.a.unsupported(hint, "trigger function %q of %q may touch rows of %q that are on other shards", f.Name.Name, on, sharded)
			return
		}
	}
	for _, n := range f.Writes {
		if d := re.a.declared(re.a.env.Schema.Relation(n)); d != nil && d.Reference {
			re.a.unsupported("Write it in a statement of its own.", "trigger function %q of %q writes reference table %q, which all shards have", f.Name.Name, on, n.Name)
		}
	}
	for _, k := range keysOf(t) {
		if slices.Contains(f.Assigns, "new."+k.Name) {
			re.a.unsupported("The shard of a row is chosen before its triggers run.", "trigger function %q of %q changes %q, the shard key", f.Name.Name, on, k.Name)
		}
	}
}

// guarded refuses a trigger that can change a row's key on a table without a guard
// (schema/sql/guard.sql).
func (re reach) guarded(rel *catalog.Relation, tr catalog.Trigger) {
	if tr.Changes && re.a.env.Schema.Live && !rel.Guarded() {
		re.a.unsupported("weft makes the guard by itself, within seconds after it has started: its service user (service.user in weft.yaml) must be a superuser.",
			"trigger %q of %q runs before a row is stored and could change its shard key, which the shards do not guard yet", tr.Name, rel.Name.Name)
	}
}

// staysWith reports whether everything that a trigger function does to sharded tables concerns rows
// with the key of its own row. why is the only obstacle, if it is known.
func (re reach) staysWith(t *table, f *catalog.Function) (stays bool, why string) {
	if !f.Parsed || re.a.env.triggers >= maxTriggers || rewrites(t, f) {
		return false, ""
	}
	variables := keyVariables(t, f)
	own := map[catalog.Name]bool{}
	for _, text := range f.Texts {
		tree, err := parser.Parse(text)
		if err != nil {
			return false, ""
		}
		touches, strays := false, false
		parser.Walk(tree, func(m any) bool {
			if rv, ok := m.(*pg.RangeVar); ok {
				if rel := re.a.find(rv.Schemaname, rv.Relname); rel != nil && !rel.System() {
					own[rel.Name] = true
					touches = touches || re.a.definitions().relationReads(rel).sharded != ""
				}
			}
			strays = strays || re.runsSharded(m)
			return true
		})
		if strays {
			return false, ""
		}
		if !touches {
			continue
		}
		if stays, why := re.keptBeside(t, tree, variables); !stays {
			return false, why
		}
	}
	// The functions that the trigger function calls are not judged here.
	for _, n := range f.Mentions {
		rel := re.a.env.Schema.Relation(n)
		if rel != nil && !rel.System() && !own[n] && (rel.Kind == catalog.View || re.a.declared(rel) != nil) && re.a.definitions().relationReads(rel).sharded != "" {
			return false, ""
		}
	}
	return true, ""
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

// keptBeside reports whether statements touch only rows with the key of a trigger's row. It
// replaces NEW and OLD by parameters and plans the statements.
func (re reach) keptBeside(t *table, tree *pg.ParseResult, variables map[string]int) (kept bool, why string) {
	var types []uint32
	for _, k := range t.keys {
		types = append(types, k.Type)
	}
	for _, s := range tree.Stmts {
		if re.nullable(s.Stmt) {
			variables = nil
		}
		draws, column := re.drawnBy(s.Stmt)
		parser.Walk(s.Stmt, func(m any) bool {
			n, ok := m.(*pg.Node)
			if !ok {
				return true
			}
			if i := keyColumn(t, n, variables); i >= 0 {
				n.Node = &pg.Node_ParamRef{ParamRef: &pg.ParamRef{Number: int32(i + 1)}}
				return false
			}
			return true
		})
		sql, err := parser.Deparse(s.Stmt)
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
		if p.Route == plan.Keyed && p.Generate != nil && column != nil {
			return false, fmt.Sprintf("inserts into %q, whose column %q draws from sequence %q", draws.Name.Name, column.Name, column.Sequence.Name)
		}
		if !re.keyedByParams(p, t) {
			return false, ""
		}
	}
	return true, ""
}

// keyedByParams reports whether the key of every sharded table in a plan is the parameters. Values
// that weft would supply do not exist inside a trigger.
func (re reach) keyedByParams(p *plan.Plan, t *table) bool {
	if p.Route != plan.Keyed || p.Generate != nil {
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
