package vindex

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"weft/datum"
)

// key makes a Key of a typed binary value, or of a literal.
func key(tb testing.TB, t datum.Type, v any) datum.Key {
	tb.Helper()
	value := datum.Value{Type: t, Format: datum.BinaryFormat}
	switch v := v.(type) {
	case string:
		value = datum.Literal([]byte(v))
	case []byte:
		value.Bytes = v
	}
	k, err := datum.Column{Type: t, Mod: -1}.Store(value)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

// TestHashAvalanche flips each bit of random inputs: each bit of the ID should
// turn over every second time. It does in the lower half of PostgreSQL's hash.
// In the upper half, where the bucket is, a few pairs of input and output bits
// are far off: lookup3 mixes that word once less. The limits keep what was
// measured; TestHashBalance shows what it means for real keys, which is little.
func TestHashAvalanche(t *testing.T) {
	const inputs = 2000
	for _, test := range []struct {
		name string
		typ  datum.Type
		size int // bytes
	}{
		{"int8", datum.Int8, 8},
		{"int4", datum.Int4, 4},
		{"uuid", datum.UUID, 16},
		{"text of 5 bytes", datum.Text, 5},
		{"text of 12 bytes", datum.Text, 12},
		{"text of 23 bytes", datum.Text, 23},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(0, 0))
			turned := make([][64]int, 8*test.size)
			data := make([]byte, test.size)
			for range inputs {
				for i := range data {
					data[i] = byte(rnd.Uint32())
				}
				before := Hash(key(t, test.typ, data))
				for in := range turned {
					data[in/8] ^= 1 << (in % 8)
					diff := before ^ Hash(key(t, test.typ, data))
					data[in/8] ^= 1 << (in % 8)
					for out := range 64 {
						turned[in][out] += int(diff >> out & 1)
					}
				}
			}
			for _, half := range []struct {
				name        string
				first, end  int // output bits
				mean, worst float64
			}{
				// Chance alone gives a mean of 0.009 and a worst of some 0.045.
				{"lower", 0, 32, 0.011, 0.07},
				{"upper", 32, 64, 0.025, 0.30},
				{"bucket", 52, 64, 0.025, 0.30},
			} {
				sum, worst := 0.0, 0.0
				for in := range turned {
					for _, n := range turned[in][half.first:half.end] {
						off := math.Abs(float64(n)/inputs - 0.5)
						sum += off
						worst = max(worst, off)
					}
				}
				mean := sum / float64(len(turned)*(half.end-half.first))
				t.Logf("%-6s: away from one half by %.4f in the mean, %.4f at worst", half.name, mean, worst)
				if mean > half.mean || worst > half.worst {
					t.Errorf("%s bits turn over %.4f away from one half, at worst %.4f; want %.4f and %.4f", half.name, mean, worst, half.mean, half.worst)
				}
			}
		})
	}
}

// TestHashBalance puts keys as applications make them into 4096 buckets.
func TestHashBalance(t *testing.T) {
	const buckets, bits = 4096, 12
	rnd := rand.New(rand.NewPCG(0, 0))
	for _, test := range []struct {
		name string
		n    int
		key  func(i int) datum.Key
	}{
		{"sequential ids", 1 << 20, func(i int) datum.Key { return datum.IntegerKey(int64(i)) }},
		{"even ids", 1 << 18, func(i int) datum.Key { return datum.IntegerKey(2 * int64(i)) }},
		{"ids in blocks of a thousand", 1 << 18, func(i int) datum.Key { return datum.IntegerKey(int64(i) * 1000) }},
		{"ids with a time in the upper half", 1 << 18, func(i int) datum.Key {
			return datum.IntegerKey((1_700_000_000_000+int64(i)*37)<<22 | int64(i%1024)<<12)
		}},
		{"days of two centuries", 73050, func(i int) datum.Key { return datum.IntegerKey(int64(i) - 36525) }},
		{"timestamps every second", 1 << 18, func(i int) datum.Key { return datum.IntegerKey(750_000_000_000_000 + int64(i)*1_000_000) }},
		{"timestamps every millisecond", 1 << 18, func(i int) datum.Key { return datum.IntegerKey(750_000_000_000_000 + int64(i)*1_000) }},
		{"random uuids", 1 << 18, func(int) datum.Key {
			return key(t, datum.UUID, binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, rnd.Uint64()), rnd.Uint64()))
		}},
		{"uuids in the order of time", 1 << 18, func(i int) datum.Key {
			return key(t, datum.UUID, binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(1_700_000_000_000+i)<<16|0x7000), 1<<63|rnd.Uint64()>>2))
		}},
		{"numbered texts", 1 << 18, func(i int) datum.Key { return key(t, datum.Text, fmt.Sprintf("customer-%d", i)) }},
		{"addresses", 1 << 18, func(i int) datum.Key { return key(t, datum.Text, fmt.Sprintf("user%06d@example.com", i)) }},
		{"whole numerics", 1 << 18, func(i int) datum.Key { return key(t, datum.Numeric, fmt.Sprint(i+1)) }},
		{"prices", 1 << 18, func(i int) datum.Key { return key(t, datum.Numeric, fmt.Sprintf("%d.%02d", i/100, i%100)) }},
	} {
		var count [buckets]int
		for i := range test.n {
			count[ID(Hash(test.key(i))).Bucket(bits)]++
		}
		expected, chi, most := float64(test.n)/buckets, 0.0, 0
		for _, n := range count {
			chi += (float64(n) - expected) * (float64(n) - expected) / expected
			most = max(most, n)
		}
		// Chi-square over its degrees of freedom is how much more the buckets'
		// sizes vary than by chance: 1 with a deviation of √(2/4095) = 0.022.
		// Sequential ids come out at 1.16, which makes the fullest of 4096
		// buckets no fuller than chance may. Too even would do no harm.
		vary := chi / (buckets - 1)
		full, chance := float64(most)/expected, 1+6/math.Sqrt(expected)
		t.Logf("%-34s varies %.2f × as much as by chance, fullest bucket %.2f × the mean", test.name, vary, full)
		if vary > 1.25 || full > chance {
			t.Errorf("%s: bucket sizes vary %.2f × as much as by chance, want 1.25; the fullest is %.2f × the mean, want %.2f", test.name, vary, full, chance)
		}
	}
}

