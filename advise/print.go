package advise

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

const (
	// shown is how many candidates, and how many statements of each kind, are printed.
	shown = 8
	// textLength is how much of a statement is printed.
	textLength = 100
)

// Print writes the advice for people: all candidates in a table, and the best one in full.
func (a *Advice) Print(out io.Writer) error {
	if err := a.table(out); err != nil {
		return err
	}
	var b strings.Builder
	a.Candidates[0].print(&b)
	if a.Recorded == 0 {
		b.WriteString("\nNothing is recorded: \"largest value\" and \"worst shard\" speak of rows, and \"2PC\" of statements by themselves.\n")
	}
	if a.Unread > 0 {
		fmt.Fprintf(&b, "\n%s.\n", plural(a.Unread, "statement is", "statements are")+" left out: DDL, or texts that weft cannot read")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (a *Advice) table(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	rows := a.Candidates[:min(len(a.Candidates), shown)]
	if a.Now != nil {
		rows = append([]*Candidate{a.Now}, rows...)
	}
	width := 0
	for _, c := range rows {
		width = max(width, utf8.RuneCountInString(c.Key))
	}
	fmt.Fprintf(t, "key%s\ttables\tone shard\twrites one shard\t2PC\tlargest value\tworst shard\trefused\t\n", strings.Repeat(" ", max(width-3, 0)))
	for _, c := range rows {
		key := c.Key + strings.Repeat(" ", width-utf8.RuneCountInString(c.Key))
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%.2f ×\t%d\t\n", key, len(c.Sharded), percent(c.OneShard), percent(c.WritesOneShard), percent(c.TwoPhase),
			percent(c.Largest), c.WorstShard, len(c.Refused))
	}
	return t.Flush()
}

// print writes all that is known of one candidate.
func (c *Candidate) print(b *strings.Builder) {
	fmt.Fprintf(b, "\nbest: %s", c.Key)
	if len(c.Reference) > 0 {
		fmt.Fprintf(b, ". On every shard (reference): %s", strings.Join(c.Reference, ", "))
	}
	if len(c.Home) > 0 {
		fmt.Fprintf(b, ". Stay home: %s", strings.Join(c.Home, ", "))
	}
	b.WriteString(".\n")
	if len(c.Broken) > 0 {
		b.WriteString("\ntransactions that write on one shard today, and would on several:\n")
		for _, t := range c.Broken[:min(len(c.Broken), shown)] {
			fmt.Fprintf(b, "  %s of all: ", percent(t.Share))
			for i, id := range t.Statements {
				if i > 0 {
					b.WriteString("; ")
				}
				fmt.Fprintf(b, "statement %d (%s)", id, short(t.Texts[i], textLength/2))
			}
			b.WriteByte('\n')
		}
		rest(b, len(c.Broken))
	}
	if len(c.Refused) > 0 {
		b.WriteString("\nwould be refused:\n")
		for _, s := range c.Refused[:min(len(c.Refused), shown)] {
			fmt.Fprintf(b, "  %s of time, %s of calls: statement %d (%s): %s\n", percent(s.Time), percent(s.Calls), s.ID, short(s.Text, textLength), s.Reason)
		}
		rest(b, len(c.Refused))
	}
	if len(c.Scattered) > 0 {
		fmt.Fprintf(b, "\nwould be on several shards (%s of time, %s of calls):\n", percent(1-c.OneShard), percent(1-c.OneShardCalls))
		for _, s := range c.Scattered[:min(len(c.Scattered), shown)] {
			fmt.Fprintf(b, "  %s of time, %s of calls: statement %d (%s)\n", percent(s.Time), percent(s.Calls), s.ID, short(s.Text, textLength))
		}
		rest(b, len(c.Scattered))
	}
	b.WriteString("\nchecks:\n")
	for _, k := range c.Checks {
		mark := "ok  "
		if !k.OK {
			mark = "LOOK"
		}
		fmt.Fprintf(b, "  %s  %s: %s\n", mark, k.Name, k.Detail)
	}
	if len(c.Obstacles) > 0 {
		b.WriteString("\nin the way:\n")
		for _, o := range c.Obstacles {
			fmt.Fprintf(b, "  %s\n", o)
		}
	}
	if len(c.SQL) > 0 {
		b.WriteString("\nto run:\n")
		for _, sql := range c.SQL {
			fmt.Fprintf(b, "  %s\n", sql)
		}
	} else {
		b.WriteString("\nThat is how the tables are declared now: there is nothing to run.\n")
	}
	if s := c.Salt; s != nil {
		fmt.Fprintf(b, "\none value has %s of the work, more than half a shard's share. To spread it over %d places, by %s:\n  %s\n  Reads of %s then cost about %.1f times as much, because some know %s alone; %s.\n",
			percent(c.Largest), s.Spread, s.Second, s.SQL, s.Table, s.Price, s.Key, s.Note)
	}
}

func rest(b *strings.Builder, n int) {
	if n > shown {
		fmt.Fprintf(b, "  and %d more\n", n-shown)
	}
}

// short cuts a statement, and takes line breaks out of it.
func short(text string, n int) string {
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n]) + "…"
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
