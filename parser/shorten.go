package parser

// shortenAbove is the length of a Norm from which on it pays to look for long lists in it.
const shortenAbove = 1 << 10

// maxItems is how many constants of one list are kept.
const maxItems = 16

// shorten returns a Norm without the bulk of its constants: of rows of constants one after another only the first stays,
// and of a long list of them only the first item. What a text does to its session does not depend on how many rows it
// inserts, and so all lengths of one bulk statement share one entry of the cache and cost one short parse. The result is
// norm itself if there is nothing to leave out, else in buf.
func shorten(buf, norm []byte) []byte {
	if len(norm) < shortenAbove {
		return norm
	}
	buf = buf[:0]
	for i := 0; i < len(norm); {
		c := norm[i]
		switch {
		case c == '(':
			end, items := endItems(norm, i+1)
			if items == 0 || end == len(norm) || norm[end] != ')' {
				buf = append(buf, c)
				i++
				continue
			}
			if items > maxItems {
				first := endItem(norm, i+1)
				buf = append(append(buf, norm[i:first]...), ')')
			} else {
				buf = append(buf, norm[i:end+1]...)
			}
			i = endRows(norm, end+1)
		case isMarker(c):
			if end, items := endItems(norm, i); items > maxItems {
				buf = append(buf, c)
				i = end
				continue
			}
			buf = append(buf, c)
			i++
		case c == '"':
			end := endIdent(norm, i+1)
			buf = append(buf, norm[i:end]...)
			i = end
		case identCont[c]:
			start := i
			for i < len(norm) && identCont[norm[i]] {
				i++
			}
			buf = append(buf, norm[start:i]...)
		default:
			buf = append(buf, c)
			i++
		}
	}
	if len(buf) == len(norm) {
		return norm
	}
	return buf
}

// endRows passes over further rows of constants, each after a comma.
func endRows(norm []byte, i int) int {
	for {
		j := skipSpace(norm, i)
		if j == len(norm) || norm[j] != ',' {
			return i
		}
		if j = skipSpace(norm, j+1); j == len(norm) || norm[j] != '(' {
			return i
		}
		end, items := endItems(norm, j+1)
		if items == 0 || end == len(norm) || norm[end] != ')' {
			return i
		}
		i = end + 1
	}
}

// endItems passes over constants with commas between them, and white space after them, and counts them.
func endItems(norm []byte, i int) (end, items int) {
	for {
		next := endItem(norm, i)
		if next < 0 {
			if items > 0 {
				return end, 0 // a comma and no constant: more than constants
			}
			return i, 0
		}
		items++
		end = skipSpace(norm, next)
		if end == len(norm) || norm[end] != ',' {
			return end, items
		}
		i = end + 1
	}
}

// endItem passes over one constant with signs before it and simple casts after it, or returns -1.
func endItem(norm []byte, i int) int {
	i = skipSpace(norm, i)
	for i < len(norm) && (norm[i] == '-' || norm[i] == '+') {
		i = skipSpace(norm, i+1)
	}
	if i == len(norm) {
		return -1
	}
	switch c := norm[i]; {
	case isMarker(c):
		i++
	case identStart[c] || c == '$':
		end := i + 1
		for end < len(norm) && identCont[norm[end]] {
			end++
		}
		word := norm[i:end]
		if c != '$' && !is(word, "null") && !is(word, "default") && !is(word, "true") && !is(word, "false") {
			return -1
		}
		i = end
	default:
		return -1
	}
	for i+2 < len(norm) && norm[i] == ':' && norm[i+1] == ':' && identStart[norm[i+2]] {
		for i += 2; i < len(norm) && identCont[norm[i]]; {
			i++
		}
	}
	return i
}

func skipSpace(text []byte, i int) int {
	for i < len(text) && space[text[i]] {
		i++
	}
	return i
}

func isMarker(c byte) bool { return c > 0 && class[c] == clBad }

// dummyText writes a Norm as a text that can be parsed, with a constant of its kind for every marker.
func dummyText(norm []byte) string {
	out := make([]byte, 0, 2*len(norm))
	for i := 0; i < len(norm); i++ {
		switch c := norm[i]; {
		case c == '"':
			end := endIdent(norm, i+1)
			out = append(out, norm[i:end]...)
			i = end - 1
		case isMarker(c):
			out = append(out, dummies[LiteralKind(c)]...)
		default:
			out = append(out, c)
		}
	}
	return string(out)
}

// dummies have spaces, so as not to run into what stands beside them.
var dummies = map[LiteralKind]string{
	String:         " '' ",
	UnicodeString:  " U&'' ",
	NationalString: " N'' ",
	Bit:            " B'' ",
	Hex:            " X'' ",
	Int:            " 1 ",
	Int8:           " 5000000000 ",
	Numeric:        " 0.5 ",
	IntMin:         " 2147483648 ",
	Int8Min:        " 9223372036854775808 ",
}
