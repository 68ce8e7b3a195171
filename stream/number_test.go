package stream

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestDivide divides by counts of every size, as the server does.
func TestDivide(t *testing.T) {
	conn := connect(t)
	rng := rand.New(rand.NewPCG(11, 12))
	var sums []string
	var counts []int64
	add := func(sum string, count int64) { sums, counts = append(sums, sum), append(counts, count) }
	for _, sum := range []string{
		"0", "0.000", "1", "-1", "9999", "10000", "99999999", "0.5", "0.00005", "1e-1000", "-1e-999", "1e-1500", "5e-1001", "1e1000", "1e131071", "0." + strings.Repeat("9", 40),
		strings.Repeat("9", 60), "2", "20000", "3.00000000000000000000000001", "0." + strings.Repeat("0", 1500) + "1",
	} {
		for _, count := range []int64{1, 2, 3, 7, 9999, 10000, 10001, 99999999, 100000000, 1 << 40, math.MaxInt64, 5000, 6000} {
			add(sum, count)
		}
	}
	for range 5000 {
		add(decimalText(rng), 1+rng.Int64()>>rng.IntN(63))
	}
	sql := "SELECT s::numeric, s::numeric / c FROM unnest($1::text[], $2::int8[]) WITH ORDINALITY AS u(s, c, i) ORDER BY i"
	for _, format := range []int16{textFormat, binaryFormat} {
		rows := ask(t, conn, format, sql, sums, counts)
		dividends, quotients := column(t, rows, 0), column(t, rows, 1)
		for i, want := range quotients {
			var sum decimalSum
			var n number
			ok := sum.addText(dividends[i])
			if format == binaryFormat {
				ok = sum.addBinary(dividends[i])
			}
			if !ok {
				t.Fatalf("%.100q is malformed", dividends[i])
			}
			sum.total(&n, nil)
			n.divide(counts[i])
			got := n.appendText(nil)
			if format == binaryFormat {
				got = n.appendBinary(nil)
			}
			if string(got) != string(want) {
				t.Errorf("%.60s / %d: %.100q, the server says %.100q", sums[i], counts[i], got, want)
			}
		}
	}
}
