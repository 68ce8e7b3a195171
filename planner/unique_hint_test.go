package planner

import (
	"strings"
	"testing"

	"weft/catalog"
)

// TestGeneratedHint: generated columns have the values of what an index keeps unique, where that can be said.
func TestGeneratedHint(t *testing.T) {
	schema, err := catalog.FromDump(`CREATE TABLE public.users (id bigint, email text, "Nick" varchar(20), gone date, org int, data jsonb, email_lower text)`)
	if err != nil {
		t.Fatal(err)
	}
	for definition, want := range map[string]string{
		"ON users (lower(email))": "ALTER TABLE users ADD COLUMN email_lower_2 text GENERATED ALWAYS AS (lower(email)) STORED; CREATE UNIQUE INDEX ON users (email_lower_2); DROP INDEX i.",
		"ON users (org, email) WHERE gone IS NULL": "ALTER TABLE users ADD COLUMN org_unique integer GENERATED ALWAYS AS (CASE WHEN gone IS NULL THEN org END) STORED; " +
			"CREATE UNIQUE INDEX ON users (org_unique, email); DROP INDEX i.",
		`ON users (upper("Nick")) WHERE gone IS NULL AND org > 0`: `ALTER TABLE users ADD COLUMN "Nick_upper" text GENERATED ALWAYS AS (CASE WHEN gone IS NULL AND org > 0 THEN upper("Nick") END) STORED; ` +
			`CREATE UNIQUE INDEX ON users ("Nick_upper"); DROP INDEX i.`,
		"ON users ((data ->> 'ref'), org)":           "ALTER TABLE users ADD COLUMN data_value text GENERATED ALWAYS AS (data ->> 'ref') STORED; CREATE UNIQUE INDEX ON users (data_value, org); DROP INDEX i.",
		"ON users (email)":                           "", // a lookup keeps the column itself
		"ON users (email) WHERE email IS NOT NULL":   "",
		"ON users ((org + 1))":                       "", // the type is not known
		"ON users (app.lower(email))":                "",
		"ON users (lower(email)) NULLS NOT DISTINCT": "",
		`ON users (email COLLATE "C") WHERE org = 1`: "",
		"ON users (data) WHERE org = 1":              "", // no lookup keeps jsonb
	} {
		_, got, _ := strings.Cut(GeneratedHint(schema.Relation(catalog.Name{Schema: "public", Name: "users"}), "CREATE UNIQUE INDEX i "+definition, "DROP INDEX i"), ": ")
		if got != want {
			t.Errorf("%s:\n%s\nwant\n%s", definition, got, want)
		}
	}
}
