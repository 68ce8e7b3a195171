package survey

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Report is what becomes of all statements.
type Report struct {
	// Statements are sorted: the worst class first, and in a class those with the most work.
	Statements []*Statement `json:"statements"`
	Summary    []Count      `json:"summary"`

	timed bool
}

// Count is how much is of one class. Shares are of what names a table and parses; of statements
// with executions of several classes, each class counts as one statement.
type Count struct {
	Class           Class   `json:"class"`
	Statements      int     `json:"statements"`
	StatementsShare float64 `json:"statements_share,omitempty"`
	Calls           int64   `json:"calls"`
	CallsShare      float64 `json:"calls_share,omitempty"`
	Time            float64 `json:"total_ms,omitempty"`
	TimeShare       float64 `json:"time_share,omitempty"`
}

// counted reports whether a class counts in shares.
func (c Class) counted() bool { return c == One || c == Home || c == Several || c == Refused }

// Report counts.
func (s *Survey) Report() *Report {
	r := &Report{Statements: slices.Clone(s.statements), timed: s.timed}
	slices.SortStableFunc(r.Statements, func(a, b *Statement) int {
		return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(b.Time, a.Time), cmp.Compare(b.Calls, a.Calls))
	})
	var statements, calls, times float64
	for i, class := range classes {
		c := Count{Class: class}
		for _, st := range r.Statements {
			if st.calls[i] > 0 || st.rank == i {
				c.Statements++
			}
			c.Calls += st.calls[i]
			c.Time += st.times[i]
		}
		if class.counted() {
			statements, calls, times = statements+float64(c.Statements), calls+float64(c.Calls), times+c.Time
		}
		r.Summary = append(r.Summary, c)
	}
	for i := range r.Summary {
		if c := &r.Summary[i]; c.Class.counted() {
			c.StatementsShare, c.CallsShare, c.TimeShare = share(float64(c.Statements), statements), share(float64(c.Calls), calls), share(c.Time, times)
		}
	}
	return r
}

func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}

// Of returns how much is of a class.
func (r *Report) Of(class Class) Count {
	for _, c := range r.Summary {
		if c.Class == class {
			return c
		}
	}
	return Count{Class: class}
}

// maxText is how much of a statement a line shows.
const maxText = 100

// Print writes a line for each statement, and the summary. Of refused and broken statements a
// second line says why.
func (r *Report) Print(out io.Writer) error {
	rows := [][]string{{"CLASS", "SHARDS", "CALLS"}}
	for _, st := range r.Statements {
		shards := ""
		if st.Shards > 0 {
			shards = fmt.Sprint(st.Shards)
		}
		rows = append(rows, []string{string(st.Class), shards, fmt.Sprint(st.Calls)})
	}
	for i := range rows {
		switch {
		case i == 0 && r.timed:
			rows[0] = append(rows[0], "MS", "STATEMENT")
		case i == 0:
			rows[0] = append(rows[0], "STATEMENT")
		case r.timed:
			rows[i] = append(rows[i], fmt.Sprintf("%.1f", r.Statements[i-1].Time), short(r.Statements[i-1].Text))
		default:
			rows[i] = append(rows[i], short(r.Statements[i-1].Text))
		}
	}
	if err := table(out, rows, true); err != nil {
		return err
	}
	r.printReasons(out)
	fmt.Fprintln(out)
	return r.printSummary(out)
}

// table writes rows with columns of one width: the first column to the left, the others to the
// right. If loose is set, the last column is of any width.
func table(out io.Writer, rows [][]string, loose bool) error {
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, r := range rows {
		var b strings.Builder
		for i, cell := range r {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			switch {
			case i == 0:
				b.WriteString(cell + pad)
			case loose && i == len(r)-1:
				b.WriteString("  " + cell)
			default:
				b.WriteString("  " + pad + cell)
			}
		}
		if _, err := fmt.Fprintln(out, strings.TrimRight(b.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// printReasons says why statements do not run on one shard, each reason once, with how many
// statements it concerns.
func (r *Report) printReasons(out io.Writer) {
	type why struct {
		st         *Statement
		statements int
		calls      int64
	}
	var list []*why
	for _, st := range r.Statements {
		if st.Reason == "" {
			continue
		}
		at := slices.IndexFunc(list, func(w *why) bool { return w.st.Class == st.Class && w.st.Reason == st.Reason })
		if at < 0 {
			at = len(list)
			list = append(list, &why{st: st})
		}
		list[at].statements++
		list[at].calls += st.Calls
	}
	for i, w := range list {
		if i == 0 || list[i-1].st.Class != w.st.Class {
			fmt.Fprintf(out, "\n%s:\n", w.st.Class)
		}
		fmt.Fprintf(out, "  %s (%s, %s)\n", w.st.Reason, plural(int64(w.statements), "statement"), plural(w.calls, "call"))
		if w.st.Hint != "" {
			fmt.Fprintf(out, "    hint: %s\n", w.st.Hint)
		}
	}
}

func (r *Report) printSummary(out io.Writer) error {
	rows := [][]string{{"SUMMARY", "STATEMENTS", "", "CALLS", ""}}
	if r.timed {
		rows[0] = append(rows[0], "MS", "")
	}
	line := func(name string, c Count) {
		row := []string{name, fmt.Sprint(c.Statements), percent(c, c.StatementsShare), fmt.Sprint(c.Calls), percent(c, c.CallsShare)}
		if r.timed {
			row = append(row, fmt.Sprintf("%.1f", c.Time), percent(c, c.TimeShare))
		}
		rows = append(rows, row)
	}
	for _, class := range classes {
		c := r.Of(class)
		switch class {
		case One:
			home := r.Of(Home)
			both := Count{
				One, c.Statements + home.Statements, c.StatementsShare + home.StatementsShare,
				c.Calls + home.Calls, c.CallsShare + home.CallsShare, c.Time + home.Time, c.TimeShare + home.TimeShare,
			}
			line(string(One), both)
			if home.Statements > 0 {
				line("  of these, home shard", home)
			}
		case Home:
		case Several, Refused:
			line(string(class), c)
		default:
			if c.Statements > 0 {
				line(string(class), c)
			}
		}
	}
	return table(out, rows, false)
}

// percent returns a share as people read it; a part is never 0 % and never 100 %.
func percent(c Count, p float64) string {
	switch {
	case !c.Class.counted():
		return ""
	case p > 0 && p < 0.0005:
		return "< 0.1 %"
	case p < 1 && p >= 0.9995 && p < 1-1e-9:
		return "> 99.9 %"
	}
	return fmt.Sprintf("%.1f %%", 100*p)
}

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// short returns a statement on one line, cut if it is long.
func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) <= maxText {
		return text
	}
	return string([]rune(text)[:maxText-1]) + "…"
}
