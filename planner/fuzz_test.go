package planner_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weft/catalog"
	"weft/directory"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/planner"
)

// goldens returns the schema and declarations of a golden file, and every
// statement of all of them.
func goldens(t testing.TB) (*planner.Env, []string) {
	t.Helper()
	files, err := filepath.Glob("testdata/[a-z]*")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	var env *planner.Env
	for _, name := range files {
		data, err := os.ReadFile(name)
		if os.IsNotExist(err) || strings.HasSuffix(name, "fuzz") {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split(string(data), "\n\n") {
			for strings.HasPrefix(part, "#") {
				_, part, _ = strings.Cut(part, "\n")
			}
			head, body, _ := strings.Cut(part, "\n")
			body, _, _ = strings.Cut(body, "\n----\n")
			body = strings.TrimSuffix(body, "\n----")
			switch {
			case strings.HasPrefix(head, "plan"):
				all = append(all, strings.Split(body, "\n---\n")...)
			case head == "schema" && filepath.Base(name) == "queries":
				schema, err := catalog.FromDump(body)
				if err != nil {
					t.Fatal(err)
				}
				env = &planner.Env{Database: "app", Path: []string{"pg_catalog", "public"}, Schema: schema, Home: "shard-0"}
			case head == "declare" && filepath.Base(name) == "queries":
				snap := directory.New(64, "shard-0", []directory.Shard{{Name: "shard-0"}})
				for _, line := range strings.Split(body, "\n") {
					planner.Declare(t, snap, env.Schema, line)
				}
				env.Tables = planner.NewTables(snap, "app")
			}
		}
	}
	if env == nil || len(all) < 300 {
		t.Fatalf("found %d statements", len(all))
	}
	return env, all
}

// others has another literal of each kind.
var others = map[parser.LiteralKind]string{
	parser.String: "'{77}'", parser.UnicodeString: "U&'zz'", parser.NationalString: "N'zz'", parser.Bit: "B'1'", parser.Hex: "X'1'",
	parser.Int: "4711", parser.Int8: "5000000001", parser.Numeric: "0.25", parser.IntMin: "2147483648", parser.Int8Min: "9223372036854775808",
}

// checkPlan plans a text and holds the result against what every plan keeps.
func checkPlan(t *testing.T, env *planner.Env, sql string) {
	t.Helper()
	var s parser.Scanner
	ok := s.Scan([]byte(sql), parser.Options{})
	p := planner.Plan(env, sql, s.Literals, nil)
	if p == nil {
		t.Fatalf("%q: no plan", sql)
	}
	switch {
	case p.Refusal == nil && (p.Route == plan.Refused || p.Route == plan.Keyed):
		t.Fatalf("%q: no refusal\n%s", sql, p)
	case p.Refusal != nil && p.Refusal.Code == pgerr.InternalError:
		t.Fatalf("%q: %s", sql, p)
	case p.Route == plan.Call && p.Function == nil:
		t.Fatalf("%q: no function\n%s", sql, p)
	case p.Route != plan.Keyed && len(p.Instances) > 0:
		t.Fatalf("%q: instances without keys\n%s", sql, p)
	}
	for _, in := range p.Instances {
		if len(in.Keys) != len(in.Table.Vindex.Columns()) {
			t.Fatalf("%q: %d keys\n%s", sql, len(in.Keys), p)
		}
		for _, sets := range in.Keys {
			for _, set := range sets {
				for _, src := range set {
					if (src.Kind == plan.Literal || src.Kind == plan.Array) && src.Index >= len(s.Literals) {
						t.Fatalf("%q: literal %d of %d\n%s", sql, src.Index, len(s.Literals), p)
					}
				}
			}
		}
	}
	if p.Generate != nil {
		checkEdits(t, env, sql, s.Literals, p)
	}
	if !ok || p.Exact {
		return
	}
	// The same plan serves every text that differs in literals alone.
	var b strings.Builder
	from := 0
	for _, l := range s.Literals {
		b.WriteString(sql[from:l.Start])
		b.WriteString(others[l.Kind])
		from = int(l.End)
	}
	b.WriteString(sql[from:])
	var other parser.Scanner
	if !other.Scan([]byte(b.String()), parser.Options{}) || string(other.Norm) != string(s.Norm) {
		return
	}
	q := planner.Plan(env, b.String(), other.Literals, nil)
	if !q.Exact && (p.String() != q.String() || strings.Join(p.Why, "\n") != strings.Join(q.Why, "\n")) {
		t.Fatalf("%q: %s%q\nanother plan for %q: %s%q", sql, p, p.Why, b.String(), q, q.Why)
	}
}

// checkEdits applies a plan's edits, and expects a text that parses and leaves
// nothing to generate.
func checkEdits(t *testing.T, env *planner.Env, sql string, literals []parser.Literal, p *plan.Plan) {
	t.Helper()
	var b strings.Builder
	from, used := 0, 0
	for _, e := range p.Generate.Edits {
		at, ok := parser.Place([]byte(sql), literals, e.After, e.Offset)
		if !ok || at < from || at+e.Delete > len(sql) {
			t.Fatalf("%q: an edit has no place\n%s", sql, p)
		}
		b.WriteString(sql[from:at])
		from = at + e.Delete
		if e.Value >= 0 {
			b.WriteString("'4711'::" + p.Generate.Values[e.Value].Type)
			used++
		} else {
			b.WriteString(e.Text)
		}
	}
	b.WriteString(sql[from:])
	if used != len(p.Generate.Values) {
		t.Fatalf("%q: %d of %d values are used\n%s", sql, used, len(p.Generate.Values), p)
	}
	if _, err := parser.Parse(b.String()); err != nil {
		t.Fatalf("%q becomes %q: %v", sql, b.String(), err)
	}
	if q := planOf(env, b.String()); q.Route == plan.Keyed && q.Generate != nil {
		t.Fatalf("%q becomes %q, which still wants values\n%s", sql, b.String(), q)
	}
}

// TestPlansKeepTheirPromises checks all statements of the golden files.
func TestPlansKeepTheirPromises(t *testing.T) {
	env, all := goldens(t)
	for _, sql := range all {
		checkPlan(t, env, sql)
	}
}

// FuzzPlan looks for a text that panics, or whose plan breaks a promise.
func FuzzPlan(f *testing.F) {
	env, all := goldens(f)
	for _, sql := range all {
		f.Add(sql)
	}
	f.Fuzz(func(t *testing.T, sql string) { checkPlan(t, env, sql) })
}

// TestLargeTexts: planning takes time in proportion to the text. With WEFT_BRUTE
// texts are five times as large.
func TestLargeTexts(t *testing.T) {
	env, _ := goldens(t)
	large := func(s string, n int) string {
		if os.Getenv("WEFT_BRUTE") == "" {
			n /= 5
		}
		return strings.Repeat(s, n)
	}
	for name, sql := range map[string]string{
		"rows":     "INSERT INTO always (k, v) VALUES " + large("(1, 'x'), ", 20_000) + "(1, 'x')",
		"defaults": "INSERT INTO always (id, k) VALUES " + large("(DEFAULT, 1), ", 20_000) + "(DEFAULT, 1)",
		"list":     "SELECT * FROM orders WHERE customer_id IN (" + large("1, ", 50_000) + "1)",
		"or":       "SELECT * FROM orders WHERE customer_id = 1" + large(" OR customer_id = 2", 20_000),
		"and":      "SELECT * FROM orders WHERE customer_id = 1" + large(" AND customer_id = 2", 5_000),
		"joins":    "SELECT * FROM orders" + large(" NATURAL JOIN orders", 300) + " WHERE customer_id = 1",
		"ctes":     "WITH " + large("x AS (SELECT * FROM orders), ", 3_000) + "y AS (SELECT 1) SELECT * FROM orders WHERE customer_id = 1",
		"union":    "SELECT customer_id FROM orders WHERE customer_id = 1" + large(" UNION ALL SELECT customer_id FROM orders WHERE customer_id = 1", 1_000),
		"nested":   strings.Repeat("SELECT * FROM (", 300) + "SELECT * FROM orders" + strings.Repeat(") q WHERE customer_id = 1", 300),
		"exists":   "SELECT * FROM orders o WHERE customer_id = 1 AND " + strings.Repeat("EXISTS (SELECT 1 FROM orders i WHERE i.customer_id = o.customer_id AND ", 200) + "true" + strings.Repeat(")", 200),
	} {
		start := time.Now()
		var scan parser.Scanner
		scan.Scan([]byte(sql), env.Options)
		p := planner.PlanLater(env, sql, scan.Literals, nil)
		if p.Route != plan.Keyed && p.Route != plan.Refused {
			t.Errorf("%s: %s", name, p.Route)
		}
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("%s: %d bytes took %v", name, len(sql), d)
		} else {
			t.Logf("%s: %d bytes took %v, %s with %d instances", name, len(sql), d, p.Route, len(p.Instances))
		}
	}
}
