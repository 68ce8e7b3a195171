package parser

import (
	"bytes"
	"math"
)

// maxKeep bounds the buffers a Scanner keeps between texts: sessions are many, and one large text must not make its
// session's scanner large for ever.
const maxKeep = 64 << 10

// Options are the server settings that change how text is cut into tokens.
type Options struct {
	// NonStandardStrings is standard_conforming_strings = off: a backslash escapes in '…' too, and U&'…' is refused.
	NonStandardStrings bool
}

// Scanner lifts the literals out of statement texts. It holds the reusable buffers of one scan: the zero value is ready,
// and after warm-up Scan does not allocate. A Scanner serves one goroutine at a time.
type Scanner struct {
	// Norm is the text of the last scan with every literal replaced by the byte of its kind and every comment by one space.
	// Texts with equal Norm have the same tokens up to the literals' values. Valid until the next Scan.
	Norm []byte
	// Literals are the literals of the last scan, in the order of the text. Valid until the next Scan.
	Literals []Literal

	short []byte // a buffer of Cache.Facts
}

// Scan cuts text the way PostgreSQL's lexer does (that of version 17, which reads every text older servers accept alike)
// and fills Norm and Literals. It reports whether that was possible: a text with an unterminated string or comment, with
// junk after a number, or with control characters outside quotes has no Norm, and the server will refuse it too.
//
// The text must be in an encoding in which every byte below 0x80 is that ASCII character: all server encodings are; the
// client-only ones (SJIS, BIG5, GBK, UHC, GB18030, JOHAB, SHIFT_JIS_2004) are not.
func (s *Scanner) Scan(text []byte, opt Options) (ok bool) {
	n := len(text)
	if n > math.MaxInt32 || bytes.IndexByte(text, 0) >= 0 {
		s.Norm, s.Literals = s.Norm[:0], s.Literals[:0]
		return false
	}
	if cap(s.Norm) < n || (cap(s.Norm) > maxKeep && n <= maxKeep) {
		s.Norm = make([]byte, 0, min(max(2*n, 512), max(n, maxKeep)))
	}
	if cap(s.Literals) > maxKeep/8 && n <= maxKeep {
		s.Literals = nil
	}
	if cap(s.short) > maxKeep && n <= maxKeep {
		s.short = nil
	}
	norm, lits := s.Norm[:0], s.Literals[:0]

	// text[run:i] is what was passed over and not yet copied to norm. Almost every byte is passed over without a look at
	// what token it belongs to; where a byte does ask for one, the token is found by looking back, but never before floor,
	// the end of the last token that was read as such.
	run, floor, i := 0, 0, 0
	for {
		for i < n && class[text[i]] == clPlain {
			i++
		}
		if i == n {
			break
		}
		start, kind := i, LiteralKind(0)
		switch class[text[i]] {
		case clDigit:
			if i > floor && identCont[text[i-1]] {
				i++ // within an identifier
				continue
			}
			// An even number of dots before is a row of "..", an odd one has the number's own dot.
			dots := i
			for dots > floor && text[dots-1] == '.' {
				dots--
			}
			start -= (i - dots) & 1
			kind, i = number(text, start)

		case clQuote:
			start, kind, i = quotation(text, floor, i, opt)

		case clDouble:
			if i = endIdent(text, i+1); i < 0 {
				return s.fail()
			}
			floor = i
			continue

		case clDollar:
			if i > floor && identCont[text[i-1]] {
				i++ // within an identifier
				continue
			}
			var quoted bool
			if i, quoted = dollar(text, i); !quoted {
				floor = i
				continue
			}
			kind = String

		case clMinus:
			if i++; i == n || text[i] != '-' {
				continue
			}
			for i < n && text[i] != '\n' && text[i] != '\r' {
				i++
			}

		case clSlash:
			if i++; i == n || text[i] != '*' {
				continue
			}
			i = endComment(text, i+1)

		default: // clBad
			return s.fail()
		}
		if i < 0 {
			return s.fail()
		}
		norm = append(norm, text[run:start]...)
		run, floor = i, i
		if kind == 0 {
			norm = append(norm, ' ')
			continue
		}
		norm = append(norm, byte(kind))
		lits = append(lits, Literal{Kind: kind, Start: int32(start), End: int32(i)})
	}
	s.Norm = append(norm, text[run:]...)
	s.Literals = lits
	return true
}

func (s *Scanner) fail() bool {
	s.Norm, s.Literals = s.Norm[:0], s.Literals[:0]
	return false
}
