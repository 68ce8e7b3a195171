package parser

// maxDepth bounds how deep a tree may get before pg_query is not asked for it. pg_query writes its tree out by recursion
// on the C stack without a limit, and a text like 1+1+1+… of 60 kB overflows it, which no Go program survives. What is
// refused here is also more than the Go side can read back.
const maxDepth = 10000

// deep reports whether the tree of a scanned text could be deeper than maxDepth. The estimate is the number of tokens that
// could hang below one another: at each level of brackets those since the last comma, AND or OR, which only part the items
// of flat lists; joins and set operations build chains across those and are counted for the whole level. CASE … END are
// brackets too, with a flat list of WHENs inside: ORMs write one for each of thousands of rows.
func deep(norm []byte) bool {
	if len(norm) <= maxDepth {
		return false // a token has at least one byte
	}
	type level struct {
		chain, links, between int
		isCase                bool
	}
	levels := []level{{}}
	total := 0
	pop := func() {
		if top := levels[len(levels)-1]; len(levels) > 1 {
			total -= top.chain + top.links
			levels = levels[:len(levels)-1]
		}
	}
	prev := byte(0)
	for i := 0; i < len(norm); {
		c := norm[i]
		if space[c] {
			i++
			continue
		}
		top := &levels[len(levels)-1]
		start := i
		switch {
		case c == '"':
			if i = endIdent(norm, i+1); i < 0 {
				return true
			}
		case identCont[c]:
			for i < len(norm) && identCont[norm[i]] {
				i++
			}
		default:
			i++
		}
		word := norm[start:i]
		top.chain++
		total++
		switch {
		case c == '(' || c == '[':
			levels = append(levels, level{})
		case c == ')' || c == ']':
			for len(levels) > 1 && levels[len(levels)-1].isCase {
				pop()
			}
			pop()
		case c == ';':
			levels = append(levels[:0], level{})
			total = 0
		case c == ',':
			total -= top.chain
			top.chain = 0
		case prev == '.':
			// a name, whatever it looks like
		case is(word, "between"):
			top.between++
		case is(word, "and") && top.between > 0:
			top.between-- // its own: x between 1 and 2 is null between 3 and 4 is null … is a chain
		case is(word, "and") || is(word, "or") || is(word, "when") && top.isCase:
			total -= top.chain
			top.chain = 0
		case is(word, "join") || is(word, "union") || is(word, "intersect") || is(word, "except"):
			top.links += 2
			total += 2
		case is(word, "case"):
			levels = append(levels, level{isCase: true})
		case is(word, "end") && top.isCase:
			pop()
		}
		if total > maxDepth {
			return true
		}
		prev = c
	}
	return false
}

// is compares a word with a lower-case keyword.
func is(word []byte, keyword string) bool {
	if len(word) != len(keyword) {
		return false
	}
	for i, c := range word {
		if c|0x20 != keyword[i] {
			return false
		}
	}
	return true
}
