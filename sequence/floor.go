package sequence

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"weft/quote"
)

// After a failover a sequence may go on with values that were drawn before: the new home shard has not got the last draws of the old one. Its floor
// is the last value that is known to have been drawn, by the marks of proxies and by the rows of all shards.

// State is a sequence as the home shard has it.
type State struct {
	Increment, Min, Max int64
	Cycle               bool
	// Last is the last value that was drawn. If there is none, Last is the first value and Called is false.
	Last   int64
	Called bool
}

// StateSQL asks for the state of a sequence. Its row is for ReadState.
func StateSQL(sequence string) string {
	return "SELECT seqincrement, seqmin, seqmax, seqcycle, seqstart, pg_catalog.pg_sequence_last_value(seqrelid) FROM pg_catalog.pg_sequence WHERE seqrelid = " +
		quote.Literal(sequence) + "::pg_catalog.regclass"
}

// ReadState reads the answer to StateSQL.
func ReadState(rows [][]string) (State, error) {
	if len(rows) != 1 || len(rows[0]) != 6 {
		return State{}, errors.New("the home shard has not told the state of a sequence")
	}
	r := rows[0]
	s := State{Cycle: r[3] == "t", Called: r[5] != ""}
	if !s.Called {
		r[5] = r[4]
	}
	for i, to := range map[int]*int64{0: &s.Increment, 1: &s.Min, 2: &s.Max, 5: &s.Last} {
		n, err := strconv.ParseInt(r[i], 10, 64)
		if err != nil {
			return State{}, fmt.Errorf("the state of a sequence: %w", err)
		}
		*to = n
	}
	return s, nil
}

const (
	// horizon is how many values beyond the known ones the rows of shards are looked at. A row with a greater number was not given it by the
	// sequence: a failover loses seconds, not millions of values.
	horizon = 10_000_000
	// reserve is how many values are left out where values were lost: transactions in doubt may hold some, which are seen neither in rows nor in marks.
	reserve = 1000
)

// beyond reports whether the sequence comes to a after b.
func (s State) beyond(a, b int64) bool {
	if s.Increment < 0 {
		return a < b
	}
	return a > b
}

// top returns the last value of those in the marks, or that of the sequence.
func (s State) top(marks []Mark) int64 {
	top := s.Last
	for _, m := range marks {
		v := m.High
		if s.Increment < 0 {
			v = m.Low
		}
		if s.beyond(v, top) {
			top = v
		}
	}
	return top
}

// Horizon returns the value up to which the numbers in rows may come from the sequence.
func (s State) Horizon(marks []Mark) int64 { return s.step(s.top(marks), horizon) }

// step returns the value n increments after v, or the last value that the sequence may have.
func (s State) step(v, n int64) int64 {
	to := new(big.Int).Mul(big.NewInt(s.Increment), big.NewInt(n))
	to.Add(to, big.NewInt(v))
	limit := s.Max
	if s.Increment < 0 {
		limit = s.Min
	}
	if !to.IsInt64() || s.beyond(to.Int64(), limit) {
		return limit
	}
	return to.Int64()
}

// Floor returns the value that the sequence has to be set to, so that it repeats neither what the marks nor what the rows have. It reports false
// if the sequence is there already. A sequence that cycles repeats values anyway: it is set to the mark it has not come to yet, if that is less than
// half of a round away.
func (s State) Floor(marks []Mark, rows []int64) (int64, bool) {
	if s.Cycle {
		return s.cyclic(marks)
	}
	top := s.top(marks)
	for _, v := range rows {
		if s.beyond(v, top) {
			top = v
		}
	}
	if !s.beyond(top, s.Last) && (s.Called || top != s.Last || !s.drawn(marks, rows)) {
		return 0, false
	}
	// The sequence keeps its remainder: others may count with the same increment and another one.
	distance := new(big.Int).Sub(big.NewInt(top), big.NewInt(s.Last))
	steps, rest := distance.DivMod(distance, big.NewInt(s.Increment), new(big.Int))
	if rest.Sign() != 0 && s.Increment > 0 {
		steps.Add(steps, big.NewInt(1))
	}
	n := int64(math.MaxInt64)
	if steps.IsInt64() {
		n = steps.Int64()
	}
	to := s.step(s.Last, n)
	if s.near(to) {
		return to, true
	}
	return s.step(to, reserve), true
}

// near reports whether the sequence is too near to its end to leave out values.
func (s State) near(v int64) bool {
	limit := s.Max
	if s.Increment < 0 {
		limit = s.Min
	}
	return s.step(v, 100*reserve) == limit
}

// drawn reports whether the first value of a sequence was drawn that says it was not.
func (s State) drawn(marks []Mark, rows []int64) bool {
	for _, m := range marks {
		if m.Low == s.Last || m.High == s.Last {
			return true
		}
	}
	for _, v := range rows {
		if v == s.Last {
			return true
		}
	}
	return false
}

