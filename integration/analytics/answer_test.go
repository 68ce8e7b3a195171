package analytics

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// mode is a way to put a question.
type mode string

const (
	simple   mode = "simple"   // one text, rows as text
	extended mode = "extended" // dates as parameters, rows in binary
)

// modes are how weft is asked in each layout. One way each time for the slower
// one: what differs between them is not where tables are.
var modes = map[string][]mode{"together": {simple, extended}, "apart": {extended}}

// answer is all that is compared.
type answer struct {
	columns []pgconn.FieldDescription
	rows    [][][]byte
	tag     string
}

func ask(conn *pgconn.PgConn, m mode, sql string) (answer, error) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if m == simple {
		res, err := conn.Exec(ctx, sql).ReadAll()
		if err != nil {
			return answer{}, err
		}
		if len(res) != 1 {
			return answer{}, fmt.Errorf("%d results", len(res))
		}
		return answer{res[0].FieldDescriptions, res[0].Rows, res[0].CommandTag.String()}, nil
	}
	sql, values := parameters(sql)
	if _, err := conn.Prepare(ctx, "", sql, nil); err != nil {
		return answer{}, err
	}
	res := conn.ExecPrepared(ctx, "", values, nil, []int16{1}).Read()
	return answer{res.FieldDescriptions, res.Rows, res.CommandTag.String()}, res.Err
}

var dateLiteral = regexp.MustCompile(`date '(\d{4}-\d\d-\d\d)'`)

// parameters makes a parameter of every date, one number for equal ones.
func parameters(sql string) (text string, values [][]byte) {
	known := map[string]int{}
	text = dateLiteral.ReplaceAllStringFunc(sql, func(m string) string {
		day := dateLiteral.FindStringSubmatch(m)[1]
		if known[day] == 0 {
			values = append(values, []byte(day))
			known[day] = len(values)
		}
		return fmt.Sprintf("$%d::date", known[day])
	})
	return text, values
}

// diff says how an answer differs from the one wanted, "" if it does not.
func diff(want, got answer) string {
	if w, g := describe(want.columns), describe(got.columns); w != g {
		return fmt.Sprintf("columns:\n  want %s\n  got  %s", w, g)
	}
	if want.tag != got.tag {
		return fmt.Sprintf("command tag: want %q, got %q", want.tag, got.tag)
	}
	if len(want.rows) != len(got.rows) {
		return fmt.Sprintf("%d rows, want %d", len(got.rows), len(want.rows))
	}
	for i, row := range want.rows {
		for j, value := range row {
			if !equal(want.columns[j], value, got.rows[i][j]) {
				return fmt.Sprintf("row %d, column %s:\n  want %s\n  got  %s", i+1, want.columns[j].Name, show(want, i), show(got, i))
			}
		}
	}
	return ""
}

func describe(columns []pgconn.FieldDescription) string {
	var b strings.Builder
	for _, c := range columns {
		fmt.Fprintf(&b, "%s type %d mod %d len %d fmt %d, ", c.Name, c.DataTypeOID, c.TypeModifier, c.DataTypeSize, c.Format)
	}
	return b.String()
}

func equal(column pgconn.FieldDescription, want, got []byte) bool {
	if (want == nil) != (got == nil) {
		return false
	}
	if column.DataTypeOID != pgtype.Float8OID || want == nil {
		return bytes.Equal(want, got)
	}
	w, werr := float(column, want)
	g, gerr := float(column, got)
	// The sum of parts is rounded otherwise than the sum of rows.
	return werr == nil && gerr == nil && (w == g || math.Abs(w-g) <= 1e-9*math.Max(math.Abs(w), math.Abs(g)))
}

func float(column pgconn.FieldDescription, value []byte) (float64, error) {
	if column.Format == 0 {
		return strconv.ParseFloat(string(value), 64)
	}
	if len(value) != 8 {
		return 0, fmt.Errorf("%d bytes", len(value))
	}
	return math.Float64frombits(binary.BigEndian.Uint64(value)), nil
}

func show(a answer, row int) string {
	var b strings.Builder
	for j, v := range a.rows[row] {
		switch {
		case v == nil:
			b.WriteString("<null>")
		case a.columns[j].Format == 1:
			fmt.Fprintf(&b, "%x", v)
		default:
			b.Write(v)
		}
		b.WriteString(" | ")
	}
	return b.String()
}
