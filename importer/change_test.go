package importer

import (
	"encoding/binary"
	"reflect"
	"testing"
)

// message writes a message of pgoutput: strings end with a zero, numbers have the size of their type.
func message(kind byte, parts ...any) []byte {
	out := []byte{kind}
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			out = append(append(out, p...), 0)
		case byte:
			out = append(out, p)
		case int:
			out = binary.BigEndian.AppendUint16(out, uint16(p))
		case uint32:
			out = binary.BigEndian.AppendUint32(out, p)
		case uint64:
			out = binary.BigEndian.AppendUint64(out, p)
		case []byte: // a value
			out = append(out, 't')
			out = binary.BigEndian.AppendUint32(out, uint32(len(p)))
			out = append(out, p...)
		}
	}
	return out
}

func TestDecode(t *testing.T) {
	d := newDecoder()
	decode := func(m []byte) event {
		t.Helper()
		e, err := d.decode(m)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	if e := decode(message('B', uint64(500), uint64(0), uint32(7))); e.begin != 500 {
		t.Errorf("begin: %+v", e)
	}
	e := decode(message('R', uint32(1), "public", "t", byte('d'), 3, byte(1), "id", uint32(23), ^uint32(0), byte(0), "body", uint32(25), ^uint32(0), byte(0), "n", uint32(23), ^uint32(0)))
	want := &Relation{Schema: "public", Name: "t", Columns: []string{"id", "body", "n"}, Key: []bool{true, false, false}, types: []uint32{23, 25, 23}, mods: []int32{-1, -1, -1}}
	if !reflect.DeepEqual(e.relation, want) {
		t.Errorf("relation: %+v", e.relation)
	}
	v := func(s string) Value { return Value{'t', []byte(s)} }
	null, same := Value{Kind: 'n'}, Value{Kind: 'u'}
	for _, c := range []struct {
		m    []byte
		want Change
	}{
		{message('I', uint32(1), byte('N'), 3, []byte("1"), []byte(""), byte('n')), Change{Kind: 'I', New: []Value{v("1"), v(""), null}}},
		{message('U', uint32(1), byte('N'), 3, []byte("1"), byte('u'), []byte("2")), Change{Kind: 'U', New: []Value{v("1"), same, v("2")}}},
		{
			message('U', uint32(1), byte('K'), 3, []byte("1"), byte('n'), byte('n'), byte('N'), 3, []byte("2"), byte('u'), byte('n')),
			Change{Kind: 'U', Old: []Value{v("1"), null, null}, New: []Value{v("2"), same, null}},
		},
		{
			message('U', uint32(1), byte('O'), 3, []byte("1"), []byte("long"), byte('n'), byte('N'), 3, []byte("2"), byte('u'), byte('n')),
			Change{Kind: 'U', Full: true, Old: []Value{v("1"), v("long"), null}, New: []Value{v("2"), v("long"), null}},
		},
		{message('D', uint32(1), byte('K'), 3, []byte("1"), byte('n'), byte('n')), Change{Kind: 'D', Old: []Value{v("1"), null, null}}},
	} {
		got := decode(c.m).change
		if got == nil || got.Of != e.relation {
			t.Fatalf("%+v: no change of the relation", c.want)
		}
		c.want.Of = e.relation
		if !reflect.DeepEqual(*got, c.want) {
			t.Errorf("got %+v, want %+v", *got, c.want)
		}
	}
	if got := decode(message('T', uint32(1), byte(0), uint32(1))).change; got == nil || got.Kind != 'T' || len(got.Truncated) != 1 || got.Truncated[0] != e.relation {
		t.Errorf("truncate: %+v", got)
	}
	for _, m := range [][]byte{
		message('I', uint32(9), byte('N'), 1, []byte("1")), // never described
		message('I', uint32(1), byte('N'), 1, []byte("1")), // too few columns
		message('T', uint32(1), byte(0), uint32(9)),
	} {
		if e, err := d.decode(m); err == nil {
			t.Errorf("%q: %+v", m, e)
		}
	}
}
