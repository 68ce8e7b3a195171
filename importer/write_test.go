package importer

import (
	"fmt"
	"strings"
	"testing"
)

// row reads values: ~ is NULL, ? an unchanged large value.
func row(text string) []Value {
	if text == "" {
		return nil
	}
	var out []Value
	for _, s := range strings.Split(text, ",") {
		switch s {
		case "~":
			out = append(out, Value{Kind: 'n'})
		case "?":
			out = append(out, Value{Kind: 'u'})
		default:
			out = append(out, Value{'t', []byte(s)})
		}
	}
	return out
}

func show(s Statement, ok bool) string {
	if !ok {
		return "more than one"
	}
	if s.SQL == "" {
		return "nothing"
	}
	sql := s.SQL
	for i := len(s.Args); i > 0; i-- {
		v := "NULL"
		if s.Args[i-1] != nil {
			v = "'" + string(s.Args[i-1]) + "'"
		}
		sql = strings.ReplaceAll(sql, fmt.Sprintf("$%d", i), v)
	}
	return strings.ReplaceAll(sql, `"`, "")
}

func TestStatements(t *testing.T) {
	columns := []Column{{Name: "id"}, {Name: "k"}, {Name: "body"}}
	table := func(key ...string) *Table { return &Table{Schema: "s", Name: "t", Columns: columns, Key: key} }
	rel := func(key ...bool) *Relation {
		return &Relation{Schema: "s", Name: "t", Columns: []string{"id", "k", "body"}, Key: key}
	}
	full := rel(true, true, true)
	full.Full = true
	always := &Table{Schema: "s", Name: "t", Columns: []Column{{Name: "id", Identity: true, Always: true}, {Name: "k"}, {Name: "body"}}, Key: []string{"id"}}
	both, id := newWriter(rel(true, true, false), table("id", "k"), []string{"k"}), newWriter(rel(true, false, false), table("id"), []string{"k"})
	home := newWriter(rel(true, false, false), table("id"), nil)
	fullKey, keyless := newWriter(full, table("id"), []string{"k"}), newWriter(full, table(), []string{"k"})
	fixed := newWriter(rel(true, false, false), always, nil)
	for _, c := range []struct {
		w        *writer
		kind     byte
		old, now string
		want     string
	}{
		{both, 'I', "", "1,2,~", "INSERT INTO s.t (id, k, body) VALUES ('1', '2', NULL)"},
		{fixed, 'I', "", "1,2,x", "INSERT INTO s.t (id, k, body) OVERRIDING SYSTEM VALUE VALUES ('1', '2', 'x')"},
		// The key is whole and has not changed.
		{both, 'U', "", "1,2,x", "UPDATE s.t SET body = 'x' WHERE id = '1' AND k = '2'"},
		{both, 'U', "", "1,2,?", "nothing"},
		// Part of it has: on the same shard, or on another.
		{both, 'U', "1,2,~", "5,2,x", "UPDATE s.t SET id = '5', body = 'x' WHERE id = '1' AND k = '2'"},
		{both, 'U', "1,2,~", "1,9,x", "more than one"},
		{both, 'D', "1,2,~", "", "DELETE FROM s.t WHERE id = '1' AND k = '2'"},
		// The shard key is not in the key: the row is looked for where it would be if that has not changed.
		{id, 'U', "", "1,2,x", "UPDATE s.t SET body = 'x' WHERE id = '1' AND k = '2'"},
		{id, 'U', "1,~,~", "3,2,?", "UPDATE s.t SET id = '3' WHERE id = '1' AND k = '2'"},
		{id, 'D', "1,~,~", "", "DELETE FROM s.t WHERE id = '1'"},
		{home, 'U', "", "1,2,x", "UPDATE s.t SET k = '2', body = 'x' WHERE id = '1'"},
		// The whole old row is known.
		{fullKey, 'U', "1,2,a", "1,2,b", "UPDATE s.t SET body = 'b' WHERE id = '1' AND k = '2'"},
		{fullKey, 'U', "1,2,a", "1,3,a", "more than one"},
		{fullKey, 'U', "1,2,a", "1,2,a", "nothing"},
		{fullKey, 'D', "1,2,a", "", "DELETE FROM s.t WHERE id = '1' AND k = '2'"},
		{keyless, 'U', "1,2,a", "1,2,b", "more than one"},
		{keyless, 'D', "1,2,a", "", "more than one"},
		// A column that is generated always cannot be set.
		{fixed, 'U', "", "1,2,x", "UPDATE s.t SET k = '2', body = 'x' WHERE id = '1'"},
		{fixed, 'U', "1,~,~", "4,2,x", "more than one"},
	} {
		ch := &Change{Kind: c.kind, Of: c.w.rel, Old: row(c.old), New: row(c.now), Full: c.w.rel.Full}
		b := bound{Change: ch, w: c.w}
		s, ok := b.statement()
		if got := show(s, ok); got != c.want {
			t.Errorf("%c %s -> %s: %s, want %s", c.kind, c.old, c.now, got, c.want)
		}
	}
	if got := show(home.insert(row("1,2,x"), row("3,4,~")), true); got != "INSERT INTO s.t (id, k, body) VALUES ('1', '2', 'x'), ('3', '4', NULL)" {
		t.Errorf("two rows: %s", got)
	}
	var list []bound
	for range 300 {
		list = append(list, bound{Change: &Change{Kind: 'I', New: row("1,2,x")}, w: home})
	}
	for n, want := range map[int]int{0: 0, 1: 1, 2: 2, 3: 2, 9: 8, 127: 64, 300: mostInserts} {
		if got := inserts(list[:n]); got != want {
			t.Errorf("%d inserts: %d at once, want %d", n, got, want)
		}
	}
	list[5].w = both
	if got := inserts(list); got != 4 {
		t.Errorf("inserts before those of another table: %d", got)
	}
	want := "DELETE FROM s.t WHERE id::text IS NOT DISTINCT FROM '1'::text AND k::text IS NOT DISTINCT FROM '2'::text AND body::text IS NOT DISTINCT FROM NULL::text AND k = '2'"
	if got := show(keyless.alike(row("1,2,~")), true); got != want {
		t.Errorf("alike: %s", got)
	}
	c := &Change{Old: row("1,~,~"), New: row("2,3,?")}
	if got := show(id.current(c), true); got != "SELECT id, k, body FROM s.t WHERE id = '1'" {
		t.Errorf("current: %s", got)
	}
	if got := show(id.discard(c), true); got != "DELETE FROM s.t WHERE id = '1'" {
		t.Errorf("discard: %s", got)
	}
}
