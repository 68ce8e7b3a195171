package program

import (
	"strings"

	"weft/pgerr"
)

// parseRecord takes the text of a row apart, as record_out writes it.
func parseRecord(s string) ([]Value, error) {
	if len(s) < 2 || s[0] != '(' || s[len(s)-1] != ')' {
		return nil, pgerr.New(pgerr.InternalError, "malformed record literal")
	}
	s = s[1 : len(s)-1]
	var out []Value
	for i := 0; ; {
		var b strings.Builder
		quoted, any := false, false
		for i < len(s) && (quoted || s[i] != ',') {
			switch c := s[i]; {
			case c == '\\' && i+1 < len(s):
				i++
				b.WriteByte(s[i])
			case c == '"' && quoted && i+1 < len(s) && s[i+1] == '"':
				i++
				b.WriteByte('"')
			case c == '"':
				quoted, any = !quoted, true
			default:
				b.WriteByte(c)
			}
			i++
		}
		out = append(out, Value{Text: b.String(), Valid: any || b.Len() > 0})
		if i >= len(s) {
			return out, nil
		}
		i++
	}
}

// FormatRecord writes values as PostgreSQL writes a row.
func FormatRecord(fields []Value) string { return formatRecord(fields) }

// formatRecord writes a row as record_out does.
func formatRecord(fields []Value) string {
	var b strings.Builder
	b.WriteByte('(')
	for i, f := range fields {
		if i > 0 {
			b.WriteByte(',')
		}
		if !f.Valid {
			continue
		}
		if f.Text != "" && !strings.ContainsAny(f.Text, "\"\\(), \t\n\r\v\f") {
			b.WriteString(f.Text)
			continue
		}
		b.WriteByte('"')
		for j := range len(f.Text) {
			if c := f.Text[j]; c == '"' || c == '\\' {
				b.WriteByte(c)
			}
			b.WriteByte(f.Text[j])
		}
		b.WriteByte('"')
	}
	b.WriteByte(')')
	return b.String()
}

// array is an array: its elements in one list, and its dimensions.
type array struct {
	dims  []dim
	elems []Value
}

type dim struct{ lower, length int }

// parseArray takes the text of an array apart, as array_out writes it.
func parseArray(s string, delim byte) (*array, error) {
	a := &array{}
	if strings.HasPrefix(s, "[") {
		head, rest, ok := strings.Cut(s, "=")
		if !ok {
			return nil, badArray()
		}
		for _, d := range strings.Split(strings.Trim(head, "[]"), "][") {
			lo, hi, _ := strings.Cut(d, ":")
			l := parseInt(lo)
			a.dims = append(a.dims, dim{l, parseInt(hi) - l + 1})
		}
		s = rest
	}
	if s == "{}" {
		return &array{}, nil
	}
	depth, counted := 0, len(a.dims) > 0
	var counts []int // of items at each depth, of the first of its kind
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '{':
			depth++
			if len(counts) < depth {
				counts = append(counts, 0)
			}
			i++
		case c == '}':
			depth--
			i++
			if depth > 0 {
				counts[depth-1]++
			}
		case c == delim:
			i++
		default:
			v, n := arrayElement(s[i:], delim)
			a.elems = append(a.elems, v)
			counts[depth-1]++
			i += n
		}
	}
	if counted {
		return a, nil
	}
	below := 1
	for _, n := range counts {
		a.dims = append(a.dims, dim{1, n / below})
		below = n
	}
	return a, nil
}

func badArray() error { return pgerr.New(pgerr.InternalError, "malformed array literal") }

func parseInt(s string) int {
	neg := strings.HasPrefix(s, "-")
	n := atoi(strings.TrimPrefix(s, "-"))
	if neg {
		return -n
	}
	return n
}

// arrayElement reads one element, and how many bytes it takes.
func arrayElement(s string, delim byte) (Value, int) {
	if s[0] != '"' {
		i := 0
		for i < len(s) && s[i] != delim && s[i] != '}' {
			i++
		}
		if s[:i] == "NULL" {
			return Value{}, i
		}
		return text(s[:i]), i
	}
	var b strings.Builder
	i := 1
	for ; i < len(s) && s[i] != '"'; i++ {
		if s[i] == '\\' {
			i++
		}
		b.WriteByte(s[i])
	}
	return text(b.String()), i + 1
}

// format writes an array as array_out does.
func (a *array) format(delim byte) string {
	if len(a.dims) == 0 {
		return "{}"
	}
	var b strings.Builder
	plain := true
	for _, d := range a.dims {
		plain = plain && d.lower == 1
	}
	if !plain {
		for _, d := range a.dims {
			b.WriteString("[" + itoa(d.lower) + ":" + itoa(d.lower+d.length-1) + "]")
		}
		b.WriteByte('=')
	}
	next := 0
	var write func(level int)
	write = func(level int) {
		b.WriteByte('{')
		for i := range a.dims[level].length {
			if i > 0 {
				b.WriteByte(delim)
			}
			if level < len(a.dims)-1 {
				write(level + 1)
				continue
			}
			writeElement(&b, a.elems[next], delim)
			next++
		}
		b.WriteByte('}')
	}
	write(0)
	return b.String()
}

func writeElement(b *strings.Builder, v Value, delim byte) {
	if !v.Valid {
		b.WriteString("NULL")
		return
	}
	if v.Text != "" && !strings.EqualFold(v.Text, "NULL") && !strings.ContainsAny(v.Text, "\"\\{} \t\n\r\v\f"+string(delim)) {
		b.WriteString(v.Text)
		return
	}
	b.WriteByte('"')
	for j := range len(v.Text) {
		if c := v.Text[j]; c == '"' || c == '\\' {
			b.WriteByte('\\')
		}
		b.WriteByte(v.Text[j])
	}
	b.WriteByte('"')
}

// set assigns to one element, as array_set_element does.
func (a *array) set(subs []int, v Value) error {
	if len(a.dims) == 0 {
		for _, s := range subs {
			a.dims = append(a.dims, dim{s, 1})
		}
		a.elems = []Value{v}
		return nil
	}
	if len(subs) != len(a.dims) {
		return pgerr.New("2202E", "wrong number of array subscripts")
	}
	if len(a.dims) == 1 {
		d := &a.dims[0]
		if subs[0] < d.lower {
			if err := tooLarge(d.lower - subs[0] + d.length); err != nil {
				return err
			}
			a.elems = append(make([]Value, d.lower-subs[0]), a.elems...)
			d.length += d.lower - subs[0]
			d.lower = subs[0]
		}
		if over := subs[0] - (d.lower + d.length) + 1; over > 0 {
			if err := tooLarge(d.length + over); err != nil {
				return err
			}
			a.elems = append(a.elems, make([]Value, over)...)
			d.length += over
		}
		a.elems[subs[0]-d.lower] = v
		return nil
	}
	at := 0
	for i, d := range a.dims {
		if subs[i] < d.lower || subs[i] >= d.lower+d.length {
			return pgerr.New("2202E", "array subscript out of range")
		}
		at = at*d.length + subs[i] - d.lower
	}
	a.elems[at] = v
	return nil
}

// How many elements an array may have in PostgreSQL, and in a variable of a program.
const (
	maxElements = 134217727
	maxArray    = 1 << 20
)

// tooLarge returns the error of an array that has too many elements.
func tooLarge(n int) error {
	switch {
	case n > maxElements:
		return pgerr.New(pgerr.ProgramLimitExceeded, "array size exceeds the maximum allowed (%d)", maxElements)
	case n > maxArray:
		return refuse("an assignment to an array of more than a million elements")
	}
	return nil
}
