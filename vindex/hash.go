package vindex

import (
	"fmt"

	"weft/datum"
)

// hash is PostgreSQL's own hash of one column, with seed 0, so that a shard can
// compute it too.
type hash struct{ typ datum.Type }

func newHash(d Declaration, _ *params) (Vindex, error) {
	return &single{kind: "hash", cost: Compute, columns: d.Columns, function: hash{d.Columns[0].Type}, hashes: true}, nil
}

func newHashPart(c Column, _ *params) (function, error) { return hash{c.Type}, nil }

func (h hash) of(k datum.Key) (uint64, error) { return Hash(k), nil }

// Hash returns PostgreSQL's extended hash of a value with seed 0, and 0 for
// NULL.
func Hash(k datum.Key) uint64 {
	switch k.Class() {
	case datum.Integer:
		return hashInt8(k.Int())
	case datum.Characters:
		return hashBytes(k.Bytes())
	case datum.Identifier:
		return hashPair(k.UUID())
	case datum.Decimal:
		return hashNumeric(k)
	}
	return 0
}

// hashInt8 is hashint8extended: the upper half is folded in such that a number
// hashes alike as int2, int4 and int8.
func hashInt8(n int64) uint64 {
	low, high := uint32(n), uint32(n>>32)
	if n < 0 {
		high = ^high
	}
	return hashWord(low ^ high)
}

// hashNumeric is hash_numeric_extended: the digits without zeros at the ends and
// the weight; not the sign.
func hashNumeric(k datum.Key) uint64 {
	digits, weight, special := k.Decimal()
	switch {
	case special:
		return 0 // the seed
	case len(digits) == 0:
		return ^uint64(0) // the seed less one
	}
	return hashBytes(digits) ^ uint64(int64(weight))
}

// sql returns the expression that defines the hash. Types without a hash that a
// row filter may call are brought to one that has.
func (h hash) sql(column string) string {
	var call string
	switch h.typ {
	case datum.Int2, datum.Int4, datum.Int8:
		call = "hashint8extended(%s::int8, 0)"
	case datum.Text, datum.Varchar:
		call = "hashtextextended(%s::text, 0)"
	case datum.Bpchar:
		call = "hashbpcharextended(%s, 0)"
	case datum.UUID:
		call = "uuid_hash_extended(%s, 0)"
	case datum.Date:
		// Infinite dates cannot be subtracted from.
		call = "hashint4extended(CASE %[1]s WHEN 'infinity' THEN 2147483647 WHEN '-infinity' THEN '-2147483648'::int4" +
			" ELSE %[1]s - '2000-01-01'::date END, 0)"
	case datum.Timestamp:
		call = "timestamp_hash_extended(%s, 0)"
	case datum.Timestamptz:
		call = "timestamp_hash_extended(%s AT TIME ZONE 'UTC', 0)"
	case datum.Numeric:
		call = "hash_numeric_extended(%s, 0)"
	}
	return fmt.Sprintf("coalesce("+call+", 0)", column)
}
