package routing

import (
	"regexp"
	"strings"
	"testing"

	"weft/integration/harness"
	"weft/integration/pair"
)

// statementsOf are the statements that a hint shows.
var statementsOf = regexp.MustCompile(`with these values: (ALTER TABLE .*)\.\)$`)

// TestUniqueHints: a unique index that no lookup can keep is refused, with the statements that make one which a lookup keeps. They do.
func TestUniqueHints(t *testing.T) {
	db := database(t, "unique_hints")
	c := pair.Connect(t, harness.Weft(t), db, "postgres")
	mend := func(sql, cause string) {
		t.Helper()
		a := c.Ask(pair.Simple, sql, nil, nil)
		m := statementsOf.FindStringSubmatch(a.Message)
		if a.Code != "0A000" || m == nil || !strings.Contains(a.Message, "not "+cause) {
			t.Fatalf("%s: %s %s", sql, a.Code, a.Message)
		}
		for _, s := range strings.Split(m[1], "; ") {
			c.Must(t, s)
		}
	}
	c.Must(t, `create table people (id int primary key, email text, gone date, org int, slug text);
		create unique index people_email on people (lower(email));
		create unique index people_slug on people (org, slug) where gone is null;
		insert into people select g, 'P' || g, null, g % 3, 's' || g from generate_series(1, 20) g`)
	mend("select weft.shard_table('people', 'id')", "those of an expression")
	mend("select weft.shard_table('people', 'id')", "those of a part of the table")
	c.Must(t, "select weft.shard_table('people', 'id')")
	c.Must(t, "create table notes (id int primary key, code text, data jsonb)")
	c.Must(t, "select weft.shard_table('notes', 'id')")
	mend("create unique index on notes (upper(code), (data ->> 'ref')) where code <> ''", "a part of the rows")
	c.Must(t, "create extension citext")
	c.Must(t, "create table accounts (id int primary key, email citext unique); insert into accounts select g, 'A' || g from generate_series(1, 20) g")
	mend("select weft.shard_table('accounts', 'id')", "those of column email, whose type")
	c.Must(t, "select weft.shard_table('accounts', 'id')")
	for _, sql := range []string{
		"insert into accounts values (101, 'a7')",
		"update accounts set email = 'a8' where id = 9",
		"insert into people (id, email) values (101, 'p7')",
		"update people set email = 'p8' where id = 9",
		"insert into people (id, org, slug) values (102, 1, 's4')",
	} {
		if a := c.Ask(pair.Simple, sql, nil, nil); a.Code != "23505" {
			t.Errorf("%s: %s %s", sql, a.Code, a.Message)
		}
	}
	c.Must(t, "update people set gone = '2020-01-01' where id = 4")
	c.Must(t, "insert into people (id, org, slug) values (103, 1, 's4')")
	if a := c.Ask(pair.Simple, "update people set gone = null where id = 4", nil, nil); a.Code != "23505" {
		t.Errorf("a row that comes back: %s %s", a.Code, a.Message)
	}
	c.Must(t, `insert into notes values (1, 'a', '{"ref": 1}'), (2, '', '{"ref": 1}'), (3, '', '{"ref": 1}'), (4, 'a', '{"ref": 2}')`)
	if a := c.Ask(pair.Simple, `insert into notes values (5, 'A', '{"ref": 2}')`, nil, nil); a.Code != "23505" {
		t.Errorf("an equal note: %s %s", a.Code, a.Message)
	}
}
