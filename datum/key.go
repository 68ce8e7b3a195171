package datum

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

// Class says which of PostgreSQL's hashes a Key is for.
type Class uint8

// The classes. Types whose values hash alike share one.
const (
	Null       Class = iota
	Integer          // int2, int4, int8; a date's days and a timestamp's microseconds since 2000
	Characters       // text, varchar; bpchar without its padding
	Identifier       // uuid
	Decimal          // numeric
)

// Key is a value in the one form its column's type gives it: two values of one
// column are equal exactly when their Keys are. The zero Key is NULL.
//
// It is passed by value so that the common kinds need no memory of their own.
// Bytes of a text stay those of the Value it was made from, and are valid as
// long as they are.
type Key struct {
	class Class
	sign  sign   // of a Decimal
	n     int64  // an Integer; a Decimal's weight; a uuid's first half
	low   uint64 // a uuid's second half
	bytes []byte // Characters; a Decimal's digits
}

// IntegerKey returns the Key of a whole number, or of a count of days or
// microseconds.
func IntegerKey(n int64) Key { return Key{class: Integer, n: n} }

// Class returns the key's class.
func (k Key) Class() Class { return k.class }

// IsNull reports whether the key is NULL.
func (k Key) IsNull() bool { return k.class == Null }

// Int returns an Integer's number.
func (k Key) Int() int64 { return k.n }

// Bytes returns the text of Characters.
func (k Key) Bytes() []byte { return k.bytes }

// UUID returns the two halves of an Identifier, most significant first.
func (k Key) UUID() (high, low uint64) { return uint64(k.n), k.low }

// Decimal returns a Decimal's digits to base 10000 and the power of 10000 that
// the first one stands for. They begin and end with a digit that is not zero;
// each takes two bytes, the lower one first, as in a server's memory. Zero,
// NaN and the infinities have none; special tells the latter from zero. The
// sign takes no part in PostgreSQL's hash.
func (k Key) Decimal() (digits []byte, weight int, special bool) {
	return k.bytes, int(k.n), k.sign == negativeInfinity || k.sign >= positiveInfinity
}

// Compare orders two keys of one column as PostgreSQL's operators do, text by
// its bytes (collation C). NULL comes last.
func (k Key) Compare(o Key) int {
	if k.class != o.class {
		if k.class == Null {
			return 1
		}
		if o.class == Null {
			return -1
		}
		return cmp.Compare(k.class, o.class)
	}
	switch k.class {
	case Integer:
		return cmp.Compare(k.n, o.n)
	case Characters:
		return bytes.Compare(k.bytes, o.bytes)
	case Identifier:
		if c := cmp.Compare(uint64(k.n), uint64(o.n)); c != 0 {
			return c
		}
		return cmp.Compare(k.low, o.low)
	case Decimal:
		return compareDecimal(k, o)
	}
	return 0
}

// AppendText appends a spelling of the key, the same for equal keys and for
// these alone within one column. NULL appends nothing, and so does the empty
// text: ask IsNull.
func (k Key) AppendText(dst []byte) []byte {
	switch k.class {
	case Integer:
		return strconv.AppendInt(dst, k.n, 10)
	case Characters:
		return append(dst, k.bytes...)
	case Identifier:
		var raw [16]byte
		binary.BigEndian.PutUint64(raw[:8], uint64(k.n))
		binary.BigEndian.PutUint64(raw[8:], k.low)
		for i, part := range [...][]byte{raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:]} {
			if i > 0 {
				dst = append(dst, '-')
			}
			dst = hex.AppendEncode(dst, part)
		}
		return dst
	case Decimal:
		return appendDecimal(dst, k)
	}
	return dst
}
