package checkup

import (
	"fmt"
	"io"
	"strings"
)

// Print writes findings lined up, what to do below each, and a sentence that counts them.
func Print(out io.Writer, findings []Finding) error {
	width := 0
	counts := map[Level]int{}
	for _, f := range findings {
		width = max(width, len(f.Area))
		counts[f.Level]++
	}
	for _, f := range findings {
		where := ""
		if f.Where != "" {
			where = f.Where + ": "
		}
		fmt.Fprintf(out, "%-7s  %-*s  %s%s\n", f.Level, width, f.Area, where, f.What)
		if f.Do != "" {
			fmt.Fprintf(out, "%s→ %s\n", strings.Repeat(" ", 11+width), f.Do)
		}
	}
	_, err := fmt.Fprintf(out, "\n%s, %s\n", plural(counts[Problem], "problem", "problems"), plural(counts[Warning], "warning", "warnings"))
	return err
}

// Fine reports whether there is nothing to do.
func Fine(findings []Finding) bool {
	for _, f := range findings {
		if f.Level != OK {
			return false
		}
	}
	return true
}
