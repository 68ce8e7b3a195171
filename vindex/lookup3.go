package vindex

import (
	"encoding/binary"
	"math/bits"
)

// This is Bob Jenkins's lookup3 in the form PostgreSQL computes it on
// little-endian machines with seed 0: three words a, b, c that start alike, twelve
// bytes mixed in at a time, and b and c as the 64-bit result.

// lookup3Start is the words' first value for an input of n bytes.
func lookup3Start(n int) uint32 { return 0x9e3779b9 + uint32(n) + 3923095 }

// hashBytes is PostgreSQL's hash_bytes_extended(data, 0).
func hashBytes(data []byte) uint64 {
	start := lookup3Start(len(data))
	a, b, c := start, start, start
	for len(data) >= 12 {
		a += binary.LittleEndian.Uint32(data)
		b += binary.LittleEndian.Uint32(data[4:])
		c += binary.LittleEndian.Uint32(data[8:])
		a, b, c = lookup3Mix(a, b, c)
		data = data[12:]
	}
	// The last bytes fill a, then b, then c from its second byte on: the first
	// stands for the length.
	if len(data) >= 8 {
		a += binary.LittleEndian.Uint32(data)
		b += binary.LittleEndian.Uint32(data[4:])
		c += lookup3Tail(data[8:]) << 8
	} else if len(data) >= 4 {
		a += binary.LittleEndian.Uint32(data)
		b += lookup3Tail(data[4:])
	} else {
		a += lookup3Tail(data)
	}
	return lookup3Final(a, b, c)
}

// lookup3Tail reads up to three bytes as a number.
func lookup3Tail(data []byte) (n uint32) {
	for i, x := range data {
		n |= uint32(x) << (8 * i)
	}
	return n
}

// hashWord is PostgreSQL's hash_bytes_uint32_extended(w, 0).
func hashWord(w uint32) uint64 {
	start := lookup3Start(4)
	return lookup3Final(start+w, start, start)
}

// hashPair is hashBytes of sixteen bytes that are at hand as two big-endian
// halves.
func hashPair(high, low uint64) uint64 {
	high, low = bits.ReverseBytes64(high), bits.ReverseBytes64(low)
	start := lookup3Start(16)
	a, b, c := lookup3Mix(start+uint32(high), start+uint32(high>>32), start+uint32(low))
	return lookup3Final(a+uint32(low>>32), b, c)
}

func lookup3Mix(a, b, c uint32) (uint32, uint32, uint32) {
	a = (a - c) ^ bits.RotateLeft32(c, 4)
	c += b
	b = (b - a) ^ bits.RotateLeft32(a, 6)
	a += c
	c = (c - b) ^ bits.RotateLeft32(b, 8)
	b += a
	a = (a - c) ^ bits.RotateLeft32(c, 16)
	c += b
	b = (b - a) ^ bits.RotateLeft32(a, 19)
	a += c
	c = (c - b) ^ bits.RotateLeft32(b, 4)
	b += a
	return a, b, c
}

func lookup3Final(a, b, c uint32) uint64 {
	c = (c ^ b) - bits.RotateLeft32(b, 14)
	a = (a ^ c) - bits.RotateLeft32(c, 11)
	b = (b ^ a) - bits.RotateLeft32(a, 25)
	c = (c ^ b) - bits.RotateLeft32(b, 16)
	a = (a ^ c) - bits.RotateLeft32(c, 4)
	b = (b ^ a) - bits.RotateLeft32(a, 14)
	c = (c ^ b) - bits.RotateLeft32(b, 24)
	return uint64(b)<<32 | uint64(c)
}
