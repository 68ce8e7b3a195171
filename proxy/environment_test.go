package proxy

import (
	"testing"

	"weft/catalog"
	"weft/planner"
)

// TestOldSchemas makes sure that schemas are let go of once they have changed: each is
// as large as its database has tables, and DDL makes a new one.
func TestOldSchemas(t *testing.T) {
	e := newEnvironments()
	env := func(database string, tables *planner.Tables, schema *catalog.Schema, path string) *planner.Env {
		return e.env(envKey{tables: tables, schema: schema, path: path}, func() *planner.Env {
			return &planner.Env{ID: planner.NewID(), Database: database, Schema: schema, Tables: tables}
		})
	}
	tables, other := &planner.Tables{}, env("other", &planner.Tables{}, &catalog.Schema{}, "")
	for range 100 {
		schema := &catalog.Schema{}
		first := env("app", tables, schema, "public")
		if env("app", tables, schema, "own") == first {
			t.Fatal("two search paths have one environment")
		}
		if env("app", tables, schema, "public") != first {
			t.Fatal("an environment was made twice")
		}
	}
	if n := len(e.envs); n != 3 {
		t.Errorf("%d environments are kept, not the two of the newest schema and that of another database", n)
	}
	if env("other", other.Tables, other.Schema, "") != other {
		t.Error("DDL in one database has made those of another anew")
	}
}
