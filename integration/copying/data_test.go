package copying

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// format are the random options of a COPY.
type format struct {
	kind       string // text, csv, binary
	delim      byte
	null       string
	quote, esc byte
	header     string // "", true, match
	eol        string
	latin      bool // what is sent is Latin-1
	options    []string
}

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// newFormat makes options up: sometimes such that PostgreSQL refuses them.
func newFormat(r *rand.Rand, columns []*column, from bool) *format {
	f := &format{kind: pick(r, "text", "text", "csv", "csv", "csv", "binary"), delim: '\t', null: `\N`, eol: pick(r, "\n", "\n", "\n", "\r\n", "\r")}
	add := func(format string, args ...any) { f.options = append(f.options, fmt.Sprintf(format, args...)) }
	if f.kind != "text" || r.IntN(4) == 0 {
		add("format %s", f.kind)
	}
	if f.kind == "binary" {
		if r.IntN(30) == 0 {
			add("%s", pick(r, "header", "delimiter ','", "null 'x'", "force_null (a)"))
		}
		return f
	}
	if f.kind == "csv" {
		f.delim, f.null, f.quote, f.esc = ',', "", '"', '"'
		if r.IntN(4) == 0 {
			f.quote = pick[byte](r, '\'', '|', 'q', '\\', '\x01')
			f.esc = f.quote
			add("quote %s", literal(string(f.quote)))
		}
		if r.IntN(4) == 0 {
			f.esc = pick[byte](r, '\\', '\'', '~', 'e', f.quote)
			add("escape %s", literal(string(f.esc)))
		}
		for _, force := range []string{"force_null", "force_not_null", "force_quote"} {
			if from == (force == "force_quote") && r.IntN(40) != 0 || r.IntN(5) != 0 {
				continue
			}
			if force == "force_quote" && r.IntN(2) == 0 {
				add("force_quote *")
				continue
			}
			some := slices.Clone(columns)
			r.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
			add("%s (%s)", force, names(some[:1+r.IntN(len(some))]))
		}
	}
	if r.IntN(4) == 0 {
		f.delim = pick[byte](r, ',', ';', '|', ' ', '\x01', 'X', '"', '\'', ':', '\\', 'a')
		add("delimiter %s", literal(string(f.delim)))
	}
	if r.IntN(4) == 0 {
		f.null = pick(r, "", "NULL", `\N`, "nil", "a b", `\`, "7", "é", `"`, "X", ",")
		add("null %s", literal(f.null))
	}
	switch r.IntN(8) {
	case 0:
		f.header = "true"
		add("header%s", pick(r, "", " true", " on", " 1"))
	case 1:
		f.header = "match"
		add("header match")
	case 2:
		add("header %s", pick(r, "false", "off", "0"))
	}
	if r.IntN(8) == 0 {
		name := pick(r, "latin1", "LATIN1", "iso88591", "utf8", "UTF-8")
		f.latin = strings.HasSuffix(name, "1")
		add("encoding %s", literal(name))
	}
	r.Shuffle(len(f.options), func(i, j int) { f.options[i], f.options[j] = f.options[j], f.options[i] })
	return f
}

// sql is what comes behind STDIN or STDOUT.
func (f *format) sql() string {
	if len(f.options) == 0 {
		return ""
	}
	return " (" + strings.Join(f.options, ", ") + ")"
}

// row writes one; nil is NULL.
func (f *format) row(r *rand.Rand, values []*string) []byte {
	var b []byte
	for i, v := range values {
		if i > 0 {
			b = append(b, f.delim)
		}
		switch {
		case v == nil:
			b = append(b, f.null...)
		case f.kind == "csv":
			b = f.csv(r, b, *v)
		default:
			b = f.text(r, b, *v)
		}
	}
	return append(b, f.eol...)
}

func (f *format) csv(r *rand.Rand, b []byte, v string) []byte {
	if v != f.null && !strings.ContainsAny(v, "\r\n"+string(f.delim)+string(f.quote)) && r.IntN(4) > 0 {
		return append(b, v...)
	}
	b = append(b, f.quote)
	for _, c := range []byte(v) {
		if c == f.quote || c == f.esc {
			b = append(b, f.esc)
		}
		b = append(b, c)
	}
	return append(b, f.quote)
}

// text writes a value in one of the many ways there are.
func (f *format) text(r *rand.Rand, b []byte, v string) []byte {
	for i, c := range []byte(v) {
		special := c == '\\' || c == '\n' || c == '\r' || c == f.delim
		if !special && (v != f.null || i > 0) && r.IntN(30) > 0 {
			b = append(b, c)
			continue
		}
		k := strings.IndexByte("\b\f\n\r\t\v", c)
		switch n := r.IntN(4); {
		case n == 0 || v == f.null:
			b = fmt.Appendf(b, "\\%03o", c)
		case n == 1:
			b = fmt.Appendf(b, "\\x%02x", c)
		case k >= 0:
			b = append(b, '\\', "bfnrtv"[k])
		case special:
			b = append(b, '\\', c)
		default:
			b = append(b, c)
		}
	}
	return b
}

// data makes rows up for these columns. Some of it may be wrong.
func (f *format) data(r *rand.Rand, columns []*column, good bool) []byte {
	var b []byte
	if f.header != "" {
		var head []*string
		for _, c := range columns {
			name := c.name
			head = append(head, &name)
		}
		if !good && r.IntN(6) == 0 {
			other := pick(r, "nope", "", f.null)
			head[r.IntN(len(head))] = &other
		}
		if !good && r.IntN(10) == 0 {
			head = head[1:]
		}
		b = f.row(r, head)
	}
	n := r.IntN(40)
	if r.IntN(20) == 0 {
		n = 500
	}
	for range n {
		var row []*string
		for _, c := range columns {
			v := c.value(r)
			row = append(row, &v)
			if !c.notNull && r.IntN(6) == 0 || !good && r.IntN(400) == 0 {
				row[len(row)-1] = nil
			}
		}
		if !good && r.IntN(n*3+1) == 0 {
			bad := pick(r, "nonsense", "99999999999999999999", "", ugly(r))
			switch i := r.IntN(len(row)); r.IntN(3) {
			case 0:
				row = append(row, &bad)
			case 1:
				row = row[:i]
			default:
				row[i] = &bad
			}
		}
		line := f.row(r, row)
		b = append(b, line...)
		if !good && r.IntN(n*4+1) == 0 {
			b = append(b, line...) // again
		}
	}
	if r.IntN(6) == 0 {
		b = append(b, "\\."+f.eol...)
		if r.IntN(2) == 0 {
			b = append(b, "what comes after\n"...)
		}
	} else if r.IntN(8) == 0 {
		b = bytes.TrimSuffix(b, []byte(f.eol))
	}
	return b
}

// spoil changes a few bytes.
func spoil(r *rand.Rand, b []byte) []byte {
	for range 1 + r.IntN(3) {
		at := r.IntN(len(b) + 1)
		with := pick(r, "", "\\", "\n", "\r", "\"", "\t", ",", "\x00", "\xff", "\xc3", "\\.", "\\.\n", "x", "\n\n", "é", "'")
		switch r.IntN(3) {
		case 0:
			b = slices.Insert(slices.Clone(b), at, []byte(with)...)
		case 1:
			b = append(slices.Clone(b[:at]), append([]byte(with), b[min(len(b), at+1+r.IntN(4)):]...)...)
		default:
			if r.IntN(6) == 0 {
				b = b[:at]
			}
		}
	}
	return b
}

// latin brings UTF-8 into Latin-1, as far as that goes.
func latin(b []byte) []byte {
	var out []byte
	for _, c := range string(b) {
		if c > 255 {
			c = '?'
		}
		out = append(out, byte(c))
	}
	return out
}
