package verdict

import (
	"encoding/json"
	"testing"

	"weft/heat"
)

// BenchmarkSecond is what one second costs the proxy that judges, with one other proxy: both briefs, the
// other's told and read, and the verdicts.
func BenchmarkSecond(b *testing.B) {
	s := newSimulation(&testing.T{}, 1, 2)
	s.zipf(0.99)
	s.samples = 4000
	for range 10 {
		s.second()
	}
	f := s.facts()
	b.ReportAllocs()
	for b.Loop() {
		text, err := json.Marshal(heat.NewBrief(s.now[1], s.recent[1], simulatedBuckets))
		if err != nil {
			b.Fatal(err)
		}
		var other heat.Brief
		if err := json.Unmarshal(text, &other); err != nil {
			b.Fatal(err)
		}
		f.Brief = heat.MergeBriefs(heat.NewBrief(s.now[0], s.recent[0], simulatedBuckets), other)
		s.t.Second(f, 1)
		b.SetBytes(int64(len(text)))
	}
}
