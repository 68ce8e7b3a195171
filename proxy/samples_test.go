package proxy

import (
	"math/rand/v2"
	"testing"

	"weft/heat"
)

// BenchmarkSamples is what one sample of evenly used keys costs after it was taken.
func BenchmarkSamples(b *testing.B) {
	w := newWarmth()
	s := &heat.Sample{Shard: "shard-1", Database: "app", User: "web", Weight: 15, Busy: 80_000, Bytes: 100, KeyCount: 1, Way: heat.One}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		id := rand.Uint64N(100_000)
		s.Keys[0] = heat.Key{Group: 1, Bucket: int32(id % 4096), ID: id * 0x9E3779B97F4A7C15}
		w.add(s)
		if i%500 == 0 { // four times in a second of 2,000 samples
			w.gather(0.25, Heat{Samples: 2000})
		}
	}
}
