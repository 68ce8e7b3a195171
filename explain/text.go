package explain

import (
	"fmt"
	"strconv"
	"strings"
)

// Lines returns the report as EXPLAIN does.
func (r *Report) Lines() []string {
	var w writer
	if r.Change != nil {
		r.Change.write(&w, 0)
	} else {
		r.Plan.write(&w)
	}
	if r.PlanningTime != nil {
		w.line(0, "Planning Time: %s ms", r.PlanningTime)
	}
	if r.ExecutionTime != nil {
		w.line(0, "Execution Time: %s ms", r.ExecutionTime)
	}
	return w.lines
}

// writer collects lines. An indent is in columns.
type writer struct{ lines []string }

func (w *writer) line(indent int, format string, args ...any) {
	// A literal may have line breaks, and a row is a line.
	for _, l := range strings.Split(fmt.Sprintf(format, args...), "\n") {
		w.lines = append(w.lines, strings.Repeat(" ", indent)+strings.TrimRight(l, "\r"))
	}
}

// plan writes lines that a server has written as a child of what stands at indent.
func (w *writer) plan(indent int, lines []string) {
	for i, l := range lines {
		arrow := "      "
		if i == 0 {
			arrow = "  ->  "
		}
		w.line(indent, "%s%s", arrow, l)
	}
}

func (n *Node) write(w *writer) {
	head := n.Type
	if n.RunsOn != "" && n.Ending != Native {
		head += " on " + n.RunsOn
	}
	head += "  (" + string(n.Ending)
	if n.Rows != nil {
		head += " rows=" + strconv.FormatInt(*n.Rows, 10)
	}
	w.line(0, "%s)", head)
	if n.Visited > 0 {
		w.line(2, "Shards: %d of %d", n.Visited, n.Total)
	}
	for _, why := range n.Why {
		w.line(2, "Why: %s", why)
	}
	for _, f := range []struct {
		name string
		list []string
	}{{"Merge Key", n.MergeKey}, {"Group Key", n.GroupKey}, {"Output", n.Output}} {
		if len(f.list) > 0 {
			w.line(2, "%s: %s", f.name, strings.Join(f.list, ", "))
		}
	}
	if n.Limit != "" {
		w.line(2, "Limit: %s", n.Limit)
	}
	if n.Offset != "" {
		w.line(2, "Offset: %s", n.Offset)
	}
	if n.SQL != "" {
		w.line(2, "Remainder: %s", n.SQL)
	}
	if m := n.Moved; m != nil {
		w.line(2, "Moved: %s", m)
	}
	if s := n.Steps; s != nil {
		steps := fmt.Sprintf("prepare=%s gather=%s", s.Prepare, s.Gather)
		if s.Finish != nil {
			steps += " finish=" + s.Finish.String()
		}
		w.line(2, "Time: %s ms", steps)
	}
	for i := range n.Pieces {
		n.Pieces[i].write(w)
	}
	if len(n.remainder) > 0 {
		w.line(2, "Remainder Plan")
		w.plan(2, n.remainder)
	}
	for i := range n.Shards {
		n.Shards[i].write(w)
	}
}

func (p *Piece) write(w *writer) {
	w.line(2, "Piece %d: %s", p.Number, p.SQL)
	if p.Keys != "" {
		w.line(4, "Keys: %s", p.Keys)
	}
	if len(p.Shards) > 0 {
		w.line(4, "Shards: %s", strings.Join(p.Shards, ", "))
	}
	for _, why := range p.Why {
		w.line(4, "Why: %s", why)
	}
	if p.Moved != nil {
		w.line(4, "Moved: %s", p.Moved)
	}
}

func (s *Shard) write(w *writer) {
	var numbers []string
	for _, n := range s.Pieces {
		numbers = append(numbers, strconv.Itoa(n))
	}
	word := "piece"
	if len(numbers) != 1 {
		word = "pieces"
	}
	head := fmt.Sprintf("  ->  Shard %s  (%s %s)", s.Name, word, strings.Join(numbers, ", "))
	if m := s.Moved; m != nil {
		head += " (" + m.String()
		if s.First != nil {
			head += " first=" + s.First.String()
		}
		if s.Last != nil {
			head += " total=" + s.Last.String()
		}
		head += ")"
	}
	w.line(0, "%s", head)
	w.plan(6, s.lines)
}

func (m *Moved) String() string { return fmt.Sprintf("rows=%d bytes=%d", m.Rows, m.Bytes) }
