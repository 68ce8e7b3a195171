package main

import (
	"os"
	"strings"
	"testing"
)

// NOTICE names what go.mod has linked into weft, and nothing else.
func TestNoticeFits(t *testing.T) {
	modules, err := linked("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(modules) < 20 {
		t.Fatalf("only %d modules found", len(modules))
	}
	got, err := os.ReadFile("../../NOTICE")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != notice(modules) {
		t.Error("NOTICE does not fit go.mod; run: make notice")
	}
	texts := full(modules)
	for _, m := range modules {
		if !strings.Contains(texts, m.title()+"\n") {
			t.Errorf("the texts do not name %s", m.title())
		}
	}
}

func TestLicences(t *testing.T) {
	const (
		mit   = "Copyright (c) 2020 A Name\n\nPermission is hereby granted, free of\ncharge, to any person"
		two   = "Redistributions in binary form must reproduce the above copyright\nnotice"
		three = two + "\nNeither the name of X nor"
		full  = "Apache License\nVersion 2.0\n   Copyright [yyyy] [name of copyright owner]\n"
	)
	for text, want := range map[string]string{
		mit:                                "MIT: Copyright (c) 2020 A Name",
		two:                                "BSD-2-Clause: ",
		three:                              "BSD-3-Clause: ",
		full:                               "Apache-2.0: ",
		full + mit:                         "Apache-2.0 AND MIT: Copyright (c) 2020 A Name",
		"GNU General Public License":       "GPL is not an allowed licence",
		mit + "\nMozilla Public License 2": "MPL-2.0 is not an allowed licence",
		"Do as you like.":                  "no licence that is known",
	} {
		l, err := read(text)
		got := l.name + ": " + strings.Join(l.copyrights, ", ")
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestFirstComment(t *testing.T) {
	if got := firstComment("/*\n * Copyright (C) 2012 A Name\n *\n *  words\n */\nint x; /* more */"); got != "Copyright (C) 2012 A Name\n\n words" {
		t.Errorf("%q", got)
	}
}
