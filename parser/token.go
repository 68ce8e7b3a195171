package parser

import (
	"bytes"
	"math"
)

// The classes of bytes by what they can begin. Everything that begins nothing the scanner must look at is plain.
const (
	clPlain  = iota
	clDigit  //
	clQuote  //
	clDouble // "
	clDollar // $1, $tag$ or nothing
	clMinus  // perhaps --
	clSlash  // perhaps /*
	clBad    // control characters: the grammar has no use for them, and Norm needs them as markers
)

var (
	class      [256]uint8
	identStart [256]bool // may begin an identifier
	identCont  [256]bool // may continue an identifier
	tagCont    [256]bool // may continue the tag of a dollar quote
	space      [256]bool
)

func init() {
	for c := range 256 {
		b := byte(c)
		letter := b >= 0x80 || b == '_' || (b|0x20 >= 'a' && b|0x20 <= 'z')
		digit := b >= '0' && b <= '9'
		switch {
		case digit:
			class[c] = clDigit
		case b < 0x09 || (b > 0x0d && b < 0x20):
			class[c] = clBad
		}
		identStart[c] = letter
		identCont[c] = letter || digit || b == '$'
		tagCont[c] = letter || digit
		space[c] = b == ' ' || (b >= 0x09 && b <= 0x0d)
	}
	class['\''] = clQuote
	class['"'] = clDouble
	class['$'] = clDollar
	class['-'] = clMinus
	class['/'] = clSlash
}

// rules says what a quote and a backslash mean inside a string.
type rules uint8

const (
	doubled rules = 1 << iota // two quotes are one
	escapes                   // a backslash takes the byte after it along
)

// quotation reads the string whose opening quote is at i and finds its prefix by looking back, not before floor.
func quotation(text []byte, floor, i int, opt Options) (start int, kind LiteralKind, end int) {
	start, kind = i, String
	how := doubled
	if opt.NonStandardStrings {
		how |= escapes
	}
	if p := i - 1; p >= floor {
		switch text[p] {
		case 'e', 'E':
			if lone(text, floor, p) {
				start, how = p, doubled|escapes
			}
		case 'n', 'N':
			if lone(text, floor, p) {
				start, kind = p, NationalString
			}
		case 'b', 'B':
			if lone(text, floor, p) {
				start, kind, how = p, Bit, 0
			}
		case 'x', 'X':
			if lone(text, floor, p) {
				start, kind, how = p, Hex, 0
			}
		case '&':
			if p--; p >= floor && text[p]|0x20 == 'u' && lone(text, floor, p) {
				if opt.NonStandardStrings {
					return start, kind, -1
				}
				start, kind = p, UnicodeString
			}
		}
	}
	return start, kind, endString(text, i+1, how)
}

// lone reports whether the letter at i is an identifier of its own and not the end of a longer one.
func lone(text []byte, floor, i int) bool {
	return i == floor || !identCont[text[i-1]]
}

// endString returns the offset after the string whose text begins at i, the opening quote passed, with all the parts that
// continue it, or -1 if it does not end.
func endString(text []byte, i int, how rules) int {
	for {
		end := endPart(text, i, how)
		if end < 0 || end == len(text) || (!space[text[end]] && text[end] != '-') {
			return end
		}
		if i = continuation(text, end); i < 0 {
			return end
		}
	}
}

// endPart returns the offset after the closing quote of the one part of a string that begins at i, or -1.
func endPart(text []byte, i int, how rules) int {
	for {
		for i < len(text) && text[i] != '\'' {
			if text[i] == '\\' && how&escapes != 0 {
				i++
			}
			i++
		}
		if i >= len(text) {
			return -1
		}
		i++
		if how&doubled == 0 || i == len(text) || text[i] != '\'' {
			return i
		}
		i++ // doubled: part of the string
	}
}

// continuation looks for the next part of a string that was closed just before i: SQL joins strings that are parted by
// white space with a newline in it, where -- comments count as white space and /* */ comments do not. It returns the
// offset after that part's opening quote, or -1.
func continuation(text []byte, i int) int {
	newline := false
	for i < len(text) {
		switch c := text[i]; {
		case c == '\n' || c == '\r':
			newline = true
			i++
		case space[c]:
			i++
		case c == '-' && i+1 < len(text) && text[i+1] == '-':
			for i < len(text) && text[i] != '\n' && text[i] != '\r' {
				i++
			}
		case c == '\'' && newline:
			return i + 1
		default:
			return -1
		}
	}
	return -1
}

