package growth

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// panel is one curve of a plot: a value for each second.
type panel struct {
	title  string
	values []float64
}

// plot is curves over the same seconds, one above the other, with a span of seconds in which
// something went on.
type plot struct {
	title    string
	panels   []panel
	from, to int // the span, in seconds
	note     string
}

// The measures of a plot, in pixels.
const (
	plotWidth   = 860
	plotLeft    = 70
	plotRight   = 20
	plotTop     = 46
	panelHeight = 130
	panelGap    = 46
)

// write draws the plot as SVG that can be read on light and on dark pages.
func (p *plot) write(w io.Writer) error {
	var b strings.Builder
	height := plotTop + len(p.panels)*(panelHeight+panelGap)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", plotWidth, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#ffffff"/><text x="%d" y="20" font-size="15" font-weight="bold">%s</text>`+"\n", plotLeft, escape(p.title))
	for i, c := range p.panels {
		p.draw(&b, c, plotTop+i*(panelHeight+panelGap))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// draw draws a curve whose frame begins at a height.
func (p *plot) draw(b *strings.Builder, c panel, top int) {
	width := float64(plotWidth - plotLeft - plotRight)
	seconds := float64(max(len(c.values)-1, 1))
	most := roundUp(c.values)
	x := func(second float64) float64 { return plotLeft + second/seconds*width }
	y := func(v float64) float64 { return float64(top) + panelHeight*(1-v/most) }
	fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="#cfe2f3"/>`+"\n", x(float64(p.from)), top, x(float64(p.to))-x(float64(p.from)), panelHeight)
	fmt.Fprintf(b, `<text x="%.1f" y="%d" fill="#0b5394">%s</text>`+"\n", x(float64(p.from))+4, top+14, escape(p.note))
	fmt.Fprintf(b, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", plotLeft, top-6, escape(c.title))
	for _, part := range []float64{0, 0.5, 1} {
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#cccccc"/><text x="%d" y="%.1f" text-anchor="end">%.4g</text>`+"\n",
			plotLeft, plotWidth-plotRight, y(most*part), y(most*part), plotLeft-6, y(most*part)+4, most*part)
	}
	for i := range 6 {
		at := seconds * float64(i) / 5
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%.0f s</text>`+"\n", x(at), top+panelHeight+16, at)
	}
	var points []string
	for i, v := range c.values {
		points = append(points, fmt.Sprintf("%.1f,%.1f", x(float64(i)), y(v)))
	}
	fmt.Fprintf(b, `<polyline fill="none" stroke="#b45f06" stroke-width="1.5" points="%s"/>`+"\n", strings.Join(points, " "))
}

// roundUp returns the least of 1, 2 or 5 times a power of ten that no value exceeds.
func roundUp(values []float64) float64 {
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	if most == 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(most)))
	for _, k := range []float64{1, 2, 5} {
		if most <= k*unit {
			return k * unit
		}
	}
	return 10 * unit
}

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func escape(s string) string { return escaper.Replace(s) }
