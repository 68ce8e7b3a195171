package custom

import "strings"

// kind is what a token is.
type kind uint8

const (
	end    kind = iota // of the text
	word               // a name or key word without quotes
	quoted             // a name in double quotes; text is without them
	str                // a string in single quotes; text is without them
	number             // a whole number as PostgreSQL prints it
	other              // one character
	odd                // what is not read here: escapes and the like
)

// token is a part of a command.
type token struct {
	kind kind
	text string
}

// is reports whether a token is a key word, given in lower case.
func (t token) is(name string) bool {
	return t.kind == word && len(t.text) == len(name) && strings.EqualFold(t.text, name)
}

// sign reports whether a token is that character.
func (t token) sign(c byte) bool { return t.kind == other && t.text[0] == c }

// maxName is how many bytes of a name PostgreSQL heeds.
const maxName = 63

// isName reports whether a token is a name that PostgreSQL takes as it is.
func (t token) isName() bool { return (t.kind == word || t.kind == quoted) && len(t.text) <= maxName }

// names reports whether two tokens are the same name.
func (t token) names(o token) bool {
	switch {
	case t.kind == o.kind && t.kind == quoted:
		return t.text == o.text
	case t.kind == quoted:
		return t.text == strings.ToLower(o.text)
	case o.kind == quoted:
		return strings.ToLower(t.text) == o.text
	}
	return strings.EqualFold(t.text, o.text)
}

// scanner cuts a command into tokens.
type scanner struct {
	text string
	at   int
}

// ends reports whether nothing but a semicolon follows, and leaves the scanner where it is.
func (s *scanner) ends() bool {
	rest := *s
	t := rest.next()
	if t.sign(';') {
		t = rest.next()
	}
	return t.kind == end
}

// sees skips a sign of several characters, if it follows.
func (s *scanner) sees(sign string) bool {
	rest := *s
	if !rest.skip() || !strings.HasPrefix(rest.text[rest.at:], sign) {
		return false
	}
	s.at = rest.at + len(sign)
	return true
}

// skip goes over blanks and comments. It reports false for a comment that is not read here.
func (s *scanner) skip() bool {
	for s.at < len(s.text) {
		rest := s.text[s.at:]
		switch {
		case strings.IndexByte(" \t\r\n", rest[0]) >= 0:
			s.at++
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest, "*/")
			if n < 0 || strings.Contains(rest[2:n], "/*") {
				return false
			}
			s.at += n + 2
		default:
			return !strings.HasPrefix(rest, "--")
		}
	}
	return true
}

// next returns the next token. After one that is odd, the scanner goes no further.
func (s *scanner) next() token {
	if !s.skip() {
		s.at = len(s.text)
		return token{kind: odd}
	}
	if s.at >= len(s.text) {
		return token{}
	}
	from := s.at
	switch c := s.text[from]; {
	case isLetter(c):
		for s.at < len(s.text) && (isLetter(s.text[s.at]) || isDigit(s.text[s.at]) || s.text[s.at] == '$') {
			s.at++
		}
		return token{word, s.text[from:s.at]}
	case c == '\'' || c == '"':
		return s.quotedBy(c)
	case isDigit(c) || c == '-':
		return s.number()
	case c == '$' || c >= 0x80:
		s.at = len(s.text)
		return token{kind: odd}
	}
	s.at++
	return token{other, s.text[from:s.at]}
}

// quotedBy reads a string or a name in quotes. One that has quotes or backslashes in it is odd.
func (s *scanner) quotedBy(quote byte) token {
	from := s.at + 1
	n := strings.IndexByte(s.text[from:], quote)
	if n < 0 || strings.IndexByte(s.text[from:from+n], '\\') >= 0 || from+n+1 < len(s.text) && s.text[from+n+1] == quote {
		s.at = len(s.text)
		return token{kind: odd}
	}
	s.at = from + n + 1
	if quote == '"' {
		return token{quoted, s.text[from : from+n]}
	}
	return token{str, s.text[from : from+n]}
}

// maxDigits bounds numbers to those that PostgreSQL prints as they were written.
const maxDigits = 9

// number reads a whole number. One with superfluous zeros, or anything right behind it, is odd.
func (s *scanner) number() token {
	from := s.at
	if s.text[s.at] == '-' {
		s.at++
	}
	digits := s.at
	for s.at < len(s.text) && isDigit(s.text[s.at]) {
		s.at++
	}
	n := s.at - digits
	behind := s.at < len(s.text) && (isLetter(s.text[s.at]) || s.text[s.at] == '.' || s.text[s.at] == '$')
	if n == 0 || n > maxDigits || behind || s.text[digits] == '0' && (n > 1 || digits > from) {
		s.at = len(s.text)
		return token{kind: odd}
	}
	return token{number, s.text[from:s.at]}
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
