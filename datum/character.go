package datum

import (
	"bytes"
	"unicode/utf8"
)

var (
	errPadding = &Error{Undecided, "compared with a character(n), trailing spaces of a varchar do not count"}
	errTooLong = &Error{Invalid, "longer than the column"}
)

// character finds the key of a text, varchar or bpchar column.
func (c Column) character(v Value, store bool) (Key, error) {
	s := v.Bytes
	switch v.Type {
	case Unknown, 0, Text, Varchar:
	case Bpchar:
		// varchar = bpchar is bpchar's equality: 'a' and 'a ' are both stored,
		// hash apart and both match. With text, and in assignments, the cast
		// takes the padding off.
		if c.Type == Varchar && !store {
			return Key{}, errPadding
		}
		s = bytes.TrimRight(s, " ")
	default:
		return Key{}, errType
	}
	if c.Type == Bpchar {
		s = bytes.TrimRight(s, " ")
	}
	// Only spaces may be cut off to make a value fit. Mod counts characters
	// plus the four bytes of a length word.
	if n := int(c.Mod) - 4; store && n > 0 && c.Type != Text && len(s) > n && utf8.RuneCount(s) > n {
		cut := 0
		for range n {
			_, size := utf8.DecodeRune(s[cut:])
			cut += size
		}
		if len(bytes.TrimRight(s[cut:], " ")) > 0 {
			return Key{}, errTooLong
		}
		s = s[:cut]
	}
	return Key{class: Characters, bytes: s}, nil
}
