package catalog_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weft/catalog"
	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// reachSchema has every way in which something stored runs a function.
const reachSchema = `
CREATE TABLE t (k int PRIMARY KEY, v int);
CREATE TABLE lo (id int);
CREATE FUNCTION o3() RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM t $$;
CREATE FUNCTION chk(x int) RETURNS bool LANGUAGE sql AS $$ SELECT EXISTS (SELECT FROM t WHERE k = x) $$;
CREATE FUNCTION steady(x int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM 1 FROM t; RETURN x; END $$;
CREATE FUNCTION two(q text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM 1 FROM lo; EXECUTE q; END $$;
CREATE FUNCTION eqf(a int, b int) RETURNS bool LANGUAGE sql AS $$ SELECT chk(a) $$;
CREATE OPERATOR =~~= (PROCEDURE = eqf, LEFTARG = int, RIGHTARG = int);
CREATE FUNCTION by_operator() RETURNS bool LANGUAGE sql AS $$ SELECT 1 =~~= 2 $$;
CREATE DOMAIN dm AS int CHECK (chk(VALUE));
CREATE DOMAIN dm2 AS dm;
CREATE TYPE pair AS (a int, b dm2);
CREATE FUNCTION by_type() RETURNS int LANGUAGE plpgsql AS $$ DECLARE x dm; BEGIN x := 1; RETURN x; END $$;
CREATE FUNCTION by_tree() RETURNS int LANGUAGE sql RETURN (1::dm);
CREATE TABLE hd (a int, b bigint DEFAULT o3(), c int DEFAULT 1);
CREATE TABLE hc (a int CHECK (chk(a)), n bigserial);
CREATE TABLE hg (a int, b int GENERATED ALWAYS AS (steady(a)) STORED);
CREATE TABLE hx (a int);
CREATE INDEX hx_i ON hx (steady(a));
CREATE INDEX hx_p ON hx (a) WHERE steady(a) > 1;
CREATE TABLE hy (a dm2[], p pair);
CREATE FUNCTION trg() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NOTIFY x; PERFORM pg_advisory_lock(1); RETURN new; END $$;
CREATE TABLE ht (a int);
CREATE TRIGGER tt BEFORE INSERT ON ht FOR EACH ROW EXECUTE FUNCTION trg();
CREATE TRIGGER tw BEFORE INSERT ON ht FOR EACH ROW WHEN (chk(new.a)) EXECUTE FUNCTION suppress_redundant_updates_trigger();
CREATE TABLE hr (a int);
CREATE RULE rr AS ON INSERT TO hr DO ALSO INSERT INTO hd (a) VALUES (1);
CREATE RULE rn AS ON UPDATE TO hr DO ALSO NOTIFY y;
CREATE TABLE hp (a int);
ALTER TABLE hp ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY p1 ON hp USING (EXISTS (SELECT FROM t WHERE t.k = hp.a));
CREATE POLICY p2 ON hp FOR INSERT WITH CHECK (chk(a));
CREATE POLICY p3 ON hp FOR SELECT TO pg_monitor USING (a = 1);
CREATE VIEW vv AS SELECT o3() AS n FROM hp;
CREATE FUNCTION by_view() RETURNS bigint LANGUAGE sql AS $$ SELECT n FROM vv $$;
CREATE FUNCTION by_default() RETURNS void LANGUAGE sql AS $$ INSERT INTO hd (a) VALUES (1) $$;
CREATE FUNCTION reads_hd() RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM hd $$;
CREATE TABLE par (id int PRIMARY KEY);
CREATE TABLE chi (id int REFERENCES par ON DELETE CASCADE);
CREATE TRIGGER tc AFTER DELETE ON chi FOR EACH ROW EXECUTE FUNCTION trg();
CREATE FUNCTION by_cascade() RETURNS void LANGUAGE sql AS $$ DELETE FROM par $$;
CREATE FUNCTION makes() RETURNS void LANGUAGE plpgsql AS $$ BEGIN CREATE TABLE x (); END $$;
CREATE FUNCTION makes_temp() RETURNS void LANGUAGE plpgsql AS $$ BEGIN CREATE TEMP TABLE x (); END $$;
CREATE FUNCTION to_pair(int) RETURNS pair LANGUAGE sql AS $$ SELECT ROW($1, NULL)::pair FROM lo $$;
CREATE CAST (int AS pair) WITH FUNCTION to_pair(int);
CREATE FUNCTION acc(bigint, int) RETURNS bigint LANGUAGE sql AS $$ SELECT $1 + count(*) FROM t $$;
CREATE AGGREGATE agg (int) (SFUNC = acc, STYPE = bigint);
`

