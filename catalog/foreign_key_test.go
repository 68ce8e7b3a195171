package catalog

import (
	"slices"
	"testing"
)

func TestForeignKeyActions(t *testing.T) {
	for _, c := range []struct {
		text        string
		update, del Action
		set         []string
	}{
		{`FOREIGN KEY (a, b) REFERENCES public.t(x, y)`, NoAction, NoAction, []string{"a", "b"}},
		{`FOREIGN KEY (a, b) REFERENCES public.t(x, y) ON UPDATE CASCADE`, Cascade, NoAction, []string{"a", "b"}},
		{`FOREIGN KEY (a, b) REFERENCES t(x, y) MATCH FULL ON UPDATE SET NULL ON DELETE SET DEFAULT DEFERRABLE INITIALLY DEFERRED`, SetNull, SetDefault, []string{"a", "b"}},
		{`FOREIGN KEY (a, b) REFERENCES t(x, y) ON DELETE SET NULL (b) NOT VALID`, NoAction, SetNull, []string{"b"}},
		{`FOREIGN KEY (a, b) REFERENCES t(x, y) ON DELETE SET NULL ("B ""q"", (1)", a)`, NoAction, SetNull, []string{`B "q", (1)`, "a"}},
		{`FOREIGN KEY (a) REFERENCES " ON DELETE CASCADE"(x)`, NoAction, NoAction, []string{"a", "b"}},
		{`FOREIGN KEY (a) REFERENCES t(x) ON UPDATE RESTRICT ON DELETE CASCADE`, Restrict, Cascade, []string{"a", "b"}},
	} {
		fk := ForeignKey{Columns: []string{"a", "b"}, Definition: c.text}
		if update, del, set := fk.Actions(); update != c.update || del != c.del || !slices.Equal(set, c.set) {
			t.Errorf("%s: %s, %s, %q", c.text, update, del, set)
		}
	}
}

func TestForeignKeyRekeys(t *testing.T) {
	for _, c := range []struct {
		tail            string
		keys            []string
		alone, together string
	}{
		{"", []string{"a"}, "", ""},
		{" ON DELETE CASCADE", []string{"a"}, "", ""},
		{" ON DELETE SET NULL", []string{"a"}, "ON DELETE SET NULL", "ON DELETE SET NULL"},
		{" ON DELETE SET NULL (b)", []string{"a"}, "", ""},
		{" ON DELETE SET DEFAULT (b)", []string{"c", "b"}, "ON DELETE SET DEFAULT", "ON DELETE SET DEFAULT"},
		{" ON UPDATE CASCADE", []string{"a"}, "ON UPDATE CASCADE", ""},
		{" ON UPDATE CASCADE", []string{"c"}, "", ""},
		{" ON UPDATE SET DEFAULT", []string{"b"}, "ON UPDATE SET DEFAULT", "ON UPDATE SET DEFAULT"},
	} {
		fk := ForeignKey{Columns: []string{"a", "b"}, Definition: "FOREIGN KEY (a, b) REFERENCES t(x, y)" + c.tail}
		if alone, together := fk.Rekeys(c.keys, false), fk.Rekeys(c.keys, true); alone != c.alone || together != c.together {
			t.Errorf("%q of %q: %q, %q", c.tail, c.keys, alone, together)
		}
	}
}
