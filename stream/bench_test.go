package stream

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"weft/plan"
)

// partials makes rows of a group, a count, a numeric sum and a text.
func partials(rows, groups int, format int16) [][]byte {
	rng := rand.New(rand.NewPCG(7, 8))
	out := make([][]byte, rows)
	var sum decimalSum
	for i := range out {
		g, n := uint64(rng.IntN(groups)), rng.IntN(1000)
		if format == textFormat {
			out[i] = row(fmt.Sprint(g), fmt.Sprint(n), fmt.Sprintf("%d.%02d", rng.IntN(1e6), rng.IntN(100)), fmt.Sprint("name ", n))
			continue
		}
		sum = decimalSum{}
		sum.addText(fmt.Appendf(nil, "%d.%02d", rng.IntN(1e6), rng.IntN(100)))
		var total number
		sum.total(&total, nil)
		out[i] = row(string(binary.BigEndian.AppendUint64(nil, g)), string(binary.BigEndian.AppendUint64(nil, uint64(n))),
			string(total.appendBinary(nil)), fmt.Sprint("name ", n))
	}
	return out
}

func benchAggregate(format int16) (*plan.Aggregate, []Type) {
	return &plan.Aggregate{
		Grouped: true, Groups: []int{0},
		Outputs: []plan.Output{
			{Kind: plan.Group},
			{Kind: plan.CombineCount, Column: 1},
			{Kind: plan.CombineSum, Column: 2},
			{Kind: plan.CombineAvg, Column: 2, Count: 1},
			{Kind: plan.CombineMax, Column: 3},
		},
	}, []Type{
		{OID: oidInt8, Format: format},
		{OID: oidInt8, Format: format},
		{OID: oidNumeric, Format: format},
		{OID: oidText, Format: format, Bytes: true},
	}
}

// slice yields rows that are there already.
type slice struct{ rows [][]byte }

func (s *slice) Next() ([]byte, error) {
	if len(s.rows) == 0 {
		return nil, io.EOF
	}
	r := s.rows[0]
	s.rows = s.rows[1:]
	return r, nil
}

// BenchmarkGroup puts a million rows into 100,000 groups.
func BenchmarkGroup(b *testing.B) {
	for _, format := range []int16{textFormat, binaryFormat} {
		b.Run(fmt.Sprint("format ", format), func(b *testing.B) {
			rows := partials(1_000_000, 100_000, format)
			a, types := benchAggregate(format)
			b.ReportAllocs()
			for b.Loop() {
				r, err := Group(&slice{rows}, a, types, 1<<30)
				if err != nil {
					b.Fatal(err)
				}
				n := 0
				for {
					if _, err := r.Next(); err == io.EOF {
						break
					} else if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n < 99_000 {
					b.Fatal(n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1e6, "ns/row")
		})
	}
}

func BenchmarkDistinct(b *testing.B) {
	rows := partials(1_000_000, 100_000, binaryFormat)
	b.ReportAllocs()
	for b.Loop() {
		r, err := Distinct(&slice{rows}, []Type{{OID: oidInt8, Format: binaryFormat}}, 1<<30)
		if err != nil {
			b.Fatal(err)
		}
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1e6, "ns/row")
}
