package heat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// A level stands for its amount within half a step, at any size.
func TestLevels(t *testing.T) {
	if Level(0) != 0 || Level(-1) != 0 || Level(math.NaN()) != 0 || Level(1e-9) != 1 || Level(1e20) != 255 || Amount(0) != 0 {
		t.Error("the ends of the scale")
	}
	last := byte(0)
	for v := lowest; v < highest; v *= 1.01 {
		level := Level(v)
		if off := float64(Amount(level))/v - 1; math.Abs(off) > 0.05 || level < last {
			t.Fatalf("%g is at level %d, which is %g", v, level, Amount(level))
		}
		last = level
	}
}

func TestStrips(t *testing.T) {
	for _, tc := range []struct {
		placed []uint16
		most   int
		want   string
	}{
		{[]uint16{0, 0, 1, 1}, 10, "[{a [0]} {a [1]} {b [2]} {b [3]}]"},
		{[]uint16{0, 1, 0, 1}, 10, "[{a [0]} {a [2]} {b [1]} {b [3]}]"},
		{[]uint16{0, 0, 0, 1}, 3, "[{a [0 1]} {a [2]} {b [3]}]"},
		{[]uint16{0, 1, 0, 1, 0}, 3, "[{a [0 2]} {a [4]} {b [1 3]}]"},
		{[]uint16{0, 7}, 3, "[{a [0]}]"},
		{nil, 3, "[]"},
	} {
		if got := fmt.Sprint(Strips(tc.placed, []string{"a", "b"}, tc.most)); got != tc.want {
			t.Errorf("%v in %d: %s, want %s", tc.placed, tc.most, got, tc.want)
		}
	}
	for _, n := range []int{1, 1024, 1025, 4096, 65536} {
		placed := make([]uint16, n)
		for i := range placed {
			placed[i] = uint16(rand.IntN(7))
		}
		strips := Strips(placed, []string{"a", "b", "c", "d", "e", "f", "g"}, MaxRows)
		seen := 0
		for _, s := range strips {
			seen += len(s.Buckets)
		}
		if len(strips) > MaxRows || seen != n {
			t.Errorf("%d buckets: %d rows with %d", n, len(strips), seen)
		}
	}
}

// moment is an instant in which some buckets of a database have so many reads.
func moment(database string, reads map[int]float64) Instant {
	levels := new([Metrics][]byte)
	for m := range levels {
		levels[m] = make([]byte, 8)
	}
	sum := 0.0
	for b, n := range reads {
		levels[Reads][b] = Level(n)
		sum += n
	}
	return Instant{Buckets: map[string]*[Metrics][]byte{database: levels}, Shards: map[string][Metrics]float32{"a": {Reads: float32(sum)}}}
}

// on places buckets: buckets of the second half are on b.
func on(placed ...uint16) func(string) []Strip {
	return func(string) []Strip { return Strips(placed, []string{"a", "b"}, 4) }
}

// at returns the amount at a column and row of a map.
func (m Map) at(column int64, row int) float64 {
	return float64(Amount(m.Levels[int(column-m.First)*m.Rows+row]))
}

func nearly(a, b float64) bool { return math.Abs(a-b) <= 0.05*b }

func TestHistory(t *testing.T) {
	h := NewHistory()
	half := on(0, 0, 0, 0, 1, 1, 1, 1)
	for i := range int64(40) {
		h.Record(6000+10*i, moment("d", map[int]float64{2: 100, 5: float64(i + 1)}), half)
	}
	m := h.Map("d", Hour, Reads, 0)
	strips, layout := h.Strips("d")
	if m.Columns != 360 || m.Rows != 4 || m.First+359 != 639 || len(m.Levels) != 360*4 || layout != m.Layout {
		t.Fatalf("%d columns from %d on, %d rows", m.Columns, m.First, m.Rows)
	}
	if fmt.Sprint(strips) != "[{a [0 1]} {a [2 3]} {b [4 5]} {b [6 7]}]" {
		t.Fatal(strips)
	}
	for i := range int64(40) {
		if !nearly(m.at(600+i, 1), 100) || !nearly(m.at(600+i, 2), float64(i+1)) || m.at(600+i, 0) != 0 {
			t.Errorf("column %d: %v", i, m.Levels[int(600+i-m.First)*4:][:4])
		}
	}
	if m.at(599, 1) != 0 {
		t.Error("work before the beginning")
	}
	// The day has the mean of 30 columns, and of those that there are yet.
	d := h.Map("d", Day, Reads, 20)
	if d.Columns != 2 || !nearly(d.at(20, 2), 15.5) || !nearly(d.at(21, 2), 35.5) || !nearly(d.at(21, 1), 100) {
		t.Errorf("%+v", d)
	}
	if part := h.Map("d", Hour, Reads, 638); part.First != 638 || part.Columns != 2 {
		t.Errorf("%+v", part)
	}
	if none := h.Map("d", Hour, Writes, 639); none.Columns != 1 || none.Levels[1] != 0 {
		t.Errorf("%+v", none)
	}
	if first, s := h.Series(Reads); len(s) != 1 || !nearly(float64(s["a"][600-first]), 101) || s["a"][599-first] != 0 {
		t.Error("the series of shards")
	}
	if m := h.Map("nowhere", Hour, Reads, 0); m.Columns != 0 || len(h.Databases()) != 1 {
		t.Errorf("%+v", m)
	}
}

