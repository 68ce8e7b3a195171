package plan

import (
	"fmt"
	"strconv"
	"strings"
)

// String prints the text with its holes: 'n' is the n-th literal, <n> the rows of the n-th piece,
// <type n.m> the type of the m-th column of piece n, all counted from 1.
func (t Text) String() string {
	return string(t.Append(nil, &Fill{
		Literal: func(dst []byte, i int) []byte { return append(dst, "'"+strconv.Itoa(i+1)+"'"...) },
		Input:   func(dst []byte, i int) []byte { return append(dst, "<"+strconv.Itoa(i+1)+">"...) },
		Now:     func(dst []byte) []byte { return append(dst, "<now>"...) },
		Rest:    func(dst []byte) []byte { return append(dst, "<remainder>"...) },
		Type: func(dst []byte, piece, column int) []byte {
			return fmt.Appendf(dst, "<type %d.%d>", piece+1, column+1)
		},
		Own: func(dst []byte, kind PartKind, i int) []byte {
			switch kind {
			case Given:
				return append(dst, "$"+strconv.Itoa(i+1)...)
			case Supplied:
				return append(dst, "<value "+strconv.Itoa(i+1)+">"...)
			}
			return append(dst, "<cell "+strconv.Itoa(i+1)+">"...)
		},
	}))
}

// String prints the Gather for people and for golden files.
func (g *Gather) String() string {
	var b strings.Builder
	g.print(&b, "  ")
	return b.String()
}

func (g *Gather) print(b *strings.Builder, indent string) {
	for i := range g.Pieces {
		p := &g.Pieces[i]
		fmt.Fprintf(b, "%spiece %d, %s: %s\n", indent, i+1, p.where(), p.Text)
		if r := p.Reduce; r != nil {
			fmt.Fprintf(b, "%s  column %d is among those of column %d of piece %d\n", indent, r.Column+1, r.FromColumn+1, r.From+1)
		}
		for j := range p.Instances {
			fmt.Fprintf(b, "%s  %s\n", indent, p.Instances[j].String())
		}
		for j := range max(len(p.Types), len(p.Collations)) {
			if s := strings.TrimSpace(at(p.Types, j) + " " + at(p.Collations, j)); s != "" {
				fmt.Fprintf(b, "%s  column %d is %s\n", indent, j+1, s)
			}
		}
		for _, j := range p.Index {
			fmt.Fprintf(b, "%s  column %d is looked up\n", indent, j+1)
		}
		for _, f := range p.Forbid {
			fmt.Fprintf(b, "%s  unless column %d has type %d\n", indent, f.Column+1, f.Type)
		}
	}
	for i := range g.Lend {
		fmt.Fprintf(b, "%slent to %s.%s (%s)\n", indent, g.Lend[i].Table.Schema, g.Lend[i].Table.Table, strings.Join(g.Lend[i].Columns, ", "))
	}
	if g.Lend == nil && len(g.Remainder) > 0 {
		fmt.Fprintf(b, "%sremainder: %s\n", indent, g.Remainder)
	}
	if len(g.Peek) > 0 {
		fmt.Fprintf(b, "%speek: %s\n", indent, g.Peek)
	}
	if g.Command != nil {
		fmt.Fprintf(b, "%scommand: %s\n", indent, g.Command.Text)
	}
	if g.Native != nil && g.Command == nil {
		fmt.Fprintf(b, "%snative: %s\n", indent, g.Native)
	}
	for _, f := range []struct {
		set  bool
		text string
	}{{g.Probe, "asks the home shard first"}, {g.Own, "runs on the client's backend"}, {g.Locks, "locks rows"}, {g.SkipLocked, "passes over locked rows"}} {
		if f.set {
			fmt.Fprintf(b, "%s%s\n", indent, f.text)
		}
	}
	for _, w := range g.Why {
		fmt.Fprintf(b, "%s(%s)\n", indent, w)
	}
	if g.Otherwise != nil {
		fmt.Fprintf(b, "%sotherwise:\n", indent)
		g.Otherwise.print(b, indent+"  ")
	}
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return ""
}

func (p *Piece) where() string {
	out := "shards of " + p.Name
	switch p.Where {
	case OnHome:
		out = "home"
	case OnCopy:
		out = "any copy"
	}
	if p.Elsewhere {
		out += " but home"
	}
	if p.Always {
		out += ", one at least"
	}
	return out
}

// String prints the operators in the order in which they run.
func (n *Native) String() string {
	var parts []string
	if n.Aggregate != nil {
		parts = append(parts, n.Aggregate.String())
	}
	if n.Distinct {
		parts = append(parts, "distinct")
	}
	switch {
	case len(n.Order) > 0:
		var keys []string
		for _, k := range n.Order {
			s := strconv.Itoa(k.Column + 1)
			if k.Desc {
				s += " desc"
			}
			if k.NullsFirst != k.Desc {
				s += map[bool]string{true: " nulls first", false: " nulls last"}[k.NullsFirst]
			}
			if k.Bytes {
				s += " bytes"
			}
			keys = append(keys, s)
		}
		parts = append(parts, "merge by "+strings.Join(keys, ", "))
	case len(parts) == 0:
		parts = append(parts, "append")
	}
	if n.Aggregate == nil {
		parts = append(parts, fmt.Sprintf("cut to %d", n.Columns))
	}
	if n.Offset != nil {
		parts = append(parts, "skip "+n.Offset.Source.String())
	}
	if n.Limit != nil {
		parts = append(parts, "stop after "+n.Limit.Source.String())
	}
	return strings.Join(parts, "; ")
}

// String prints the outputs and what they are grouped by.
func (a *Aggregate) String() string {
	var outs []string
	for _, o := range a.Outputs {
		s := fmt.Sprintf("%s(%d)", o.Kind, o.Column+1)
		if o.Kind == CombineAvg {
			s = fmt.Sprintf("%s(%d / %d)", o.Kind, o.Column+1, o.Count+1)
		}
		outs = append(outs, s)
	}
	s := "aggregate " + strings.Join(outs, ", ")
	if a.Grouped {
		var by []string
		for _, g := range a.Groups {
			by = append(by, strconv.Itoa(g+1))
		}
		s += " by " + strings.Join(by, ", ")
	}
	return s
}

// String returns the name of the aggregate.
func (c Combine) String() string {
	names := [...]string{"group", "count", "sum", "min", "max", "avg", "and", "or", "bit_and", "bit_or"}
	if int(c) < len(names) {
		return names[c]
	}
	return "combine " + strconv.Itoa(int(c))
}
