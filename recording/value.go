package recording

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

// Value is what is known of one value: nothing if it is NULL or was not read, its sum, or the sums of
// the elements of an array.
type Value []uint64

const (
	// maxElements bounds the elements of one array that are kept.
	maxElements = 64
	// maxLength bounds how much of a value is looked at: a shard key is short.
	maxLength = 1 << 10
)

// Text returns the sum of a value that is written as text.
func (k Key) Text(v []byte) Value {
	if n := len(v); n >= 2 && n <= maxElements*maxLength && v[0] == '{' && v[n-1] == '}' {
		return k.elements(v[1 : n-1])
	}
	if len(v) > maxLength {
		return nil
	}
	return Value{k.Sum(plain(v))}
}

// Binary returns the sum of a value in the binary format, equal to that of the same value as text.
// The types of values are not known here: values of 2, 4 and 8 bytes are taken for integers, those of
// 16 bytes for UUIDs, and those that look like arrays of one dimension for arrays.
func (k Key) Binary(v []byte) Value {
	switch len(v) {
	case 2:
		return k.number(int64(int16(binary.BigEndian.Uint16(v))))
	case 4:
		return k.number(int64(int32(binary.BigEndian.Uint32(v))))
	case 8:
		return k.number(int64(binary.BigEndian.Uint64(v)))
	case 16:
		h := hex.EncodeToString(v)
		return k.Text([]byte(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]))
	}
	if list, ok := k.array(v); ok {
		return list
	}
	return k.Text(v)
}

func (k Key) number(n int64) Value { return Value{k.Sum(strconv.AppendInt(nil, n, 10))} }

// array reads an array of one dimension: dimensions, flags, type of the elements, length, lower bound, and
// each element after its length.
func (k Key) array(v []byte) (Value, bool) {
	const head = 20
	if len(v) < head || binary.BigEndian.Uint32(v) != 1 || binary.BigEndian.Uint32(v[4:]) > 1 {
		return nil, false
	}
	n, rest := int(binary.BigEndian.Uint32(v[12:])), v[head:]
	if n < 1 || n > len(rest)/4 {
		return nil, false
	}
	out := Value{}
	for range n {
		if len(rest) < 4 {
			return nil, false
		}
		size := int(int32(binary.BigEndian.Uint32(rest)))
		if rest = rest[4:]; size < 0 {
			continue
		}
		if size > len(rest) {
			return nil, false
		}
		if len(out) < maxElements {
			out = append(out, k.Binary(rest[:size])...)
		}
		rest = rest[size:]
	}
	return out, true
}

// elements returns the sums of the elements of an array literal, which stand between braces.
func (k Key) elements(list []byte) Value {
	out := Value{}
	for len(list) > 0 && len(out) < maxElements {
		var item []byte
		if list[0] == '"' {
			item, list = quoted(list[1:])
		} else if i := bytes.IndexByte(list, ','); i >= 0 {
			item, list = bytes.TrimSpace(list[:i]), list[i:]
		} else {
			item, list = bytes.TrimSpace(list), nil
		}
		if !bytes.EqualFold(item, []byte("null")) {
			out = append(out, k.Sum(plain(item)))
		}
		list = bytes.TrimLeft(list, ", ")
	}
	return out
}

// quoted reads an element up to its closing quote.
func quoted(s []byte) (item, rest []byte) {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			item = append(item, s[i])
		case s[i] == '"':
			return item, s[i+1:]
		default:
			item = append(item, s[i])
		}
	}
	return item, nil
}

// plain brings different spellings of one integer or UUID to one.
func plain(v []byte) []byte {
	if n, err := strconv.ParseInt(string(bytes.TrimSpace(v)), 10, 64); err == nil {
		return strconv.AppendInt(nil, n, 10)
	}
	if len(v) == 36 && v[8] == '-' && v[13] == '-' && v[18] == '-' && v[23] == '-' {
		return bytes.ToLower(v)
	}
	return v
}
