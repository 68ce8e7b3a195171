package schema

import (
	"strings"
	"testing"
)

// TestVerify: Mover.Verify says of each table that it is right, and finds what was planted.
func TestVerify(t *testing.T) {
	c := people(t)
	c.home("CREATE TABLE rate (id int PRIMARY KEY); INSERT INTO rate VALUES (1), (2)")
	c.reference("rate")
	c.must(c.mover.CreateLookup(c.context(), c.lookup("mail", true), c.notice))
	verify := func() (right, wrong string) {
		t.Helper()
		said := map[bool][]string{}
		c.must(c.mover.Verify(c.context(), c.db, "postgres", func(v Verdict) { said[v.Wrong] = append(said[v.Wrong], v.Words) }))
		return strings.Join(said[false], "\n"), strings.Join(said[true], "\n")
	}
	right, wrong := verify()
	for _, want := range []string{
		"the schemas of all shards are the same", "people: all 302 rows are on the shards of their keys", "rate: 3 copies of 2 rows are the same", "lookup people_mail: has all 300 rows",
	} {
		if !strings.Contains(right, want) {
			t.Errorf("%q is not said of %q", want, right)
		}
	}
	if wrong != "" {
		t.Errorf("found %q where nothing was planted", wrong)
	}

	for _, n := range names {
		c.at(n, "DELETE FROM weft.people_mail WHERE v1 = 'm1'")
		c.at(n, "SET session_replication_role = replica; INSERT INTO people (id) VALUES (1000); RESET session_replication_role")
	}
	c.at("east", "CREATE INDEX planted ON people (kind)")
	c.at("west", "DELETE FROM rate WHERE id = 2")
	_, wrong = verify()
	for _, want := range []string{
		"planted", "of shard east", "people: 2 of 305 rows are on the wrong shard: (id)=(1000)", "rate: shard west does not have (2)", "lookup people_mail: 1 entries were missing",
	} {
		if !strings.Contains(wrong, want) {
			t.Errorf("%q is not found in %q", want, wrong)
		}
	}
}
