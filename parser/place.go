package parser

// Place returns the offset in a scanned text of the byte that stands offset bytes after a literal in the text's Norm. The
// literal is given by its index; -1 is the start of the text. Texts with one Norm differ in literals and comments, and this
// says where in each of them the same place is. A place is not within a comment; one just before a comment is before it.
// It reports false if the text has no such place.
func Place(text []byte, lits []Literal, literal, offset int) (int, bool) {
	i := 0
	if literal >= len(lits) || literal < -1 {
		return 0, false
	}
	if literal >= 0 {
		i = int(lits[literal].End)
	}
	return PlaceFrom(text, lits, literal, i, offset)
}

// PlaceFrom is Place for an offset from a place behind that literal, which is found
// already and not inside of a name.
func PlaceFrom(text []byte, lits []Literal, literal, i, offset int) (int, bool) {
	end := len(text)
	if literal >= len(lits) || literal < -1 || offset < 0 {
		return 0, false
	}
	if literal+1 < len(lits) {
		end = int(lits[literal+1].Start)
	}
	// There are no strings between two literals, so comments and quoted identifiers are all that is not byte for byte.
	for ; offset > 0 && i < end; offset-- {
		switch {
		case text[i] == '"':
			after := endIdent(text, i+1)
			if after < 0 {
				return 0, false
			}
			if offset < after-i {
				return i + offset, true
			}
			offset -= after - i - 1
			i = after
		case text[i] == '-' && i+1 < end && text[i+1] == '-':
			for i < end && text[i] != '\n' && text[i] != '\r' {
				i++
			}
		case text[i] == '/' && i+1 < end && text[i+1] == '*':
			if i = endComment(text, i+2); i < 0 {
				return 0, false
			}
		default:
			i++
		}
	}
	return i, offset == 0 && i <= end
}
