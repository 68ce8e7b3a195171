package selects

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"weft/integration/harness"
	"weft/integration/pair"
)

// explainCases are plans without costs, which would differ from server to server.
var explainCases = []struct{ sql, want string }{
	{"explain (costs off) select k, s from a where k in (1, 2) order by id desc limit 3 offset 1", `
Weft Merge  (native)
  Shards: 2 of 4
  Why: it runs whole inside each shard
  Merge Key: weft_key_1 DESC
  Limit: 3
  Offset: 1
  Piece 1: SELECT k, s, id AS weft_key_1 FROM a WHERE k IN (1, 2) ORDER BY id DESC LIMIT GREATEST(LEAST(3::bigint::numeric + 1::bigint::numeric, 9223372036854775807::numeric), 0::numeric)::bigint
    Shards: shard-0, shard-2
    Why: a: k IN (1, 2)
  ->  Shard shard-0  (piece 1)
        ->  Limit
              ->  Sort
                    Sort Key: id DESC
                    ->  Seq Scan on a
                          Filter: (k = ANY ('{1,2}'::bigint[]))
  ->  Shard shard-2  (piece 1)
        ->  Limit
              ->  Sort
                    Sort Key: id DESC
                    ->  Seq Scan on a
                          Filter: (k = ANY ('{1,2}'::bigint[]))
`},
	{"explain (costs off, verbose) select count(*), avg(n) from q where k in (1, 2)", `
Weft Aggregate  (native)
  Shards: 2 of 4
  Why: each shard aggregates its rows: GROUP BY does not contain the shard key
  Output: sum(c1), sum(c2) / sum(c3)
  Piece 1: SELECT pg_catalog.count(*) AS c1, pg_catalog.sum(n) AS c2, pg_catalog.count(n) AS c3 FROM q WHERE k IN (1, 2)
    Shards: shard-0, shard-2
    Why: q: k IN (1, 2)
  ->  Shard shard-0  (piece 1)
        ->  Aggregate
              Output: count(*), sum(n), count(n)
              ->  Seq Scan on public.q
                    Output: k, id, n, s, b
                    Filter: (q.k = ANY ('{1,2}'::integer[]))
  ->  Shard shard-2  (piece 1)
        ->  Aggregate
              Output: count(*), sum(n), count(n)
              ->  Seq Scan on public.q
                    Output: k, id, n, s, b
                    Filter: (q.k = ANY ('{1,2}'::integer[]))
`},
	{"explain (costs off) select a.s, h.s from a join h on a.n = h.n where a.k in (1, 2) and h.s = 'line\nbreak'", `
Weft Remainder on shard-0  (inline or staged)
  Shards: 2 of 4
  Remainder: SELECT a.s, h.s FROM <piece 1> a JOIN <piece 2> h ON a.n = h.n
  Piece 1: SELECT n, s FROM public.a WHERE k IN (1, 2)
    Shards: shard-0, shard-2
    Why: a: k IN (1, 2)
  Piece 2: SELECT n, s FROM public.h WHERE s = 'line
  break'
    Shards: shard-0
    Why: its tables are on the home shard
  ->  Shard shard-0  (pieces 1, 2)
        ->  Append
              ->  Seq Scan on a
                    Filter: (k = ANY ('{1,2}'::bigint[]))
              ->  Seq Scan on h
                    Filter: (s = 'line
            break'::text)
  ->  Shard shard-2  (piece 1)
        ->  Seq Scan on a
              Filter: (k = ANY ('{1,2}'::bigint[]))
`},
	{"explain (analyze, costs off, timing off, summary off) select k from e0 where k in (1, 2)", `
Weft Append  (native rows=0)
  Shards: 2 of 4
  Why: it runs whole inside each shard
  Moved: rows=0 bytes=0
  Piece 1: SELECT k FROM e0 WHERE k IN (1, 2)
    Shards: shard-0, shard-2
    Why: e0: k IN (1, 2)
    Moved: rows=0 bytes=0
  ->  Shard shard-0  (piece 1) (rows=0 bytes=0)
        ->  Seq Scan on e0 (actual rows=0 loops=1)
              Filter: (k = ANY ('{1,2}'::bigint[]))
  ->  Shard shard-2  (piece 1) (rows=0 bytes=0)
        ->  Seq Scan on e0 (actual rows=0 loops=1)
              Filter: (k = ANY ('{1,2}'::bigint[]))
`},
	{"explain (costs off) select * from a where k = 1", `
Seq Scan on a
  Filter: (k = 1)
`},
}

