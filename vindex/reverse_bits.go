package vindex

import (
	"fmt"
	"math/bits"
	"strings"

	"weft/datum"
)

// reverseBits takes an integer's bits in reverse order, so that consecutive
// numbers are spread as far as can be and the number can be told from the ID.
type reverseBits struct{}

func newReverseBits(d Declaration, p *params) (Vindex, error) {
	f, err := newReverseBitsPart(d.Columns[0], p)
	return &single{kind: "reverse_bits", cost: Compute, columns: d.Columns, function: f}, err
}

func newReverseBitsPart(c Column, _ *params) (function, error) {
	return reverseBits{}, c.wantInteger()
}

func (reverseBits) of(k datum.Key) (uint64, error) {
	return bits.Reverse64(uint64(k.Int())), nil
}

// sql picks the bits one by one: SQL has no function that reverses them, and
// swapping ever larger halves would double the expression six times.
func (reverseBits) sql(column string) string {
	terms := make([]string, 64)
	for i := range terms {
		terms[i] = fmt.Sprintf("((%s::int8 >> %d & 1) << %d)", column, i, 63-i)
	}
	return "coalesce(" + strings.Join(terms, " | ") + ", 0)"
}
