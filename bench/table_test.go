package main

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	tab := &table{
		title: "point select",
		groups: []group{
			{"", []string{"mode", "clients"}},
			{"weft", []string{"tps", "CPU µs"}},
			{"weft ÷ PgBouncer", []string{"CPU"}},
		},
		notes: []string{"a note"},
	}
	tab.add("simple", "1", "12345", "13.2", "1.10")
	tab.add("extended", "16", "–", "9.1", "–")
	const want = `
point select

                        weft        weft ÷ PgBouncer
mode      clients     tps  CPU µs                CPU
simple          1   12345    13.2               1.10
extended       16       –     9.1                  –
  a note
`
	var b strings.Builder
	tab.print(&b)
	if b.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", b.String(), want)
	}
}

func TestMedian(t *testing.T) {
	same := func(f float64) float64 { return f }
	for _, c := range []struct {
		list []float64
		want float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 100, 2}, 3},
	} {
		if got := median(c.list, same); got != c.want {
			t.Errorf("median of %v: got %v, want %v", c.list, got, c.want)
		}
	}
}
