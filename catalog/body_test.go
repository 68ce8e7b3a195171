package catalog

import (
	"slices"
	"strings"
	"testing"
)

func TestReadBody(t *testing.T) {
	for _, tc := range []struct {
		text    string
		words   string // that must be there
		not     string // that must not
		dynamic bool
	}{
		{"SELECT * FROM Orders o", "Orders", "", false},
		{"SELECT 1 -- FROM orders\n+ 2", "SELECT", "orders", false},
		{"SELECT /* a /* orders */ b */ x", "x", "orders", false},
		{`SELECT * FROM "Or""ders"`, `Or"ders`, "", false},
		{"SELECT 'orders'::regclass", "orders", "", false},
		{"SELECT $$orders$$, $a$items$a$", "orders items", "", false},
		{"SELECT $1, a$b FROM c", "a$b c", "", false},
		{"BEGIN EXECUTE 'DELETE FROM orders'; END", "orders", "", false},
		{"BEGIN EXECUTE $q$DELETE FROM orders WHERE id = $1$q$ USING 1; END", "orders", "", false},
		{"BEGIN EXECUTE 'SELECT 1' INTO x; END", "", "", false},
		{"BEGIN FOR r IN EXECUTE 'SELECT a FROM orders' LOOP NULL; END LOOP; END", "orders", "", false},
		{"BEGIN EXECUTE /* why */ 'SELECT 1' -- because\n ; END", "", "", false},
		{"BEGIN EXECUTE 'DELETE FROM ' || t; END", "", "", true},
		{"BEGIN EXECUTE format('DELETE FROM %I', t); END", "", "", true},
		{"BEGIN execute cmd; END", "", "", true},
		{"BEGIN RETURN QUERY EXECUTE cmd; END", "", "", true},
		{`BEGIN EXECUTE E'DELETE FROM \157rders'; END`, "", "", true},
		{`BEGIN EXECUTE 'DELETE FROM U&"\006frders"'; END`, "", "", true},
		{`SELECT * FROM U&"\006frders"`, "", "", true},
		{"BEGIN EXECUTE 'EXECUTE stmt'; END", "", "", true},
		{`BEGIN x := 'it\'s'; y := 'orders'; END`, "orders", "", false},
		{`BEGIN x := 'it\'s'; EXECUTE 'y'; END`, "", "", true},
		{"SELECT 'never ends FROM orders -- x", "orders x", "", false},
		{"SELECT /* never ends FROM orders", "orders", "", false},
		{"SELECT $x$ never ends FROM orders", "orders", "", false},
		{"", "", "", false},
		{"EXECUTE", "", "", false},
		{"$", "", "", false},
	} {
		b := readBody(tc.text)
		for _, w := range strings.Fields(tc.words) {
			if !b.words[w] {
				t.Errorf("%s: no %s in %v", tc.text, w, b.words)
			}
		}
		for _, w := range strings.Fields(tc.not) {
			if b.words[w] {
				t.Errorf("%s: %s is a word", tc.text, w)
			}
		}
		if b.dynamic != tc.dynamic {
			t.Errorf("%s: dynamic %v", tc.text, b.dynamic)
		}
	}
}

