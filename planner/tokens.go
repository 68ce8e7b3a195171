package planner

import (
	"strings"
)

// insertTokens are positions in the text of an INSERT, as offsets; -1 for what is absent.
type insertTokens struct {
	columnsEnd    int // the bracket that closes the column list
	overriding    int // OVERRIDING
	user          int // the USER after it
	valuesKeyword int
	defaultValues int   // the DEFAULT of DEFAULT VALUES
	rowsEnd       []int // the bracket that closes each row
	rowsStart     []int // the bracket that opens each row
	commas        [][]int
	end           int // where the statement ends
}

// tokens finds the positions in the text of an INSERT. It starts at the table's name and knows
// brackets, literals, quoted names and comments; everything else is words.
func (g *generator) tokens() insertTokens {
	out := insertTokens{columnsEnd: -1, overriding: -1, user: -1, valuesKeyword: -1, defaultValues: -1, end: len(g.a.text.sql)}
	sc := wordScanner{text: g.a.text, at: g.a.text.tree.Offset(g.stmt.Relation.Location)}
	depth, square := 0, 0
	lastDefault := -1
	for {
		word, start := sc.next()
		if word == "" {
			return out
		}
		switch {
		case word == "(":
			if depth++; depth == 1 && out.valuesKeyword >= 0 {
				out.rowsStart = append(out.rowsStart, start)
				out.commas = append(out.commas, nil)
			}
		case word == "[":
			square++
		case word == "]":
			square--
		case word == "," && depth == 1 && square == 0 && out.valuesKeyword >= 0:
			row := len(out.commas) - 1
			out.commas[row] = append(out.commas[row], start)
		case word == ")":
			depth--
			if depth < 0 {
				out.end = start
				return out // the statement was inside brackets
			}
			if depth == 0 && out.valuesKeyword < 0 {
				out.columnsEnd = start
			}
			if depth == 0 && out.valuesKeyword >= 0 {
				out.rowsEnd = append(out.rowsEnd, start)
			}
		case depth > 0:
		case word == ";":
			out.end = start
			return out
		case out.valuesKeyword >= 0 && word != ",":
			out.end = sc.ending()
			return out // after the rows
		case strings.EqualFold(word, "overriding"):
			out.overriding = start
		case strings.EqualFold(word, "user") && out.overriding >= 0 && out.valuesKeyword < 0:
			out.user = start
		case strings.EqualFold(word, "default"):
			lastDefault = start
		case strings.EqualFold(word, "values"):
			out.valuesKeyword = start
			if lastDefault >= 0 {
				out.defaultValues = lastDefault
				out.end = sc.ending()
				return out
			}
		}
	}
}

// ending passes over the rest of the statement.
func (s *wordScanner) ending() int {
	depth := 0
	for {
		word, start := s.next()
		switch word {
		case "(":
			depth++
		case ")":
			depth--
		case "":
			return start
		}
		if depth < 0 || depth == 0 && word == ";" {
			return start
		}
	}
}

// valuesAt returns the position of VALUES, or -1.
func (g *generator) valuesAt() int { return g.tokens().valuesKeyword }

// closing returns the end of a function call that starts at offset at.
func (g *generator) closing(at int) int {
	sc := wordScanner{text: g.a.text, at: at}
	depth := 0
	for {
		word, start := sc.next()
		switch word {
		case "":
			return -1
		case "(":
			depth++
		case ")":
			if depth--; depth == 0 {
				return start + 1
			}
		}
	}
}

// wordScanner cuts a text into words and single characters. It returns a literal as "'" and skips
// comments.
type wordScanner struct {
	text text
	at   int
	lit  int
}

// next returns a word and its position; "" at the end.
func (s *wordScanner) next() (word string, start int) {
	sql := s.text.sql
	for s.at < len(sql) {
		for s.lit < len(s.text.literals) && int(s.text.literals[s.lit].End) <= s.at {
			s.lit++
		}
		if s.lit < len(s.text.literals) && int(s.text.literals[s.lit].Start) <= s.at {
			start, s.at = s.at, int(s.text.literals[s.lit].End)
			return "'", start
		}
		c := sql[s.at]
		start = s.at
		switch {
		case c == ' ' || c >= '\t' && c <= '\r':
			s.at++
		case s.comment():
		case c == '"':
			s.at++
			for s.at < len(sql) && sql[s.at] != '"' {
				s.at++ // a doubled quote ends one name and starts another: the same
			}
			s.at = min(s.at+1, len(sql))
			return sql[start:s.at], start
		case isWord(c):
			for s.at < len(sql) && isWord(sql[s.at]) {
				s.at++
			}
			return sql[start:s.at], start
		default:
			s.at++
			return sql[start:s.at], start
		}
	}
	return "", len(sql)
}

// comment skips a comment, with nested ones, and reports whether there was one.
func (s *wordScanner) comment() bool {
	rest := s.text.sql[s.at:]
	if strings.HasPrefix(rest, "--") {
		i := strings.IndexAny(rest, "\n\r")
		if i < 0 {
			i = len(rest)
		}
		s.at += i
		return true
	}
	if !strings.HasPrefix(rest, "/*") {
		return false
	}
	depth := 0
	for s.at < len(s.text.sql) {
		switch rest := s.text.sql[s.at:]; {
		case strings.HasPrefix(rest, "/*"):
			depth++
			s.at += 2
		case strings.HasPrefix(rest, "*/"):
			s.at += 2
			if depth--; depth == 0 {
				return true
			}
		default:
			s.at++
		}
	}
	return true
}

func isWord(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
