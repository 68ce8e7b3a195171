package executor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"weft/datum"
	"weft/parser"
	"weft/pgserver"
	"weft/pgserver/pgtest"
	"weft/plan"
	"weft/vindex"
)

// keyType is a type of key columns with ways to spell its values.
type keyType struct {
	name   string
	oid    datum.Type
	array  uint32
	spell  func(*rand.Rand) string // a literal
	native func(*rand.Rand) any    // what pgx encodes
}

var keyTypes = []keyType{
	{"int2", datum.Int2, 1005, spellInt(1 << 8), func(r *rand.Rand) any { return int16(r.IntN(512) - 256) }},
	{"int4", datum.Int4, 1007, spellInt(1 << 10), func(r *rand.Rand) any { return int32(r.IntN(2048) - 1024) }},
	{"int8", datum.Int8, 1016, spellInt(1 << 40), func(r *rand.Rand) any { return r.Int64() }},
	{"text", datum.Text, 1009, spellText, func(r *rand.Rand) any { return randomText(r) }},
	{"varchar", datum.Varchar, 1015, spellText, func(r *rand.Rand) any { return randomText(r) }},
	{"bpchar", datum.Bpchar, 1014, spellText, func(r *rand.Rand) any { return randomText(r) }},
	{"uuid", datum.UUID, 2951, spellUUID, func(r *rand.Rand) any {
		var id [16]byte
		for i := range id {
			id[i] = byte(r.Uint32())
		}
		return pgtype.UUID{Bytes: id, Valid: true}
	}},
	{"numeric", datum.Numeric, 1231, spellNumeric, func(r *rand.Rand) any {
		var n pgtype.Numeric
		if err := n.Scan(strconv.FormatFloat(float64(r.IntN(1<<20))/64, 'f', -1, 64)); err != nil {
			panic(err)
		}
		return n
	}},
	{"date", datum.Date, 1182, spellDate, func(r *rand.Rand) any { return randomTime(r) }},
	{"timestamp", datum.Timestamp, 1115, spellTime, func(r *rand.Rand) any { return randomTime(r) }},
	{"timestamptz", datum.Timestamptz, 1185, spellTime, func(r *rand.Rand) any { return randomTime(r) }},
}

func pick(r *rand.Rand, list ...string) string { return list[r.IntN(len(list))] }

func spellInt(limit int64) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		n := strconv.FormatInt(r.Int64N(limit), 10)
		switch r.IntN(9) {
		case 0:
			return "'" + pick(r, " ", "+", "-", "") + n + pick(r, " ", "") + "'"
		case 1:
			return n + ".0"
		case 2:
			return n + ".5"
		case 3:
			return "000" + n
		case 4:
			return "E'\\x31" + n + "'"
		case 5:
			return pick(r, "2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "32767", "32768", "1e2")
		}
		return n
	}
}

func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(6) {
		b.WriteString(pick(r, "a", "B", " ", "é", "漢", `"`, `\`, ",", "{", "}", "NULL", "null", "1", "\t", "x y"))
	}
	return b.String()
}

func spellText(r *rand.Rand) string {
	s := randomText(r)
	switch r.IntN(4) {
	case 0:
		return "E'" + strings.ReplaceAll(s, `\`, `\\`) + pick(r, `\n`, `\'`, `\101`, `\q`, "") + "'"
	case 1:
		return "$q$" + s + "$q$"
	case 2:
		return "'" + s + "'\n  '" + pick(r, "''", "z", "") + "'"
	}
	return "'" + s + "'"
}

func spellUUID(r *rand.Rand) string {
	hex := fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64())
	s := hex[:8] + "-" + hex[8:12] + "-" + hex[12:16] + "-" + hex[16:20] + "-" + hex[20:]
	return "'" + pick(r, s, strings.ToUpper(s), hex, "{"+s+"}", s[:20], s+" ") + "'"
}

func spellNumeric(r *rand.Rand) string {
	n := strconv.FormatFloat(float64(r.Int64N(1<<30))/float64(int64(1)<<r.IntN(20)), 'f', -1, 64)
	return pick(r, n, "'"+n+"'", n+"e3", "'-"+n+"'", "'NaN'", "0.000", "100000", "1e5", "'1e-5'", "99999999999999999999")
}

func randomTime(r *rand.Rand) time.Time {
	return time.Date(1990+r.IntN(60), time.Month(1+r.IntN(12)), 1+r.IntN(28), 0, 0, 0, 0, time.UTC)
}

func spellDate(r *rand.Rand) string {
	t := randomTime(r)
	return "'" + pick(r, t.Format("2006-01-02"), t.Format("20060102"), t.Format("Jan 2 2006"), "infinity", "-infinity", "2023-02-30", "epoch") + "'"
}

