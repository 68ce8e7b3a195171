package routing

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/integration/harness"
	"weft/integration/pair"
)

// client connects to weft.
func client(t *testing.T, database string) (context.Context, *pgx.Conn) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 6*pair.Patience) // much work, on a busy machine
	t.Cleanup(stop)
	conn, err := pgx.Connect(ctx, harness.Weft(t).ConnString("postgres", "dbname="+database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return ctx, conn
}

func mustExec(t *testing.T, ctx context.Context, conn *pgx.Conn, sql string, args ...any) string {
	t.Helper()
	tag, err := conn.Exec(ctx, sql, args...)
	if err != nil {
		t.Fatalf("%.80s: %v", sql, err)
	}
	return tag.String()
}

// TestInsertLarge inserts as many rows at a time as a statement can have.
func TestInsertLarge(t *testing.T) {
	ctx, conn := client(t, database(t, "insert_large"))
	mustExec(t, ctx, conn, "create table large (id bigserial, k int, a text, b int)")
	mustExec(t, ctx, conn, "select weft.shard_table('large', 'k')")

	// All parameters that the protocol has, and serials beside them.
	const rows = 65535 / 3
	var sql strings.Builder
	var args []any
	sql.WriteString("insert into large (k, a, b) values ")
	for i := range rows {
		if i > 0 {
			sql.WriteString(", ")
		}
		fmt.Fprintf(&sql, "($%d, $%d, $%d)", 3*i+1, 3*i+2, 3*i+3)
		args = append(args, i, fmt.Sprint("a", i), i%7)
	}
	if tag := mustExec(t, ctx, conn, sql.String(), args...); tag != fmt.Sprintf("INSERT 0 %d", rows) {
		t.Errorf("tag is %q", tag)
	}

	// And as many as literals, returned in their order.
	sql.Reset()
	sql.WriteString("insert into large (k, a) values ")
	for i := range 5000 {
		if i > 0 {
			sql.WriteString(", ")
		}
		fmt.Fprintf(&sql, "(%d, 'b''%d')", i*31, i)
	}
	sql.WriteString(" returning k, a, id")
	got, err := conn.Query(ctx, sql.String(), pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	n, last := 0, int64(0)
	for got.Next() {
		var k int
		var a string
		var id int64
		if err := got.Scan(&k, &a, &id); err != nil {
			t.Fatal(err)
		}
		if k != n*31 || a != fmt.Sprint("b'", n) || id <= last {
			t.Fatalf("row %d is (%d, %s, %d) after id %d", n, k, a, id, last)
		}
		n, last = n+1, id
	}
	if err := got.Err(); err != nil || n != 5000 {
		t.Fatalf("%d rows, %v", n, err)
	}

	var count, distinct, keys, sum int
	if err := conn.QueryRow(ctx, "select count(*), count(distinct id), count(distinct k), coalesce(sum(b), 0) from large").Scan(&count, &distinct, &keys, &sum); err != nil {
		t.Fatal(err)
	}
	if count != rows+5000 || distinct != count {
		t.Errorf("%d rows with %d ids", count, distinct)
	}
	want := 0
	for i := range rows {
		want += i % 7
	}
	if sum != want {
		t.Errorf("the sum of b is %d, want %d", sum, want)
	}
}

// TestInsertStreamed copies more rows between shards than stay in memory.
func TestInsertStreamed(t *testing.T) {
	ctx, conn := client(t, database(t, "insert_streamed"))
	mustExec(t, ctx, conn, "create table s (k int, other int, pad text, tags int[])")
	mustExec(t, ctx, conn, "create table d (id bigserial, k int, pad text, tags int[])")
	mustExec(t, ctx, conn, "select weft.shard_table('s', 'k')")
	mustExec(t, ctx, conn, "select weft.shard_table('d', 'k')")
	const rows = 16_000
	if tag := mustExec(t, ctx, conn, fmt.Sprintf("insert into s select i, i + 1, repeat('x', 400), array[i] from generate_series(1, %d) i", rows)); tag != fmt.Sprintf("INSERT 0 %d", rows) {
		t.Errorf("tag is %q", tag)
	}
	if tag := mustExec(t, ctx, conn, "insert into d (k, pad, tags) select other, pad, tags from s"); tag != fmt.Sprintf("INSERT 0 %d", rows) {
		t.Errorf("tag is %q", tag)
	}
	// A statement does not see what it inserts.
	if tag := mustExec(t, ctx, conn, "insert into s (k, other, pad) select k + 1, k, pad from s"); tag != fmt.Sprintf("INSERT 0 %d", rows) {
		t.Errorf("tag is %q", tag)
	}
	var n, ids, sum, tags int64
	if err := conn.QueryRow(ctx, "select count(*), count(distinct id), sum(k), sum(tags[1]) from d").Scan(&n, &ids, &sum, &tags); err != nil {
		t.Fatal(err)
	}
	if n != rows || ids != rows || sum != rows*(rows+3)/2 || tags != rows*(rows+1)/2 {
		t.Errorf("%d rows, %d ids, sums %d and %d", n, ids, sum, tags)
	}
	// Nothing stays of one that fails at its end.
	if _, err := conn.Exec(ctx, "insert into d (k, pad) select 100 / (16000 - k), pad from s order by k"); err == nil {
		t.Error("a division by zero was inserted")
	}
	if _, err := conn.Exec(ctx, "insert into d (id, k) select 1, 2147483647::bigint + (k - 15990) from s where k > 10000 order by k"); err == nil {
		t.Error("an integer out of range was inserted")
	}
	if err := conn.QueryRow(ctx, "select count(*) from d").Scan(&n); err != nil || n != rows {
		t.Errorf("%d rows are left, %v", n, err)
	}
}
