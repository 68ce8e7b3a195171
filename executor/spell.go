package executor

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"weft/datum"
	"weft/pgerr"
	"weft/plan"
	"weft/vindex"
)

// ReadKey reads a key as people write it and as shown shows it: that of one column by its value, that of several as a row, such as
// (7,"a b",). An empty field of a row is NULL. Errors are for the client.
func ReadKey(v vindex.Vindex, text string) ([]datum.Key, error) {
	columns := v.Columns()
	fields := []field{{text: text}}
	if len(columns) > 1 {
		var err error
		if fields, err = readRow(text); err != nil {
			return nil, err
		}
		if len(fields) != len(columns) {
			return nil, pgerr.New(pgerr.InvalidParameterValue, "the shard key has %d columns, and %q has %d values", len(columns), text, len(fields)).WithHint("%s", rowHint(columns))
		}
	}
	keys := make([]datum.Key, len(fields))
	for i, f := range fields {
		if f.null {
			continue
		}
		k, err := columns[i].Store(datum.Literal([]byte(f.text)))
		if err != nil {
			return nil, keyError(columns[i], f.text, err)
		}
		keys[i] = k
	}
	return keys, nil
}

// keyError words that a text is no value of a column.
func keyError(c vindex.Column, text string, err error) error {
	if e := (*datum.Error)(nil); errors.As(err, &e) && e.Verdict != datum.Invalid {
		return pgerr.New(pgerr.FeatureNotSupported, "weft cannot tell which value of type %s this is: %s", c.TypeName, e.Reason).
			WithHint("Write it in a form that no setting changes the meaning of.")
	}
	return pgerr.New("22P02", "invalid input syntax for type %s: %q", c.TypeName, text)
}

// rowHint shows how a key of several columns is written.
func rowHint(columns []vindex.Column) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	return "Write the values of " + strings.Join(names, ", ") + ` as a row: '(7,abc)', with double quotes where a value has a comma, a parenthesis or spaces.`
}

// field is a value of a row.
type field struct {
	text string
	null bool
}

// readRow reads a row as PostgreSQL writes one.
func readRow(text string) ([]field, error) {
	bad := pgerr.New("22P02", "malformed row: %q", text).WithHint(`A key of several columns is written as '(7,abc)', with double quotes where a value has a comma, a parenthesis or spaces.`)
	inner, open := strings.CutPrefix(strings.TrimSpace(text), "(")
	inner, closed := strings.CutSuffix(inner, ")")
	if !open || !closed {
		return nil, bad
	}
	var out []field
	var b strings.Builder
	null, quoted := true, false
	for i := 0; i < len(inner); i++ {
		c := inner[i]
		switch {
		case c == '\\' && i+1 < len(inner):
			i++
			b.WriteByte(inner[i])
			null = false
		case c == '"' && quoted && i+1 < len(inner) && inner[i+1] == '"':
			i++
			b.WriteByte('"')
		case c == '"':
			quoted, null = !quoted, false
		case c == ',' && !quoted:
			out = append(out, field{b.String(), null})
			b.Reset()
			null = true
		case (c == '(' || c == ')') && !quoted:
			return nil, bad
		default:
			b.WriteByte(c)
			null = false
		}
	}
	if quoted {
		return nil, bad
	}
	return append(out, field{b.String(), null}), nil
}

// appendSpelling spells a key so that different keys have different spellings. That of one column is its value.
func appendSpelling(out []byte, v vindex.Vindex, keys []datum.Key) []byte {
	const null = 0xff // begins no text
	columns := v.Columns()
	for i, k := range keys {
		if i > 0 {
			out = append(out, 0) // is in no text
		}
		if k.IsNull() {
			out = append(out, null)
			continue
		}
		out = appendShown(out, k, columns[i].Type)
	}
	return out
}

// Shown spells a whole key for people, so that ReadKey reads it.
func Shown(v vindex.Vindex, keys []datum.Key) string {
	columns := v.Columns()
	if len(columns) == 1 {
		if keys[0].IsNull() {
			return "NULL"
		}
		return string(appendShown(nil, keys[0], columns[0].Type))
	}
	fields := make([]*string, len(keys))
	for i, k := range keys {
		if !k.IsNull() {
			text := string(appendShown(nil, k, columns[i].Type))
			fields[i] = &text
		}
	}
	return Row(fields)
}

// Row writes values as a row that ReadKey reads, nil for NULL.
func Row(fields []*string) string {
	out := []byte{'('}
	for i, f := range fields {
		if i > 0 {
			out = append(out, ',')
		}
		if f != nil {
			out = appendField(out, *f)
		}
	}
	return string(append(out, ')'))
}

// appendField appends a value of a row, in double quotes if need be.
func appendField(dst []byte, value string) []byte {
	if value != "" && !strings.ContainsAny(value, "(),\"\\ \t\n\r\v\f") {
		return append(dst, value...)
	}
	dst = append(dst, '"')
	for _, c := range []byte(value) {
		if c == '"' || c == '\\' {
			dst = append(dst, c)
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}

// appendShown appends a value that is not null, for people.
func appendShown(dst []byte, k datum.Key, typ datum.Type) []byte {
	at, timed := moment(k, typ)
	switch {
	case !timed:
		return k.AppendText(dst)
	case typ == datum.Date:
		return at.AppendFormat(dst, time.DateOnly)
	}
	dst = at.AppendFormat(dst, "2006-01-02 15:04:05.999999")
	if typ == datum.Timestamptz {
		dst = append(dst, "+00"...)
	}
	return dst
}

// maxShown bounds the spelling of a key, in bytes.
const maxShown = 200

// shown is Shown, cut where it is too long.
func shown(in *plan.Instance, keys []datum.Key) string {
	out := Shown(in.Table.Vindex, keys)
	if len(out) <= maxShown {
		return out
	}
	out = out[:maxShown]
	for len(out) > 0 && !utf8.RuneStart(out[len(out)-1]) {
		out = out[:len(out)-1]
	}
	if n := len(out); n > 0 && out[n-1] >= utf8.RuneSelf {
		out = out[:n-1]
	}
	return out + "…"
}
