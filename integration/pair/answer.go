package pair

import (
	bigendian "encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// Answer is all that is compared of what a server says to one statement.
type Answer struct {
	Results []Result
	Params  []string // types of the parameters, if they were asked for
	Code    string   // SQLSTATE; "" is success
	Message string   // of the error; shown, not compared
	Status  byte     // I, T or E
}

// Result is one statement's rows.
type Result struct {
	Fields []string   // name, type, modifier and origin of each column
	Rows   []string   // the cells, with bars between them
	Cells  [][]string // of each row
	Tag    string

	// rounded are the rows with floats cut to ten digits: a sum's last ones
	// depend on the order in which it was added up. Nil if there are no floats.
	rounded []string
}

// Refused: weft says that it does not do this. The same SQLSTATE is also what
// PostgreSQL says to a prepared SELECT * whose table has other columns by now, and
// to some more.
func (a Answer) Refused() bool {
	return a.Code == "0A000" && a.Message != Replan && !strings.HasPrefix(a.Message, referenced) || a.Code == "40001" && strings.HasPrefix(a.Message, Moved)
}

// Moved is how weft refuses a REPEATABLE READ block that writes rows which have changed shards since
// the block began.
const Moved = "could not serialize access due to rows that have moved to another shard"

// referenced is how PostgreSQL refuses TRUNCATE of a table alone.
const referenced = "cannot truncate a table referenced in a foreign key constraint"

// Replan is that message.
const Replan = "cached plan must not change result type"

func (a Answer) failed(err error) Answer {
	var pe *pgconn.PgError
	switch {
	case err == nil:
	case errors.As(err, &pe):
		a.Code, a.Message = pe.Code, pe.Message
		if pe.Hint != "" {
			a.Message += " (hint: " + pe.Hint + ")"
		}
	default:
		a.Code, a.Message = "?????", err.Error()
	}
	return a
}

// add puts one result into the answer. Names of user's types and tables stand
// for their OIDs, which differ from server to server.
func (a *Answer) add(names *oidNames, fields []pgconn.FieldDescription, rows [][][]byte, tag string, mask map[string]bool) {
	r := Result{Tag: tag}
	hidden := make([]bool, len(fields))
	for i, f := range fields {
		r.Fields = append(r.Fields, fmt.Sprintf("%s %s mod %d len %d of %s.%d fmt %d",
			f.Name, names.typ(f.DataTypeOID), f.TypeModifier, f.DataTypeSize, names.class(f.TableOID), f.TableAttributeNumber, f.Format))
		hidden[i] = mask[f.Name]
	}
	floats := slices.ContainsFunc(fields, func(f pgconn.FieldDescription) bool { return isFloat(f.DataTypeOID) })
	for _, row := range rows {
		var b, rounded strings.Builder
		cells := make([]string, len(row))
		for i, v := range row {
			cell := "<null>"
			switch {
			case i < len(hidden) && hidden[i]:
				cell = "<masked>"
			case v == nil:
			case fields[i].Format == 1:
				cell = fmt.Sprintf("%x", v)
			default:
				cell = string(v)
			}
			b.WriteString(cell + " | ")
			cells[i] = cell
			if floats && v != nil && isFloat(fields[i].DataTypeOID) {
				cell = roundFloat(fields[i], v)
			}
			if floats {
				rounded.WriteString(cell + " | ")
			}
		}
		r.Rows, r.Cells = append(r.Rows, b.String()), append(r.Cells, cells)
		if floats {
			r.rounded = append(r.rounded, rounded.String())
		}
	}
	a.Results = append(a.Results, r)
}

func isFloat(oid uint32) bool { return oid == pgtype.Float4OID || oid == pgtype.Float8OID }

func roundFloat(f pgconn.FieldDescription, v []byte) string {
	var x float64
	var err error
	switch {
	case f.Format == 0:
		x, err = strconv.ParseFloat(string(v), 64)
	case len(v) == 8:
		x = math.Float64frombits(bigendian.BigEndian.Uint64(v))
	case len(v) == 4:
		x = float64(math.Float32frombits(bigendian.BigEndian.Uint32(v)))
	}
	if err != nil {
		return string(v)
	}
	if f.DataTypeOID == pgtype.Float4OID {
		return strconv.FormatFloat(x, 'g', 5, 64)
	}
	return strconv.FormatFloat(x, 'g', 10, 64)
}

// Diff says how weft's answer differs, "" if it does not.
func Diff(want, got Answer, ordered bool) string {
	if want.Code != got.Code {
		return fmt.Sprintf("SQLSTATE: PostgreSQL %q (%s), weft %q (%s)", want.Code, want.Message, got.Code, got.Message)
	}
	if want.Status != got.Status {
		return fmt.Sprintf("transaction status: PostgreSQL %c, weft %c", want.Status, got.Status)
	}
	if !slices.Equal(want.Params, got.Params) {
		return fmt.Sprintf("types of parameters: PostgreSQL %v, weft %v", want.Params, got.Params)
	}
	if len(want.Results) != len(got.Results) {
		return fmt.Sprintf("PostgreSQL has %d results, weft %d", len(want.Results), len(got.Results))
	}
	for i := range want.Results {
		w, g := want.Results[i], got.Results[i]
		if !slices.Equal(w.Fields, g.Fields) {
			return fmt.Sprintf("columns:\n  PostgreSQL %s\n  weft       %s", strings.Join(w.Fields, ", "), strings.Join(g.Fields, ", "))
		}
		if w.Tag != g.Tag {
			return fmt.Sprintf("command tag: PostgreSQL %q, weft %q", w.Tag, g.Tag)
		}
		if sameRows(w.Rows, g.Rows, ordered) || w.rounded != nil && sameRows(w.rounded, g.rounded, ordered) {
			continue
		}
		wr, gr := w.Rows, g.Rows
		if !ordered {
			wr, gr = onlyIn(wr, gr), onlyIn(gr, wr)
		}
		return fmt.Sprintf("rows:\n  PostgreSQL %d, of them not weft's:\n    %s\n  weft %d:\n    %s", len(w.Rows), Excerpt(wr), len(g.Rows), Excerpt(gr))
	}
	return ""
}

func sameRows(want, got []string, ordered bool) bool {
	if !ordered {
		want, got = slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))
	}
	return slices.Equal(want, got)
}

// onlyIn returns the rows of a beyond those of b.
func onlyIn(a, b []string) []string {
	count := map[string]int{}
	for _, r := range b {
		count[r]++
	}
	var out []string
	for _, r := range a {
		if count[r]--; count[r] < 0 {
			out = append(out, r)
		}
	}
	return out
}

// Excerpt joins the first rows.
func Excerpt(rows []string) string {
	const most = 12
	if len(rows) > most {
		rows = append(slices.Clone(rows[:most]), "…")
	}
	return strings.Join(rows, "\n    ")
}

// Ordered reports whether the text's own ORDER BY orders its rows: one outside
// all parentheses.
func Ordered(sql string) bool {
	depth := 0
	lower := strings.ToLower(sql)
	for i := range lower {
		switch lower[i] {
		case '(':
			depth++
		case ')':
			depth--
		case 'o':
			if depth == 0 && strings.HasPrefix(lower[i:], "order by ") {
				return true
			}
		}
	}
	return strings.HasPrefix(lower, "fetch ") || strings.HasPrefix(lower, "explain ")
}