// cyclic is Floor of a sequence that cycles.
func (s State) cyclic(marks []Mark) (int64, bool) {
	round := new(big.Int).Sub(big.NewInt(s.Max), big.NewInt(s.Min))
	round.Add(round, big.NewInt(1))
	half := new(big.Int).Rsh(round, 1)
	best, to := new(big.Int), int64(0)
	for _, m := range marks {
		ahead := new(big.Int).Sub(big.NewInt(m.Last), big.NewInt(s.Last))
		if s.Increment < 0 {
			ahead.Neg(ahead)
		}
		if ahead.Mod(ahead, round); ahead.Cmp(half) < 0 && ahead.Cmp(best) > 0 {
			best, to = ahead, m.Last
		}
	}
	return to, best.Sign() > 0
}

// SetSQL sets a sequence to its floor.
func SetSQL(sequence string, to int64) string {
	return "SELECT pg_catalog.setval(" + quote.Literal(sequence) + ", " + strconv.FormatInt(to, 10) + ")"
}

// Column is a column whose values come from a sequence.
type Column struct {
	Schema, Table, Name string
	// Indexed says that an index begins with the column.
	Indexed bool
	// Bits and Base say how a number of the sequence is in the column: in the bits above, and less Base. See directory.RoutedIDs.
	Bits int
	Base int64
}

// ColumnsSQL asks for the columns that draw from a sequence. Its rows are for ReadColumns.
func ColumnsSQL(sequence string) string {
	seq := quote.Literal(sequence) + "::pg_catalog.regclass"
	return "SELECT n.nspname, c.relname, a.attname, EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NULL AND i.indkey[0] = a.attnum) " +
		"FROM (SELECT refobjid AS rel, refobjsubid AS num FROM pg_catalog.pg_depend WHERE classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND objid = " + seq +
		" AND refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND refobjsubid > 0 AND deptype IN ('a', 'i') " +
		"UNION SELECT d.adrelid, d.adnum FROM pg_catalog.pg_depend p JOIN pg_catalog.pg_attrdef d ON d.oid = p.objid WHERE p.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass" +
		" AND p.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND p.refobjid = " + seq + ") x " +
		"JOIN pg_catalog.pg_class c ON c.oid = x.rel AND c.relkind IN ('r', 'p') AND NOT c.relispartition " +
		"JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace " +
		"JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = x.num AND a.atttypid IN (20, 21, 23, 1700)"
}

// ReadColumns reads the answer to ColumnsSQL.
func ReadColumns(rows [][]string) ([]Column, error) {
	var out []Column
	for _, r := range rows {
		if len(r) != 4 {
			return nil, errors.New("the home shard has not told the columns of a sequence")
		}
		out = append(out, Column{Schema: r[0], Table: r[1], Name: r[2], Indexed: r[3] == "t"})
	}
	return out, nil
}

// RowsSQL asks for the last numbers that the columns hold, up to the horizon. Its rows are for ReadRows.
func (s State) RowsSQL(columns []Column, horizon int64) string {
	call, compare := "max", "<="
	if s.Increment < 0 {
		call, compare = "min", ">="
	}
	var parts []string
	for i, c := range columns {
		limit := new(big.Int).SetInt64(horizon)
		if c.Bits > 0 {
			limit.Add(limit, big.NewInt(c.Base+1))
			limit.Lsh(limit, uint(c.Bits))
			if !limit.IsInt64() {
				limit.SetInt64(math.MaxInt64)
			}
		}
		column := quote.Ident(c.Name)
		parts = append(parts, fmt.Sprintf("SELECT %d, pg_catalog.trunc((%s(%s))::numeric) FROM %s.%s WHERE %s %s %s", i, call, column, quote.Ident(c.Schema), quote.Ident(c.Table), column, compare, limit))
	}
	return strings.Join(parts, " UNION ALL ")
}

// ReadRows reads the answer to RowsSQL for the same columns, and appends the sequence's numbers to dst.
func ReadRows(dst []int64, columns []Column, rows [][]string) ([]int64, error) {
	if len(rows) != len(columns) {
		return dst, errors.New("a shard has not told the last numbers of its rows")
	}
	for _, r := range rows {
		i, err := strconv.Atoi(r[0])
		if err != nil || i >= len(columns) || r[1] == "" {
			continue
		}
		v, err := strconv.ParseInt(r[1], 10, 64)
		if err != nil {
			return dst, fmt.Errorf("the last number of a shard's rows: %w", err)
		}
		if bits := columns[i].Bits; bits > 0 {
			v = v>>bits - columns[i].Base
		}
		dst = append(dst, v)
	}
	return dst, nil
}
