package schema

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"weft/pgerr"
)

func (c *cluster) lookup(columns string, unique bool) LookupRequest {
	return LookupRequest{Request: c.request("people", columns), Unique: unique}
}

// at runs a query on one server and returns the first value.
func (c *cluster) at(server, sql string) string {
	c.Helper()
	rows, err := on(c.T, server, c.db).exec(c.T, sql)
	if err != nil {
		c.Fatalf("%s: %s: %v", server, sql, err)
	}
	if len(rows) == 0 {
		return ""
	}
	return rows[0][0]
}

// people makes a sharded table with 300 rows and 30 values of kind.
func people(t *testing.T) *cluster {
	c := newCluster(t)
	c.home(`CREATE TABLE people (id int PRIMARY KEY, mail text, kind int, day date);
INSERT INTO people SELECT i, 'm' || i, i % 30, date '2000-01-01' + i FROM generate_series(1, 300) i; INSERT INTO people VALUES (301), (302)`)
	c.shard("people", "id")
	return c
}

// verified compares a lookup and returns what was found.
func (c *cluster) verified(req LookupRequest) string {
	c.Helper()
	r, err := c.mover.VerifyLookup(c.context(), req, c.notice)
	if err != nil {
		c.Fatal(err)
	}
	return fmt.Sprintf("%d rows, %d missing, %d stale, %d duplicates", r.Rows, r.Missing, r.Stale, r.Duplicates)
}

const right = "300 rows, 0 missing, 0 stale, 0 duplicates"

// TestVerifyLookup: differences that were planted are found and repaired.
func TestVerifyLookup(t *testing.T) {
	c := people(t)
	for _, tc := range []struct {
		columns string
		unique  bool
		plant   string // on every shard
		want    string
	}{
		{"mail", true, "", right},
		{"kind", false, "", right},
		{"kind,day", false, "", right},
		{"mail", true, "DELETE FROM weft.people_mail WHERE v1 IN ('m1', 'm2', 'm3')", "300 rows, 3 missing, 0 stale, 0 duplicates"},
		{"kind", false, "DELETE FROM weft.people_kind WHERE v1 IN (1, 2)", "300 rows, 20 missing, 0 stale, 0 duplicates"},
		{"mail", true, "INSERT INTO weft.people_mail SELECT 'x' || v1, id FROM weft.people_mail WHERE v1 IN ('m1', 'm2')", "300 rows, 0 missing, 2 stale, 0 duplicates"},
		{"kind", false, "INSERT INTO weft.people_kind SELECT * FROM weft.people_kind WHERE v1 IN (1, 2)", "300 rows, 0 missing, 20 stale, 0 duplicates"},
		{"mail", true, "UPDATE weft.people_mail SET id = ~id WHERE v1 IN ('m7', 'm8')", "300 rows, 0 missing, 2 stale, 0 duplicates"},
	} {
		req := c.lookup(tc.columns, tc.unique)
		if tc.plant == "" {
			if err := c.mover.CreateLookup(c.context(), req, c.notice); err != nil {
				t.Fatalf("%s: %v", tc.columns, err)
			}
		} else {
			for _, n := range names {
				c.at(n, tc.plant)
			}
		}
		if got := c.verified(req); got != tc.want {
			t.Errorf("%s, %s: %s, want %s", tc.columns, tc.plant, got, tc.want)
		}
		if got := c.verified(req); got != right {
			t.Errorf("%s, %s: %s after the repair", tc.columns, tc.plant, got)
		}
	}
	var e *pgerr.Error
	if err := c.mover.CreateLookup(c.context(), c.lookup("mail", true), c.notice); !errors.As(err, &e) || e.Code != pgerr.DuplicateObject {
		t.Errorf("a second one: %v", err)
	}
	for _, columns := range []string{"mail", "kind", "kind,day"} {
		if err := c.mover.DropLookup(c.context(), c.lookup(columns, false)); err != nil {
			t.Errorf("drop %s: %v", columns, err)
		}
	}
	for _, n := range names {
		if got := c.at(n, "SELECT count(*) FROM pg_class WHERE relnamespace = 'weft'::regnamespace AND relname LIKE 'people%'"); got != "0" {
			t.Errorf("%s relations are left on %s", got, n)
		}
		c.at(n, "UPDATE people SET mail = mail || '!'") // no trigger is left
	}
}

// TestDuplicates: a unique lookup that cannot be is not left behind.
func TestDuplicates(t *testing.T) {
	c := people(t)
	err := c.mover.CreateLookup(c.context(), c.lookup("kind", true), c.notice)
	var e *pgerr.Error
	if !errors.As(err, &e) || e.Code != pgerr.UniqueViolation || !strings.HasPrefix(e.Detail, "Key (kind)=(") || !strings.HasSuffix(e.Detail, ") is duplicated.") {
		t.Fatalf("%v: %+v", err, e)
	}
	for _, n := range names {
		if got := c.at(n, "SELECT count(*) FROM weft.lookup"); got != "0" {
			t.Errorf("%s lookups are left on %s", got, n)
		}
	}
}

// TestLookupDeath: whoever makes or drops a lookup dies after each step, and
// another process finishes it.
func TestLookupDeath(t *testing.T) {
	c := people(t)
	died := errors.New("died")
	var steps []string
	c.mover.cfg.step = func(name string) error { steps = append(steps, name); return nil }
	for _, do := range []func(m *Mover) error{
		func(m *Mover) error { return m.CreateLookup(c.context(), c.lookup("mail", true), c.notice) },
		func(m *Mover) error { return m.DropLookup(c.context(), c.lookup("mail", true)) },
	} {
		steps = nil
		if err := do(c.mover); err != nil {
			t.Fatal(err)
		}
		if len(steps) < len(names) {
			t.Fatalf("only %q", steps)
		}
		making := strings.HasPrefix(steps[0], "lookup declared")
		for _, step := range append([]string(nil), steps...) {
			if making {
				_ = c.mover.DropLookup(c.context(), c.lookup("mail", true))
			} else if err := c.mover.CreateLookup(c.context(), c.lookup("mail", true), c.notice); err != nil {
				t.Fatal(err)
			}
			m := c.proxy("dead")
			m.cfg.step = func(name string) error {
				if name == step {
					return died
				}
				return nil
			}
			if err := do(m); !errors.Is(err, died) {
				t.Fatalf("%s: %v", step, err)
			}
			req := c.lookup("mail", true)
			_, spec, err := c.mover.lookAtLookup(c.context(), &req, false)
			if err != nil {
				t.Fatal(err)
			}
			if spec.known != nil {
				if err := c.proxy("next").ResumeLookup(c.context(), c.db, spec.table, *spec.known); err != nil {
					t.Fatalf("after %s: %v", step, err)
				}
			}
			if making {
				if got := c.verified(c.lookup("mail", true)); got != right {
					t.Errorf("after %s: %s", step, got)
				}
			} else if got := c.at("home", "SELECT count(*) FROM weft.lookup"); got != "0" {
				t.Errorf("after %s: it is still there", step)
			}
		}
	}
}
