package console

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// Type is the type of a column.
type Type uint8

// The types, and what the values in Go are. Each may be nil.
const (
	Text  Type = iota // string
	Bool              // bool
	Int               // int64: bigint
	Float             // float64: double precision
	Time              // time.Time: timestamp with time zone
	Texts             // []string: text[]
)

// Column is a column of a Table.
type Column struct {
	Name string
	Type Type
}

// Table is the result of a command.
type Table struct {
	Columns []Column
	Rows    [][]any
	// Tag is the command tag, empty for an empty text.
	Tag string
	// Notices are told beside it.
	Notices []string
}

// Format writes a value as PostgreSQL does, in a session with time zone UTC. ok is
// false for NULL.
func Format(v any) (text string, ok bool) {
	switch v := v.(type) {
	case nil:
		return "", false
	case string:
		return v, true
	case bool:
		if v {
			return "t", true
		}
		return "f", true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), true
	case time.Time:
		if v.IsZero() {
			return "", false
		}
		return v.UTC().Format("2006-01-02 15:04:05.999999-07"), true
	case []string:
		return formatArray(v), true
	}
	panic("console: a value of no known type")
}

var arrayEscape = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func formatArray(list []string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, s := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + arrayEscape.Replace(s) + `"`)
	}
	b.WriteByte('}')
	return b.String()
}

// JSON writes the rows as json_to_recordset reads them.
func (t Table) JSON() []byte {
	out := []byte{'['}
	for i, row := range t.Rows {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '{')
		first := true
		for c, v := range row {
			if at, ok := v.(time.Time); ok && at.IsZero() || v == nil {
				continue
			}
			if !first {
				out = append(out, ',')
			}
			first = false
			b, err := json.Marshal(v)
			if err != nil {
				panic(err) // texts, numbers and times only
			}
			out = append(append(strconv.AppendQuote(out, t.Columns[c].Name), ':'), b...)
		}
		out = append(out, '}')
	}
	return append(out, ']')
}

// Read returns the rows that JSON has written, which another proxy has sent. Columns that this weft does not know
// are left out.
func (w *View) Read(data []byte) ([][]any, error) {
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	rows := make([][]any, len(list))
	for i, values := range list {
		rows[i] = make([]any, len(w.Columns))
		for c, col := range w.Columns {
			text, given := values[col.Name]
			if !given {
				continue
			}
			v, err := col.Type.read(text)
			if err != nil {
				return nil, err
			}
			rows[i][c] = v
		}
	}
	return rows, nil
}

// read returns a value of a type.
func (t Type) read(text []byte) (any, error) {
	switch t {
	case Bool:
		return readAs[bool](text)
	case Int:
		return readAs[int64](text)
	case Float:
		return readAs[float64](text)
	case Time:
		return readAs[time.Time](text)
	case Texts:
		return readAs[[]string](text)
	}
	return readAs[string](text)
}

func readAs[T any](text []byte) (any, error) {
	var v T
	err := json.Unmarshal(text, &v)
	return v, err
}