// TestCloseSources: who calls whom, however long the way.
func TestCloseSources(t *testing.T) {
	relations := []*Relation{
		{Name: Name{"a", "orders"}, Kind: Table},
		{Name: Name{"b", "orders"}, Kind: View},
		{Name: Name{"b", "my table"}, Kind: Table},
		{Name: Name{"b", "orders_pkey"}, Kind: Index},
		{Name: Name{"b", strings.Repeat("x", 63)}, Kind: Table},
		{Name: Name{"pg_catalog", "pg_class"}, Kind: Table},
	}
	fn := func(name, language, extension, body string) *source {
		return &source{function: &Function{Name: Name{"public", name}}, language: language, extension: extension, body: body}
	}
	sources := []*source{
		fn("one", "sql", "", "SELECT two()"),
		fn("two", "sql", "", "SELECT three() FROM ORDERS"),
		fn("three", "plpgsql", "", `BEGIN PERFORM one(); DELETE FROM b."my table"; END`),
		fn("four", "sql", "", "SELECT orders_pkey FROM pg_class"),
		fn("five", "sql", "", "SELECT six(), x"),
		fn("six", "c", "", "libfoo"),
		fn("seven", "c", "hstore", "orders"),
		fn("eight", "c", "dblink", "x"),
		fn("nine", "plpython3u", "", "return 1"),
		fn("ten", "sql", "", "SELECT * FROM "+strings.Repeat("X", 70)),
		fn("eleven", "sql", "", "SELECT query_to_xml($1, true, true, '')"),
		fn("twelve", "sql", "tools", "SELECT 1 FROM orders"),
	}
	newConnection(sources, relations).finish(New(1, false, relations, nil))
	both := []Name{{"a", "orders"}, {"b", "orders"}}
	all := []Name{{"a", "orders"}, {"b", "my table"}, {"b", "orders"}}
	for i, want := range []struct {
		mentions []Name
		opaque   bool
	}{
		{all, false},
		{all, false},
		{all, false},
		{nil, false},
		{nil, true},
		{nil, true},
		{nil, false},
		{nil, true},
		{nil, true},
		{[]Name{{"b", strings.Repeat("x", 63)}}, false},
		{nil, true},
		{both, false},
	} {
		f := sources[i].function
		if !slices.Equal(f.Mentions, want.mentions) || f.Opaque != want.opaque {
			t.Errorf("%s: %v %v", f.Name.Name, f.Mentions, f.Opaque)
		}
	}
}

// TestParseBody: only what stands where a table can stand is one.
func TestParseBody(t *testing.T) {
	for _, tc := range []struct {
		language, body string
		reads, writes  string // in order of appearance
		calls          string
		dynamic, not   bool // not: it cannot be parsed
	}{
		{language: "sql", body: "SELECT orders FROM t AS orders WHERE 'items' = x", reads: "t"},
		{language: "sql", body: "INSERT INTO a.log SELECT f(id) FROM b; UPDATE c SET x = 1", reads: "a.log b c", writes: "a.log c", calls: "f"},
		{language: "sql", body: "SELECT nextval('a.numbers'), 'orders'::regclass", reads: "a.numbers orders", calls: "nextval"},
		{language: "plpgsql", body: "DECLARE orders int; BEGIN orders := (SELECT count(*) FROM t); RETURN orders; END", reads: "t", calls: "count"},
		{language: "plpgsql", body: "BEGIN RAISE NOTICE 'orders'; DELETE FROM t WHERE id = 1; RETURN 1; END", reads: "t", writes: "t"},
		{language: "plpgsql", body: "BEGIN IF EXISTS (SELECT FROM a) THEN PERFORM f(1); END IF; EXECUTE 'DELETE FROM b'; RETURN 1; END", reads: "a b", writes: "b", calls: "f"},
		{language: "plpgsql", body: "BEGIN EXECUTE format('DELETE FROM %I', 'orders'); RETURN 1; END", reads: "orders", writes: "orders"},
		{language: "plpgsql", body: "BEGIN EXECUTE format('DELETE FROM %I', x); RETURN 1; END", dynamic: true},
		{language: "plpgsql", body: "BEGIN EXECUTE 'DELETE FROM ' || quote_ident('a') || ' WHERE x = ' || quote_literal('b'); RETURN 1; END", reads: "a", writes: "a"},
		{language: "plpgsql", body: "BEGIN EXECUTE format('GRANT a TO %I', current_user); RETURN 1; END"},
		{language: "plpgsql", body: "BEGIN EXECUTE format('ALTER DATABASE %I SET x.y = 1', current_database()); RETURN 1; END"},
		{language: "plpgsql", body: "BEGIN EXECUTE 'DELETE FROM ' || current_user; RETURN 1; END", dynamic: true},
		{language: "plpgsql", body: "BEGIN EXECUTE format('GRANT SELECT ON %I TO x', current_user); RETURN 1; END", dynamic: true},
		{language: "plpgsql", body: "BEGIN EXECUTE format('ALTER TYPE %2$I', 'a', 'b'); RETURN 1; END", dynamic: true},
		{language: "plpgsql", body: "BEGIN EXECUTE 'EXECUTE p'; RETURN 1; END", dynamic: true},
		{language: "plpgsql", body: "BEGIN EXECUTE 'CREATE TRIGGER x BEFORE INSERT ON a EXECUTE FUNCTION f()'; RETURN 1; END", reads: "a"},
		{language: "plpgsql", body: "DECLARE r record; BEGIN FOR r IN SELECT * FROM a LOOP CALL p(r.id); END LOOP; RETURN 1; END", reads: "a", calls: "p id p"},
		{language: "plpgsql", body: "DECLARE r orders; BEGIN r.x := 1; RETURN 1; END", not: true},
		{language: "sql", body: "SELECT FROM WHERE", not: true},
		{language: "sql", body: `SELECT 'it\'s'`, not: true},
	} {
		create := ""
		if tc.language == "plpgsql" {
			create = createText("f", "IN x integer", "integer", tc.body)
		}
		r := readTree(tc.language, create, tc.body)
		if r.ok == tc.not {
			t.Errorf("%s: parsed %v", tc.body, r.ok)
		}
		if tc.not {
			continue
		}
		names := func(list []Name) string {
			var out []string
			for _, n := range list {
				name := strings.TrimPrefix(n.Schema+"."+n.Name, ".")
				if !slices.Contains(out, name) {
					out = append(out, name)
				}
			}
			slices.Sort(out)
			return strings.Join(out, " ")
		}
		if got := names(r.reads); got != tc.reads || names(r.writes) != tc.writes || r.dynamic != tc.dynamic {
			t.Errorf("%s: reads %s, writes %s, dynamic %v", tc.body, got, names(r.writes), r.dynamic)
		}
		for _, call := range strings.Fields(tc.calls) {
			if !slices.Contains(r.calls, call) {
				t.Errorf("%s: no call of %s in %v", tc.body, call, r.calls)
			}
		}
	}
}