func spellTime(r *rand.Rand) string {
	t := randomTime(r).Add(time.Duration(r.Int64N(86400e6)) * time.Microsecond)
	return "'" + pick(r, t.Format("2006-01-02 15:04:05"), t.Format("2006-01-02T15:04:05.999999"), t.Format("2006-01-02 15:04:05+00"),
		t.Format("2006-01-02"), t.Format("2006-01-02 15:04:05.999999-07"), "infinity") + "'"
}

// oracle asks Bind and a server about one table.
type oracle struct {
	t     *testing.T
	conn  *pgconn.PgConn
	table *plan.Table
	b     Binder
}

const oracleBuckets = 64

func (o *oracle) visits(p *plan.Plan, a *Args) []int {
	s, err := o.b.Bind(p, cluster(oracleBuckets, oracleBuckets), a)
	if err != nil {
		o.t.Fatal(err)
	}
	switch {
	case s.Any():
		return []int{}
	case s.Len() == oracleBuckets:
		return nil
	}
	return slices.Collect(s.All())
}

// rows runs a text and returns the one column of its result, as numbers. ok is false if the server refuses the text.
func (o *oracle) rows(text string, params [][]byte, types []uint32, formats []int16) (out []int, ok bool) {
	ctx, cancel := context.WithTimeout(o.t.Context(), time.Minute)
	defer cancel()
	r := o.conn.ExecParams(ctx, text, params, types, formats, nil).Read()
	var refused *pgconn.PgError
	if errors.As(r.Err, &refused) {
		return nil, false
	}
	if r.Err != nil {
		o.t.Fatal(r.Err)
	}
	for _, row := range r.Rows {
		n, err := strconv.Atoi(string(row[0]))
		if err != nil {
			o.t.Fatal(err)
		}
		out = append(out, n)
	}
	return out, true
}

// TestBindAgreesWithServer: a value that a server stores is in the bucket that Bind says by the server's own expression, and
// every row that a condition finds is in a bucket that Bind visits.
func TestBindAgreesWithServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	srv := pgtest.Start(t, pgserver.Config{})
	conn, err := pgconn.Connect(ctx, srv.ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for i, kt := range keyTypes {
		t.Run(kt.name, func(t *testing.T) {
			o := &oracle{t: t, conn: conn, table: declare(t, "hash", nil, oracleBuckets, column{"v", kt.oid})}
			r := rand.New(rand.NewPCG(uint64(i), 1))
			bucket, err := vindex.BucketSQL(o.table.Vindex.(vindex.Computed), []string{"v"}, oracleBuckets)
			if err != nil {
				t.Fatal(err)
			}
			o.rows("CREATE TABLE k_"+kt.name+" (v "+kt.name+")", nil, nil, nil)
			o.stores(r, kt, bucket)
			o.matches(r, kt, bucket)
			o.params(r, kt, bucket)
			o.arrays(r, kt, bucket)
		})
	}
}

func (o *oracle) stores(r *rand.Rand, kt keyType, bucket string) {
	p := storing(o.table, sets(set(plan.Source{Kind: plan.Literal, Index: 0, Type: 0})))
	decided := 0
	for range 200 {
		text := "INSERT INTO k_" + kt.name + " VALUES (" + kt.spell(r) + ") RETURNING " + bucket
		got, want := o.literal(p, text)
		if want == nil || got == nil {
			continue // the server refuses it, or Bind leaves it to the server
		}
		decided++
		if !slices.Equal(got, want) {
			o.t.Fatalf("%s: stored in %v, bound to %v", text, want, got)
		}
	}
	if decided < 60 {
		o.t.Errorf("only %d of 200 values were decided", decided)
	}
}

// literal binds a text by its first literal and runs it.
func (o *oracle) literal(p *plan.Plan, text string) (bound, server []int) {
	var s parser.Scanner
	if !s.Scan([]byte(text), parser.Options{}) {
		o.t.Fatalf("%s does not scan", text)
	}
	a := &Args{Text: []byte(text), Literals: s.Literals}
	// What stands before the values is no literal.
	first := slices.IndexFunc(s.Literals, func(l parser.Literal) bool { return int(l.Start) >= strings.Index(text, "/*key*/") })
	a.Literals = s.Literals[first:]
	server, ok := o.rows(text, nil, nil, nil)
	if !ok {
		return nil, nil
	}
	if server == nil {
		server = []int{}
	}
	return o.visits(p, a), server
}

// holds fails if the server finds rows where Bind does not look.
func (o *oracle) holds(what string, bound, server []int) {
	if bound == nil {
		return
	}
	for _, bucket := range server {
		if !slices.Contains(bound, bucket) {
			o.t.Fatalf("%s: rows in %v, bound to %v", what, server, bound)
		}
	}
}

