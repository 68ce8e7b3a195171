package routing

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/integration/harness"
	"weft/integration/pair"
)

// mood and point are user types; see userTypes.
type point struct {
	X int32
	M string
}

const userTypes = `
create type mood as enum ('sad', 'ok', 'happy');
create type point_t as (x int4, m mood);
create domain small as int4 check (value < 100);
create table typed (k int8 primary key, m mood, ms mood[], p point_t, ps point_t[], d small, ds small[]);
`

// TestUserTypes: the OIDs of enums, composites, domains and their arrays differ
// from shard to shard, and a client that has learnt them once gets and sends all
// of them in binary, whichever shard answers.
func TestUserTypes(t *testing.T) {
	db := database(t, "usertype")
	ctx, stop := context.WithTimeout(context.Background(), 3*pair.Patience)
	defer stop()
	// Types of different number on every server before the real ones are made.
	for i, s := range append(slices.Clone(harness.Weft(t).Shards()), harness.Postgres(t).Home) {
		conn := pair.Dial(t, ctx, s, db)
		for n := range i + 1 {
			if _, err := conn.Exec(ctx, fmt.Sprintf("create schema waste%d_%d; create type waste%d_%d.e as enum ('x'); create table waste%d_%d.t ()", i, n, i, n, i, n)); err != nil {
				t.Fatal(err)
			}
		}
		_ = conn.Close(ctx)
	}
	p := newPair(t, db)
	p.Both(t, "types", userTypes)
	declare(t, p, pair.Statement{Pos: "types", SQL: "select weft.shard_table('typed', 'k')"})
	for _, target := range []*harness.Target{harness.Postgres(t), harness.Weft(t)} {
		t.Run(target.Name, func(t *testing.T) {
			for _, name := range []string{"postgres", "alice"} { // alice comes second: other connections
				if name == "alice" {
					p.Both(t, "grant", "grant all on typed to alice")
				}
				conn := target.Connect(t, name, "dbname="+db)
				register(t, ctx, conn)
				for k := range int64(12) {
					typedRow(t, ctx, conn, k)
				}
				typedCopy(t, ctx, conn)
			}
		})
	}
}

func register(t *testing.T, ctx context.Context, conn *pgx.Conn) {
	t.Helper()
	types, err := conn.LoadTypes(ctx, []string{"mood", "_mood", "point_t", "_point_t", "small", "_small"})
	if err != nil {
		t.Fatal(err)
	}
	conn.TypeMap().RegisterTypes(types)
	for _, dt := range types {
		if dt.Name == "point_t" {
			conn.TypeMap().RegisterDefaultPgType(point{}, "point_t")
		}
	}
}

// typedCopy copies rows in, in binary as pgx does, short ones and one that is sent by itself.
func typedCopy(t *testing.T, ctx context.Context, conn *pgx.Conn) {
	t.Helper()
	long := slices.Repeat([]point{{1, "sad"}, {2, "happy"}}, 1000)
	n, err := conn.CopyFrom(ctx, pgx.Identifier{"typed"}, []string{"k", "m", "ms", "p", "ps", "d", "ds"}, pgx.CopyFromSlice(40, func(i int) ([]any, error) {
		many := long[:i%4]
		if i == 30 {
			many = long
		}
		return []any{int64(1000 + i), "ok", []string{"sad", "ok"}, point{int32(i), "happy"}, many, int32(i), []int32{int32(i)}}, nil
	}))
	if err != nil || n != 40 {
		t.Fatalf("copied %d: %v", n, err)
	}
	var got string
	const sum = `select concat_ws(' ', count(*), sum((p).x), sum(cardinality(ps)), count(*) filter (where ms = '{sad,ok}'), max(ps[2]::text)) from typed where k >= 1000`
	if err := conn.QueryRow(ctx, sum).Scan(&got); err != nil {
		t.Fatal(err)
	}
	if want := "40 780 2058 40 (2,happy)"; got != want {
		t.Errorf("copied %s, want %s", got, want)
	}
	if _, err := conn.Exec(ctx, "delete from typed where k >= 1000"); err != nil {
		t.Fatal(err)
	}
}

// typedRow writes a row with binary parameters and reads it in binary, twice, so
// that prepared statements are used again on another shard.
func typedRow(t *testing.T, ctx context.Context, conn *pgx.Conn, k int64) {
	t.Helper()
	moods := []string{"sad", "ok", "happy"}
	m := moods[k%3]
	want := []point{{int32(k), m}, {-int32(k), "ok"}}
	if _, err := conn.Exec(ctx, "delete from typed where k = $1", k); err != nil {
		t.Fatal(err)
	}
	tag, err := conn.Exec(ctx, "insert into typed (k, m, ms, p, ps, d, ds) values ($1, $2, $3, $4, $5, $6, $7)",
		k, m, []string{m, "happy"}, want[0], want, int32(k), []int32{int32(k), 7})
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("insert %d: %v %v", k, tag, err)
	}
	var gotM string
	var gotMs []string
	var gotP point
	var gotPs []point
	var gotD int32
	var gotDs []int32
	err = conn.QueryRow(ctx, "select m, ms, p, ps, d, ds from typed where k = $1 and m = $2 and p = $3::point_t", k, m, want[0]).
		Scan(&gotM, &gotMs, &gotP, &gotPs, &gotD, &gotDs)
	if err != nil {
		t.Fatalf("select %d: %v", k, err)
	}
	if gotM != m || !slices.Equal(gotMs, []string{m, "happy"}) || gotP != want[0] || !slices.Equal(gotPs, want) || gotD != int32(k) || !slices.Equal(gotDs, []int32{int32(k), 7}) {
		t.Errorf("%d: got %v %v %v %v %v %v", k, gotM, gotMs, gotP, gotPs, gotD, gotDs)
	}
	rows, err := conn.Query(ctx, "select m, p, array[p], row(k, m) is not null from typed where k = $1 and m = any ($2)", k, []string{m})
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		for i, f := range rows.FieldDescriptions() {
			if _, ok := conn.TypeMap().TypeForOID(f.DataTypeOID); !ok {
				t.Errorf("%d: column %d has a type %d that the catalog did not tell", k, i, f.DataTypeOID)
			}
		}
		n++
	}
	if rows.Err() != nil || n != 1 {
		t.Errorf("%d: %d rows, %v", k, n, rows.Err())
	}
}
