package planner

import (
	"testing"

	"weft/catalog"
	"weft/parser"
)

// TestInfersDerived: what ON CONFLICT says of an index is compared with what the catalog says of it.
func TestInfersDerived(t *testing.T) {
	email := &catalog.Lookup{Shape: "e", Items: []string{"lower(email::text)"}, Uses: []string{"email"}, Expressions: true}
	slug := &catalog.Lookup{
		Shape: "s", Items: []string{"org", "lower(slug)"}, Uses: []string{"org", "slug", "gone", "state"}, Expressions: true,
		Condition: "((gone IS NULL) AND (state = ANY (ARRAY['on'::mood, 'off'::mood])))",
	}
	twice := &catalog.Lookup{Shape: "n", Items: []string{"(n * 2::numeric)"}, Uses: []string{"n", "active"}, Expressions: true, Condition: "active"}
	login := &catalog.Lookup{Shape: "l", Items: []string{"login"}, Uses: []string{"login"}}
	for _, c := range []struct {
		lookup *catalog.Lookup
		infer  string
		want   choice
	}{
		{email, "(lower(email))", inferred},
		{email, "(lower(email)) where true", inferred},
		{email, "(pg_catalog.lower(email::text))", inferred},
		{email, "(lower(email), lower(email))", inferred},
		{email, "(upper(email))", mayBeInferred},
		{email, "(lower(name))", notInferred},
		{email, "(email)", notInferred},
		{email, "(id, lower(email))", notInferred},
		{email, "(lower(email) collate \"C\")", mayBeInferred},
		{slug, "(org, lower(slug))", notInferred},
		{slug, "(lower(slug), org) where state in ('on', 'off') and gone is null and org > 1", inferred},
		{slug, "(org, lower(slug)) where gone is null", mayBeInferred},
		{slug, "(slug, lower(org)) where gone is null", notInferred},
		{twice, "((n * 2)) where active", inferred},
		{twice, "((n * 3)) where active", mayBeInferred},
		{twice, "((n * 2)) where not active", mayBeInferred},
		{login, "(login)", inferred},
		{login, "(login, id)", notInferred},
		{login, "(lower(login))", notInferred},
	} {
		tree, err := parser.Parse("insert into t values (1) on conflict " + c.infer + " do nothing")
		if err != nil {
			t.Fatal(err)
		}
		if got := infersDerived(tree.Stmts[0].Stmt.GetInsertStmt().OnConflictClause.Infer, c.lookup); got != c.want {
			t.Errorf("%s for %s: %d, want %d", c.infer, c.lookup.Key(), got, c.want)
		}
	}
}
