package vindex

import (
	"errors"
	"fmt"
	"math/bits"

	"weft/datum"
)

// ID is a keyspace ID. Its top bits are the bucket.
type ID uint64

// Bucket returns the ID's bucket, of 1<<bits.
func (id ID) Bucket(bits int) int { return int(id >> (64 - bits)) }

// Range is a run of keyspace IDs, both ends included.
type Range struct{ First, Last ID }

// All is the whole key space.
var All = Range{0, 1<<64 - 1}

// Within returns the IDs whose bucket, of 1<<bits, is the given one.
func Within(bucket, bits int) Range {
	first := ID(bucket) << (64 - bits)
	return Range{first, first + 1<<(64-bits) - 1}
}

// Buckets returns the first and the last bucket the range touches, of 1<<bits.
func (r Range) Buckets(bits int) (first, last int) {
	return r.First.Bucket(bits), r.Last.Bucket(bits)
}

// MaxBuckets bounds the number of buckets of a cluster.
const MaxBuckets = 1 << 16

// Bits returns how many bits a bucket's number has.
func Bits(buckets int) (int, error) {
	if buckets < 1 || buckets > MaxBuckets || buckets&(buckets-1) != 0 {
		return 0, fmt.Errorf("bucket count %d is not a power of two from 1 to %d", buckets, MaxBuckets)
	}
	return bits.Len(uint(buckets)) - 1, nil
}

// Cost orders the vindexes of a table: the planner uses the cheapest that a
// statement has values for.
type Cost int

// What it costs to find a keyspace ID.
const (
	Identity     Cost = 0
	Compute      Cost = 1
	LookupUnique Cost = 10
	LookupMany   Cost = 20
)

// Vindex is what every kind has in common.
type Vindex interface {
	// Kind is the name it is declared by.
	Kind() string
	Cost() Cost
	// Columns returns the key columns in order. Not to be changed.
	Columns() []Column
}

// Computed is a vindex that needs nothing but the key.
type Computed interface {
	Vindex
	// ID returns the place of the row whose key columns hold keys, one for each.
	ID(keys []datum.Key) (ID, error)
	// Ranges appends to dst where rows may live whose leading key columns hold
	// keys. With the whole key it is the one ID.
	Ranges(dst []Range, keys []datum.Key) ([]Range, error)
	// SQL returns the expression for the ID, of type int8 with the same bits.
	// columns are what stands for the key columns: names, quoted and qualified
	// as need be, not expressions. pg_catalog must come first in search_path.
	SQL(columns []string) string
}

// Lookup is a vindex whose places are kept elsewhere.
type Lookup interface {
	Vindex
	// Request returns what to look up for a key. Its Key is written over buf if
	// it fits.
	Request(keys []datum.Key, buf []byte) (Request, error)
}

// Ordered is the ability to narrow an inequality on the first key column. The
// order is that of the type, of text by its bytes: under another collation
// than C, an inequality says nothing.
type Ordered interface {
	// Between appends to dst where rows may live whose first key column is
	// neither below low nor above high. NULL leaves an end open.
	Between(dst []Range, low, high datum.Key) []Range
}

// ErrNoPlace is the kind of error that ID and Ranges return for a key that no
// row can have: it cannot be stored, and reading it finds nothing.
var ErrNoPlace = errors.New("no place for this key")

// BucketSQL returns the expression for the bucket, of type int8, of the rows of
// a table whose key columns are called columns.
func BucketSQL(v Computed, columns []string, buckets int) (string, error) {
	n, err := Bits(buckets)
	if err != nil {
		return "", err
	}
	if n == 0 {
		return "0::int8", nil
	}
	// >> is arithmetic: the mask takes the copies of the sign away.
	return fmt.Sprintf("(%s >> %d) & %d", v.SQL(columns), 64-n, buckets-1), nil
}

// exactly refuses a number of keys that is the caller's mistake.
func exactly(v Vindex, keys []datum.Key) error {
	if n := len(v.Columns()); len(keys) != n {
		return fmt.Errorf("vindex %s: got %d keys for %d columns", v.Kind(), len(keys), n)
	}
	return nil
}

// prefix refuses more keys than there are columns.
func prefix(v Vindex, keys []datum.Key) error {
	if n := len(v.Columns()); len(keys) > n {
		return fmt.Errorf("vindex %s: got %d keys for %d columns", v.Kind(), len(keys), n)
	}
	return nil
}
