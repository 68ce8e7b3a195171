package parser

import "bytes"

// AppendValue appends what a string literal stands for, quotes and escapes taken off and parts joined, to dst. It reports
// false where only the server can tell: U&'…', whose meaning a UESCAPE clause changes; escapes that make other bytes than
// ASCII or that not all versions know; and literals that are no strings.
func (l Literal) AppendValue(dst, text []byte, opt Options) ([]byte, bool) {
	if l.Kind != String && l.Kind != NationalString {
		return dst, false
	}
	i, end := int(l.Start), int(l.End)
	if text[i] == '$' {
		tag := bytes.IndexByte(text[i+1:end], '$') + 2
		return append(dst, text[i+tag:end-tag]...), true
	}
	escaped := opt.NonStandardStrings
	if text[i] != '\'' {
		escaped = escaped || text[i]|0x20 == 'e'
		i++
	}
	how := doubled
	if escaped {
		how |= escapes
	}
	for {
		after := endPart(text, i+1, how)
		if after < 0 || after > end {
			return dst, false
		}
		var ok bool
		if dst, ok = appendPart(dst, text[i+1:after-1], escaped); !ok {
			return dst, false
		}
		if after == end {
			return dst, true
		}
		if i = continuation(text, after) - 1; i < 0 {
			return dst, false
		}
	}
}

// appendPart appends the value of one part of a string, the text between its quotes.
func appendPart(dst, part []byte, escaped bool) ([]byte, bool) {
	for len(part) > 0 {
		i := bytes.IndexByte(part, '\'')
		if escaped {
			i = bytes.IndexAny(part, `'\`)
		}
		if i < 0 {
			return append(dst, part...), true
		}
		dst = append(dst, part[:i]...)
		quote := part[i] == '\''
		part = part[i+1:]
		if len(part) == 0 {
			return dst, false // neither a quote nor a backslash ends a part
		}
		if quote {
			dst, part = append(dst, '\''), part[1:]
			continue
		}
		c, size := escape(part)
		if size == 0 {
			return dst, false
		}
		dst, part = append(dst, c), part[size:]
	}
	return dst, true
}

// escape reads what follows a backslash. size is 0 where that is for the server to say.
func escape(s []byte) (c byte, size int) {
	switch c := s[0]; {
	case c == 'b':
		return '\b', 1
	case c == 'f':
		return '\f', 1
	case c == 'n':
		return '\n', 1
	case c == 'r':
		return '\r', 1
	case c == 't':
		return '\t', 1
	case c == 'u' || c == 'U' || c == 'v' || c >= 0x80:
		return 0, 0 // \v is a letter before version 16
	case c >= '0' && c <= '7':
		return code(s, 0, 3, 8)
	case c == 'x' && len(s) > 1 && digitValue(s[1]) < 16:
		return code(s, 1, 3, 16)
	}
	return s[0], 1
}

// code reads the number of a character, in digits that begin at i and go to end at most.
func code(s []byte, i, end int, base uint64) (byte, int) {
	n := uint64(0)
	for i < len(s) && i < end && digitValue(s[i]) < base {
		n = n*base + digitValue(s[i])
		i++
	}
	if n == 0 || n >= 0x80 {
		return 0, 0
	}
	return byte(n), i
}
