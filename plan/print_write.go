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
	if _, locks := w.Shape.(*Locking); locks {
		w.Shape.print(b, indent, w.Verb)
		return
	}
	if g := w.Read(); g != nil {
		fmt.Fprintf(b, "%sread first:\n", indent)
		g.print(b, indent+"  ")
	}
	for i, s := range w.Steps() {
		fmt.Fprintf(b, "%sstep %d:\n", indent, i+1)
		s.print(b, indent+"  ")
	}
	w.Shape.print(b, indent, w.Verb)
}

func (s *Local) print(b *strings.Builder, indent, verb string) {
	fmt.Fprintf(b, "%s%s: %s\n", indent, verb, s.Text)
	printInstances(b, indent+"  ", s.Instances)
	if s.Along > 0 {
		fmt.Fprintf(b, "%s  where step %d has rows\n", indent, s.Along)
	}
}

func printInstances(b *strings.Builder, indent string, in []Instance) {
	for i := range in {
		fmt.Fprintf(b, "%s%s\n", indent, in[i].String())
	}
}

func (s *AtHome) print(b *strings.Builder, indent, verb string) {
	fmt.Fprintf(b, "%s%s on the home shard: %s\n", indent, verb, s.Text)
}

func (s *Share) print(b *strings.Builder, indent, verb string) {
	fmt.Fprintf(b, "%s%s: %s\n", indent, verb, s.Text)
	s.Split.print(b, indent+"  ")
}

func (s *Stream) print(b *strings.Builder, indent, verb string) {
	fmt.Fprintf(b, "%s%s: %s\n", indent, verb, s.Text)
	s.Split.print(b, indent+"  ")
}

func (s *Copies) print(b *strings.Builder, indent, verb string) {
	fmt.Fprintf(b, "%s%s on the home shard, under lock: %s\n", indent, verb, s.Text)
	if s.Then != nil {
		fmt.Fprintf(b, "%s  all others, with the last %d columns returned: %s\n", indent, s.Carried, s.Then)
	} else {
		fmt.Fprintf(b, "%s  all others the same\n", indent)
	}
}

func (s *Own) print(b *strings.Builder, indent, verb string) {
	where := ""
	if len(s.Instances) == 0 {
		where = " on the home shard"
	}
	fmt.Fprintf(b, "%s%s%s: %s\n", indent, verb, where, s.Text)
	printInstances(b, indent+"  ", s.Instances)
}

func (s *Whole) print(b *strings.Builder, indent, verb string) {
	fmt.Fprintf(b, "%s%s: \n", indent, verb)
}

func (s *Locking) print(b *strings.Builder, indent, _ string) {
	fmt.Fprintf(b, "%slock first: %s\n", indent, s.Query.Text)
	s.Query.Gather.print(b, indent+"  ")
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

func (r *Rows) print(b *strings.Builder, indent, verb string) {
	flags := ""
	if r.Skips {
		flags += ", may skip"
	}
	if r.Updates {
		flags += ", may update"
	}
	fmt.Fprintf(b, "%s%s%s: %s\n", indent, verb, flags, r.Head)
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
	printInstances(b, indent+"  ", r.Instances)
}