func (o *oracle) matches(r *rand.Rand, kt keyType, bucket string) {
	p := keyed(o.table, sets(set(plan.Source{Kind: plan.Literal, Index: 0})))
	stored, _ := o.texts(kt)
	for i := range 200 {
		value := kt.spell(r)
		if i%2 == 0 && len(stored) > 0 {
			value = "'" + strings.ReplaceAll(stored[r.IntN(len(stored))], "'", "''") + "'"
		}
		text := "SELECT DISTINCT " + bucket + " FROM k_" + kt.name + " WHERE v = /*key*/ " + value
		if bound, server := o.literal(p, text); server != nil {
			o.holds(text, bound, server)
		}
	}
}

// texts returns the stored values as text.
func (o *oracle) texts(kt keyType) ([]string, bool) {
	r := o.conn.ExecParams(o.t.Context(), "SELECT DISTINCT v::text FROM k_"+kt.name, nil, nil, nil, nil).Read()
	var out []string
	for _, row := range r.Rows {
		out = append(out, string(row[0]))
	}
	return out, r.Err == nil
}

// params stores and finds parameters in both formats.
func (o *oracle) params(r *rand.Rand, kt keyType, bucket string) {
	m := pgtype.NewMap()
	source := set(plan.Source{Kind: plan.Param, Index: 0})
	for i := range 100 {
		format := int16(i % 2)
		raw, err := m.Encode(uint32(kt.oid), format, kt.native(r), []byte{})
		if err != nil {
			o.t.Fatal(err)
		}
		a := params(o.t, []int{int(format)}, string(raw))
		a.Types = []datum.Type{kt.oid}
		server, ok := o.rows("INSERT INTO k_"+kt.name+" VALUES ($1) RETURNING "+bucket, [][]byte{raw}, []uint32{uint32(kt.oid)}, []int16{format})
		if !ok {
			o.t.Fatalf("%s %q: refused", kt.name, raw)
		}
		if got := o.visits(storing(o.table, sets(source)), a); !slices.Equal(got, server) {
			o.t.Fatalf("%s %q (format %d): stored in %v, bound to %v", kt.name, raw, format, server, got)
		}
		o.holds(fmt.Sprintf("%s %q", kt.name, raw), o.visits(keyed(o.table, sets(source)), a), server)
	}
}

// arrays finds the elements of arrays, in both formats and as literals.
func (o *oracle) arrays(r *rand.Rand, kt keyType, bucket string) {
	m := pgtype.NewMap()
	stored, _ := o.texts(kt)
	query := "SELECT DISTINCT " + bucket + " FROM k_" + kt.name + " WHERE v = ANY(%s)"
	decided := 0
	for i := range 100 {
		format := int16(i % 2)
		var values any
		if format == 1 {
			values = nativeArray(r, kt, r.IntN(5))
		} else {
			list := []string{}
			for range r.IntN(5) {
				list = append(list, stored[r.IntN(len(stored))])
			}
			values = list
		}
		oid := kt.array
		if format == 0 {
			oid = 1009 // spelled as an array of texts, read as one of the column's type
		}
		raw, err := m.Encode(oid, format, values, []byte{})
		if err != nil {
			o.t.Fatal(err)
		}
		a := params(o.t, []int{int(format)}, string(raw))
		a.Types = []datum.Type{datum.Type(kt.array)}
		p := keyed(o.table, sets(set(plan.Source{Kind: plan.ParamArray, Index: 0})))
		server, ok := o.rows(fmt.Sprintf(query, "$1"), [][]byte{raw}, []uint32{kt.array}, []int16{format})
		if !ok {
			o.t.Fatalf("%s %q: refused", kt.name, raw)
		}
		bound := o.visits(p, a)
		if bound != nil {
			decided++
		}
		o.holds(fmt.Sprintf("%s %q", kt.name, raw), bound, server)
		if format == 0 {
			text := fmt.Sprintf(query, "/*key*/ '"+strings.ReplaceAll(string(raw), "'", "''")+"'")
			again, server := o.literal(keyed(o.table, sets(set(plan.Source{Kind: plan.Array, Index: 0}))), text)
			o.holds(text, again, server)
			if !slices.Equal(again, bound) {
				o.t.Fatalf("%s: as a literal bound to %v, as a parameter to %v", text, again, bound)
			}
		}
	}
	if decided < 50 {
		o.t.Errorf("only %d of 100 arrays were decided", decided)
	}
}

func nativeArray(r *rand.Rand, kt keyType, n int) any {
	switch kt.oid {
	case datum.Int2:
		return listOf[int16](r, kt, n)
	case datum.Int4:
		return listOf[int32](r, kt, n)
	case datum.Int8:
		return listOf[int64](r, kt, n)
	case datum.UUID:
		return listOf[pgtype.UUID](r, kt, n)
	case datum.Numeric:
		return listOf[pgtype.Numeric](r, kt, n)
	case datum.Date, datum.Timestamp, datum.Timestamptz:
		return listOf[time.Time](r, kt, n)
	}
	return listOf[string](r, kt, n)
}

func listOf[T any](r *rand.Rand, kt keyType, n int) []T {
	out := []T{}
	for range n {
		out = append(out, kt.native(r).(T))
	}
	return out
}