// TestHashIsPinned holds values that PostgreSQL 15 gave: data is placed by them,
// so neither we nor a newer server may ever give others.
func TestHashIsPinned(t *testing.T) {
	for _, test := range []struct {
		typ  datum.Type
		text string
		want int64
	}{
		{datum.Int8, "0", 4154612158245552303},
		{datum.Int8, "1", -3670598878359251130},
		{datum.Int8, "-1", -1888257769727981238},
		{datum.Int8, "4294967296", -3670598878359251130},
		{datum.Text, "", -6939563903564495251},
		{datum.Text, "hello", 3449563369152288809},
		{datum.Text, "hello, world", 3460972653678271855},
		{datum.UUID, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", 7543054272012930821},
		{datum.Numeric, "0", -1},
		{datum.Numeric, "NaN", 0},
		{datum.Numeric, "1", -7507508252608306360},
		{datum.Numeric, "12345.678", -7224554725567017098},
	} {
		if got := int64(Hash(key(t, test.typ, test.text))); got != test.want {
			t.Errorf("%s %q: got %d, want %d", test.typ, test.text, got, test.want)
		}
	}
}

// common are keys as they arrive: a column, and its value as it was sent.
var common = []struct {
	name   string
	column datum.Type
	value  datum.Value
}{
	{"int8binary", datum.Int8, datum.Value{Type: datum.Int8, Format: datum.BinaryFormat, Bytes: []byte{0, 0, 0, 0, 0, 1, 2, 3}}},
	{"int8literal", datum.Int8, datum.Literal([]byte("66051"))},
	{"text", datum.Text, datum.Literal([]byte("customer-66051"))},
	{"uuid", datum.UUID, datum.Literal([]byte("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"))},
	{"date", datum.Date, datum.Literal([]byte("2024-02-29"))},
}

// bucketOf is the way from a value to its bucket, as a statement goes it. The
// keys are the session's own memory.
func bucketOf(v Computed, c datum.Column, value datum.Value, keys []datum.Key) int {
	k, err := c.Match(value)
	if err != nil {
		return -1
	}
	keys[0] = k
	id, err := v.ID(keys)
	if err != nil {
		return -1
	}
	return id.Bucket(12)
}

func TestHashAllocates(t *testing.T) {
	for _, c := range common {
		v := hashOf(t, c.column)
		keys := make([]datum.Key, 1)
		if n := testing.AllocsPerRun(1000, func() {
			if bucketOf(v, v.Columns()[0].Column, c.value, keys) < 0 {
				t.Error("no bucket")
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

func hashOf(tb testing.TB, typ datum.Type) Computed {
	tb.Helper()
	v, err := New(Declaration{Kind: "hash", Columns: []Column{{Name: "k", Column: datum.Column{Type: typ, Mod: -1}}}, Buckets: 4096})
	if err != nil {
		tb.Fatal(err)
	}
	return v.(Computed)
}

// BenchmarkBucket measures value → key → hash → bucket.
func BenchmarkBucket(b *testing.B) {
	for _, c := range common {
		b.Run(c.name, func(b *testing.B) {
			v := hashOf(b, c.column)
			column := v.Columns()[0].Column
			keys := make([]datum.Key, 1)
			b.ReportAllocs()
			for b.Loop() {
				bucketOf(v, column, c.value, keys)
			}
		})
	}
}

func BenchmarkHash(b *testing.B) {
	for _, k := range []struct {
		name string
		key  datum.Key
	}{
		{"int8", datum.IntegerKey(66051)},
		{"text14", key(b, datum.Text, "customer-66051")},
		{"uuid", key(b, datum.UUID, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")},
		{"numeric", key(b, datum.Numeric, "12345.678")},
	} {
		b.Run(k.name, func(b *testing.B) {
			for b.Loop() {
				Hash(k.key)
			}
		})
	}
}
