package main

import (
	"fmt"
	"strings"
)

// notice returns the text of NOTICE.
func notice(modules []module) string {
	var b strings.Builder
	b.WriteString(`weft
Copyright 2026 the weft authors

Licensed under the Apache License, Version 2.0; see LICENSE.

The binary contains the modules below. Each has its own licence; a release has the full texts in
the file LICENSES. "make notice" writes this file from go.mod.
`)
	for _, m := range modules {
		fmt.Fprintf(&b, "\n%s\n", m.title())
		for _, l := range m.licences {
			fmt.Fprintf(&b, "  %s\n", l.name)
			for _, c := range l.copyrights {
				fmt.Fprintf(&b, "    %s\n", c)
			}
		}
		if m.notice != "" {
			b.WriteString("  Its own notice:\n")
			for line := range strings.Lines(m.notice) {
				if line = strings.TrimSpace(line); line != "" {
					fmt.Fprintf(&b, "    %s\n", line)
				}
			}
		}
	}
	return b.String()
}

// full returns the texts of all licences. A text that several modules share is written once.
func full(modules []module) string {
	var texts []string
	users := map[string][]string{}
	for _, m := range modules {
		for _, l := range m.licences {
			if users[l.text] == nil {
				texts = append(texts, l.text)
			}
			users[l.text] = append(users[l.text], m.title())
		}
		if m.notice != "" {
			texts = append(texts, m.notice)
			users[m.notice] = append(users[m.notice], "the notice of "+m.title())
		}
	}
	var b strings.Builder
	for i, text := range texts {
		if i > 0 {
			fmt.Fprintf(&b, "\n%s\n\n", strings.Repeat("=", 80))
		}
		fmt.Fprintf(&b, "%s\n\n%s\n", strings.Join(users[text], "\n"), strings.TrimRight(text, "\n"))
	}
	return b.String()
}
