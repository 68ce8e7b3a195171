package vindex

import (
	"errors"
	"fmt"
	"math/bits"

	"weft/datum"
)

// salted spreads the rows of one key, the first column, over several places, by
// the hash of a second column. For a key with more rows than a shard likes:
// reading by the key alone visits all its places, by both columns one. The
// places are as far apart as can be, unlike a composite's, so that they are on
// different shards even when buckets are placed in runs.
//
// Parameter spread: how many places, a power of two.
type salted struct {
	columns   []Column
	key, salt hash
	bits      int // of the salt, which change the topmost of the key
}

var _ Computed = (*salted)(nil)

func newSalted(d Declaration, p *params) (Vindex, error) {
	n, ok, err := p.number("spread", 2, max(2, d.Buckets))
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, errors.New("spread: missing: over how many buckets are a key's rows to be spread?")
	case n&(n-1) != 0:
		return nil, fmt.Errorf("spread: %d is not a power of two", n)
	}
	return &salted{d.Columns, hash{d.Columns[0].Type}, hash{d.Columns[1].Type}, bits.Len(uint(n)) - 1}, nil
}

func (s *salted) Kind() string      { return "salted" }
func (s *salted) Cost() Cost        { return Compute }
func (s *salted) Columns() []Column { return s.columns }

func (s *salted) mask() uint64 { return ^uint64(0) << (64 - s.bits) }

func (s *salted) ID(keys []datum.Key) (ID, error) {
	if err := exactly(s, keys); err != nil {
		return 0, err
	}
	return ID(Hash(keys[0]) ^ Hash(keys[1])&s.mask()), nil
}

func (s *salted) Ranges(dst []Range, keys []datum.Key) ([]Range, error) {
	switch len(keys) {
	case 0:
		return append(dst, All), nil
	case 1:
		h := Hash(keys[0])
		for salt := range uint64(1) << s.bits {
			id := ID(h ^ salt<<(64-s.bits))
			dst = append(dst, Range{id, id})
		}
		return dst, nil
	}
	id, err := s.ID(keys)
	if err != nil {
		return dst, err
	}
	return append(dst, Range{id, id}), nil
}

func (s *salted) SQL(columns []string) string {
	return fmt.Sprintf("(%s # (%s & %s))", s.key.sql(columns[0]), s.salt.sql(columns[1]), int8SQL(s.mask()))
}
