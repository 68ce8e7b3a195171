package catalog

import (
	"encoding/binary"

	"weft/wire"
)

// Rows says which columns of a result have OIDs inside their values. The zero
// value has none.
type Rows struct {
	columns []rowColumn
}

type rowColumn struct {
	index  int
	typ    uint32 // on the shard
	binary bool
}

// Deep reports whether DataRow has anything to do.
func (r Rows) Deep() bool {
	for _, c := range r.columns {
		if c.binary {
			return true
		}
	}
	return false
}

// MayBeDeep reports whether DataRow would have something to do if all columns
// were binary.
func (r Rows) MayBeDeep() bool { return len(r.columns) > 0 }

// Formats returns the rows under the result formats of a Bind: the count and
// the codes as they stand at its end.
func (r Rows) Formats(codes []byte) (Rows, error) {
	if len(r.columns) == 0 {
		return r, nil
	}
	if len(codes) < 2 || len(codes) != 2+2*int(binary.BigEndian.Uint16(codes)) {
		return r, wire.ErrMalformed
	}
	out := Rows{columns: make([]rowColumn, len(r.columns))}
	copy(out.columns, r.columns)
	for i := range out.columns {
		c := &out.columns[i]
		c.binary = formatAt(codes, c.index)
	}
	return out, nil
}

// formatAt reports whether a list of formats, which has its count in front,
// makes an item binary: none is text for all, one holds for all.
func formatAt(codes []byte, i int) bool {
	switch n := int(binary.BigEndian.Uint16(codes)); {
	case n == 0:
		return false
	case n == 1:
		i = 0
	case i >= n:
		return false
	}
	return binary.BigEndian.Uint16(codes[2+2*i:]) == 1
}

// RowDescription translates the types and tables of a RowDescription in place.
// A table without a counterpart, such as a temporary one, becomes none.
func (t *Translation) RowDescription(body []byte) (Rows, error) {
	var rows Rows
	if t == nil {
		return rows, nil
	}
	if len(body) < 2 {
		return rows, wire.ErrMalformed
	}
	n := int(binary.BigEndian.Uint16(body))
	body = body[2:]
	for i := range n {
		_, rest, ok := wire.CString(body)
		if !ok || len(rest) < 18 {
			return Rows{}, wire.ErrMalformed
		}
		table, err := t.toHome.relation(binary.BigEndian.Uint32(rest))
		if err != nil {
			rest[4], rest[5] = 0, 0 // the column's number
		}
		binary.BigEndian.PutUint32(rest, table)
		typ := binary.BigEndian.Uint32(rest[6:])
		if err := patch(rest[6:10], t.toHome.typ); err != nil {
			return Rows{}, err
		}
		if t.toHome.deep[typ] != nil {
			rows.columns = append(rows.columns, rowColumn{i, typ, binary.BigEndian.Uint16(rest[16:]) == 1})
		}
		body = rest[18:]
	}
	if len(body) > 0 {
		return Rows{}, wire.ErrMalformed
	}
	return rows, nil
}

// DataRow translates the OIDs inside a row's binary values in place.
func (t *Translation) DataRow(body []byte, rows Rows) error {
	if t == nil || len(rows.columns) == 0 {
		return nil
	}
	if len(body) < 2 {
		return wire.ErrMalformed
	}
	n := int(binary.BigEndian.Uint16(body))
	body = body[2:]
	columns := rows.columns
	for i := 0; i < n && len(columns) > 0; i++ {
		item, rest, err := next(body)
		if err != nil {
			return err
		}
		if c := columns[0]; c.index == i {
			columns = columns[1:]
			if c.binary && item != nil {
				if err := t.toHome.value(c.typ, item, 0); err != nil {
					return err
				}
			}
		}
		body = rest
	}
	if len(columns) > 0 {
		return wire.ErrMalformed
	}
	return nil
}

// ParameterDescription translates the types of a ParameterDescription in place.
func (t *Translation) ParameterDescription(body []byte) error {
	if t == nil {
		return nil
	}
	if len(body) < 2 || len(body) != 2+4*int(binary.BigEndian.Uint16(body)) {
		return wire.ErrMalformed
	}
	for b := body[2:]; len(b) > 0; b = b[4:] {
		if err := patch(b[:4], t.toHome.typ); err != nil {
			return err
		}
	}
	return nil
}

// ParseOIDs translates the types that a client's Parse declares: the count and
// the OIDs as they stand at its end. It returns oids itself if they stay as they
// are, else a copy.
func (t *Translation) ParseOIDs(oids []byte) ([]byte, error) {
	if t == nil || len(oids) == 0 {
		return oids, nil
	}
	if len(oids) < 2 || len(oids) != 2+4*int(binary.BigEndian.Uint16(oids)) {
		return nil, wire.ErrMalformed
	}
	out := oids
	for i := 2; i < len(oids); i += 4 {
		from := binary.BigEndian.Uint32(oids[i:])
		to, err := t.toShard.typ(from)
		if err != nil {
			return nil, err
		}
		if to == from {
			continue
		}
		if &out[0] == &oids[0] {
			out = append([]byte(nil), oids...)
		}
		binary.BigEndian.PutUint32(out[i:], to)
	}
	return out, nil
}

// Bind translates the OIDs inside a client's binary parameters. rest is what
// follows the names in a Bind; types are those of the parameters as the client
// knows them, the count and the OIDs as a ParameterDescription's body has them.
// It returns rest itself if no parameter can have OIDs in it, else a copy.
func (t *Translation) Bind(rest, types []byte) ([]byte, error) {
	if t == nil || !t.deepTypes(types) {
		return rest, nil
	}
	if len(rest) < 2 {
		return nil, wire.ErrMalformed
	}
	end := 2 + 2*int(binary.BigEndian.Uint16(rest))
	if len(rest) < end+2 {
		return nil, wire.ErrMalformed
	}
	out := append([]byte(nil), rest...)
	formats := out[:end]
	n := int(binary.BigEndian.Uint16(out[end:]))
	body := out[end+2:]
	for i := range n {
		item, after, err := next(body)
		if err != nil {
			return nil, err
		}
		if at := 2 + 4*i; item != nil && len(types) >= at+4 && formatAt(formats, i) {
			if err := t.toShard.value(binary.BigEndian.Uint32(types[at:]), item, 0); err != nil {
				return nil, err
			}
		}
		body = after
	}
	return out, nil
}

// Fields translates the OIDs inside the fields of a row of a client's binary COPY,
// in place. types are as Bind takes them.
func (t *Translation) Fields(fields, types []byte) error {
	if t == nil {
		return nil
	}
	for at := 2; at+4 <= len(types); at += 4 {
		item, after, err := next(fields)
		if err != nil {
			return err
		}
		if item != nil {
			if err := t.toShard.value(binary.BigEndian.Uint32(types[at:]), item, 0); err != nil {
				return err
			}
		}
		fields = after
	}
	return nil
}

func (t *Translation) deepTypes(types []byte) bool {
	for i := 2; i+4 <= len(types); i += 4 {
		if t.toShard.deep[binary.BigEndian.Uint32(types[i:])] != nil {
			return true
		}
	}
	return false
}