// TestExplain: in every mode, outside and inside of a transaction block.
func TestExplain(t *testing.T) {
	w := open(t, settings[1])
	for _, test := range explainCases {
		for _, m := range []pair.Mode{pair.Simple, pair.Text, pair.Prepared} {
			for _, block := range []bool{false, true} {
				if block {
					w.Weft.Must(t, "begin")
				}
				a := w.Weft.Ask(m, test.sql, nil, nil)
				if block {
					w.Weft.Must(t, "commit")
				}
				plain := w.Plain.Ask(m, test.sql, nil, nil)
				if a.Code != "" || len(a.Results) != 1 {
					t.Errorf("%s (%s): %s %s", test.sql, m, a.Code, a.Message)
					continue
				}
				r, want := a.Results[0], plain.Results[0]
				if r.Tag != "EXPLAIN" || strings.Join(r.Fields, ",") != strings.Join(want.Fields, ",") {
					t.Errorf("%s (%s): tag %s, columns %v; PostgreSQL has %v", test.sql, m, r.Tag, r.Fields, want.Fields)
				}
				if got := "\n" + lines(r) + "\n"; got != test.want {
					t.Errorf("%s (%s, block %t):%swant%s", test.sql, m, block, got, test.want)
				}
			}
		}
	}
}

// lines are the rows of a plan, in the words of PostgreSQL 15.
func lines(r pair.Result) string {
	var out []string
	for _, c := range r.Cells {
		out = append(out, decimals.ReplaceAllString(strings.ReplaceAll(c[0], "(InitPlan 1).col1", "$0"), "$1 loops="))
	}
	return strings.Join(out, "\n")
}

// decimals stand behind the numbers of rows since PostgreSQL 18.
var decimals = regexp.MustCompile(`(rows=\d+)\.00 loops=`)

// planOf asks weft for a plan of one row or many.
func (w *world) planOf(t *testing.T, m pair.Mode, sql string, set ...pair.Param) string {
	t.Helper()
	a := w.Weft.Ask(m, sql, set, nil)
	if a.Code != "" || len(a.Results) != 1 {
		t.Fatalf("%s: %s %s", sql, a.Code, a.Message)
	}
	return lines(a.Results[0])
}

