package catalog

import "strings"

// body is a function's source text as a set of words, which is the same for SQL and
// PL/pgSQL.
type body struct {
	// words are all words outside comments: names, keywords, and words inside strings,
	// because a string may be run.
	words map[string]bool
	// dynamic: the body may run SQL that is not in its text.
	dynamic bool
}

// readBody splits a body into its words. If it cannot tell strings from comments, the
// words inside comments count too.
func readBody(text string) body {
	b := body{words: map[string]bool{}}
	// Whether a backslash is an escape in strings depends on a setting at run time.
	if strings.Contains(text, `\'`) || !b.tokens(text) {
		b = body{words: map[string]bool{}}
		b.split(text)
		for w := range b.words {
			b.dynamic = b.dynamic || lower(w) == "execute"
		}
	}
	return b
}

// tokens reads the text as PostgreSQL's lexer would. It returns false if a comment or a
// quoted string does not end.
func (b *body) tokens(text string) bool {
	// after is 1 right after EXECUTE, 2 after EXECUTE and a constant, else 0.
	after := 0
	for i := 0; i < len(text); {
		start := i
		switch c := text[i]; {
		case c == ' ' || c >= '\t' && c <= '\r':
			i++
			continue
		case strings.HasPrefix(text[i:], "--"):
			end := strings.IndexAny(text[i:], "\r\n")
			if end < 0 {
				return true
			}
			i += end
			continue
		case strings.HasPrefix(text[i:], "/*"):
			if i = endComment(text, i); i < 0 {
				return false
			}
			continue
		case c == '\'' || c == '"':
			if i = endQuoted(text, i, c); i < 0 {
				return false
			}
			if c == '\'' {
				b.constant(text[start+1:i-1], &after)
				continue
			}
			b.words[strings.ReplaceAll(text[start+1:i-1], `""`, `"`)] = true
			b.split(text[start+1 : i-1])
		case c == '$':
			tag := dollarTag(text[i:])
			if tag == "" {
				i++
				for i < len(text) && wordByte(text[i]) {
					i++
				}
				break
			}
			end := strings.Index(text[i+len(tag):], tag)
			if end < 0 {
				return false
			}
			inner := text[i+len(tag) : i+len(tag)+end]
			i += end + 2*len(tag)
			b.constant(inner, &after)
			continue
		case wordByte(c):
			for i < len(text) && (wordByte(text[i]) || text[i] == '$') {
				i++
			}
			b.word(text, start, i, &after)
			continue
		default:
			i++
		}
		b.follow(text[start:i], &after)
	}
	return true
}

// constant notes the words of a string constant.
func (b *body) constant(inner string, after *int) {
	b.split(inner)
	if *after == 1 && !strings.Contains(inner, `\`) && !hasWord(inner, "execute") {
		*after = 2
		return
	}
	b.follow("'", after)
	b.dynamic = b.dynamic || hasWord(inner, "execute")
}

// word notes a word outside strings.
func (b *body) word(text string, start, end int, after *int) {
	w := lower(text[start:end])
	// U&"…" and U&'…' may spell names with escapes, which are not read here.
	if w == "u" && strings.HasPrefix(text[end:], "&") && strings.IndexAny(text[end:], `"'`) == 1 {
		b.dynamic = true
	}
	b.words[text[start:end]] = true
	b.follow(w, after)
	if w == "execute" {
		*after = 1
	}
}

// follow looks at the token after EXECUTE, or after the constant of an EXECUTE: the body
// is dynamic unless the constant is the whole text that EXECUTE runs.
func (b *body) follow(token string, after *int) {
	switch *after {
	case 1:
		b.dynamic = true
	case 2:
		switch token {
		case ";", "into", "using", "loop":
		default:
			b.dynamic = true
		}
	}
	*after = 0
}

// split notes all words of a text, including those in comments and strings.
func (b *body) split(text string) {
	for start := 0; start < len(text); {
		if !wordByte(text[start]) {
			start++
			continue
		}
		end := start + 1
		for end < len(text) && (wordByte(text[end]) || text[end] == '$') {
			end++
		}
		run := text[start:end]
		b.words[run] = true
		// The dollar signs in $$orders$$ are quotes and not part of the word.
		if strings.Contains(run, "$") {
			for part := range strings.SplitSeq(run, "$") {
				b.words[part] = true
			}
		}
		start = end
	}
}

func hasWord(text, word string) bool {
	b := body{words: map[string]bool{}}
	b.split(lower(text))
	return b.words[word]
}

// endComment returns the offset after the comment that begins at i, -1 if the comment
// does not end. Comments nest.
func endComment(text string, i int) int {
	for depth := 0; i < len(text); {
		switch {
		case strings.HasPrefix(text[i:], "/*"):
			depth++
			i += 2
		case strings.HasPrefix(text[i:], "*/"):
			depth--
			i += 2
			if depth == 0 {
				return i
			}
		default:
			i++
		}
	}
	return -1
}

// endQuoted returns the offset after the quoted name or string that begins at i, -1 if
// it does not end.
func endQuoted(text string, i int, quote byte) int {
	for i++; i < len(text); i++ {
		if text[i] != quote {
			continue
		}
		if i+1 == len(text) || text[i+1] != quote {
			return i + 1
		}
		i++
	}
	return -1
}

// dollarTag returns the opening tag of the dollar-quoted string that text begins with, or
// "" if text does not begin with one.
func dollarTag(text string) string {
	for i := 1; i < len(text); i++ {
		if text[i] == '$' {
			return text[:i+1]
		}
		if !wordByte(text[i]) || i == 1 && text[i] >= '0' && text[i] <= '9' {
			return ""
		}
	}
	return ""
}
