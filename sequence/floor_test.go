package sequence

import (
	"context"
	"math"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// up is a sequence that counts up and has come to a value.
func up(last int64) State {
	return State{Increment: 1, Min: 1, Max: math.MaxInt64, Last: last, Called: true}
}

func marks(v ...int64) []Mark {
	var out []Mark
	for _, v := range v {
		out = append(out, Mark{Low: v, High: v, Last: v})
	}
	return out
}

// TestFloor sets sequences above what was drawn from them, and leaves others alone.
func TestFloor(t *testing.T) {
	small := State{Increment: 1, Min: 1, Max: 32767, Last: 30000, Called: true}
	down := State{Increment: -2, Min: math.MinInt64, Max: -1, Last: -11, Called: true}
	odd := State{Increment: 10, Min: 1, Max: math.MaxInt64, Last: 31, Called: true}
	round := State{Increment: 1, Min: 1, Max: 100, Last: 90, Called: true, Cycle: true}
	fresh := State{Increment: 1, Min: 1, Max: math.MaxInt64, Last: 1}
	for _, c := range []struct {
		name  string
		s     State
		marks []Mark
		rows  []int64
		want  int64 // 0: it stays
	}{
		{"nothing is known", up(10), nil, nil, 0},
		{"all is there", up(10), marks(10, 7), []int64{9}, 0},
		{"a mark", up(10), marks(7, 12), []int64{9}, 12 + reserve},
		{"a row of a dead proxy", up(10), marks(12), []int64{20, 15}, 20 + reserve},
		{"near its end", small, marks(32000), nil, 32000},
		{"at its end", small, marks(32767), nil, 32767},
		{"down", down, marks(-21), []int64{-5}, -21 - 2*reserve},
		{"down, and a number of another remainder", down, nil, []int64{-20}, -21 - 2*reserve},
		{"down, all is there", down, marks(-11), []int64{-3}, 0},
		{"another remainder", odd, nil, []int64{52}, 61 + 10*reserve},
		{"before the first value", fresh, nil, nil, 0},
		{"the first value was drawn", fresh, marks(1), nil, 1 + reserve},
		{"more was drawn than the first", fresh, marks(4), nil, 4 + reserve},
		{"far away", up(10), nil, []int64{math.MaxInt64}, math.MaxInt64},
		{"a round that goes on", round, marks(95), []int64{100}, 95},
		{"a round that has begun again", round, marks(3), []int64{100}, 3},
		{"a mark of a round before", round, marks(80), []int64{100}, 0},
		{"a round and no marks", round, nil, []int64{100}, 0},
	} {
		got, raised := c.s.Floor(c.marks, c.rows)
		if raised != (c.want != 0) || got != c.want {
			t.Errorf("%s: %d %v, want %d", c.name, got, raised, c.want)
		}
	}
	if h := up(10).Horizon(marks(50)); h != 50+horizon {
		t.Errorf("horizon %d", h)
	}
	if h := small.Horizon(nil); h != 32767 {
		t.Errorf("horizon of a short sequence: %d", h)
	}
	if h := down.Horizon(nil); h != -11-2*horizon {
		t.Errorf("horizon down: %d", h)
	}
}

// TestMarks: a draw is not used if its mark may have been told without it.
func TestMarks(t *testing.T) {
	var m Marks
	if m.Tell("d", "s", 1) != nil {
		t.Error("a mark without a draw")
	}
	if !m.Note("d", "s", 1, 1, []int64{5, 3, 4}, 100) || !m.Note("d", "s", 1, 1, []int64{6}, 200) {
		t.Error("a draw is refused")
	}
	if got := m.Tell("d", "s", 2); got == nil || *got != (Mark{Low: 3, High: 6, Last: 6, LSN: 200, Timeline: 1}) {
		t.Errorf("mark %+v", got)
	}
	if m.Note("d", "s", 1, 1, []int64{7}, 300) || m.Note("d", "other", 1, 1, []int64{7}, 300) {
		t.Error("a draw on the old timeline is used after its mark was told")
	}
	if !m.Note("d", "s", 1, 2, []int64{7}, 50) || m.Tell("d", "s", 2).High != 7 {
		t.Error("a draw on the new timeline is refused")
	}
	m.Note("d", "s", 2, 2, []int64{1}, 60)
	if got := m.Tell("d", "s", 2); got.High != 1 {
		t.Errorf("after setval: %+v", got)
	}
}

// TestFloorSQL asks a real server for the state and the rows of sequences.
func TestFloorSQL(t *testing.T) {
	ctx := context.Background()
	conn, err := pgconn.Connect(ctx, pgtest.Start(t, pgserver.Config{}).ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	ask := func(sql string) [][]string {
		t.Helper()
		results, err := conn.Exec(ctx, sql).ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		var out [][]string
		for _, r := range results {
			for _, row := range r.Rows {
				texts := make([]string, len(row))
				for i, v := range row {
					texts[i] = string(v)
				}
				out = append(out, texts)
			}
		}
		return out
	}
	ask(`create schema "a b"; create table "a b"."T" (k int, id bigserial primary key, v int);
		create table other (id int default nextval('"a b"."T_id_seq"'), t text default nextval('"a b"."T_id_seq"'));
		insert into "a b"."T" (k) select 1 from generate_series(1, 5); insert into other values (7, ''), (2000000000, '');
		create sequence fresh start 3; create sequence down increment -1; create table d (id int default nextval('down')); insert into d values (default), (default)`)
	seq := `"a b"."T_id_seq"`
	state, err := ReadState(ask(StateSQL(seq)))
	if err != nil || state != up(5) {
		t.Fatalf("%+v, %v", state, err)
	}
	columns, err := ReadColumns(ask(ColumnsSQL(seq)))
	if err != nil || len(columns) != 2 {
		t.Fatalf("%+v, %v", columns, err)
	}
	for i, c := range columns {
		if c.Indexed != (c.Table == "T") {
			t.Errorf("%+v", columns[i])
		}
	}
	rows, err := ReadRows(nil, columns, ask(state.RowsSQL(columns, state.Horizon(nil))))
	if err != nil || len(rows) != 2 || max(rows[0], rows[1]) != 7 {
		t.Errorf("rows %v, %v", rows, err)
	}
	routed := []Column{{Schema: "a b", Table: "T", Name: "id", Bits: 1, Base: -2}}
	if rows, err = ReadRows(nil, routed, ask(state.RowsSQL(routed, 3))); err != nil || len(rows) != 1 || rows[0] != 4>>1+2 {
		t.Errorf("routed ids: %v, %v", rows, err)
	}
	if s, err := ReadState(ask(StateSQL("fresh"))); err != nil || s.Called || s.Last != 3 {
		t.Errorf("%+v, %v", s, err)
	}
	down, err := ReadState(ask(StateSQL("down")))
	if err != nil || down.Last != -2 {
		t.Errorf("%+v, %v", down, err)
	}
	columns, _ = ReadColumns(ask(ColumnsSQL("down")))
	if rows, err = ReadRows(nil, columns, ask(down.RowsSQL(columns, down.Horizon(nil)))); err != nil || len(rows) != 1 || rows[0] != -2 {
		t.Errorf("down: %v, %v", rows, err)
	}
	values, at, err := Drawn(ask(Message(seq, 3, "")))
	if err != nil || len(values) != 3 || values[2] != 8 || at == 0 {
		t.Errorf("a draw: %v at %s, %v", values, at, err)
	}
	ask(SetSQL(seq, 99))
	if values, _, err = Drawn(ask(Message(seq, 1, "postgres"))); err != nil || values[0] != 100 {
		t.Errorf("a draw after the floor: %v, %v", values, err)
	}
}
