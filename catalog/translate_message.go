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
	typ    uint32 // the OID of the column's type on the shard
	binary bool
}

// Deep reports whether DataRow has anything to translate.
func (r Rows) Deep() bool {
	for _, c := range r.columns {
		if c.binary {
			return true
		}
	}
	return false
}

// MayBeDeep reports whether DataRow would have something to translate if all columns
// were binary.
func (r Rows) MayBeDeep() bool { return len(r.columns) > 0 }

// Formats returns Rows with the result formats of a Bind. codes are the last bytes
// of the Bind: the number of format codes, and the codes.
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

// formatAt reports whether item i is binary under format codes, which have their
// number in front. Without codes all items are text; a single code is for all items.
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
// A table without a counterpart on the home shard, such as a temporary table, becomes
// 0, which means that the column comes from no table.
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

// ParseOIDs translates the types that a client's Parse declares. oids are the last
// bytes of the Parse: the number of types, and their OIDs. ParseOIDs returns oids
// itself if nothing changes, else a copy.
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
// follows the names in a Bind. types has the parameters' types as the client knows
// them, in the form of a ParameterDescription's body: their number, and the OIDs.
// Bind returns rest itself if no parameter can have OIDs in it, else a copy.
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

// Fields translates the OIDs inside the fields of a row of a client's binary COPY FROM,
// in place. types has the columns' types in the form that Bind takes.
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

// deepTypes reports whether binary values of one of the types may have OIDs to translate.
func (t *Translation) deepTypes(types []byte) bool {
	for i := 2; i+4 <= len(types); i += 4 {
		if t.toShard.deep[binary.BigEndian.Uint32(types[i:])] != nil {
			return true
		}
	}
	return false
}