// reachLines writes what everything reaches.
func reachLines(s *catalog.Schema) []string {
	var out []string
	say := func(r *catalog.Reach) string {
		var parts []string
		for _, n := range r.Reads {
			if slices.Contains(r.Writes, n) {
				parts = append(parts, "*"+n.Name)
			} else {
				parts = append(parts, n.Name)
			}
		}
		for _, f := range []struct {
			is   bool
			word string
		}{{r.Notifies, "NOTIFY"}, {r.Locks, "LOCK"}, {r.DDL, "DDL"}, {r.Opaque, "OPAQUE"}} {
			if f.is {
				parts = append(parts, f.word)
			}
		}
		return strings.Join(parts, " ")
	}
	for f := range s.AllFunctions() {
		out = append(out, fmt.Sprintf("function %s: %s", f.Name.Name, say(&f.Reach)))
	}
	for r := range s.Relations() {
		for i := range r.Runs {
			out = append(out, fmt.Sprintf("table %s: %s: %s", r.Name.Name, &r.Runs[i], say(&r.Runs[i].Reach)))
		}
		for _, p := range r.Policies {
			out = append(out, fmt.Sprintf("table %s: policy %s %c %q reads %v %q calls: %s", r.Name.Name, p.Name, p.Command, p.Roles, p.Relations, p.Expressions, say(&p.Calls)))
		}
	}
	for _, name := range []string{"=~~=", "="} {
		for _, o := range s.Operators(name) {
			out = append(out, fmt.Sprintf("operator %s: %s", name, say(&o.Reach)))
		}
	}
	for _, name := range []string{"dm", "dm2", "_dm2", "pair", "hy", "hd"} {
		for _, o := range s.Types(name) {
			out = append(out, fmt.Sprintf("type %s: %s", name, say(&o.Reach)))
		}
	}
	for _, c := range s.Casts() {
		out = append(out, fmt.Sprintf("%s: %s", c.What, say(&c.Reach)))
	}
	slices.Sort(out)
	return out
}

const reachWanted = `function acc: t
function agg: t
function by_cascade: *chi *par NOTIFY LOCK
function by_default: *hd t
function by_operator: t
function by_tree: t
function by_type: t
function by_view: hp t vv
function chk: t
function eqf: t
function makes: DDL
function makes_temp: 
function o3: t
function reads_hd: hd
function steady: t
function to_pair: lo t
function trg: NOTIFY LOCK
function two: lo OPAQUE
operator =~~=: t
table chi: trigger "tc": NOTIFY LOCK
table hc: constraint "hc_a_check": t
table hd: the default of column "b": t
table hg: generated column "b": t
table hp: policy p1 * [] reads [{public t}] ["(EXISTS ( SELECT\n   FROM public.t\n  WHERE (t.k = hp.a)))"] calls: 
table hp: policy p2 a [] reads [] [] calls: t
table hp: policy p3 r ["pg_monitor"] reads [] ["(a = 1)"] calls: 
table hr: rule "rn": NOTIFY
table hr: rule "rr": *hd t
table ht: the condition of trigger "tw": t
table ht: trigger "tt": NOTIFY LOCK
table ht: trigger "tw": t
table hx: index "hx_i": t
table hx: index "hx_p": t
table hy: the type of column "a": t
table hy: the type of column "p": t
table pair: the type of column "b": t
the cast from integer to public.pair: lo t
type _dm2: t
type dm2: t
type dm: t
type hy: t
type pair: t`

// TestReach closes every way in.
func TestReach(t *testing.T) {
	srv := pgtest.Start(t, pgserver.Config{})
	c := connect(t, srv, "postgres")
	must(t, c, reachSchema)
	s, err := catalog.Load(1, runner(c))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(reachLines(s), "\n"); got != reachWanted {
		t.Errorf("got\n%s\nwant\n%s", got, reachWanted)
	}
}
