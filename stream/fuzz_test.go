package stream

import (
	"cmp"
	"encoding/binary"
	"io"
	"testing"

	"weft/plan"
)

// known are the types with an order in some format.
func known() []Type {
	var out []Type
	for _, s := range samples {
		for _, format := range []int16{textFormat, binaryFormat} {
			out = append(out, Type{OID: s.oid, Mod: s.mod(), Format: format, Bytes: true, Deterministic: true, ISO: true, Shortest: true})
		}
	}
	return out
}

// FuzzRows feeds every operator with rows that no server would send. They may
// be refused, but must not be taken for more than they are.
func FuzzRows(f *testing.F) {
	f.Add([]byte("\x00\x02\x00\x00\x00\x01a\xff\xff\xff\xff"), row("1", "2"))
	f.Add(row("-1.5", "3"), row("NULL", "NULL"))
	f.Add(row("2026-01-02 03:04:05.6+07", "x"), row("infinity", ""))
	f.Add(row("\x00\x01\x00\x00\x00\x00\x00\x02\x00\x07", "\x00\x00\x00\x00\x00\x00\x00\x09"), row("\x00\x00\x00\x00\xd0\x00\x00\x20", ""))
	f.Add([]byte("\x00\x01\x7f\xff\xff\xff"), []byte{})
	types := known()
	f.Fuzz(func(t *testing.T, a, b []byte) {
		two := func() Rows { return &source{rows: [][]byte{a, b, a}} }
		drain := func(name string, r Rows, err error) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for range 10 {
				if row, err := r.Next(); err == io.EOF {
					return
				} else if err != nil {
					if row != nil {
						t.Fatalf("%s: a row with %v", name, err)
					}
					return
				}
			}
			t.Fatalf("%s: more rows than came in", name)
		}
		c := Cut(two(), 1)
		for {
			row, err := c.Next()
			if err != nil {
				break
			}
			if v, at := field(row, 2); at != len(row) || binary.BigEndian.Uint16(row) != 1 {
				t.Fatalf("%q is not one column, but %q", row, v)
			}
		}
		for _, typ := range types {
			if compare, ok := typ.comparer(); ok {
				drain("merge", Merge([]Key{{Column: 1, Compare: compare}}, two(), two()), nil)
			}
			pair := []Type{typ, {OID: oidInt8, Format: typ.Format}}
			if CanDistinct(pair) {
				r, err := Distinct(two(), pair, 1<<20)
				drain("distinct", r, err)
			}
			for kind := range plan.CombineBitOr + 1 {
				spec := &plan.Aggregate{Grouped: true, Groups: []int{1}, Outputs: []plan.Output{{Kind: kind, Count: 1}}}
				if CanGroup(spec, pair) {
					r, err := Group(two(), spec, pair, 1<<20)
					drain("group", r, err)
				}
			}
		}
	})
}

// FuzzCompare: whatever the bytes, an order is one.
func FuzzCompare(f *testing.F) {
	f.Add([]byte("1"), []byte("-1"))
	f.Add([]byte("\x02\xff\x00\x04abcd"), []byte("\x02\x08\x00\x04abcd"))
	f.Add([]byte("\x00\x00\x00\x05\xff"), []byte("\x00\x00\x00\x05\xff"))
	types := known()
	f.Fuzz(func(t *testing.T, a, b []byte) {
		for _, typ := range types {
			compare, ok := typ.comparer()
			if !ok {
				continue
			}
			ab, ba, aa := compare(a, b), compare(b, a), compare(a, a)
			if cmp.Compare(ab, 0) != -cmp.Compare(ba, 0) || aa != 0 {
				t.Fatalf("%+v: %q and %q: %d, %d, %d", typ, a, b, ab, ba, aa)
			}
		}
	})
}
