package planner

import (
	"strings"
	"testing"

	"weft/catalog"
	"weft/directory"
	"weft/parser"
	"weft/plan"
)

// TablesOnly returns an Env whose queries are cut into tables.
func TablesOnly(env *Env) *Env {
	e := *env
	e.tablesOnly = true
	return &e
}

// Declare adds a table to a snapshot, as its declaration would.
func Declare(t testing.TB, snap *directory.Snapshot, s *catalog.Schema, line string) {
	t.Helper()
	f := strings.Fields(line)
	schema, name, ok := strings.Cut(f[1], ".")
	if !ok {
		schema, name = "public", f[1]
	}
	d := directory.Table{Database: "app", Schema: schema, Name: name, Kind: directory.TableKind(f[0])}
	rel := s.Relation(catalog.Name{Schema: schema, Name: name})
	if rel == nil {
		t.Fatalf("declare %s: no such table", line)
	}
	if d.Kind == directory.Sharded {
		d.Vindex.Kind = "hash"
		for _, c := range strings.Split(f[2], ",") {
			col := rel.Column(c)
			if col == nil {
				t.Fatalf("declare %s: no column %q", line, c)
			}
			d.Columns = append(d.Columns, directory.Column{Name: c, Type: col.Base, TypeName: col.TypeName, Mod: col.Mod})
		}
		if len(d.Columns) > 1 {
			d.Vindex.Kind, d.Vindex.Params = "composite", map[string]any{"bits": []any{3}}
		}
	}
	for _, o := range f {
		switch v, _ := strings.CutPrefix(o, "state="); v {
		case "declaring", "undeclaring":
			d.State = directory.TableState(v)
		}
		if v, ok := strings.CutPrefix(o, "fk="); ok {
			d.ForeignKeys = append(d.ForeignKeys, directory.ForeignKey{Schema: "public", Table: v, Name: v + "_fkey"})
		}
	}
	snap.Tables = append(snap.Tables, d)
}

func declare(t testing.TB, snap *directory.Snapshot, s *catalog.Schema, line string) {
	t.Helper()
	Declare(t, snap, s, line)
}

// Whole plans a text as a query in one piece: nil, and why, if it is none.
func Whole(env *Env, sql string, literals []parser.Literal, params []uint32) (g *plan.Gather, exact bool, why string) {
	tree, err := parser.ParseTree(sql, env.Options)
	if err != nil {
		return nil, false, err.Error()
	}
	a := &analysis{
		env: env, text: text{sql: sql, tree: tree, literals: literals, path: env.Path},
		out: &plan.Plan{}, params: newParams(params), held: map[int]bool{},
	}
	a.client = a.text
	sel := tree.Statements[0].Stmt.GetSelectStmt()
	a.top().query(sel)
	g = a.gatherer().whole(sel)
	if g == nil {
		_, why = a.gatherer().reduce(sel, 0, nil)
	}
	return g, a.out.Exact, why
}

// ColumnName is what the first column of a query is called.
func ColumnName(t testing.TB, sql string) string {
	t.Helper()
	tree, err := parser.ParseTree(sql, parser.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return outputName(tree.Statements[0].Stmt.GetSelectStmt().TargetList[0].GetResTarget())
}