// TestExplainAnalyze: it counts what is moved, for each way a query ends.
func TestExplainAnalyze(t *testing.T) {
	w := open(t, settings[1])
	const join = "select a.id, q.s from a join q on a.n = q.n"
	for _, test := range []struct {
		set, query string
		want       []string
	}{
		{"", "select * from a", []string{
			`(?m)^Weft Append  \(native rows=60\)$`, `(?m)^  Moved: rows=60 bytes=\d{3,}$`, `(?m)^    Moved: rows=60 bytes=\d{3,}$`,
			`Shard shard-3  \(piece 1\) \(rows=\d+ bytes=\d+ first=[\d.]+ total=[\d.]+\)`, `(?m)^  Time: prepare=[\d.]+ gather=[\d.]+ ms$`,
			`(?m)^Planning Time: [\d.]+ ms\nExecution Time: [\d.]+ ms\z`, `Seq Scan on a .*\(actual time=`,
		}},
		{"", "select count(*) from a", []string{`(?m)^Weft Aggregate  \(native rows=1\)$`, `(?m)^  Moved: rows=4 `}},
		{"weft.native = off", "select count(*) from a", []string{
			`(?m)^Weft Remainder on shard-0  \(inline\)$`, `(?m)^  Why: weft.native is off$`, `(?m)^  Remainder Plan\n    ->  Aggregate .*\(actual time=.* rows=1 loops=1\)$`,
		}},
		{"", join, []string{
			`(?m)^Weft Remainder on shard-0  \(inline\)$`, `(?m)^  Moved: rows=100 `, `(?m)^    Moved: rows=60 `, `(?m)^    Moved: rows=40 `,
			`finish=[\d.]+ ms`, `(?m)^    ->  .* Join .*rows=176 loops=1\)$`,
		}},
		{"weft.inline_bytes = '1kB'", join, []string{
			`(?m)^Weft Remainder on shard-0  \(staged\)$`, `(?m)^  Moved: rows=100 `, `(?m)^    Moved: rows=60 `, `(?m)^    Moved: rows=40 `, `rows=176 loops=1`,
		}},
	} {
		for _, m := range []pair.Mode{pair.Simple, pair.Prepared} {
			for _, block := range []string{"begin", "begin isolation level repeatable read", ""} {
				if block != "" {
					w.Weft.Must(t, block)
				}
				if test.set != "" {
					w.Weft.Must(t, "set "+test.set)
				}
				got := w.planOf(t, m, "explain analyze "+test.query)
				for _, want := range test.want {
					if !regexp.MustCompile(want).MatchString(got) {
						t.Errorf("%s, %s %s, %s: no %s in\n%s", test.query, block, m, test.set, want, got)
					}
				}
				if name, _, ok := strings.Cut(test.set, " "); ok {
					w.Weft.Must(t, "reset "+name)
				}
				if block != "" {
					w.Weft.Must(t, "commit")
				}
			}
		}
	}
}

// TestExplainSeesOwnWrites: in a block ANALYZE runs in the client's transaction.
func TestExplainSeesOwnWrites(t *testing.T) {
	w := open(t, settings[1])
	w.Weft.Must(t, "begin")
	w.Weft.Must(t, "insert into e0 (k, id) values (1, 1)")
	got := w.planOf(t, pair.Simple, "explain (analyze, costs off, timing off) select * from e0")
	w.Weft.Must(t, "rollback")
	if !strings.Contains(got, "(native rows=1)") || !strings.Contains(got, "Seq Scan on e0 (actual rows=1 loops=1)") {
		t.Errorf("the row is not seen:\n%s", got)
	}
}

// TestExplainSession: what EXPLAIN ANALYZE runs is the session's own doing, and
// leaves it usable.
func TestExplainSession(t *testing.T) {
	w := open(t, settings[1])
	const options = "explain (analyze, costs off, timing off, summary off) "
	for _, test := range []struct{ before, query, want, after string }{
		{"create temp table tt as select 1 as n", "select a.id from a join tt on a.n = tt.n", "Seq Scan on tt", "drop table tt"},
		{"", "select set_config('my.x', max(h.s), false), count(*) from a join h on h.n = a.n", "Remainder Plan", ""},
		{"set weft.max_parallel_shards = 1", "select id from a order by id", "weft.max_parallel_shards forbids", "reset weft.max_parallel_shards"},
		{"begin read only; set local weft.inline_bytes = '1kB'", "select a.id, q.s from a join q on a.n = q.n", "(staged)", "commit"},
		{"set role postgres", "select * from a for update", "LockRows", "reset role"},
		{"", "select avg(f) from a limit 1", "Weft", ""},
		{"", "select n, count(*) from v_cnt group by n order by 2 limit 2", "Weft Remainder", ""},
	} {
		for _, sql := range strings.Split(test.before, "; ") {
			w.Weft.Must(t, sql)
		}
		if got := w.planOf(t, pair.Simple, options+test.query); !strings.Contains(got, test.want) {
			t.Errorf("%s: no %s in\n%s", test.query, test.want, got)
		}
		if got := w.planOf(t, pair.Text, options+test.query); !strings.Contains(got, test.want) {
			t.Errorf("%s: no %s in\n%s", test.query, test.want, got)
		}
		if test.after != "" {
			w.Weft.Must(t, test.after)
		}
	}
	if a := w.Weft.Must(t, "show my.x"); lines(a.Results[0]) == "" {
		t.Error("what the query has set is lost")
	}
	a := w.Weft.Must(t, "explain (costs off) select k from a; select 1; explain (costs off) select count(*) from a")
	if len(a.Results) != 3 || !strings.HasPrefix(lines(a.Results[0]), "Weft Append") || !strings.HasPrefix(lines(a.Results[2]), "Weft Aggregate") {
		t.Errorf("among other statements: %v", a.Results)
	}
}

