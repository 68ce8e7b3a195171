package catalog

import (
	"slices"
	"testing"
)

func TestKeyed(t *testing.T) {
	for _, c := range []struct {
		columns, refs, from, to []string
		definition, want        string // want is "" if no foreign key can contain the keys
	}{
		{
			[]string{"owner"},
			[]string{"id"},
			[]string{"tenant"},
			[]string{"tenant"},
			"FOREIGN KEY (owner) REFERENCES users(id)", `FOREIGN KEY ("tenant", "owner") REFERENCES users("tenant", "id")`,
		},
		{
			[]string{"owner"},
			[]string{"id"},
			[]string{"tenant"},
			[]string{"org"},
			`FOREIGN KEY (owner) REFERENCES "App"."Users"(id) ON UPDATE CASCADE ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED`,
			`FOREIGN KEY ("tenant", "owner") REFERENCES "App"."Users"("org", "id") ON UPDATE CASCADE ON DELETE SET NULL ("owner") DEFERRABLE INITIALLY DEFERRED`,
		},
		{
			[]string{"a", "b"},
			[]string{"x", "y"},
			[]string{"t", "b"},
			[]string{"t", "y"},
			"FOREIGN KEY (a, b) REFERENCES u(x, y) ON DELETE SET DEFAULT (a)", `FOREIGN KEY ("t", "a", "b") REFERENCES u("t", "x", "y") ON DELETE SET DEFAULT (a)`,
		},
		{
			[]string{"owner"},
			[]string{"id"},
			[]string{"tenant"},
			[]string{"tenant"},
			"FOREIGN KEY (owner) REFERENCES users(id) MATCH FULL NOT VALID", `FOREIGN KEY ("tenant", "owner") REFERENCES users("tenant", "id") NOT VALID`,
		},
		// MATCH FULL of several columns: the key is never NULL, and so none of them could be.
		{[]string{"a", "b"}, []string{"x", "y"}, []string{"t"}, []string{"t"}, "FOREIGN KEY (a, b) REFERENCES u(x, y) MATCH FULL", ""},
		// The referenced table is sharded by the column that is referenced.
		{[]string{"owner"}, []string{"id"}, []string{"tenant"}, []string{"id"}, "FOREIGN KEY (owner) REFERENCES users(id)", ""},
		{[]string{"tenant"}, []string{"id"}, []string{"tenant"}, []string{"org"}, "FOREIGN KEY (tenant) REFERENCES users(id)", ""},
	} {
		fk := ForeignKey{Columns: c.columns, RefColumns: c.refs, Definition: c.definition}
		keyed, ok := fk.Keyed(c.from, c.to)
		switch {
		case ok != (c.want != ""):
			t.Errorf("%s by %v: %v", c.definition, c.from, ok)
		case ok && keyed.Definition != c.want:
			t.Errorf("%s by %v:\n%s, want\n%s", c.definition, c.from, keyed.Definition, c.want)
		case ok && !keyed.Contains(c.from, c.to):
			t.Errorf("%s by %v: does not contain the key", c.definition, c.from)
		}
		if !slices.Equal(fk.Columns, c.columns) {
			t.Errorf("%s: the foreign key itself has changed", c.definition)
		}
	}
}
