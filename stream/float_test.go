package stream

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestFloatText writes floats as the server does, among them those whose
// shortest name lies between two.
func TestFloatText(t *testing.T) {
	conn := connect(t)
	rng := rand.New(rand.NewPCG(9, 10))
	values := []float64{0, math.Copysign(0, -1), 1e23, 9007199254740993, 5e-324, math.MaxFloat64, math.NaN(), math.Inf(1), math.Inf(-1), 1e15, 999999999999999, 1e-4, 1e-5, 0.1, 123456789012345680}
	narrow := []float32{0, 1e6, 999999, 1e-4, 1e-5, math.MaxFloat32, math.SmallestNonzeroFloat32, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 16777216, 8388608.5, 33554432, 67108864}
	for e := -1074; e < 1024; e++ {
		f := math.Ldexp(1, e)
		values = append(values, f, math.Nextafter(f, 0), math.Nextafter(f, math.Inf(1)), -3*f/2)
	}
	for e := -149; e < 128; e++ {
		f := float32(math.Ldexp(1, e))
		narrow = append(narrow, f, math.Nextafter32(f, 0), math.Nextafter32(f, 1e38), -3*f/2)
	}
	for e := range 309 {
		values = append(values, math.Pow10(e), 5*math.Pow10(e-1))
	}
	for range 30_000 {
		values = append(values, math.Float64frombits(rng.Uint64()), float64(rng.Int64()), float64(rng.Uint64()>>rng.IntN(20))*math.Pow10(rng.IntN(8)))
		narrow = append(narrow, math.Float32frombits(rng.Uint32()), float32(rng.Int32()), float32(rng.Int64()>>rng.IntN(40)))
	}
	ours := func(f float64, bits int) string { return string(appendFloat(nil, f, bits)) }
	rows := ask(t, conn, textFormat, "SELECT v FROM unnest($1::float8[]) WITH ORDINALITY AS u(v, i) ORDER BY i", values)
	for i, want := range column(t, rows, 0) {
		if got := ours(values[i], 64); got != string(want) {
			t.Errorf("%v: %s, the server writes %s", values[i], got, want)
		}
	}
	rows = ask(t, conn, textFormat, "SELECT v FROM unnest($1::float4[]) WITH ORDINALITY AS u(v, i) ORDER BY i", narrow)
	for i, want := range column(t, rows, 0) {
		if got := ours(float64(narrow[i]), 32); got != string(want) {
			t.Errorf("%v: %s, the server writes %s", narrow[i], got, want)
		}
	}
}
