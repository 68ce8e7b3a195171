package identity

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/pgserver"
	"weft/pgserver/pgtest"
)

func TestCheck(t *testing.T) {
	ours := Expected{Cluster: "c1", Shard: "shard-1"}
	known := ours
	known.System = "7"
	stamp := func(cluster, shard, written, system string) Found {
		return Found{System: system, Stamp: Stamp{cluster, shard, written}, Stamped: true}
	}
	for name, c := range map[string]struct {
		want  Expected
		found Found
		says  string // "" for nothing
	}{
		"ours":                       {ours, stamp("c1", "shard-1", "7", "7"), ""},
		"ours, server known":         {known, stamp("c1", "shard-1", "7", "7"), ""},
		"nobody's":                   {ours, Found{System: "7"}, ""},
		"nobody's, server known":     {known, Found{System: "7"}, ""},
		"another cluster":            {ours, stamp("c2", "shard-1", "7", "7"), "another cluster, c2"},
		"another shard":              {ours, stamp("c1", "shard-2", "7", "7"), "it is shard-2 of this cluster"},
		"another cluster's dump":     {ours, stamp("c2", "shard-1", "7", "8"), "another cluster, c2"},
		"restored from a dump":       {ours, stamp("c1", "shard-1", "7", "8"), "copied from another server"},
		"restored, and accepted":     {Expected{"c1", "shard-1", "8"}, stamp("c1", "shard-1", "7", "8"), ""},
		"initialized anew":           {known, Found{System: "8"}, "another server than before"},
		"a stamped one of a sibling": {known, stamp("c1", "shard-2", "8", "8"), "it is shard-2"},
		"the stamp of another":       {known, stamp("c1", "shard-1", "8", "8"), "another server than before"},
		"server unknown":             {known, Found{}, ""},
	} {
		err := c.want.Check(c.found, "app")
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Message, c.says)):
			t.Errorf("%s: %v, want %q", name, err, c.says)
		case err != nil && (err.Hint == "" || !strings.Contains(err.Detail, "Expected: cluster c1, shard shard-1")):
			t.Errorf("%s: detail %q, hint %q", name, err.Detail, err.Hint)
		}
	}
}

func TestParse(t *testing.T) {
	s := Stamp{"7e0d", "shard-1", "7708636913821170360"}
	if got, ok := Parse(s.String()); !ok || got != s {
		t.Errorf("%v, %v", got, ok)
	}
	for _, text := range []string{"", "our tables", s.String() + " ", "weft: cluster , shard a, server 1"} {
		if _, ok := Parse(text); ok {
			t.Errorf("%q is read as a stamp", text)
		}
	}
}

// The query works for a role without rights, whatever it has set.
func TestQuery(t *testing.T) {
	srv := pgtest.Start(t, pgserver.Config{Settings: map[string]string{"max_connections": "30"}})
	ask := func(user, options string) Found {
		t.Helper()
		cfg, err := pgx.ParseConfig(srv.ConnString("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		cfg.User, cfg.RuntimeParams["options"] = user, options
		conn, err := pgx.ConnectConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		res, err := conn.PgConn().Exec(t.Context(), Query).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		var rows [][]string
		for _, r := range res[0].Rows {
			row := make([]string, len(r))
			for i := range r {
				row[i] = string(r[i])
			}
			rows = append(rows, row)
		}
		f, err := Read(rows)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	admin, err := pgx.Connect(t.Context(), srv.ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	run := func(sql string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	run("CREATE ROLE nobody LOGIN; CREATE SCHEMA evil; GRANT ALL ON SCHEMA evil TO nobody")
	if f := ask("nobody", ""); f.Stamped || f.System == "" || f.Connections != 27 {
		t.Errorf("before: %+v", f)
	}
	run("CREATE SCHEMA weft; COMMENT ON SCHEMA weft IS 'our weavers'")
	if f := ask("nobody", ""); f.Stamped {
		t.Errorf("with another comment: %+v", f)
	}
	want := Expected{Cluster: "c1", Shard: "shard-1"}.Stamp(ask("nobody", ""))
	run(want.Write())
	if f := ask("nobody", "-csearch_path=evil,pg_catalog"); !f.Stamped || f.Stamp != want {
		t.Errorf("after: %+v", f)
	}
}
