package main

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func collect(t *testing.T, text string) checks {
	t.Helper()
	var c collector
	for len(text) > 0 { // in small writes, as a pipe may give them
		n := min(3, len(text))
		if _, err := io.WriteString(&c, text[:n]); err != nil {
			t.Fatal(err)
		}
		text = text[n:]
	}
	return c.done()
}

func TestCollect(t *testing.T) {
	got := collect(t, "noise\nok connect\r\nnot ok copy: it: broke\nskip bind: psql 15\nokay no\nok \nok last")
	want := checks{{"connect", isOK, ""}, {"copy", notOK, "it: broke"}, {"bind", skipped, "psql 15"}, {"last", isOK, ""}}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%v, want %v", got[i], want[i])
		}
	}
}

func TestCompare(t *testing.T) {
	for _, test := range []struct {
		name        string
		plain, weft string
		plainErr    error
		weftErr     error
		passed      int
		failed      []string // beginnings
	}{
		{name: "same", plain: "ok a\nok b\n", weft: "ok b\nok a\n", passed: 2},
		{name: "weft fails", plain: "ok a\nok b\n", weft: "ok a\nnot ok b: no rows\n", weftErr: errors.New("exit status 1"), passed: 1, failed: []string{"b: ok on plain, through weft not ok: no rows"}},
		{name: "plain fails", plain: "not ok a: x\n", weft: "ok a\n", plainErr: errors.New("exit status 1"), failed: []string{"a: failed on plain: x"}},
		{name: "both fail", plain: "not ok a: x\n", weft: "not ok a: y\n", failed: []string{"a: failed on both: x; through weft: y"}},
		{name: "missing", plain: "ok a\nok b\n", weft: "ok a\n", passed: 1, failed: []string{"b: ok on plain, did not run through weft"}},
		{name: "more", plain: "ok a\n", weft: "ok a\nok b\n", passed: 1, failed: []string{"b: ok through weft, did not run on plain"}},
		{name: "skipped on one", plain: "ok a\n", weft: "skip a: why\n", failed: []string{"a: ok on plain, through weft skip: why"}},
		{name: "answers", plain: "ok a: 1\nok b: 1\n", weft: "ok a: 1\nok b: 2\n", passed: 1, failed: []string{"b: plain says 1, weft 2"}},
		{name: "twice", plain: "ok a\n", weft: "ok a\nok a\n", passed: 1, failed: []string{"a: two checks"}},
		{name: "died", plain: "ok a\n", weft: "ok a\n", weftErr: errors.New("signal: killed"), passed: 1, failed: []string{"the suite itself through weft: signal: killed"}},
		{name: "nothing", failed: []string{"the suite itself on plain: no check ran", "the suite itself through weft: no check ran"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := compare(played{checks: collect(t, test.plain), err: test.plainErr}, played{checks: collect(t, test.weft), err: test.weftErr})
			if v.passed != test.passed || len(v.failed) != len(test.failed) {
				t.Fatalf("%d passed, failed %q", v.passed, v.failed)
			}
			for i, want := range test.failed {
				if !strings.HasPrefix(v.failed[i], want) {
					t.Errorf("%q, want %q", v.failed[i], want)
				}
			}
			if wantWord := map[bool]string{true: "ok", false: "FAIL"}[len(test.failed) == 0]; v.word() != wantWord {
				t.Errorf("%s, want %s", v.word(), wantWord)
			}
		})
	}
}

func TestDeclarations(t *testing.T) {
	got, err := declarations([]string{"products=reference", "orders=customer_id", "a.b=x,y", "lookup:s.users.email"})
	if err != nil {
		t.Fatal(err)
	}
	want := "select weft.reference_table('products')\nselect weft.shard_table('orders', 'customer_id')\nselect weft.shard_table('a.b', 'x,y')\nselect weft.create_lookup('s.users', 'email')"
	if strings.Join(got, "\n") != want {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	for _, bad := range []string{"orders", "=x", "orders=", "lookup:users", "lookup:users."} {
		if _, err := declarations([]string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestChoose(t *testing.T) {
	all := []suite{{Name: "go/pgx"}, {Name: "go/pq"}, {Name: "psql"}}
	for only, want := range map[string]string{"": "go/pgx go/pq psql", "go": "go/pgx go/pq", "psql,go/pq": "go/pq psql", "go,go/pgx": "go/pgx go/pq"} {
		var names []string
		if only != "" {
			names = strings.Split(only, ",")
		}
		chosen, err := choose(all, names)
		if err != nil {
			t.Errorf("%s: %v", only, err)
		}
		var got []string
		for _, s := range chosen {
			got = append(got, s.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", only, got, want)
		}
	}
	if _, err := choose(all, []string{"gopher"}); err == nil {
		t.Error("an unknown suite is no error")
	}
}
