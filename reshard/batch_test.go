package reshard

import (
	"reflect"
	"testing"

	"weft/directory"
)

func TestBatch(t *testing.T) {
	small := func(b int, from, to string) Parcel { return Parcel{Bucket: b, From: from, To: to, Rows: 10} }
	for name, c := range map[string]struct {
		parcels []Parcel
		rows    int64
		want    []directory.Pair
	}{
		"nothing left": {nil, 100, nil},
		"as many as fit": {
			[]Parcel{small(5, "a", "b"), small(1, "a", "b"), small(3, "a", "b")},
			20,
			[]directory.Pair{{From: "a", To: "b", Buckets: []int{1, 3}}},
		},
		"one that is too large goes alone": {
			[]Parcel{{Bucket: 1, From: "a", To: "b", Rows: 5000}, small(2, "a", "b")},
			20,
			[]directory.Pair{{From: "a", To: "b", Buckets: []int{1}}},
		},
		"a smaller one fills up": {
			[]Parcel{small(1, "a", "b"), {Bucket: 2, From: "a", To: "b", Rows: 11}, small(3, "a", "b")},
			20,
			[]directory.Pair{{From: "a", To: "b", Buckets: []int{1, 3}}},
		},
		"ways do not share a shard": {
			[]Parcel{small(1, "a", "b"), small(2, "c", "b"), small(3, "c", "d"), small(4, "b", "a")},
			20,
			[]directory.Pair{{From: "a", To: "b", Buckets: []int{1}}, {From: "c", To: "d", Buckets: []int{3}}},
		},
		"those in the way come last": {
			[]Parcel{{Bucket: 1, From: "a", To: "b", Rows: 10, Failed: 1}, small(2, "a", "b")},
			10,
			[]directory.Pair{{From: "a", To: "b", Buckets: []int{2}}},
		},
		"cold ones go first": {
			[]Parcel{{Bucket: 1, From: "a", To: "b", Rows: 10, Class: 3}, {Bucket: 2, From: "a", To: "b", Rows: 10, Class: 1}, small(3, "a", "b")},
			20,
			[]directory.Pair{{From: "a", To: "b", Buckets: []int{2, 3}}},
		},
		"a hot one does not fill up": {
			[]Parcel{{Bucket: 1, From: "a", To: "b", Rows: 5, Class: 1}, small(2, "a", "b"), {Bucket: 3, From: "a", To: "b", Rows: 11}, {Bucket: 4, From: "a", To: "b", Rows: 5}},
			20,
			[]directory.Pair{{From: "a", To: "b", Buckets: []int{2, 4}}},
		},
		"a hot one goes before those in the way": {
			[]Parcel{{Bucket: 1, From: "a", To: "b", Rows: 10, Failed: 1}, {Bucket: 2, From: "a", To: "b", Rows: 10, Class: 3}},
			10,
			[]directory.Pair{{From: "a", To: "b", Buckets: []int{2}}},
		},
	} {
		if got := Batch(c.parcels, c.rows); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
	var many []Parcel
	for b := range 3000 {
		many = append(many, Parcel{Bucket: b, From: "a", To: "b"})
	}
	if got := Batch(many, 1000); len(got[0].Buckets) != maxRoundBuckets {
		t.Errorf("%d empty buckets in one round", len(got[0].Buckets))
	}
}

// TestBatchEnds: rounds of batches carry every bucket once, whatever gives way on the way.
func TestBatchEnds(t *testing.T) {
	left := map[int]Parcel{}
	shards := []string{"a", "b", "c"}
	for b := range 100 {
		left[b] = Parcel{Bucket: b, From: shards[b%3], To: shards[(b+1+b/50)%3], Rows: int64(b * b)}
	}
	for round := 0; len(left) > 0; round++ {
		if round > 1000 {
			t.Fatalf("%d buckets never went", len(left))
		}
		var list []Parcel
		for _, p := range left {
			list = append(list, p)
		}
		for _, pair := range Batch(list, 2000) {
			for _, b := range pair.Buckets {
				p := left[b]
				if p.From != pair.From || p.To != pair.To {
					t.Fatalf("bucket %d goes from %s to %s", b, pair.From, pair.To)
				}
				if round%3 == 1 {
					p.Failed++
					left[b] = p
					continue
				}
				delete(left, b)
			}
		}
	}
}

func TestParcels(t *testing.T) {
	s := &directory.Snapshot{
		BucketCount: 4, Placement: []uint16{0, 0, 1, 1}, Shards: []directory.Shard{{Name: "a"}, {Name: "b"}},
		Targets: map[string][]uint16{"m": {0, 1, 1, 0}},
	}
	m := &directory.Move{ID: "m", Database: "app"}
	got := Parcels(s, m, func(b int) int64 { return int64(b) }, func(b int) int { return b % 2 }, NewWarmth(map[int32]float64{3: 1}, 4))
	want := []Parcel{{1, "a", "b", 1, 1, 0}, {3, "b", "a", 3, 1, 2}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}
