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
	closeSources(sources, relations)
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
