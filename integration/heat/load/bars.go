package load

import (
	"fmt"
	"strings"
)

// Bars is what was wanted of a measurement, beside what came of it.
type Bars struct {
	lines  []string
	missed int
}

// AtMost wants a figure to be no more than a bar.
func (b *Bars) AtMost(what string, got, bar float64) { b.add(what, got <= bar, got, "≤", bar) }

// AtLeast wants a figure to be no less than a bar.
func (b *Bars) AtLeast(what string, got, bar float64) { b.add(what, got >= bar, got, "≥", bar) }

func (b *Bars) add(what string, ok bool, got float64, sign string, bar float64) {
	verdict := "ok"
	if !ok {
		verdict = "MISSED"
		b.missed++
	}
	b.lines = append(b.lines, fmt.Sprintf("%-64s wanted %s %-6.4g got %-8.4g %s", what, sign, bar, got, verdict))
}

// Missed is how many bars were missed.
func (b *Bars) Missed() int { return b.missed }

// String returns a line for each bar.
func (b *Bars) String() string { return strings.Join(b.lines, "\n") }

// Jain is how evenly amounts are spread: 1 if all are equal, 1/n if one has all.
func Jain(amounts []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range amounts {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(amounts)) * squares)
}
