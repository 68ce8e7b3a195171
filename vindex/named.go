package vindex

import "weft/datum"

// Named returns a number that tells the keys of a table apart, as far as 64 bits can, for a key whose place is id. It is the place
// itself, except where all keys of a bucket have one: there it is the number that the key is, or a hash of the key.
func Named(v Vindex, id ID, keys []datum.Key) uint64 {
	switch v := v.(type) {
	case *single:
		return uint64(id)
	case *ranged, *zoned:
		if keys[0].Class() == datum.Integer {
			return uint64(keys[0].Int())
		}
		return Hash(keys[0])
	case *composite:
		if v.zones == nil {
			return uint64(id)
		}
		sum := uint64(0)
		for _, k := range keys {
			sum = sum*0x9e3779b97f4a7c15 ^ Hash(k)
		}
		return sum
	}
	return uint64(id)
}

// Counts reports whether Named gives keys numbers in the order of their values, and whether neighbours among the values are neighbours
// among the places. The numbers are those of int64.
func Counts(v Vindex) bool {
	switch v := v.(type) {
	case *single:
		_, ok := v.function.(identity)
		return ok
	case *ranged:
		switch v.columns[0].Type {
		case datum.Int2, datum.Int4, datum.Int8, datum.Date, datum.Timestamp, datum.Timestamptz:
			return true
		}
	}
	return false
}
