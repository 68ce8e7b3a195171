package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// table is aligned plain text: a title, columns in groups, rows, and notes under them.
type table struct {
	title  string
	groups []group
	rows   [][]string
	notes  []string
}

// group is neighbouring columns under one heading.
type group struct {
	title   string
	columns []string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) print(w io.Writer) {
	const gap, groupGap = "  ", "   "
	var heads []string
	for _, g := range t.groups {
		heads = append(heads, g.columns...)
	}
	widths := make([]int, len(heads))
	for _, row := range append([][]string{heads}, t.rows...) {
		for i, s := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(s))
		}
	}
	groupWidths := make([]int, len(t.groups))
	col := 0
	for i, g := range t.groups {
		for range g.columns {
			groupWidths[i] += widths[col]
			col++
		}
		groupWidths[i] += len(gap) * (len(g.columns) - 1)
		// A heading wider than its columns widens the last of them.
		if short := utf8.RuneCountInString(g.title) - groupWidths[i]; short > 0 {
			widths[col-1] += short
			groupWidths[i] += short
		}
	}

	line := func(cells []string) {
		var b strings.Builder
		col := 0
		for _, g := range t.groups {
			if col > 0 {
				b.WriteString(groupGap)
			}
			for i := range g.columns {
				if i > 0 {
					b.WriteString(gap)
				}
				b.WriteString(pad(cells[col], widths[col], col == 0))
				col++
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}

	fmt.Fprintf(w, "\n%s\n\n", t.title)
	var top strings.Builder
	for i, g := range t.groups {
		if i > 0 {
			top.WriteString(groupGap)
		}
		left := (groupWidths[i] - utf8.RuneCountInString(g.title)) / 2
		top.WriteString(pad(strings.Repeat(" ", left)+g.title, groupWidths[i], true))
	}
	if s := strings.TrimRight(top.String(), " "); s != "" {
		fmt.Fprintln(w, s)
	}
	line(heads)
	for _, row := range t.rows {
		line(row)
	}
	for _, n := range t.notes {
		fmt.Fprintln(w, "  "+n)
	}
}

func pad(s string, width int, left bool) string {
	fill := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
	if left {
		return s + fill
	}
	return fill + s
}