// TestExplainStops: by a timeout and by a cancel request, in and outside of a
// block. Nothing runs on, and the session works.
func TestExplainStops(t *testing.T) {
	w := open(t, settings[1])
	conn := w.Weft.Conn
	// One that the shards take long for, and one that the remainder does.
	for _, query := range []string{
		"select count(*) from a a1, a a2, a a3, a a4, a a5, a a6, a a7 where a1.k = a2.k and a2.k = a3.k and a3.k = a4.k and a4.k = a5.k and a5.k = a6.k and a6.k = a7.k",
		"select count(*) from a a1, a a2, a a3, a a4, a a5, a a6",
	} {
		for _, block := range []bool{false, true} {
			for _, cancel := range []bool{false, true} {
				ctx, stop := context.WithTimeout(context.Background(), pair.Patience)
				if block {
					w.Weft.Must(t, "begin")
				}
				if cancel {
					w.Weft.Must(t, "set statement_timeout = 0")
					go func() {
						time.Sleep(200 * time.Millisecond)
						_ = conn.CancelRequest(ctx)
					}()
				} else {
					w.Weft.Must(t, "set statement_timeout = '200ms'")
				}
				err := conn.Exec(ctx, "explain analyze "+query).Close()
				if pe := new(pgconn.PgError); !errors.As(err, &pe) || pe.Code != "57014" {
					t.Errorf("block %t, cancel %t: %v", block, cancel, err)
				}
				if status := conn.TxStatus(); block != (status == 'E') {
					t.Errorf("block %t, cancel %t: status %c", block, cancel, status)
				}
				if block {
					w.Weft.Must(t, "rollback")
				}
				w.Weft.Must(t, "set statement_timeout = '10s'")
				if a := w.Weft.Must(t, "select count(*) from a"); lines(a.Results[0]) != "60" {
					t.Errorf("block %t, cancel %t: then %v", block, cancel, a)
				}
				stop()
			}
		}
	}
	for _, s := range harness.Uneven(t, settings[1].weights...).Shards() {
		c, err := pgconn.Connect(context.Background(), s.ConnString(w.database))
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.Exec(context.Background(), "select count(*) from pg_stat_activity where datname = current_database() and state <> 'idle' and pid <> pg_backend_pid()").ReadAll()
		if err != nil || string(res[0].Rows[0][0]) != "0" {
			t.Errorf("still at work: %v %s", err, res[0].Rows[0][0])
		}
		_ = c.Close(context.Background())
	}
}

