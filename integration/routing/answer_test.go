package routing

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// answer is all that is compared of what a server says to one statement.
type answer struct {
	results []result
	params  []string // types of the parameters, if they were asked for
	code    string   // SQLSTATE; "" is success
	message string   // of the error; shown, not compared
	status  byte     // I, T or E
}

// result is one statement's rows.
type result struct {
	fields []string // name, type, modifier and origin of each column
	rows   []string
	tag    string
}

// refused: weft says that it does not do this. The same SQLSTATE is also what
// PostgreSQL says to a prepared SELECT * whose table has other columns by now.
func (a answer) refused() bool { return a.code == "0A000" && a.message != replan }

const replan = "cached plan must not change result type"

func (a answer) failed(err error) answer {
	var pe *pgconn.PgError
	switch {
	case err == nil:
	case errors.As(err, &pe):
		a.code, a.message = pe.Code, pe.Message
		if pe.Hint != "" {
			a.message += " (hint: " + pe.Hint + ")"
		}
	default:
		a.code, a.message = "?????", err.Error()
	}
	return a
}

// add puts one result into the answer. Names of user's types and tables stand
// for their OIDs, which differ from server to server.
func (a *answer) add(names *oidNames, fields []pgconn.FieldDescription, rows [][][]byte, tag string, mask map[string]bool) {
	r := result{tag: tag}
	hidden := make([]bool, len(fields))
	for i, f := range fields {
		r.fields = append(r.fields, fmt.Sprintf("%s %s mod %d len %d of %s.%d fmt %d",
			f.Name, names.typ(f.DataTypeOID), f.TypeModifier, f.DataTypeSize, names.class(f.TableOID), f.TableAttributeNumber, f.Format))
		hidden[i] = mask[f.Name]
	}
	for _, row := range rows {
		var b strings.Builder
		for i, v := range row {
			switch {
			case i < len(hidden) && hidden[i]:
				b.WriteString("<masked>")
			case v == nil:
				b.WriteString("<null>")
			case fields[i].Format == 1:
				fmt.Fprintf(&b, "%x", v)
			default:
				b.Write(v)
			}
			b.WriteString(" | ")
		}
		r.rows = append(r.rows, b.String())
	}
	a.results = append(a.results, r)
}

// diff says how weft's answer differs, "" if it does not.
func diff(want, got answer, ordered bool) string {
	if want.code != got.code {
		return fmt.Sprintf("SQLSTATE: PostgreSQL %q (%s), weft %q (%s)", want.code, want.message, got.code, got.message)
	}
	if want.status != got.status {
		return fmt.Sprintf("transaction status: PostgreSQL %c, weft %c", want.status, got.status)
	}
	if !slices.Equal(want.params, got.params) {
		return fmt.Sprintf("types of parameters: PostgreSQL %v, weft %v", want.params, got.params)
	}
	if len(want.results) != len(got.results) {
		return fmt.Sprintf("PostgreSQL has %d results, weft %d", len(want.results), len(got.results))
	}
	for i := range want.results {
		w, g := want.results[i], got.results[i]
		if !slices.Equal(w.fields, g.fields) {
			return fmt.Sprintf("columns:\n  PostgreSQL %s\n  weft       %s", strings.Join(w.fields, ", "), strings.Join(g.fields, ", "))
		}
		if w.tag != g.tag {
			return fmt.Sprintf("command tag: PostgreSQL %q, weft %q", w.tag, g.tag)
		}
		wr, gr := w.rows, g.rows
		if !ordered {
			wr, gr = slices.Sorted(slices.Values(wr)), slices.Sorted(slices.Values(gr))
		}
		if !slices.Equal(wr, gr) {
			return fmt.Sprintf("rows:\n  PostgreSQL %d:\n    %s\n  weft %d:\n    %s", len(wr), excerpt(wr), len(gr), excerpt(gr))
		}
	}
	return ""
}

func excerpt(rows []string) string {
	const most = 12
	if len(rows) > most {
		rows = append(slices.Clone(rows[:most]), "…")
	}
	return strings.Join(rows, "\n    ")
}

// ordered reports whether the text's own ORDER BY orders its rows: one outside
// all parentheses.
func ordered(sql string) bool {
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