// The past of a bucket follows the bucket to another shard. Time that was not recorded is empty, and so is
// what is too old.
func TestHistoryMoves(t *testing.T) {
	h := NewHistory()
	h.Record(6000, moment("d", map[int]float64{2: 100}), on(0, 0, 0, 0, 1, 1, 1, 1))
	_, before := h.Strips("d")
	h.Record(6030, moment("d", map[int]float64{2: 200}), on(0, 0, 1, 0, 1, 1, 1, 1))
	strips, after := h.Strips("d")
	m := h.Map("d", Hour, Reads, 600)
	if before == after || fmt.Sprint(strips) != "[{a [0 1 3]} {b [2 4 5]} {b [6 7]}]" {
		t.Fatal(before, after, strips)
	}
	if !nearly(m.at(600, 1), 100) || !nearly(m.at(603, 1), 200) || m.at(601, 1) != 0 || m.at(602, 1) != 0 || m.at(600, 2) != 0 {
		t.Errorf("%+v", m)
	}
	h.Record(6030+3600, moment("d", nil), on(0, 0, 1, 0, 1, 1, 1, 1))
	if m := h.Map("d", Hour, Reads, 0); m.at(m.First, 1) != 0 {
		t.Errorf("an hour later: %+v", m)
	}
	h.Record(100, moment("d", map[int]float64{1: 1}), on(0, 0, 1, 0, 1, 1, 1, 1))
	if m := h.Map("d", Hour, Reads, 0); m.First+359 != 963 {
		t.Errorf("a clock that was set back: %+v", m.First)
	}
}

// A picture of a day with many buckets and databases stays within its bounds.
func TestHistoryBytes(t *testing.T) {
	h := NewHistory()
	placed := make([]uint16, 4096)
	for i := range placed {
		placed[i] = uint16(i / 1024)
	}
	strips := Strips(placed, []string{"a", "b", "c", "d"}, MaxRows)
	levels := new([Metrics][]byte)
	for m := range levels {
		levels[m] = make([]byte, len(placed))
		for b := range levels[m] {
			levels[m][b] = byte(b)
		}
	}
	for i := range int64(288 + 360) {
		in := Instant{Buckets: map[string]*[Metrics][]byte{}, Shards: map[string][Metrics]float32{"a": {1, 2, 3}}}
		for d := range 1 + 9*int(i/640) {
			in.Buckets[fmt.Sprint(d)] = levels
		}
		at := 300 * i
		if i >= 288 {
			at = 300*288 + 10*(i-288)
		}
		h.Record(at, in, func(string) []Strip { return strips })
	}
	if n := len(h.Databases()); n != maxHistories {
		t.Errorf("%d databases", n)
	}
	one := (Hour.Columns()+Day.Columns()-20)*MaxRows*int(Metrics) + 4*4096
	if n := h.Bytes(); n < one || n > maxHistories*2*one+maxSeries*Hour.Columns()*int(Metrics)*4 {
		t.Errorf("%d bytes", n)
	}
}

// What two proxies have seen adds up, and a picture says what it was given.
func TestInstant(t *testing.T) {
	p := NewPicture()
	for range 100 {
		p.Add(&Sample{Database: "d", Shard: "a", Weight: 1, Busy: 2e6, KeyCount: 1, Keys: [MaxKeys]Key{{Bucket: 3}}})
	}
	p.Decay(1)
	i := p.Instant()
	l := i.Buckets["d"]
	if l == nil || len(l[Reads]) != 4 || l[Reads][0] != 0 {
		t.Fatalf("%+v", i)
	}
	if reads := float64(Amount(l[Reads][3])); reads < 80 || reads > 120 || !nearly(float64(Amount(l[Busy][3])), 2*reads) || !nearly(float64(i.Shards["a"][Reads]), reads) {
		t.Errorf("%v reads, %+v", reads, i)
	}
	before := float64(Amount(l[Reads][3]))
	i.Join(moment("d", map[int]float64{3: 50, 7: 9}))
	i.Join(moment("e", map[int]float64{0: 1}))
	if l = i.Buckets["d"]; !nearly(float64(Amount(l[Reads][3])), before+50) || !nearly(float64(Amount(l[Reads][7])), 9) || i.Buckets["e"] == nil || i.Shards["a"][Reads] < 150 {
		t.Errorf("%+v", i)
	}
}
