package growth

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestRoundUp(t *testing.T) {
	for _, c := range []struct{ most, want float64 }{{0, 1}, {1, 1}, {1.1, 2}, {3, 5}, {6, 10}, {0.03, 0.05}, {1999, 2000}} {
		if got := roundUp([]float64{c.most, 0}); got < c.want*0.999 || got > c.want*1.001 {
			t.Errorf("%g: %g, want %g", c.most, got, c.want)
		}
	}
}

// TestPlot: a plot is well-formed, with a curve for each panel whose points lie in its frame.
func TestPlot(t *testing.T) {
	p := plot{title: "a < b & c", panels: []panel{{"one", []float64{1, 2, 3}}, {"two", []float64{0, 0, 0}}}, from: 1, to: 2, note: "now"}
	var b bytes.Buffer
	if err := p.write(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	curves := 0
	for d := xml.NewDecoder(&b); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		e, ok := token.(xml.StartElement)
		if !ok || e.Name.Local != "polyline" {
			continue
		}
		curves++
		for _, a := range e.Attr {
			if a.Name.Local == "points" && len(strings.Fields(a.Value)) != 3 {
				t.Errorf("points: %s", a.Value)
			}
		}
	}
	if curves != 2 || !strings.Contains(text, "a &lt; b &amp; c") {
		t.Errorf("%d curves in %s", curves, text)
	}
}