// TestExplainParameters: values come with the Bind, and decide the shards.
func TestExplainParameters(t *testing.T) {
	w := open(t, settings[1])
	one, two := "1", "2"
	for _, m := range []pair.Mode{pair.Text, pair.Prepared} {
		got := w.planOf(t, m, "explain (analyze, costs off, timing off, summary off) select id from a where k in ($1, $2)", pair.Param{Type: "int8", Text: &one}, pair.Param{Type: "int8", Text: &two})
		for _, want := range []string{"Shards: 2 of 4", "Why: a: k IN ($1, $2)", "Piece 1: SELECT id FROM a WHERE k IN ($1, $2)"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %s in\n%s", m, want, got)
			}
		}
		got = w.planOf(t, m, "explain (costs off) select id from a where k in ($1, $2)", pair.Param{Type: "int8", Text: &one}, pair.Param{Type: "int8", Text: &one})
		if strings.Contains(got, "Weft") {
			t.Errorf("%s: one shard's rows:\n%s", m, got)
		}
	}
}

// TestExplainJSON: it is JSON of one row, with PostgreSQL's plans inside.
func TestExplainJSON(t *testing.T) {
	w := open(t, settings[1])
	type shard struct {
		Type   string `json:"Node Type"`
		Shard  string
		Pieces []int
		Moved  map[string]int
		Plans  []map[string]any
	}
	var got []struct {
		Plan struct {
			Type      string `json:"Node Type"`
			Ending    string
			Remainder map[string]any `json:"Remainder Plan"`
			Moved     map[string]int
			Steps     map[string]float64
			Pieces    []map[string]any
			Plans     []shard
		}
		Time float64 `json:"Execution Time"`
	}
	for _, m := range []pair.Mode{pair.Simple, pair.Text, pair.Prepared} {
		for _, inline := range []string{"1MB", "1kB"} {
			w.Weft.Must(t, "set weft.inline_bytes = '"+inline+"'")
			text := w.planOf(t, m, "explain (analyze, format 'json', settings) select a.id, q.s from a join q on a.n = q.n")
			got = nil
			if err := json.Unmarshal([]byte(text), &got); err != nil || len(got) != 1 {
				t.Fatalf("%v:\n%s", err, text)
			}
			p := got[0].Plan
			switch {
			case p.Type != "Weft Remainder", (p.Ending == "staged") != (inline == "1kB"), p.Moved["Rows"] != 100, p.Moved["Bytes"] == 0, len(p.Steps) != 3,
				len(p.Pieces) != 2, len(p.Plans) != 4, p.Remainder["Actual Rows"] != 176.0, got[0].Time <= 0:
				t.Errorf("%s, %s:\n%s", m, inline, text)
			}
			for _, s := range p.Plans {
				if s.Type != "Weft Shard" || len(s.Pieces) != 2 || len(s.Plans) != 1 || s.Plans[0]["Actual Rows"] != float64(s.Moved["Rows"]) {
					t.Errorf("%s, %s: shard %+v", m, inline, s)
				}
			}
		}
	}
	w.Weft.Must(t, "reset weft.inline_bytes")
	if a := w.Weft.Ask(pair.Simple, "explain (format json) select k from a", nil, nil); !strings.Contains(strings.Join(a.Results[0].Fields, ""), "114") {
		t.Errorf("the column is %v", a.Results[0].Fields)
	}
	var keys []map[string]map[string]any
	if err := json.Unmarshal([]byte(w.planOf(t, pair.Simple, "explain (format json) select k from a")), &keys); err != nil || keys[0]["Plan"]["Moved"] != nil {
		t.Errorf("without ANALYZE nothing is counted: %v %v", err, keys)
	}
}

