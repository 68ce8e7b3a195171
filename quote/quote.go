package quote

import "strings"

// Ident returns a name as a quoted identifier.
func Ident(s string) string { return string(AppendIdent(make([]byte, 0, len(s)+2), s)) }

// AppendIdent appends Ident(s) to dst.
func AppendIdent(dst []byte, s string) []byte {
	if strings.IndexByte(s, 0) >= 0 {
		return append(dst, `U&"\0000"`...) // refused: an identifier cannot hold it
	}
	dst = append(dst, '"')
	for i := range len(s) {
		if s[i] == '"' {
			dst = append(dst, '"')
		}
		dst = append(dst, s[i])
	}
	return append(dst, '"')
}

// Name returns a name with its schema.
func Name(schema, name string) string { return Ident(schema) + "." + Ident(name) }

// Idents returns names as a list.
func Idents(names []string) string {
	var b []byte
	for i, n := range names {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = AppendIdent(b, n)
	}
	return string(b)
}

// Literal returns a string literal that reads the same under either setting of
// standard_conforming_strings. The blank before an E keeps it from becoming the end of a
// word.
func Literal(s string) string {
	if strings.IndexByte(s, 0) >= 0 {
		return ` E'\x00'` // refused: no encoding has it
	}
	q := "'" + Double(s) + "'"
	if strings.IndexByte(s, '\\') >= 0 {
		return " E" + strings.ReplaceAll(q, `\`, `\\`)
	}
	return q
}

// Double returns a text as it stands between the quotes of a string literal without escapes: each
// quote twice.
func Double(s string) string { return strings.ReplaceAll(s, "'", "''") }

// Array returns an array of text with these elements.
func Array(elements []string) string {
	b := []byte("ARRAY[")
	for i, e := range elements {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, Literal(e)...)
	}
	return string(append(b, "]::pg_catalog.text[]"...))
}