// endIdent returns the offset after the quoted identifier whose text begins at i, or -1 if it is empty or does not end.
func endIdent(text []byte, i int) int {
	start := i
	for {
		j := bytes.IndexByte(text[i:], '"')
		if j < 0 {
			return -1
		}
		i += j + 1
		if i < len(text) && text[i] == '"' {
			i++
			continue
		}
		if i-1 == start {
			return -1
		}
		return i
	}
}

// endComment returns the offset after the comment whose text begins at i, the opening slash and star passed, or -1.
// Comments nest.
func endComment(text []byte, i int) int {
	for depth := 1; i+1 < len(text); {
		switch {
		case text[i] == '*' && text[i+1] == '/':
			i += 2
			if depth--; depth == 0 {
				return i
			}
		case text[i] == '/' && text[i+1] == '*':
			i += 2
			depth++
		default:
			i++
		}
	}
	return -1
}

// dollar reads what begins with the dollar sign at i: a parameter or a lone sign, of which it returns the end, or a
// dollar-quoted string, of which it returns the end (-1 if there is none) and true.
func dollar(text []byte, i int) (end int, quoted bool) {
	j := i + 1
	if j < len(text) && class[text[j]] == clDigit {
		for j < len(text) && class[text[j]] == clDigit {
			j++
		}
		return j, false
	}
	for j < len(text) && tagCont[text[j]] {
		j++
	}
	if j == len(text) || text[j] != '$' {
		return i + 1, false
	}
	j++
	// The first occurrence of the delimiter ends the string, whatever stands around it.
	at := bytes.Index(text[j:], text[i:j])
	if at < 0 {
		return -1, true
	}
	return j + at + (j - i), true
}

// number reads the number at i, which begins with a digit or with a dot and a digit. It returns its kind and end, or -1
// where PostgreSQL sees junk after it.
func number(text []byte, i int) (LiteralKind, int) {
	start, base := i, uint64(10)
	if text[i] == '0' && i+1 < len(text) {
		switch text[i+1] | 0x20 {
		case 'x':
			base = 16
		case 'o':
			base = 8
		case 'b':
			base = 2
		}
	}
	if base != 10 {
		i = digits(text, i+2, base)
		// The longer match is "0" with an identifier behind it, for 0b12 and 0x1$ too.
		if i == start+2 || (i < len(text) && identCont[text[i]]) {
			return 0, -1
		}
		return integerKind(text[start+2:i], base), i
	}

	kind := Int
	i = digits(text, i, 10)
	if i < len(text) && text[i] == '.' && (i == start || i+1 == len(text) || text[i+1] != '.') {
		// 1..10 is 1, two dots, 10.
		kind = Numeric
		if i++; i < len(text) && class[text[i]] == clDigit {
			i = digits(text, i, 10)
		}
	}
	if i < len(text) && text[i]|0x20 == 'e' {
		j := i + 1
		if j < len(text) && (text[j] == '+' || text[j] == '-') {
			j++
		}
		if j == len(text) || class[text[j]] != clDigit {
			return 0, -1
		}
		kind = Numeric
		i = digits(text, j, 10)
	}
	if i < len(text) && (identStart[text[i]] || (text[i] == '$' && identBefore(text, start, i))) {
		return 0, -1
	}
	if kind == Int && i-start > 9 {
		kind = integerKind(text[start:i], 10)
	}
	return kind, i
}

// digits passes over digits of the base, with single underscores between them (and, after 0x, before the first).
func digits(text []byte, i int, base uint64) int {
	for i < len(text) {
		j := i
		if text[j] == '_' && (base != 10 || j > 0 && class[text[j-1]] == clDigit) {
			j++
		}
		if j == len(text) || digitValue(text[j]) >= base {
			break
		}
		i = j + 1
	}
	return i
}

// identBefore reports whether an identifier could have begun inside the number text[start:end] and reach its end, as in
// 1_0 or 1e5: a dollar sign behind then makes a longer match of a number and an identifier, which is junk.
func identBefore(text []byte, start, end int) bool {
	for end--; end > start && class[text[end]] == clDigit; end-- {
	}
	return identStart[text[end]]
}

// integerKind finds the kind from the value; leading zeros and underscores do not count.
func integerKind(lit []byte, base uint64) LiteralKind {
	var v uint64
	for _, c := range lit {
		if c == '_' {
			continue
		}
		if v > (math.MaxUint64-15)/base {
			return Numeric
		}
		v = v*base + digitValue(c)
	}
	switch {
	case v <= math.MaxInt32:
		return Int
	case v == math.MaxInt32+1:
		return IntMin
	case v <= math.MaxInt64:
		return Int8
	case v == math.MaxInt64+1:
		return Int8Min
	}
	return Numeric
}

func digitValue(c byte) uint64 {
	switch {
	case c >= '0' && c <= '9':
		return uint64(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return uint64(c|0x20-'a') + 10
	}
	return 99
}
