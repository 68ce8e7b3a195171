package program

import (
	"strings"
	"testing"
)

// TestLines: statements are in the lines in which PostgreSQL's CONTEXT has them.
func TestLines(t *testing.T) {
	src, err := FromText("CREATE FUNCTION s.f(a int, OUT b text, VARIADIC c int[] DEFAULT '{}') LANGUAGE plpgsql STRICT AS $$\nDECLARE\n  x int := 1;\nBEGIN\n\n  x := x\n    + 1; PERFORM 1;\n  <<l>>\n  LOOP\n    EXIT;\n  END LOOP;\nEND $$")
	if err != nil {
		t.Fatal(err)
	}
	if src.Name != "f" || src.Schema != "s" || !src.Strict || len(src.Args) != 3 || src.Args[1].Mode != Out || src.Args[2].Mode != Variadic || src.Args[2].Default == "" {
		t.Errorf("%+v", src)
	}
	p, err := Compile(src)
	if err != nil {
		t.Fatal(err)
	}
	var lines []int
	for _, s := range p.body.Body {
		lines = append(lines, s.at().Line)
	}
	if len(lines) != 3 || lines[0] != 6 || lines[1] != 7 || lines[2] != 9 || p.body.Line != 4 || p.body.Vars[0].Line != 3 {
		t.Errorf("lines %v, block %d", lines, p.body.Line)
	}
	if e := p.body.Body[0].(*Assign).Expr; e.Text != "x\n    + 1" || e.Shown != "x := x\n    + 1" {
		t.Errorf("%q %q", e.Text, e.Shown)
	}
}

// TestInto: INTO is taken out of a statement, and nothing moves.
func TestInto(t *testing.T) {
	p, err := Compile(Source{Kind: Do, Body: "declare a int; b int; begin insert into t values (1) returning x into strict a, b; end"})
	if err != nil {
		t.Fatal(err)
	}
	s := p.body.Body[0].(*SQL)
	if s.Query.Text != "insert into t values (1) returning x" || !s.Strict || len(s.Into.Targets) != 2 {
		t.Errorf("%+v", s)
	}
}

// TestRefused: what cannot be run exactly is refused when a program is compiled.
func TestRefused(t *testing.T) {
	for body, want := range map[string]string{
		`declare a int[]; begin a[1:2] := '{1,2}'; end`:                                   "slice",
		`declare c cursor for select 1; begin update t set a = 1 where current of c; end`: "CURRENT OF",
		`declare x text collate "C"; begin end`:                                           "COLLATE",
		`begin do 'begin end'; end`:                                                       "DO",
		"#print_strict_params on\nbegin end":                                              "#print_strict_params",
		`declare n int; begin get diagnostics n = pg_routine_oid; end`:                    "PG_ROUTINE_OID",
	} {
		_, err := Compile(Source{Kind: Do, Body: body})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "0A000") {
			t.Errorf("%s: %v", body, err)
		}
	}
	for _, src := range []Source{
		{Name: "f", Returns: "trigger", Body: "begin return new; end"},
		{Name: "f", Returns: "anyelement", Args: []Arg{{Name: "a", Mode: In, Type: "anyelement"}}, Body: "begin return a; end"},
	} {
		if _, err := Compile(src); err == nil || !strings.Contains(err.Error(), "0A000") {
			t.Errorf("%s: %v", src.Returns, err)
		}
	}
}

// TestConditions: names and classes of errors.
func TestConditions(t *testing.T) {
	if c := conditionCodes("division_by_zero"); len(c) != 1 || c[0] != "22012" {
		t.Error(c)
	}
	for _, c := range []struct {
		state, code string
		want        bool
	}{{"22012", "22012", true}, {"22012", "22000", true}, {"23505", "22000", false}, {"22012", "22013", false}} {
		if got := matchesCondition(c.state, c.code); got != c.want {
			t.Errorf("%v", c)
		}
	}
}
