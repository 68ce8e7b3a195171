package plan

import (
	"fmt"
	"strings"
)

// String prints the Write for people and for golden files.
func (w *Write) String() string {
	var b strings.Builder
	w.print(&b, "  ")
	return b.String()
}

func (w *Write) print(b *strings.Builder, indent string) {
	if w.Query != nil && w.Verb == "SELECT" {
		fmt.Fprintf(b, "%slock first: %s\n", indent, w.Query)
		w.Read.print(b, indent+"  ")
		return
	}
	if w.Read != nil {
		fmt.Fprintf(b, "%sread first:\n", indent)
		w.Read.print(b, indent+"  ")
	}
	for i, s := range w.Before {
		fmt.Fprintf(b, "%sstep %d:\n", indent, i+1)
		s.print(b, indent+"  ")
	}
	where := ""
	switch {
	case w.Copies != nil:
		where = " on the home shard, under lock"
	case w.Home:
		where = " on the home shard"
	}
	if w.Rows != nil {
		fmt.Fprintf(b, "%s%s%s", indent, w.Verb, where)
		w.Rows.print(b, indent)
	} else {
		fmt.Fprintf(b, "%s%s%s: %s\n", indent, w.Verb, where, w.Text)
	}
	if c := w.Copies; c != nil && c.Text != nil {
		fmt.Fprintf(b, "%s  all others, with the last %d columns returned: %s\n", indent, c.Carried, c.Text)
	} else if c != nil {
		fmt.Fprintf(b, "%s  all others the same\n", indent)
	}
	for i := range w.Instances {
		fmt.Fprintf(b, "%s  %s\n", indent, w.Instances[i].String())
	}
	if w.Split != nil {
		w.Split.print(b, indent+"  ")
	}
	if w.Along > 0 {
		fmt.Fprintf(b, "%s  where step %d has rows\n", indent, w.Along)
	}
}

func (s *Split) print(b *strings.Builder, indent string) {
	if s.Table == nil {
		fmt.Fprintf(b, "%sto the home shard", indent)
	} else {
		fmt.Fprintf(b, "%ssplit <%d> by %s:", indent, s.Input+1, s.Table.Name)
	}
	for i, c := range s.Columns {
		if c < 0 {
			fmt.Fprintf(b, " %s", s.Fixed[i])
		} else {
			fmt.Fprintf(b, " column %d", c+1)
		}
	}
	if s.Whole {
		b.WriteString(", whole")
	}
	b.WriteByte('\n')
	for _, v := range s.Draws {
		from := "random uuid"
		if v.Sequence != "" {
			from = v.Sequence
		}
		fmt.Fprintf(b, "%sdraws %s from %s\n", indent, v.Type, from)
	}
}

func (r *Rows) print(b *strings.Builder, indent string) {
	flags := ""
	if r.Skips {
		flags += ", may skip"
	}
	if r.Updates {
		flags += ", may update"
	}
	fmt.Fprintf(b, "%s: %s\n", flags, r.Head)
	for i := range r.Rows {
		fmt.Fprintf(b, "%s  row: %s\n", indent, r.Rows[i].Text)
	}
	if len(r.Tail) > 0 {
		fmt.Fprintf(b, "%s  %s\n", indent, r.Tail)
	}
	for i := range r.Cells {
		c := &r.Cells[i]
		as := ""
		if c.As != "" {
			as = " as " + c.As
		}
		if c.Apart {
			as += ", apart"
		}
		if c.Home {
			as += ", at home"
		}
		fmt.Fprintf(b, "%s  cell %d: %s%s\n", indent, i+1, c.Text, as)
	}
}
