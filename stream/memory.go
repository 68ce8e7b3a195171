package stream

import (
	"unsafe"

	"weft/pgerr"
)

// memory counts the bytes that an operator keeps.
type memory struct {
	used  int64
	limit int64 // 0 or less for no limit
}

// check returns an error if more than the limit is kept.
func (m *memory) check() error {
	if m.limit > 0 && m.used > m.limit {
		return errGather()
	}
	return nil
}

func errGather() error { return pgerr.GatherTooLarge() }

// extend appends to a slice and counts the bytes by which the slice grows.
func extend[E any](s []E, e E, m *memory) []E {
	before := cap(s)
	s = append(s, e)
	if after := cap(s); after != before {
		m.used += int64(after-before) * int64(unsafe.Sizeof(e))
	}
	return s
}
