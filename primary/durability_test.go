package primary

import "testing"

func TestLacks(t *testing.T) {
	for _, c := range []struct {
		d     Durability
		names string
		hasty []string
		want  string
	}{
		{Undeclared, "", nil, ""},
		{Asynchronous, "", []string{"off"}, ""},
		{Atomic, "", nil, "synchronous_standby_names is empty"},
		{Atomic, "b", []string{"local for role app"}, ""},
		{Synchronous, " ", nil, "synchronous_standby_names is empty"},
		{Synchronous, "ANY 1 (b, c)", nil, ""},
		{Synchronous, "b", []string{"local for role app", "off in postgresql.conf"}, "synchronous_commit is local for role app, off in postgresql.conf"},
	} {
		if got := c.d.Lacks(c.names, c.hasty); got != c.want || !c.d.Valid() {
			t.Errorf("%s with %q and %q: %q, want %q", c.d, c.names, c.hasty, got, c.want)
		}
	}
	if Durability("no").Valid() {
		t.Error("an unknown durability is valid")
	}
}
