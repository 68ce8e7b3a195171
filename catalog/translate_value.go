package catalog

import (
	"encoding/binary"

	"weft/wire"
)

// maxNesting bounds how deep values may be nested.
const maxNesting = 64

// value translates the OIDs inside a binary value of a type, in place.
func (d *direction) value(oid uint32, v []byte, depth int) error {
	s := d.deep[oid]
	if s == nil {
		return nil
	}
	if depth > maxNesting {
		return wire.ErrMalformed
	}
	switch s.kind {
	case array:
		return d.array(v, depth)
	case record:
		return d.record(v, depth)
	case domain:
		return d.value(s.elem, v, depth+1)
	case rangeOf:
		if len(v) < 1 {
			return wire.ErrMalformed
		}
		return d.items(s.elem, v[1:], depth) // the bounds follow one byte of flags
	case multirange:
		if len(v) < 4 {
			return wire.ErrMalformed
		}
		return d.items(s.elem, v[4:], depth) // the ranges follow their count
	case regclass, regtype:
		if len(v) != 4 {
			return wire.ErrMalformed
		}
		translate := d.typ
		if s.kind == regclass {
			translate = d.relation
		}
		return patch(v, translate)
	}
	return nil
}

// array translates a binary array: the number of dimensions, flags, the type of the
// elements, two numbers for each dimension, and the elements.
func (d *direction) array(v []byte, depth int) error {
	if len(v) < 12 {
		return wire.ErrMalformed
	}
	dims := binary.BigEndian.Uint32(v)
	elem := binary.BigEndian.Uint32(v[8:])
	if dims > 6 || len(v) < 12+8*int(dims) {
		return wire.ErrMalformed
	}
	if err := patch(v[8:12], d.typ); err != nil {
		return err
	}
	return d.items(elem, v[12+8*int(dims):], depth)
}

// record translates a binary record: the number of fields, and each field's type and
// value.
func (d *direction) record(v []byte, depth int) error {
	if len(v) < 4 {
		return wire.ErrMalformed
	}
	n := binary.BigEndian.Uint32(v)
	for v = v[4:]; n > 0; n-- {
		if len(v) < 8 {
			return wire.ErrMalformed
		}
		oid := binary.BigEndian.Uint32(v)
		if err := patch(v[:4], d.typ); err != nil {
			return err
		}
		item, rest, err := next(v[4:])
		if err != nil {
			return err
		}
		if item != nil {
			if err := d.value(oid, item, depth+1); err != nil {
				return err
			}
		}
		v = rest
	}
	if len(v) > 0 {
		return wire.ErrMalformed
	}
	return nil
}

// items translates values of one type, each of which follows its length.
func (d *direction) items(oid uint32, v []byte, depth int) error {
	if d.deep[oid] == nil {
		return nil
	}
	for len(v) > 0 {
		item, rest, err := next(v)
		if err != nil {
			return err
		}
		if item != nil {
			if err := d.value(oid, item, depth+1); err != nil {
				return err
			}
		}
		v = rest
	}
	return nil
}

// next splits v after its first value, which follows its length. item is nil for NULL.
func next(v []byte) (item, rest []byte, err error) {
	if len(v) < 4 {
		return nil, nil, wire.ErrMalformed
	}
	n := int32(binary.BigEndian.Uint32(v))
	v = v[4:]
	if n == -1 {
		return nil, v, nil
	}
	if n < 0 || int(n) > len(v) {
		return nil, nil, wire.ErrMalformed
	}
	return v[:n:n], v[n:], nil
}

// patch translates one OID in place.
func patch(b []byte, translate func(uint32) (uint32, error)) error {
	oid, err := translate(binary.BigEndian.Uint32(b))
	if err != nil {
		return err
	}
	binary.BigEndian.PutUint32(b, oid)
	return nil
}