// TestExplainErrors: they are PostgreSQL's own, at the same place of the text,
// and fail a transaction as they do there.
func TestExplainErrors(t *testing.T) {
	w := open(t, settings[1])
	for _, sql := range []string{
		"/* ä ( */ explain (costs off, /* ü */ analyze) select id, nope from a",
		"explain select * from a order by id limit 'x'",
		"explain analyze verbose select k, count(*) from a",
		"explain (costs off, foo) select * from a",
		"explain (format 'xyz') select * from a",
		"explain (timing) select * from a",
		"explain (costs maybe) select * from a",
		"explain analyze select 1 / (n - n) from a where n is not null",
		"explain (analyze, format json) select a.id / (a.n - h.n) from a join h on a.n = h.n",
		"explain select 1 / 0 from a",
	} {
		for _, block := range []bool{false, true} {
			for _, extended := range []bool{false, true} {
				want, wantStatus := errorOf(t, w.Plain.Conn, sql, block, extended)
				got, gotStatus := errorOf(t, w.Weft.Conn, sql, block, extended)
				if want.Code != got.Code || want.Message != got.Message || want.Position != got.Position || wantStatus != gotStatus {
					t.Errorf("%s (block %t, extended %t): %s %s at %d, status %c; PostgreSQL says %s %s at %d, status %c", sql, block, extended,
						got.Code, got.Message, got.Position, gotStatus, want.Code, want.Message, want.Position, wantStatus)
				}
			}
		}
	}
	for _, sql := range []string{"explain (format xml) select * from a", "explain (format yaml) select * from a"} {
		if got, _ := errorOf(t, w.Weft.Conn, sql, false, false); got.Code != "0A000" || got.Hint == "" {
			t.Errorf("%s: %v", sql, got)
		}
	}
	if got := w.planOf(t, pair.Simple, "explain select 1 / (n - n) from a where n is not null"); !strings.Contains(got, "Weft Append") {
		t.Errorf("without ANALYZE nothing is run:\n%s", got)
	}
}

func errorOf(t *testing.T, conn *pgconn.PgConn, sql string, block, extended bool) (*pgconn.PgError, byte) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), pair.Patience)
	defer stop()
	if block {
		if err := conn.Exec(ctx, "begin").Close(); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if extended {
		err = conn.ExecParams(ctx, sql, nil, nil, nil, nil).Read().Err
	} else {
		err = conn.Exec(ctx, sql).Close()
	}
	status := conn.TxStatus()
	if block {
		if err := conn.Exec(ctx, "rollback").Close(); err != nil {
			t.Fatal(err)
		}
	}
	pe := new(pgconn.PgError)
	if !errors.As(err, &pe) {
		t.Errorf("%s: %v", sql, err)
	}
	return pe, status
}

// TestExplainPortions: a portal gives its rows in portions.
func TestExplainPortions(t *testing.T) {
	w := open(t, settings[1])
	f := w.Weft.Conn.Frontend()
	for _, msg := range []pgproto3.FrontendMessage{
		&pgproto3.Parse{Query: "explain (costs off) select k from a"}, &pgproto3.Bind{DestinationPortal: "p"},
		&pgproto3.Describe{ObjectType: 'P', Name: "p"},
		&pgproto3.Execute{Portal: "p", MaxRows: 3}, &pgproto3.Execute{Portal: "p", MaxRows: 1}, &pgproto3.Execute{Portal: "p"}, &pgproto3.Execute{Portal: "p"},
		&pgproto3.Sync{},
	} {
		f.Send(msg)
	}
	if err := f.Flush(); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for {
		msg, err := f.Receive()
		if err != nil {
			t.Fatal(err)
		}
		switch m := msg.(type) {
		case *pgproto3.RowDescription:
			b.WriteString(string(m.Fields[0].Name) + " ")
		case *pgproto3.DataRow:
			b.WriteString("row ")
		case *pgproto3.PortalSuspended:
			b.WriteString("suspended ")
		case *pgproto3.CommandComplete:
			b.WriteString(string(m.CommandTag) + " ")
		case *pgproto3.ErrorResponse:
			t.Fatal(m.Message)
		case *pgproto3.ReadyForQuery:
			want := "QUERY PLAN row row row suspended row suspended " + strings.Repeat("row ", 10) + "EXPLAIN EXPLAIN "
			if b.String() != want {
				t.Errorf("answered %s, want %s", b.String(), want)
			}
			return
		}
	}
}
