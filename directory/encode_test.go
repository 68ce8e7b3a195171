package directory

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// kept is a store of one snapshot, in memory.
type kept struct {
	head  []byte
	parts map[string][]byte
}

func (k *kept) write(t *testing.T, old, next *Snapshot) *Encoded {
	t.Helper()
	e, err := next.Encode(old)
	if err != nil {
		t.Fatal(err)
	}
	if k.parts == nil {
		k.parts = map[string][]byte{}
	}
	k.head = e.Head
	maps.Copy(k.parts, e.Parts)
	for _, name := range e.Gone {
		delete(k.parts, name)
	}
	return e
}

func (k *kept) read(d *Decoder, version int64) (*Snapshot, error) {
	for name, b := range k.parts {
		d.Add(name, b)
	}
	return d.Decode(k.head, version)
}

func TestEncode(t *testing.T) {
	s := sample()
	s.Cluster = "cafe"
	var k kept
	e := k.write(t, nil, s)
	// This text is in every etcd out there: changing it needs a new format.
	const want = `{"format":2,"cluster":"cafe","bucket_count":16,"home":"a","shards":[` +
		`{"name":"a","hosts":["10.0.0.1:5432"],"weight":1},` +
		`{"name":"b","hosts":["[::1]:5432","db.example:5433"],"options":{"sslmode":"require"},"weight":1}],` +
		`"parts":{"placement":"SUM"}}`
	if got := strings.Replace(string(e.Head), e.sums[placementPart], "SUM", 1); got != want {
		t.Errorf("encoded\n got %s\nwant %s", got, want)
	}
	stored := e.Stored(5)
	d, err := k.read(&Decoder{}, 5)
	if err != nil || d.Version != 5 || len(Diff(s, d)) != 0 || !slices.Equal(d.Placement, s.Placement) {
		t.Fatalf("decoded %+v, %v", d, err)
	}

	next := stored.Clone()
	next.Tables = declared()
	next.Tables[0].Vindex = Vindex{Kind: "composite", Params: map[string]any{"bits": []any{64}}}
	next.Schemas, next.Sequences = map[string]int64{"app": 3}, map[string]int64{"app": 4}
	next.Pins = []Pin{{3, 3, next.nameOf(next.Placement, 3)}}
	next.Placement = append(next.Placement, 1, Unused)
	e = k.write(t, stored, next)
	if len(e.Parts) != 6 || e.Same() || len(e.Gone) != 0 {
		t.Errorf("%d parts were written for 5 tables and a placement", len(e.Parts))
	}
	stored = e.Stored(6)
	d, err = k.read(&Decoder{}, 6)
	if err != nil || len(Diff(next, d)) != 0 || !slices.Equal(d.Placement, next.Placement) || !slices.Equal(d.Pins, next.Pins) ||
		d.Schemas["app"] != 3 || d.Sequences["app"] != 4 {
		t.Fatalf("decoded %+v, %v", d, err)
	}
	for _, old := range []*Snapshot{stored, d} {
		for _, n := range []*Snapshot{stored, d, d.Clone()} {
			if e, err := n.Encode(old); err != nil || !e.Same() {
				t.Errorf("no change, and yet %v, %v is to be written", e, err)
			}
		}
	}
	// A change writes what changed.
	next = d.Clone()
	next.Schemas["app"]++
	if e = k.write(t, d, next); len(e.Parts)+len(e.Gone) != 0 || e.Same() {
		t.Errorf("for a schema: parts %v, gone %v", e.Parts, e.Gone)
	}
	next = e.Stored(7)
	last := next.Clone()
	last.DropTable("app", "public", "items")
	if e = k.write(t, next, last); len(e.Parts) != 0 || len(e.Gone) != 1 {
		t.Errorf("for a table: parts %v, gone %v", e.Parts, e.Gone)
	}
	if d, err = k.read(&Decoder{}, 8); err != nil || len(Diff(last, d)) != 0 {
		t.Errorf("decoded %+v, %v", d, err)
	}
}

