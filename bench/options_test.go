package main

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func TestOptions(t *testing.T) {
	o, err := parseOptions([]string{"-quick", "-seconds", "7", "-clients", "1,64", "-baseline"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.Seconds != 7 || o.Rounds != 1 || !slices.Equal(o.Clients, []int{1, 64}) {
		t.Errorf("-quick must yield to what is given: %+v", o)
	}
	if !o.wants(targetBaseline) || !o.wants(targetWeft) {
		t.Errorf("targets are %v", o.Targets)
	}
	for args, want := range map[string]string{
		"-clients 0":         "clients",
		"-clients 1,x":       "clients",
		"-modes binary":      "modes",
		"-workloads tpcb":    "workloads",
		"-targets odyssey":   "targets",
		"-targets weft-cold": "weft, which",
		"-rounds 0":          "rounds",
		"-seconds -1":        "seconds",
		"-nosuch":            "nosuch",
		"-quick somewhere":   "somewhere",
		"-workloads select,": "workloads",
	} {
		if _, err := parseOptions(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error about %s", args, err, want)
		}
	}
}

func TestBouncerVersion(t *testing.T) {
	for _, c := range []struct {
		text     string
		version  string
		prepares bool
	}{
		{"PgBouncer 1.18.0\nlibevent 2.1.12-stable\n", "1.18.0", false},
		{"PgBouncer 1.20.1", "1.20.1", false},
		{"PgBouncer 1.21.0", "1.21.0", true},
		{"PgBouncer 2.0", "2.0.0", true},
	} {
		v, err := parseBouncerVersion(c.text)
		if err != nil || v.String() != c.version || v.prepares() != c.prepares {
			t.Errorf("%q: got %v, %v, %v", c.text, v, v.prepares(), err)
		}
	}
	if v, err := parseBouncerVersion("pgcat 1.2.0"); err == nil {
		t.Errorf("pgcat was read as PgBouncer %v", v)
	}
}