// FuzzReadBody: never a panic, and a word at the end of any text that is no
// comment is found.
func FuzzReadBody(f *testing.F) {
	f.Add("BEGIN EXECUTE $a$ 'x' $a$ || \"y\"; /* -- */ END")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "--") || strings.Contains(text, "/*") {
			readBody(text)
			return
		}
		if b := readBody(text + " orders "); !b.words["orders"] {
			t.Errorf("%q", text)
		}
	})
}

// TestCommand: what changes schemas and roles is told from what does not, with a
// parse and without.
func TestCommand(t *testing.T) {
	for _, tc := range []struct {
		body      string
		told, may bool
	}{
		{"BEGIN CREATE TYPE mood AS ENUM ('a'); EXCEPTION WHEN duplicate_object THEN NULL; END", true, true},
		{"BEGIN IF NOT EXISTS (SELECT FROM pg_roles) THEN CREATE ROLE x; END IF; END", true, true},
		{"BEGIN EXECUTE format('ALTER TABLE %I ADD x int', 'a'); END", true, true},
		{"BEGIN GRANT a TO b; END", true, true},
		{"BEGIN INSERT INTO a VALUES (1); PERFORM f(); SET LOCAL x.y = 1; COMMIT; END", false, false},
		{"BEGIN UPDATE a SET x = 1; -- and never drop it\n END", false, false},
		{"BEGIN CREATE TEMP TABLE x (a int); END", false, false},
	} {
		r := readTree("plpgsql", createText("p", "", "", tc.body), tc.body)
		if !r.ok || r.ddl != tc.told || MayCommand(tc.body) != tc.may {
			t.Errorf("%s: parsed %v, told %v, may %v", tc.body, r.ok, r.ddl, MayCommand(tc.body))
		}
	}
}
