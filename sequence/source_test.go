package sequence

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// TestQuery draws from real sequences, up to their very end.
func TestQuery(t *testing.T) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, pgtest.Start(t, pgserver.Config{}).ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	draw := func(name string, n int) ([]int64, string) {
		rows, err := conn.Query(ctx, Query(name, n), pgx.QueryExecModeSimpleProtocol)
		if err == nil {
			var got []int64
			if got, err = pgx.CollectRows(rows, pgx.RowTo[int64]); err == nil {
				return got, ""
			}
		}
		if pe := (*pgconn.PgError)(nil); errors.As(err, &pe) {
			return nil, pe.Code
		}
		t.Fatal(err)
		return nil, ""
	}
	for _, c := range []struct {
		name, create string
		n            int
		want         [][]int64 // draw by draw; nil is 2200H
	}{
		{"s", "create sequence s", 3, [][]int64{{1}, {2, 3, 4}, {5, 6, 7}}},
		{"one", "create sequence one maxvalue 2", 1, [][]int64{{1}, {2}, nil}},
		{`"we ird"."S'\x"`, `create schema "we ird"; create sequence "we ird"."S'\x"`, 2, [][]int64{{1}, {2, 3}}},
		{"short", "create sequence short maxvalue 5", 3, [][]int64{{1}, {2, 3, 4}, {5}, nil, nil}},
		{"step", "create sequence step increment 4 maxvalue 10", 2, [][]int64{{1}, {5, 9}, nil}},
		{"down", "create sequence down increment -2 minvalue -5 maxvalue 0 start -1", 2, [][]int64{{-1}, {-3, -5}, nil}},
		{"far", "create sequence far minvalue -9223372036854775808 start -9223372036854775808", 2, [][]int64{{-9223372036854775808}, {-9223372036854775807, -9223372036854775806}}},
		{"ending", "create sequence ending start 9223372036854775806", 4, [][]int64{{9223372036854775806}, {9223372036854775807}, nil}},
		{"round", "create sequence round maxvalue 3 cycle", 5, [][]int64{{1, 2, 3, 1, 2}}},
		{"cached", "create sequence cached cache 10 maxvalue 5", 4, [][]int64{{1}, {2}, {3}, {4}, {5}, nil}},
		{"small", "create sequence small as smallint start 32767", 4, [][]int64{{32767}, nil}},
		{"back", "create sequence back maxvalue 5; select nextval('back'), setval('back', 4, false)", 4, [][]int64{{4}, {5}, nil}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := conn.Exec(ctx, c.create); err != nil {
				t.Fatal(err)
			}
			for i, want := range c.want {
				got, code := draw(c.name, c.n)
				if !slices.Equal(got, want) || want == nil && code != "2200H" {
					t.Errorf("draw %d: %v %s, want %v", i, got, code, want)
				}
			}
		})
	}

	if _, err := conn.Exec(ctx, "create role u; create sequence mine; grant usage on sequence mine to u; create sequence other; set role u"); err != nil {
		t.Fatal(err)
	}
	if got, code := draw("mine", 5); len(got) != 1 {
		t.Errorf("a role that may: %v %s", got, code)
	}
	if got, code := draw("mine", 5); len(got) != 5 {
		t.Errorf("a role that may, again: %v %s", got, code)
	}
	for _, n := range []int{1, 5} {
		if got, code := draw("other", n); code != "42501" {
			t.Errorf("a role that may not: %v %s", got, code)
		}
		if got, code := draw("nosuch", n); code != "42P01" {
			t.Errorf("no such sequence: %v %s", got, code)
		}
	}
}
