package plan

import (
	"fmt"
	"strings"
)

// String prints the way for people and for golden files.
func (w *Write) String() string {
	var b strings.Builder
	w.print(&b, "  ")
	return b.String()
}

func (w *Write) print(b *strings.Builder, indent string) {
	if w.Read != nil {
		fmt.Fprintf(b, "%sread first:\n", indent)
		w.Read.print(b, indent+"  ")
	}
	where := ""
	switch {
	case w.Copies:
		where = " on every shard"
	case w.Home:
		where = " on the home shard"
	}
	if w.Rows != nil {
		fmt.Fprintf(b, "%s%s%s: %s\n", indent, w.Verb, where, w.Rows.Head)
		for i := range w.Rows.Rows {
			fmt.Fprintf(b, "%s  row: %s\n", indent, w.Rows.Rows[i])
		}
		if len(w.Rows.Tail) > 0 {
			fmt.Fprintf(b, "%s  %s\n", indent, w.Rows.Tail)
		}
	} else {
		fmt.Fprintf(b, "%s%s%s: %s\n", indent, w.Verb, where, w.Text)
	}
	for i := range w.Instances {
		fmt.Fprintf(b, "%s  %s\n", indent, w.Instances[i].String())
	}
	if w.Split != nil {
		var cols []string
		for _, c := range w.Split.Columns {
			cols = append(cols, fmt.Sprint(c+1))
		}
		fmt.Fprintf(b, "%s  each row of the input to its shard of %s, by column %s\n", indent, w.Split.Table.Name, strings.Join(cols, ", "))
	}
	if w.Then != nil {
		fmt.Fprintf(b, "%sthen, with the rows returned:\n", indent)
		w.Then.print(b, indent+"  ")
	}
}
