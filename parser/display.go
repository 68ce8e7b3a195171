package parser

import "strconv"

// Statement writes a Norm for people: what was a literal is a parameter, numbered
// on from those the text has itself, and white space is one space.
func Statement(text string) string {
	norm := []byte(text)
	next := 1
	for i := 0; i < len(norm); i++ {
		switch {
		case norm[i] == '"':
			i = endIdent(norm, i+1) - 1
		case norm[i] == '$' && (i == 0 || !identCont[norm[i-1]]):
			end := i + 1
			for end < len(norm) && norm[end] >= '0' && norm[end] <= '9' {
				end++
			}
			if n, err := strconv.Atoi(string(norm[i+1 : end])); err == nil {
				next = max(next, n+1)
			}
		}
	}
	out := make([]byte, 0, len(norm)+16)
	for i := 0; i < len(norm); i++ {
		switch c := norm[i]; {
		case c == '"':
			end := endIdent(norm, i+1)
			out = append(out, norm[i:end]...)
			i = end - 1
		case isMarker(c):
			if n := len(out); n > 0 && (identCont[out[n-1]] || out[n-1] == '$') {
				out = append(out, ' ') // 'a'in was two tokens
			}
			out = strconv.AppendInt(append(out, '$'), int64(next), 10)
			next++
			if i+1 < len(norm) && identCont[norm[i+1]] {
				out = append(out, ' ')
			}
		case space[c]:
			if n := len(out); n > 0 && out[n-1] != ' ' {
				out = append(out, ' ')
			}
		default:
			out = append(out, c)
		}
	}
	for len(out) > 0 && out[len(out)-1] == ' ' {
		out = out[:len(out)-1]
	}
	return string(out)
}