// fillIn sets every field below v to something.
func fillIn(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Type().Field(i).Tag.Get("json") != "-" {
				fillIn(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillIn(v.Index(0))
	case reflect.Map:
		e := reflect.New(v.Type().Elem()).Elem()
		if e.Kind() == reflect.Interface {
			e.Set(reflect.ValueOf("x"))
		} else {
			fillIn(e)
		}
		v.Set(reflect.MakeMap(v.Type()))
		key := reflect.New(v.Type().Key()).Elem()
		fillIn(key)
		v.SetMapIndex(key, e)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillIn(v.Elem())
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(7)
	default:
		panic("a field of type " + v.Type().String() + ": teach the test, and Encode, Equal and Clone")
	}
}

// A field that somebody adds and Encode, Clone or Equal does not know would be
// lost without a word.
func TestEveryFieldIsKept(t *testing.T) {
	s := &Snapshot{}
	fillIn(reflect.ValueOf(s).Elem())
	s.Version = 0
	var k kept
	e := k.write(t, nil, s.Clone())
	var d Decoder
	for name, b := range k.parts {
		d.Add(name, b)
	}
	got, err := d.decode(e.Head)
	if err != nil {
		t.Fatal(err)
	}
	got.sums = nil
	if !reflect.DeepEqual(got, s) {
		t.Errorf("stored %+v\n  read %+v", s, got)
	}
	// Each field of a table counts.
	full := s.Tables[0]
	for i := range reflect.TypeFor[Table]().NumField() {
		other := full
		f := reflect.ValueOf(&other).Elem().Field(i)
		f.SetZero()
		if full.Equal(&other) {
			t.Errorf("Equal does not look at %s", reflect.TypeFor[Table]().Field(i).Name)
		}
	}
	// And each of the snapshot makes a change that is written.
	old := e.Stored(1)
	for i := range reflect.TypeFor[Snapshot]().NumField() {
		f := reflect.TypeFor[Snapshot]().Field(i)
		if !f.IsExported() || f.Tag.Get("json") == "-" {
			continue
		}
		other := old.Clone()
		reflect.ValueOf(other).Elem().Field(i).SetZero()
		if e, err := other.Encode(old); err != nil || e.Same() {
			t.Errorf("a change of %s is not written, %v", f.Name, err)
		}
	}
}

func TestDecodeFormat1(t *testing.T) {
	const old = `{"format":1,"cluster":"cafe","bucket_count":16,"home":"a","shards":[` +
		`{"name":"a","hosts":["10.0.0.1:5432"],"weight":1},` +
		`{"name":"b","hosts":["[::1]:5432","db.example:5433"],"options":{"sslmode":"require"},"weight":1}]}`
	d, err := (&Decoder{}).Decode([]byte(old), 7)
	want := sample()
	want.Cluster = "cafe"
	if err != nil || d.Version != 7 || len(Diff(want, d)) != 0 || !slices.Equal(d.Placement, want.Placement) {
		t.Fatalf("decoded %+v, %v", d, err)
	}
	// The next change brings it to the new format, even if it changes nothing.
	if e, err := d.Encode(d); err != nil || e.Same() || len(e.Parts) != 1 {
		t.Errorf("encoded %+v, %v", e, err)
	}
	for in, reason := range map[string]string{
		"":             "unexpected end",
		`{"format":3}`: "format 3",
		`{}`:           "format 0",
		strings.Replace(old, `"home"`, `"zones":[],"home"`, 1): "newer weft",
		strings.Replace(old, `16`, `17`, 1):                    "power of two",
	} {
		if _, err := (&Decoder{}).Decode([]byte(in), 1); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("Decode(%s): %v, want %q", in, err, reason)
		}
	}
}

func TestDecodeDamaged(t *testing.T) {
	s := sample()
	s.Tables = declared()
	var k kept
	k.write(t, nil, s)
	for name := range k.parts {
		for what, damage := range map[string]func(c *kept){
			"gone":  func(c *kept) { delete(c.parts, name) },
			"short": func(c *kept) { c.parts[name] = c.parts[name][1:] },
			"other": func(c *kept) { c.parts[name] = []byte("x") },
		} {
			c := kept{k.head, maps.Clone(k.parts)}
			damage(&c)
			if _, err := c.read(&Decoder{}, 1); !errors.Is(err, ErrPart) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s %s: %v", name, what, err)
			}
		}
	}
	// Well-formed and wrong: the map has a hole.
	s.Placement[3] = Unused
	var hole kept
	hole.write(t, nil, s)
	var p *Problem
	if _, err := hole.read(&Decoder{}, 1); !errors.As(err, &p) || p.Place != "placement[3]" {
		t.Errorf("a hole: %v", err)
	}
}

// big is a cluster as large as one may get.
func big(tables int) *Snapshot {
	s := New(65536, "shard-0", equalFleet(64))
	for i := range tables {
		s.Tables = append(s.Tables, Table{
			Database: "app", Schema: "public", Name: fmt.Sprintf("table_with_a_long_name_%05d", i), Kind: Sharded,
			Columns: []Column{{Name: fmt.Sprintf("customer_id_%d", i%100), Type: 20, TypeName: "bigint", Mod: -1}}, Vindex: Vindex{Kind: "hash"},
		})
	}
	return s
}

func TestEncodeBig(t *testing.T) {
	s := big(10_000)
	var k kept
	e := k.write(t, nil, s)
	size := len(e.Head)
	for _, p := range e.Parts {
		size += len(p)
	}
	t.Logf("10,000 tables and 65,536 buckets are %d parts, %d bytes", len(e.Parts), size)
	if size > 1<<20 || len(e.Parts) > 100 {
		t.Errorf("%d parts, %d bytes do not fit in one transaction", len(e.Parts), size)
	}
	var d Decoder
	old, err := k.read(&d, 1)
	if err != nil || len(Diff(s, old)) != 0 {
		t.Fatal(err)
	}
	next := old.Clone()
	next.Tables[77].State = Declaring
	e = k.write(t, old, next)
	size = len(e.Head)
	for _, p := range e.Parts {
		size += len(p)
	}
	t.Logf("a change of one table writes %d bytes", size)
	if len(e.Parts) != 1 || size > 32<<10 {
		t.Errorf("a change of one table writes %d parts, %d bytes", len(e.Parts), size)
	}
}

// BenchmarkSchemaBump is what every DDL does to the directory, without the
// store: the author's side and each reader's.
func BenchmarkSchemaBump(b *testing.B) {
	s := big(10_000)
	e, err := s.Encode(nil)
	if err != nil {
		b.Fatal(err)
	}
	var d Decoder
	for name, p := range e.Parts {
		d.Add(name, p)
	}
	old, err := d.Decode(e.Head, 1)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			next := old.Clone()
			next.Schemas = map[string]int64{"app": 1}
			if err := Successor(old, next); err != nil {
				b.Fatal(err)
			}
			if e, err = next.Encode(old); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			if _, err := d.Decode(e.Head, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkTable: finding a declaration among few and many.
func BenchmarkTable(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		s := big(n)
		name := s.Tables[n/3].Name
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Table("app", "public", name)
			}
		})
	}
}
