package parser

// blankContinuations returns text with spaces in the place of the comments that stand between the parts of a continued
// string. PostgreSQL allows them there and pg_query does not; the text keeps its length, so all offsets stay good. The
// input is returned as it is where there are none.
func blankContinuations(text []byte, lits []Literal, opt Options) []byte {
	out := text
	for _, l := range lits {
		i, end := int(l.Start), int(l.End)
		switch {
		case l.Kind >= Int || text[i] == '$':
			continue
		case l.Kind == UnicodeString:
			i += 2
		case text[i] != '\'':
			i++
		}
		how := doubled
		switch {
		case l.Kind == Bit || l.Kind == Hex:
			how = 0
		case text[l.Start]|0x20 == 'e' || opt.NonStandardStrings:
			how |= escapes
		}
		for {
			i = endPart(text, i+1, how)
			if i < 0 || i >= end {
				break
			}
			next := continuation(text, i) - 1 // the opening quote
			for comment := false; i < next; i++ {
				switch {
				case text[i] == '\n' || text[i] == '\r':
					comment = false
				case text[i] == '-' || comment:
					comment = true
					if &out[0] == &text[0] {
						out = append([]byte(nil), text...)
					}
					out[i] = ' '
				}
			}
		}
	}
	return out
}
